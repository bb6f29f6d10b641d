//! A server: one tick after another. Each requests an admission, runs, and releases.

use crate::store::{Asks, Grant, Owner, Request, Says, TERM};
use crate::variant::{Admit, Broken, Variant};

/// The reason why an admission led to no run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skipped {
    /// Another owner has the lease.
    Overlapping,
    /// The claim was, of this server.
    RanElsewhere { by: u8 },
    /// The server crashed or got no reply, or only a reply to its second request or after the lease was over.
    CutOff,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    #[default]
    Idle,
    /// The server waits for the reply to the last request of an admission.
    AtGate {
        began: u8,
        sent: u8,
        again: bool,
        asks: Asks,
        granted: Option<Grant>,
    },
    /// The task is running.
    Running {
        deadline: u8,
        grant: Grant,
        /// When the pending renewal was sent.
        asked: Option<u8>,
        attempt: Attempt,
    },
    Crashed,
}

/// The attempts of a run: two at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Attempt {
    First,
    /// The first one failed. The lease is renewed, and the second has not begun.
    Waits,
    Second,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Server {
    pub(crate) phase: Phase,
    /// The occurrence that its next tick is for, or that it is busy with.
    pub(crate) occurrence: u8,
    /// An operator broke the lease that it has, or is about to have.
    pub(crate) broken: bool,
}

/// The effects of a server's step on others.
#[derive(Default)]
pub(crate) struct Effects {
    pub(crate) sent: Vec<Request>,
    pub(crate) started: bool,
    /// Another attempt of the run began.
    pub(crate) retried: bool,
    pub(crate) skipped: Option<Skipped>,
    /// The run was cancelled because a renewal got no reply.
    pub(crate) gave_up: bool,
}

impl Effects {
    fn send(&mut self, request: Request) {
        self.sent.push(request);
    }
}

impl Server {
    pub(crate) fn owner(&self, server: u8) -> Owner {
        Owner { server, occurrence: self.occurrence }
    }

    /// Returns whether the run may go on, by the server's own clock and the replies to its renewals.
    pub(crate) fn believes(&self, now: u8) -> bool {
        matches!(self.phase, Phase::Running { deadline, .. } if now < deadline)
    }

    pub(crate) fn grant_mut(&mut self) -> Option<&mut Grant> {
        match &mut self.phase {
            Phase::AtGate { granted, .. } => granted.as_mut(),
            Phase::Running { grant, .. } => Some(grant),
            Phase::Idle | Phase::Crashed => None,
        }
    }

    /// Returns whether a grant would come too late.
    pub(crate) fn is_past_its_deadline(&self, now: u8) -> bool {
        matches!(self.phase, Phase::AtGate { began, .. } if began + TERM <= now)
    }

    fn skip(&mut self, skipped: Skipped, effects: &mut Effects) {
        effects.skipped = Some(skipped);
        self.end();
    }

    fn end(&mut self) {
        self.phase = Phase::Idle;
        self.occurrence += 1;
        self.broken = false;
    }

    fn ask(&mut self, me: u8, asks: Asks, now: u8, effects: &mut Effects) {
        let (began, granted) = match self.phase {
            Phase::AtGate { began, granted, .. } => (began, granted),
            _ => (now, None),
        };
        let sent = asks.counts_from(now);
        self.phase = Phase::AtGate { began, sent, again: false, asks, granted };
        effects.send(Request { owner: self.owner(me), asks, sent, again: false });
    }

    /// Begins a tick with the event due.
    pub(crate) fn tick(&mut self, me: u8, now: u8, variant: &Variant) -> Effects {
        let mut effects = Effects::default();
        let first = match variant.admit {
            Admit::AtOnce => Asks::Admit,
            Admit::InSteps if variant.is(Broken::ClaimBeforeLease) => Asks::TakeClaim,
            Admit::InSteps => Asks::Look,
        };
        self.ask(me, first, now, &mut effects);
        effects
    }

    /// Repeats the request on another connection, with the owner unchanged.
    pub(crate) fn ask_again(&mut self, me: u8, now: u8) -> Effects {
        let mut effects = Effects::default();
        if let Phase::AtGate { sent, again, asks, .. } = &mut self.phase {
            (*sent, *again) = (now, true);
            effects.send(Request {
                owner: Owner { server: me, occurrence: self.occurrence },
                asks: *asks,
                sent: now,
                again: true,
            });
        }
        effects
    }

