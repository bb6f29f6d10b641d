//! The scripts, and the names under which servers keep them.

use std::sync::LazyLock;

use redis::{Cmd, Script, cmd};

/// A script, and the name under which servers keep it.
pub(super) struct StoredScript {
    text: &'static str,
    script: Script,
}

/// The script of every run. Each connection loads it when it begins; it loads the others when the server lacks them.
pub(super) static CARRY_OUT: LazyLock<StoredScript> =
    LazyLock::new(|| StoredScript::new(include_str!("scripts/carry_out.lua")));

pub(super) static EXTEND: LazyLock<StoredScript> =
    LazyLock::new(|| StoredScript::new(include_str!("scripts/extend.lua")));
pub(super) static LOOK: LazyLock<StoredScript> = LazyLock::new(|| StoredScript::new(include_str!("scripts/look.lua")));
pub(super) static LOG_RUNS: LazyLock<StoredScript> =
    LazyLock::new(|| StoredScript::new(include_str!("scripts/log_runs.lua")));
pub(super) static COUNT_SKIPS: LazyLock<StoredScript> =
    LazyLock::new(|| StoredScript::new(include_str!("scripts/count_skips.lua")));
pub(super) static DROP_RUNS: LazyLock<StoredScript> =
    LazyLock::new(|| StoredScript::new(include_str!("scripts/drop_runs.lua")));

impl StoredScript {
    fn new(text: &'static str) -> Self {
        Self { text, script: Script::new(text) }
    }

    pub(super) fn hash(&self) -> &str {
        self.script.get_hash()
    }

    pub(super) fn load(&self) -> Cmd {
        cmd("SCRIPT").arg("LOAD").arg(self.text).take()
    }
}
