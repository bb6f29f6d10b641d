//! What the runs of one tick share: why and when it began, outages seen so far, pause, shutdown.

use super::shutdown::Shutdown;
use crate::hold::keeper::Keepers;
use crate::lease::owner::Owners;
use crate::time::clock::{Clock, Moment};

pub(crate) mod outages;
pub(crate) mod pause_check;

use outages::Outages;
use pause_check::PauseCheck;

/// What the turns of one tick have in common.
pub(crate) struct Round<'a> {
    pub(crate) cause: Cause,
    /// When the tick began.
    pub(crate) began: Moment,
    pub(crate) owners: Owners,
    pub(crate) outages: Outages,
    pub(crate) keepers: Keepers,
    pub(crate) shutdown: Option<&'a Shutdown>,
    /// What looks whether the schedule is paused, if that keeps anything of this round from starting.
    pub(crate) pause: Option<PauseCheck<'a>>,
    /// Whether failures are told one by one, because nobody gets the report.
    pub(crate) tells_of_failures: bool,
}

/// Why it is an event's turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Due,
    ByHand,
}

impl<'a> Round<'a> {
    pub(crate) fn begin(cause: Cause, clock: &Clock, outages: Outages, shutdown: Option<&'a Shutdown>) -> Self {
        let keepers = Keepers::default();
        Self {
            cause,
            began: clock.moment(),
            owners: Owners::of_this_process(),
            outages,
            keepers,
            shutdown,
            pause: None,
            tells_of_failures: false,
        }
    }

    /// Whether nothing new may start.
    #[inline]
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutdown.is_some_and(Shutdown::has_begun)
    }
}
