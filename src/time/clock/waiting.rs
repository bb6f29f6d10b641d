//! How threads wait for a moment of a clock.
//!
//! Whoever waits for a time asks here for how long to sleep. So a clock that a test moves knows who waits for what, stops
//! at each of these moments, and lets the one whose moment it is have its turn.

use std::sync::Arc;
use std::time::Duration;

use super::manual::ManualTime;
use super::{Clock, Moment, Source};

/// Where threads wait for moments of a clock.
pub(crate) trait Wake: Send + Sync {
    /// Lets those that wait here look at the clock again. One that is about to sleep must not miss it.
    fn wake(&self);
}

/// A thread that waits for moments of a clock, for as long as this is there.
#[must_use = "time may move on without whoever drops it"]
pub(crate) struct Waiting {
    clock: Clock,
    /// Its place among all that wait for the clock of a test.
    place: Option<(Arc<ManualTime>, u64)>,
}

impl Clock {
    /// A thread that may wait here for moments of this clock.
    pub(crate) fn waiting<W: Wake + 'static>(&self, here: &Arc<W>) -> Waiting {
        let place = match &self.0 {
            Source::System => None,
            Source::Manual(time) => Some((Arc::clone(time), time.take_place(Arc::clone(here) as Arc<dyn Wake>))),
        };
        Waiting { clock: self.clone(), place }
    }

    /// For as long as this is there, time does not move on but by this thread: what was asked for at one moment is granted
    /// at the same.
    #[inline]
    pub(crate) fn stand_still(&self) -> Waiting {
        let place = match &self.0 {
            Source::System => None,
            Source::Manual(time) => Some((Arc::clone(time), time.take_turn())),
        };
        Waiting { clock: self.clone(), place }
    }
}

impl Waiting {
    /// On the machine's clock, which nobody moves.
    pub(crate) fn on_the_machine() -> Self {
        Self { clock: Clock::system(), place: None }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// For how long this thread may sleep before it looks at the clock again: not for long, because a thread's sleep does
    /// not count the time the machine is suspended.
    pub(crate) fn patience(&self, until: Moment) -> Duration {
        self.sleep_until(until).min(LONGEST_SLEEP)
    }

    /// The same for a thread that rather finds out later than wake up for nothing.
    pub(crate) fn sleep_until(&self, until: Moment) -> Duration {
        match &self.place {
            None => until.since(self.clock.moment()),
            Some((time, place)) if time.sleeps(*place, until) => Duration::MAX,
            Some(_) => Duration::ZERO,
        }
    }

    /// It was given something to do, and has its turn before time moves on.
    pub(crate) fn is_needed(&self) {
        if let Some((time, place)) = &self.place {
            time.is_needed(*place);
        }
    }
}

impl Drop for Waiting {
    #[inline]
    fn drop(&mut self) {
        if let Some((time, place)) = &self.place {
            time.leave_place(*place);
        }
    }
}

/// After a suspend, whoever waits finds out this much later at most.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);
