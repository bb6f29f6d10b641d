//! Stops a command: asks its processes to end when the run is cancelled, and kills the rest after the grace.

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

/// The first and the longest interval between two checks whether the group has ended.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LAST_LOOK: Duration = Duration::from_millis(500);

/// The shortest interval before a thorough check.
const THOROUGH_LOOK: Duration = Duration::from_millis(16);

/// Waits until no process of the group is left, and ends the group if the run is cancelled. Returns the reason if the group was
/// ended.
pub(super) fn wait_for_end(
    group: &mut Processes,
    held: &HeldLease,
    end: &LeaderEnd,
    grace: Duration,
    in_place: bool,
) -> Option<CancelReason> {
    let clock = Clock::system();
    let mut stopping: Option<Stopping> = None;
    let mut look = FIRST_LOOK;
    loop {
        let has_ended = end.has_come();
        if has_ended && group.has_gone(look >= THOROUGH_LOOK) {
            return stopping.map(|stopping| stopping.reason);
        }
        if stopping.is_none()
            && let Some(reason) = held.reason()
        {
            let is_passed_on = in_place && reason == CancelReason::ShuttingDown;
            group.ask_to_stop(held.exit_signal().filter(|_| is_passed_on));
            let begun = Stopping { reason, kill_at: clock.moment().plus(grace), killed: false };
            if !begun.is_over(held) {
                group.let_go_on();
            }
            stopping = Some(begun);
            look = FIRST_LOOK;
        }
        if let Some(stopping) = &mut stopping
            && stopping.is_over(held)
        {
            group.kill();
            if !stopping.killed {
                (stopping.killed, look) = (true, FIRST_LOOK);
            }
        }
        let killed = stopping.as_ref().is_some_and(|stopping| stopping.killed);
        let next_look = if has_ended || killed || !end.is_told { clock.moment().plus(look) } else { Moment::NEVER };
        look = (look * 2).min(LAST_LOOK);
        held.wait_while(|now, waiting| {
            let patience = match &stopping {
                None if held.reason_at(now).is_some() => return None,
                None => waiting.patience(held.end()),
                Some(stopping) if stopping.killed => Duration::MAX,
                Some(stopping) if stopping.is_over(held) => return None,
                Some(stopping) => waiting.patience(last_moment(held)).min(stopping.kill_at.since(clock.moment())),
            };
            let patience = patience.min(next_look.since(clock.moment()));
            (end.has_come() == has_ended && !patience.is_zero()).then_some(patience)
        });
    }
}

/// A command that was asked to stop.
struct Stopping {
    reason: CancelReason,
    /// On the system's clock, because the command runs on this machine.
    kill_at: Moment,
    killed: bool,
}

impl Stopping {
    /// Returns whether the command must be killed now.
    fn is_over(&self, held: &HeldLease) -> bool {
        self.kill_at <= Clock::system().moment() || last_moment(held) <= held.now()
    }
}

/// Returns the latest time of the kill, on the clock of the lease.
fn last_moment(held: &HeldLease) -> Moment {
    held.last_moment().minus(ENDING_TAKES)
}

/// The end of the leader, and how this process learns of it.
pub(super) struct LeaderEnd {
    pub(super) leader: Leader,
    /// Whether a thread waits for the end. Without such a thread, the end is polled.
    pub(super) is_told: bool,
    pub(super) has_come: Arc<AtomicBool>,
}

impl LeaderEnd {
    fn has_come(&self) -> bool {
        if self.is_told { self.has_come.load(Ordering::Acquire) } else { self.leader.has_ended() }
    }
}