    fn release(&self, me: u8, now: u8, what: &[Asks], effects: &mut Effects) {
        for asks in what {
            effects.send(Request { owner: self.owner(me), asks: *asks, sent: asks.counts_from(now), again: false });
        }
    }

    /// Waits no longer for the admission. Releases the lease and claim that may be its own.
    pub(crate) fn give_up_admission(&mut self, me: u8, now: u8) -> Effects {
        let mut effects = Effects::default();
        let Phase::AtGate { asks, .. } = self.phase else { return effects };
        let may_be_ours: &[Asks] = match asks {
            Asks::TakeLease => &[Asks::ForgetLease],
            Asks::Admit | Asks::TakeClaim => &[Asks::ForgetLease, Asks::ForgetClaim],
            _ => &[],
        };
        self.release(me, now, may_be_ours, &mut effects);
        self.skip(Skipped::CutOff, &mut effects);
        effects
    }

    /// Handles a reply to the admission.
    pub(crate) fn handle_reply(&mut self, me: u8, says: Says, now: u8, variant: &Variant) -> Effects {
        let mut effects = Effects::default();
        let Phase::AtGate { asks, granted, again, .. } = &mut self.phase else { return effects };
        let again = *again;
        let claim_first = variant.is(Broken::ClaimBeforeLease);
        match (*asks, says) {
            (Asks::Admit, Says::Granted(grant)) => {
                *granted = Some(grant);
                self.take_up(me, now, variant, &mut effects);
            }
            (Asks::TakeLease, Says::Granted(grant)) => {
                *granted = Some(grant);
                if claim_first {
                    self.take_up(me, now, variant, &mut effects);
                } else {
                    self.ask(me, Asks::TakeClaim, now, &mut effects);
                }
            }
            (Asks::TakeClaim, Says::Yes) if !claim_first => self.take_up(me, now, variant, &mut effects),
            (Asks::Look, Says::Free) | (Asks::TakeClaim, Says::Yes) => self.ask(me, Asks::TakeLease, now, &mut effects),
            (Asks::TakeClaim, Says::ClaimTaken { by }) => {
                if !claim_first {
                    self.release(me, now, &[Asks::ForgetLease], &mut effects);
                }
                self.skip(Skipped::RanElsewhere { by }, &mut effects);
            }
            // A refusal because of the server's own claim is wrong; `Fleet::step` records it.
            (_, Says::ClaimTaken { by }) if by == me => self.skip(Skipped::RanElsewhere { by }, &mut effects),
            (Asks::Admit, Says::LeaseTaken | Says::ClaimTaken { .. }) if again => {
                // The first request may have been granted, or may still be.
                self.release(me, now, &[Asks::ForgetLease, Asks::ForgetClaim], &mut effects);
                self.skip(Skipped::CutOff, &mut effects);
            }
            (_, Says::ClaimTaken { by }) => self.skip(Skipped::RanElsewhere { by }, &mut effects),
            (_, Says::LeaseTaken) => self.skip(Skipped::Overlapping, &mut effects),
            (asks, says) => unreachable!("the store does not answer {asks:?} with {says:?}"),
        }
        effects
    }

    /// Starts the run, unless the grant came too late.
    fn take_up(&mut self, me: u8, now: u8, variant: &Variant, effects: &mut Effects) {
        let Phase::AtGate { began, granted: Some(grant), .. } = self.phase else {
            unreachable!("what is taken up was granted")
        };
        let from = if variant.is(Broken::DeadlineAfterReply) { now } else { began };
        let deadline = from + TERM;
        if deadline <= now && !variant.is(Broken::LateGrantRuns) {
            self.release(me, now, &[Asks::ForgetLease, Asks::ForgetClaim], effects);
            self.skip(Skipped::CutOff, effects);
            return;
        }
        self.phase = Phase::Running { deadline, grant, asked: None, attempt: Attempt::First };
        effects.started = true;
    }

    /// Returns whether its task is the first attempt, which may fail.
    pub(crate) fn may_fail(&self) -> bool {
        matches!(self.phase, Phase::Running { attempt: Attempt::First, .. })
    }

