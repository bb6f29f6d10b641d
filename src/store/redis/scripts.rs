//! The Lua scripts. A server stores a script under the hash of its text.

use std::sync::OnceLock;

use redis::{Cmd, Script, cmd};

/// A script that is called by the hash of its text.
pub(super) struct StoredScript {
    text: &'static str,
    hashed: OnceLock<Script>,
}

pub(super) static CARRY_OUT: StoredScript = StoredScript::new(include_str!("scripts/carry_out.lua"));
pub(super) static LOOK: StoredScript = StoredScript::new(include_str!("scripts/look.lua"));
pub(super) static LOG_RUNS: StoredScript = StoredScript::new(include_str!("scripts/log_runs.lua"));
pub(super) static COUNT_SKIPS: StoredScript = StoredScript::new(include_str!("scripts/count_skips.lua"));
pub(super) static DROP_RUNS: StoredScript = StoredScript::new(include_str!("scripts/drop_runs.lua"));

/// All scripts. If a server lacks one script, it has lost its scripts, and lacks the others, too.
pub(super) static ALL: [&StoredScript; 5] = [&CARRY_OUT, &LOOK, &LOG_RUNS, &COUNT_SKIPS, &DROP_RUNS];

impl StoredScript {
    const fn new(text: &'static str) -> Self {
        Self { text, hashed: OnceLock::new() }
    }

    /// Returns a call of the script with these keys. The caller adds the other arguments.
    pub(super) fn call(&self, keys: &[String]) -> Cmd {
        let script = self.hashed.get_or_init(|| Script::new(self.text));
        let mut call = Cmd::with_capacity(3 * keys.len() + 8, 160 * keys.len() + 400);
        call.arg("EVALSHA").arg(script.get_hash()).arg(keys.len()).arg(keys).take()
    }

    pub(super) fn load(&self) -> Cmd {
        cmd("SCRIPT").arg("LOAD").arg(self.text).take()
    }
}
