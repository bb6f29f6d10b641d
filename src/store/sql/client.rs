//! What is asked of a table: with what is owed before it, and what is owed after it.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use super::clean_up::CleanUp;
use super::key::Key;
use super::look::Look;
use super::plan::{Decision, Plan};
use super::session::Session;
use super::table::{Ended, Exchange, Table};
use crate::lease::name::MutexName;
use crate::store::event_mutex::admission::Admission;
use crate::store::remote::failure::Failure;
use crate::store::remote::held::Held;
use crate::store::remote::owed::{Attended, Debt, Owed};
use crate::store::remote::per_process::PerProcess;
use crate::store::remote::server::{Attempt, Line};
use crate::time::clock::Clock;
use crate::time::clock::moment::Moment;

/// When what could not be given back, because somebody's transaction has it, is given back before a call again.
const LATER: Duration = Duration::from_secs(5);

pub(super) struct Client<S: Session> {
    pub(super) table: Arc<Table<S>>,
    owed: PerProcess<Arc<Owed>>,
    clean_up: PerProcess<CleanUp>,
}

impl<S: Session> Client<S> {
    pub(super) fn new(table: Table<S>) -> Self {
        Self { table: Arc::new(table), owed: PerProcess::default(), clean_up: PerProcess::default() }
    }

    pub(super) fn look(self: &Arc<Self>, name: &MutexName) -> Result<Look, Failure> {
        let keys = [Key::of(name)];
        self.ask(&|line, attempt| self.table.look(line, &keys, attempt.until))
    }

    /// Decides on admissions, all at once; or, where somebody's transaction has one of them, on each alone.
    pub(super) fn admit(self: &Arc<Self>, admissions: &[Admission]) -> Vec<Result<Decided, Failure>> {
        let until = Clock::system().moment().plus(self.table.server.timeout);
        match self.ask(&|line, attempt| Ok((self.table.admit(line, admissions, attempt.until)?, attempt.again))) {
            Ok((Plan { decisions, rows, .. }, again)) => {
                if !rows.is_empty() {
                    let table = Arc::clone(&self.table);
                    self.clean_up.get().now_and_then(rows.len(), move || table.clean_up_on_idle());
                }
                decisions.into_iter().map(|decision| Ok(Decided { decision, again })).collect()
            }
            Err(failure) => {
                let mut answers = each_alone(admissions, &failure, until, |admission| self.admit(admission));
                // Before it was asked for alone, it was together with the others.
                if failure.may_have_been_done() {
                    for answer in &mut answers {
                        match answer {
                            Ok(decided) => decided.again = true,
                            Err(alone) => *alone = alone.clone().perhaps_done(true),
                        }
                    }
                }
                answers
            }
        }
    }

    /// Lets what is ours end so many microseconds from now, all at once; or, where somebody's transaction has one of the
    /// names, each alone.
    pub(super) fn end(self: &Arc<Self>, held: &[Held], micros: u128) -> Vec<Result<Ended, Failure>> {
        self.end_since(Clock::system().moment(), false, held, micros)
    }

    /// The same in a call that began then, and in which it may have been done before.
    fn end_since(
        self: &Arc<Self>,
        began: Moment,
        before: bool,
        held: &[Held],
        micros: u128,
    ) -> Vec<Result<Ended, Failure>> {
        let ended = self.ask(&|line, Attempt { until, again }| {
            self.table.end(line, held, micros, began, Attempt { until, again: again || before })
        });
        match ended {
            Ok(ended) => ended.into_iter().map(Ok).collect(),
            Err(failure) => {
                let before = before || failure.may_have_been_done();
                let until = began.plus(self.table.server.timeout);
                each_alone(held, &failure, until, |held| self.end_since(began, before, held, micros))
            }
        }
    }

    /// Remembers what may be ours, and sees to it that it is given back.
    pub(super) fn owe(self: &Arc<Self>, debts: Vec<Debt>) {
        if debts.is_empty() {
            return;
        }
        let owed = self.owed.get();
        owed.add(debts);
        let client = Arc::downgrade(self);
        owed.attend(move || {
            let Some(client) = client.upgrade() else { return Attended::NobodyLeft };
            let _ = client.table.ask(&|line, attempt| client.settle_each(line, attempt)); // It is tried again.
            Attended::Tried
        });
    }

    /// Asks, and gives back before that what is owed.
    pub(super) fn ask<T: Send>(self: &Arc<Self>, ask: Exchange<'_, S, T>) -> Result<T, Failure> {
        self.table.ask(&|line, attempt| {
            self.settle(line, attempt).map_err(Failure::undone)?;
            ask(line, attempt)
        })
    }

    /// Gives back what is owed; what somebody's transaction has is in nobody's way meanwhile.
    fn settle(self: &Arc<Self>, line: &mut Line<S>, attempt: Attempt) -> Result<(), Failure> {
        let debts = self.owed.get().take();
        match self.table.settle(line, &debts, attempt.until) {
            Err(failure) if failure.is_locked() => self.owe(postponed(debts)),
            Err(failure) => {
                self.owe(debts);
                return Err(failure);
            }
            Ok(()) => {}
        }
        Ok(())
    }

    /// The same where nobody waits for it, so that there is time to keep apart what is locked and what is not.
    fn settle_each(self: &Arc<Self>, line: &mut Line<S>, attempt: Attempt) -> Result<(), Failure> {
        let mut debts = self.owed.get().take();
        match self.table.settle(line, &debts, attempt.until) {
            Err(failure) if failure.is_locked() => {}
            Ok(()) => return Ok(()),
            Err(failure) => {
                self.owe(debts);
                return Err(failure);
            }
        }
        while let Some(debt) = debts.pop() {
            match self.table.settle(line, slice::from_ref(&debt), attempt.until) {
                Err(failure) if failure.is_locked() => self.owe(postponed(vec![debt])),
                Ok(()) => {}
                Err(failure) => {
                    debts.push(debt);
                    self.owe(postponed(debts));
                    return Err(failure);
                }
            }
        }
        Ok(())
    }
}

/// What was decided on one admission.
pub(super) struct Decided {
    pub(super) decision: Decision,
    /// Whether the same was asked before as well, and may have been done then.
    pub(super) again: bool,
}

/// What somebody's transaction has is no trouble of the others that were asked for at once, as long as there is time.
fn each_alone<Q, A>(
    asked: &[Q],
    failure: &Failure,
    until: Moment,
    ask: impl Fn(&[Q]) -> Vec<Result<A, Failure>>,
) -> Vec<Result<A, Failure>> {
    let alone = |one: &Q| match asked {
        [_, _, ..] if failure.is_locked() && Clock::system().moment() < until => ask(slice::from_ref(one)).remove(0),
        _ => Err(failure.clone()),
    };
    asked.iter().map(alone).collect()
}

fn postponed(debts: Vec<Debt>) -> Vec<Debt> {
    let from = Clock::system().moment().plus(LATER);
    debts.into_iter().map(|debt| Debt { from, ..debt }).collect()
}

/// A process that ends goes through here, so that it tries once more to give back what it may hold.
impl<S: Session> Drop for Client<S> {
    fn drop(&mut self) {
        self.clean_up.get().finish();
        let debts = self.owed.get().take();
        if !debts.is_empty() {
            // What comes of it, nobody is there to be told: what stays expires.
            let _ = self.table.ask(&|line, attempt| self.table.settle(line, &debts, attempt.until));
        }
    }
}
