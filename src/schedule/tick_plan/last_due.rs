//! The last due time of an event, for a process that starts after it.

use chrono::{DateTime, TimeDelta, Utc};

use crate::event::protection::claim::CLAIM_MARGIN;
use crate::schedule::schedule::Schedule;
use crate::schedule::schedule::registry::UnknownEvent;

impl Schedule {
    /// Returns when an event was due last, if that was no longer before `now` than [`CLAIM_MARGIN`]: the claim on an earlier time may have
    /// expired.
    pub(crate) fn last_due(&self, name: &str, now: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, UnknownEvent> {
        self.last_due_within(name, now, TimeDelta::from_std(CLAIM_MARGIN).unwrap_or_default())
    }

    /// Returns when an event was due last, if that was no longer before `now` than this.
    pub(crate) fn last_due_within(
        &self,
        name: &str,
        now: DateTime<Utc>,
        window: TimeDelta,
    ) -> Result<Option<DateTime<Utc>>, UnknownEvent> {
        Ok(self.upcoming(name, now - window)?.take_while(|due| *due <= now).last())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::event::event_builder::Event;
    use crate::schedule::report::Verdict;
    use crate::store::memory::MemoryMutex;
    use crate::time::clock::manual::ManualClock;

    // Its claim is kept only until the next occurrence starts.
    #[test]
    fn what_ran_before_its_start_does_not_run_again() {
        const MINUTE: Duration = Duration::from_secs(60);
        let noon: DateTime<Utc> = "2026-03-01T12:00:00Z".parse().unwrap();
        let clock = ManualClock::at(noon - TimeDelta::minutes(1));
        let store = MemoryMutex::with_clock(&clock);
        let [schedule, another] = [(); 2].map(|()| {
            let schedule = Schedule::new(store.clone()).with_clock(&clock);
            let event = Event::call("e", |_| {}).hourly().jitter(59 * MINUTE);
            schedule.add(event.on_one_server().catch_up(180 * MINUTE)).unwrap();
            schedule
        });
        assert!(another.run_due(clock.now()).entries().is_empty());
        let delay = |hour: &DateTime<Utc>| schedule.event("e").unwrap().start_of(*hour) - *hour;
        let late = (0..23).map(|hours| noon + TimeDelta::hours(hours)).max_by_key(delay).unwrap();
        while clock.now() < late {
            clock.advance(MINUTE);
            let _ = another.run_due(clock.now());
        }
        let ran = schedule.run_last_due("e", clock.now()).unwrap().expect("it was due");
        assert!(ran.occurrence() == late && matches!(ran.verdict(), Verdict::Ran(_)), "{ran}");
        for _ in 0..130 {
            clock.advance(MINUTE);
            let report = another.run_due(clock.now());
            let again = report.entries().iter().find(|entry| entry.occurrence() == late);
            assert!(again.is_none_or(|entry| matches!(entry.verdict(), Verdict::Skipped(_))), "{report}");
        }
    }
}
