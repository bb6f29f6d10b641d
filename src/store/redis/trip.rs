//! The commands of one round trip, as bytes.

use redis::Cmd;

use super::stored_script::StoredScript;

/// Commands, among them calls of scripts. Its memory is kept for the next trip.
#[derive(Default)]
pub(super) struct Trip {
    bytes: Vec<u8>,
    commands: Vec<Packed>,
    /// The call that is written.
    call: Cmd,
}

struct Packed {
    end: usize,
    /// The script that it calls, if it does.
    script: Option<&'static StoredScript>,
}

impl Trip {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.commands.clear();
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many commands it has, and so how many answers.
    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }

    pub(super) fn push(&mut self, command: &Cmd) {
        command.write_packed_command(&mut self.bytes);
        self.commands.push(Packed { end: self.bytes.len(), script: None });
    }

    /// Calls a script with the keys and arguments that `write` writes: the number of keys comes first.
    pub(super) fn call(&mut self, script: &'static StoredScript, write: impl FnOnce(&mut Cmd)) {
        self.call.clear();
        self.call.arg("EVALSHA").arg(script.hash());
        write(&mut self.call);
        self.call.write_packed_command(&mut self.bytes);
        self.commands.push(Packed { end: self.bytes.len(), script: Some(script) });
    }

    /// The calls at these places once more, behind the scripts that they call; and how many scripts these are.
    pub(super) fn with_scripts(&self, calls: &[usize]) -> (Self, usize) {
        let mut scripts: Vec<&StoredScript> = Vec::new();
        for script in calls.iter().filter_map(|at| self.commands[*at].script) {
            if !scripts.iter().any(|known| known.hash() == script.hash()) {
                scripts.push(script);
            }
        }
        let mut trip = Self::default();
        for script in &scripts {
            trip.push(&script.load());
        }
        for at in calls {
            let begin = at.checked_sub(1).map_or(0, |before| self.commands[before].end);
            let Packed { end, script } = self.commands[*at];
            trip.bytes.extend_from_slice(&self.bytes[begin..end]);
            trip.commands.push(Packed { end: trip.bytes.len(), script });
        }
        (trip, scripts.len())
    }
}
