//! How a renewal of many leases went, told to the observers of each schedule.

use std::time::Duration;

use super::plan::DueRenewals;
use crate::base::error::MutexError;
use crate::observe::notice::{About, Step};
use crate::observe::tell::delivery::Posted;
use crate::observe::tell::observers::Observers;

/// How the leases of one schedule were renewed.
pub(super) struct Renewals {
    observers: Observers,
    renewed: usize,
    late: usize,
    failed: usize,
    lowest: Duration,
    error: Option<MutexError>,
}

/// How it went for the leases of each schedule, with the time for which each `lasted` before, where there is anything to tell.
pub(super) fn by_observers(
    due: &DueRenewals,
    lasted: &[Duration],
    answers: &[Result<bool, MutexError>],
) -> Vec<Renewals> {
    let mut all: Vec<Renewals> = Vec::new();
    for (((held, _), lasted), answer) in due.held().zip(lasted).zip(answers) {
        let observers = held.observers();
        let at = all.iter().position(|renewals| renewals.observers.are_those(observers)).unwrap_or_else(|| {
            all.push(Renewals::of(observers));
            all.len() - 1
        });
        // A third has passed when a renewal is due.
        all[at].count(answer, *lasted, *lasted < due.term.get().saturating_sub(held.stopping()) / 2);
    }
    all.retain(Renewals::are_told);
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
            // It is told as a lost lease.
            Ok(false) => return,
            Err(error) => {
                self.failed += 1;
                self.error.get_or_insert_with(|| error.clone());
            }
        }
        self.lowest = self.lowest.min(lasted);
    }

    /// What goes as it should is told to observers only.
    fn are_told(&self) -> bool {
        self.failed > 0 || self.late > 0 || (self.renewed > 0 && self.observers.is_any())
    }

    pub(super) fn tell(&self, posted: Posted) {
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