    /// Ends the first attempt, and waits for the second.
    pub(crate) fn fail(&mut self, me: u8, now: u8, variant: &Variant) -> Effects {
        let mut effects = Effects::default();
        if let Phase::Running { attempt, .. } = &mut self.phase {
            *attempt = Attempt::Waits;
        }
        if variant.is(Broken::ReleasesToWait) {
            self.release(me, now, &[Asks::ForgetLease], &mut effects);
        }
        effects
    }

    /// Returns whether the second attempt may begin, by the server's own clock.
    pub(crate) fn may_retry(&self, now: u8, variant: &Variant) -> bool {
        let waits = matches!(self.phase, Phase::Running { attempt: Attempt::Waits, .. });
        waits && (self.believes(now) || variant.is(Broken::RetriesPastItsDeadline))
    }

    pub(crate) fn retry(&mut self) -> Effects {
        if let Phase::Running { attempt, .. } = &mut self.phase {
            *attempt = Attempt::Second;
        }
        Effects { retried: true, ..Effects::default() }
    }

    /// Returns whether to renew now: once per step of time, and only before the deadline.
    pub(crate) fn wants_renewal(&self, now: u8) -> bool {
        matches!(self.phase, Phase::Running { deadline, asked: None, .. } if now < deadline && deadline < now + TERM)
    }

    pub(crate) fn renew(&mut self, me: u8, now: u8) -> Effects {
        let mut effects = Effects::default();
        let owner = self.owner(me);
        if let Phase::Running { asked, .. } = &mut self.phase {
            *asked = Some(now);
            effects.send(Request { owner, asks: Asks::Extend, sent: now, again: false });
        }
        effects
    }

    /// Handles the reply to a renewal. A reply after the deadline extends nothing.
    pub(crate) fn handle_renewal(&mut self, me: u8, says: Says, now: u8, variant: &Variant) -> Effects {
        match &mut self.phase {
            Phase::Running { deadline, asked, .. } if says == Says::Yes => {
                if let (Some(sent), true) = (asked.take(), now < *deadline) {
                    let from = if variant.is(Broken::DeadlineAfterReply) { now } else { sent };
                    *deadline = from + TERM;
                }
                Effects::default()
            }
            _ => self.stop(me, now),
        }
    }

    /// Handles a renewal without a reply.
    pub(crate) fn lose_renewal(&mut self, me: u8, now: u8, variant: &Variant) -> Effects {
        if variant.is(Broken::RenewalGivesUp) {
            return Effects { gave_up: true, ..self.stop(me, now) };
        }
        if let Phase::Running { asked, .. } = &mut self.phase {
            *asked = None;
        }
        Effects::default()
    }

    /// Ends the run, after its task or as cancelled. The server releases its lease, also if another has it.
    pub(crate) fn stop(&mut self, me: u8, now: u8) -> Effects {
        let mut effects = Effects::default();
        self.release(me, now, &[Asks::ForgetLease], &mut effects);
        self.end();
        effects
    }

    pub(crate) fn stop_at_its_end(&mut self, me: u8, now: u8, variant: &Variant) -> Effects {
        let mut effects = Effects::default();
        if variant.is(Broken::ClaimGivenBack) {
            self.release(me, now, &[Asks::ForgetClaim], &mut effects);
        }
        let Effects { mut sent, .. } = self.stop(me, now);
        effects.sent.append(&mut sent);
        effects
    }

    pub(crate) fn crash(&mut self) -> Effects {
        let skipped = matches!(self.phase, Phase::AtGate { .. }).then_some(Skipped::CutOff);
        *self = Self { phase: Phase::Crashed, ..Self::default() };
        Effects { skipped, ..Effects::default() }
    }

    pub(crate) fn waits_for(&self, request: &Request) -> bool {
        if self.occurrence != request.owner.occurrence {
            return false;
        }
        match self.phase {
            Phase::AtGate { sent, again, asks, .. } => {
                (sent, again, asks) == (request.sent, request.again, request.asks)
            }
            Phase::Running { asked, .. } => request.asks == Asks::Extend && asked == Some(request.sent),
            Phase::Idle | Phase::Crashed => false,
        }
    }

    pub(crate) fn forget_what_is_over(&mut self, now: u8) {
        match &mut self.phase {
            Phase::Running { deadline, asked, .. } if *deadline <= now => (*deadline, *asked) = (0, None),
            Phase::AtGate { began, .. } if *began + TERM <= now => *began = 0,
            _ => {}
        }
    }
}
