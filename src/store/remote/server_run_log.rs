//! The log of runs on a server of any kind.

use super::engine::Engine;
use super::server_mutex::ServerMutex;
use crate::base::error::MutexError;
use crate::observe::run_record::RunRecord;
use crate::observe::run_record::log_change::{LogChange, by_event, newest_first};
use crate::store::event_mutex::run_log::RunLog;

/// How often the log is looked at for one write at most. Once is enough to write, and once more to see that nobody else has
/// written at the same time, so that there are more records now than are kept. It takes more only while others go on to write.
const LOOKS: usize = 10;

impl<E: Engine> RunLog for ServerMutex<E> {
    fn write(&self, records: &[RunRecord], keep: usize) -> Result<(), MutexError> {
        let events = by_event(records);
        let names: Vec<&str> = events.keys().copied().collect();
        let written = self.ask(|turn| {
            for _ in 0..LOOKS {
                let found = self.engine().runs(turn, &names)?;
                let found = by_event(&found);
                let found_of = |event: &str| found.get(event).map_or(&[][..], Vec::as_slice);
                let changes = events.iter().map(|(event, new)| LogChange::new(event, found_of(event), new, keep));
                let changes: Vec<LogChange<'_>> = changes.filter(|change| !change.is_empty()).collect();
                if changes.is_empty() {
                    break;
                }
                self.engine().log_runs(turn, &changes)?;
            }
            Ok(())
        });
        written.map_err(|failure| self.failed(format_args!("write the log of runs"), failure))
    }

    fn runs(&self, event: &str) -> Result<Vec<RunRecord>, MutexError> {
        let found = self.ask(|turn| self.engine().runs(turn, &[event]));
        found.map(newest_first).map_err(|failure| self.failed(format_args!("read the log of runs"), failure))
    }
}
