//! The pauses between two attempts at a server that has no room, or is being started.

use std::thread;
use std::time::Duration;

use crate::time::clock::moment::Moment;
use crate::time::clock::{Clock, random_below};

/// About how long the first pause is, and the longest.
const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_millis(250);

/// Each pause is twice as long as the one before, and of random length within a factor of two: many processes that were
/// refused at one moment come back at different ones.
#[derive(Default)]
pub(super) struct Backoff {
    last: Option<Duration>,
}

impl Backoff {
    /// Pauses, if there is time for that and for another attempt.
    pub(super) fn pauses_before(&mut self, until: Moment) -> bool {
        let longest = self.last.map_or(FIRST, |last| (2 * last).min(LONGEST));
        self.last = Some(longest);
        let pause = longest / 2 + random_below(longest / 2);
        let is_time = Clock::system().moment().plus(pause) < until;
        if is_time {
            thread::sleep(pause); // somebody else has to leave the server first, or it has to start
        }
        is_time
    }
}
