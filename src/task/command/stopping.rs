//! Stops a command if its run is cancelled: asks its processes to end, and kills the remaining processes after the
//! grace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::hold::held_lease::HeldLease;
use crate::outcome::cancel::CancelReason;
#[cfg(unix)]
use crate::task::process_group::{Leader, ProcessGroup as Processes};
#[cfg(not(unix))]
use crate::task::process_not_unix::{Leader, ProcessAlone as Processes};
use crate::task::run::ENDING_TAKES;
use crate::time::{clock::Clock, clock::moment::Moment};

/// The first interval and the longest interval between two checks whether the group has ended.
const FIRST_INTERVAL: Duration = Duration::from_millis(1);
const LONGEST_INTERVAL: Duration = Duration::from_millis(500);

/// A check is thorough if the next check is at least this interval away. A thorough check may read all processes, which
/// takes time.
const THOROUGH_INTERVAL: Duration = Duration::from_millis(16);

/// Waits until all processes of the group have ended. If the run is cancelled, ends the group, and returns the reason
/// of the cancellation. `None`: the group ended by itself.
pub(super) fn wait_for_end(
    group: &mut Processes,
    held: &HeldLease,
    end: &LeaderEnd,
    grace: Duration,
    in_place: bool,
) -> Option<CancelReason> {
    let clock = Clock::system();
    let mut stopping: Option<Stopping> = None;
    let mut interval = FIRST_INTERVAL;
    loop {
        let has_ended = end.has_come();
        if has_ended && group.has_gone(interval >= THOROUGH_INTERVAL) {
            return stopping.map(|stopping| stopping.reason);
        }
        if stopping.is_none()
            && let Some(reason) = held.reason()
        {
            let is_passed_on = in_place && reason == CancelReason::ShuttingDown;
            group.ask_to_stop(held.exit_signal().filter(|_| is_passed_on));
            let begun = Stopping { reason, kill_at: clock.moment().plus(grace), killed: false };
            if !begun.is_over(held) {
                group.resume();
            }
            stopping = Some(begun);
            interval = FIRST_INTERVAL;
        }
        if let Some(stopping) = &mut stopping
            && stopping.is_over(held)
        {
            group.kill();
            if !stopping.killed {
                (stopping.killed, interval) = (true, FIRST_INTERVAL);
            }
        }
        let killed = stopping.as_ref().is_some_and(|stopping| stopping.killed);
        let next_check =
            if has_ended || killed || !end.is_watched { clock.moment().plus(interval) } else { Moment::NEVER };
        interval = (interval * 2).min(LONGEST_INTERVAL);
        held.wait_while(|now, waiting| {
            let patience = match &stopping {
                None if held.reason_at(now).is_some() => return None,
                None => waiting.patience(held.end()),
                Some(stopping) if stopping.killed => Duration::MAX,
                Some(stopping) if stopping.is_over(held) => return None,
                Some(stopping) => waiting.patience(last_moment(held)).min(stopping.kill_at.since(clock.moment())),
            };
            let patience = patience.min(next_check.since(clock.moment()));
            (end.has_come() == has_ended && !patience.is_zero()).then_some(patience)
        });
    }
}

/// A command that was asked to stop.
struct Stopping {
    reason: CancelReason,
    /// The time of the kill, on the system's clock, because the command runs on this machine.
    kill_at: Moment,
    killed: bool,
}

impl Stopping {
    /// Returns whether the command must be killed now.
    fn is_over(&self, held: &HeldLease) -> bool {
        self.kill_at <= Clock::system().moment() || last_moment(held) <= held.now()
    }
}

/// Returns the latest time at which the command must be killed, on the clock of the lease.
fn last_moment(held: &HeldLease) -> Moment {
    held.last_moment().minus(ENDING_TAKES)
}

/// The end of the leader, the first process of the command.
pub(super) struct LeaderEnd {
    pub(super) leader: Leader,
    /// Whether a thread waits for the end, and sets `has_come`. Without such a thread, the end is polled.
    pub(super) is_watched: bool,
    pub(super) has_come: Arc<AtomicBool>,
}

impl LeaderEnd {
    fn has_come(&self) -> bool {
        if self.is_watched { self.has_come.load(Ordering::Acquire) } else { self.leader.has_ended() }
    }
}
