//! Reports the renewal of many leases to the observers of each schedule.

use std::time::Duration;

use crate::base::error::MutexError;
use crate::hold::renewal_plan::DueRenewals;
use crate::observe::notice::{About, Step};
use crate::observe::tell::delivery::Posted;
use crate::observe::tell::observers::Observers;

/// The results of one renewal for the leases of one schedule.
pub(super) struct Renewals {
    observers: Observers,
    renewed: usize,
    late: usize,
    failed: usize,
    lowest: Duration,
    error: Option<MutexError>,
}

/// Counts the answers to a renewal, for each schedule. Returns the results that must be reported.
pub(super) fn by_schedule(due: &DueRenewals, answers: &[Result<bool, MutexError>]) -> Vec<Renewals> {
    let mut all: Vec<Renewals> = Vec::new();
    for ((held, lasted), answer) in due.leases.iter().zip(answers) {
        let observers = held.observers();
        let at = all.iter().position(|renewals| renewals.observers.are(observers)).unwrap_or_else(|| {
            all.push(Renewals::of(observers));
            all.len() - 1
        });
        // The renewal is late if, at its request, less than half of the usable term was left until the deadline. A
        // renewal without a delay is requested when at least two thirds are left.
        all[at].count(answer, *lasted, *lasted < due.term.get().saturating_sub(held.stopping) / 2);
    }
    all.retain(Renewals::is_reported);
    all
}

impl Renewals {
    fn of(observers: &Observers) -> Self {
        let (observers, lowest) = (observers.clone(), Duration::MAX);
        Self { observers, renewed: 0, late: 0, failed: 0, lowest, error: None }
    }

    fn count(&mut self, answer: &Result<bool, MutexError>, lasted: Duration, is_late: bool) {
        match answer {
            Ok(true) => {
                self.renewed += 1;
                self.late += usize::from(is_late);
            }
            // The lease is lost. The loss is reported elsewhere.
            Ok(false) => return,
            Err(error) => {
                self.failed += 1;
                self.error.get_or_insert_with(|| error.clone());
            }
        }
        self.lowest = self.lowest.min(lasted);
    }

    /// Returns whether the results must be reported. If all renewals were in time, only observers receive them.
    fn is_reported(&self) -> bool {
        self.failed > 0 || self.late > 0 || (self.renewed > 0 && self.observers.is_any())
    }

    pub(super) fn report(&self, posted: Posted) {
        let Self { observers, lowest, .. } = self;
        let tell = |step: &Step<'_>| observers.tell_as(About::default(), step, Some(posted));
        if let Some(error) = &self.error {
            tell(&Step::NotRenewed { leases: self.failed, lowest: *lowest, error });
        }
        if self.renewed > 0 {
            tell(&Step::Renewed { leases: self.renewed, late: self.late, lowest: *lowest });
        }
    }
}
