//! A table on a server, and what can be done with it.

use std::fmt::Display;
use std::thread;
use std::time::Duration;

use super::clean_up::{BATCH, KEPT_SECONDS};
use super::key::Key;
use super::look::Look;
use super::plan::Plan;
use super::session::{Row, Session};
use super::text::{TableName, Texts, list};
use super::waiting::outside;
use crate::store::event_mutex::admission::Admission;
use crate::store::remote::failure::{Failure, Outlook};
use crate::store::remote::held::Held;
use crate::store::remote::owed::Debt;
use crate::store::remote::server::{Attempt, Line, Server};
use crate::time::clock::moment::Moment;
use crate::time::clock::{Clock, random_below};

/// How often somebody may come first whom no look shows, or a deadlock be dissolved at our cost, before that is an error.
const TRIES: usize = 10;

/// How long somebody who was beaten waits at most, so that those who ask for the same don't do so in step.
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// What is to be said where a lock was waited for in vain, and others had the row in turn meanwhile.
const CROWD: &str = "many ask for it at the same moment, and this one's turn did not come in time";

pub(super) struct Table<S: Session> {
    pub(super) server: Server<S>,
    pub(super) name: TableName,
    pub(super) texts: Texts,
}

/// For how many seconds a clean-up waits for a row that somebody's transaction has. Meanwhile others wait for those that it
/// has.
#[derive(Clone, Copy)]
enum Patience {
    None = 0,
    ASecond = 1,
}

/// What came of letting one name end.
pub(super) struct Ended {
    pub(super) was_ours: bool,
    /// It was not any more, because the same was asked before and done then, as far as one can tell.
    pub(super) went_before: bool,
}

/// A lock that was not to be had.
struct Wait {
    failure: Failure,
    /// The look before it.
    look: Look,
    took: Duration,
}

/// What is asked and heard on one connection.
pub(super) type Exchange<'a, S, T> = &'a (dyn Fn(&mut Line<S>, Attempt) -> Result<T, Failure> + Sync);

impl<S: Session> Table<S> {
    pub(super) fn new(server: Server<S>, name: TableName) -> Self {
        Self { server, texts: Texts::new(&S::DIALECT, &name), name }
    }

    /// Lets `ask` ask the server, again where that may help, and in a runtime of the application's own from
    /// another thread.
    pub(super) fn ask<T: Send>(&self, ask: Exchange<'_, S, T>) -> Result<T, Failure> {
        let answer = outside(|| self.server.ask(ask));
        answer.unwrap_or_else(|error| Err(Failure::not_asked(error)))
    }

    /// Asks these statements, which may be carried out twice.
    pub(super) fn ask_for(&self, statements: &str) -> Result<Vec<Row>, Failure> {
        self.ask(&|line, attempt| patiently(line, statements, attempt.until))
    }

    pub(super) fn look(&self, line: &mut Line<S>, keys: &[Key], until: Moment) -> Result<Look, Failure> {
        let rows = patiently(line, &self.texts.look.with(&[("names", &list(keys))]), until)?;
        Look::read(&rows).ok_or_else(|| Failure::not_understood(rows, S::DIALECT.kind))
    }

    /// Looks; and where a name is held for longer than its term, because the server's clock was set back, lets it end one
    /// term from now. A live holder renews it before that.
    fn look_and_shorten(&self, line: &mut Line<S>, keys: &[Key], until: Moment) -> Result<Look, Failure> {
        let look = |line: &mut Line<S>| self.look(line, keys, until).map_err(|failure| failure.undone().of_all());
        let first = look(line)?;
        let longer: Vec<&Key> = keys.iter().filter(|key| first.outlasts_its_term(key)).collect();
        if longer.is_empty() {
            return Ok(first);
        }
        let shorten = self.texts.shorten.with(&[("names", &list(longer))]);
        patiently(line, &shorten, until).map_err(Failure::undone)?;
        look(line)
    }

    /// Looks, and writes what follows from that, until nobody comes first.
    ///
    /// A lock that was waited for in vain may be that of a queue of our own kind: then somebody has got the name meanwhile,
    /// which answers the question, or its row has changed. Somebody's open transaction leaves it as it was.
    pub(super) fn admit(&self, line: &mut Line<S>, admissions: &[Admission], until: Moment) -> Result<Plan, Failure> {
        let asked = admissions.iter().flat_map(|admission| [admission.claim(), admission.lease()]).flatten();
        let mut keys: Vec<Key> = asked.map(|request| Key::of(request.name())).collect();
        keys.sort();
        keys.dedup();
        let (mut tries, mut wait, mut beaten): (_, Option<Wait>, Option<Look>) = (1, None, None);
        loop {
            let look = self.look_and_shorten(line, &keys, until)?;
            let plan = Plan::new(admissions, &look);
            if plan.rows.is_empty() {
                return Ok(plan);
            }
            if let Some(before) = beaten.take() {
                // A look that shows what others wrote is worth another try for as long as there is time.
                tries = if look.is_as(&before) { tries + 1 } else { 1 };
                if tries > TRIES || Clock::system().moment() >= until {
                    return Err(Failure::beaten(tries > TRIES));
                }
                thread::sleep(random_below(LONGEST_PAUSE));
            }
            if let Some(Wait { failure, look: before, took }) = wait.take() {
                if look.is_as(&before) {
                    return Err(failure);
                }
                if Clock::system().moment().plus(took) >= until {
                    return Err(failure.advised(CROWD.to_owned()));
                }
            }
            let began = Clock::system().moment();
            match line.connection.query(&plan.statements(&self.texts, look.clock.at(until)), until) {
                Ok(rows) if count::<S>(&rows)? > 0 => return Ok(plan),
                Ok(_) => beaten = Some(look),
                Err(failure) if failure.is_locked() => {
                    wait = Some(Wait { failure, look, took: Clock::system().moment().since(began) });
                }
                Err(failure) if failure.outlook() != Some(Outlook::MayPass) || tries == TRIES => return Err(failure),
                Err(_) => tries += 1,
            }
        }
    }

    /// Lets what is ours end so many microseconds from now, in a call that `began` then: what it was.
    pub(super) fn end(
        &self,
        line: &mut Line<S>,
        held: &[Held],
        micros: u128,
        began: Moment,
        attempt: Attempt,
    ) -> Result<Vec<Ended>, Failure> {
        let ours = self.end_ours(line, held, micros, attempt.until)?;
        if !attempt.again || !ours.contains(&false) {
            return Ok(ours.into_iter().map(|was_ours| Ended { was_ours, went_before: false }).collect());
        }
        let keys: Vec<Key> = held.iter().map(|held| Key::of(&held.name)).collect();
        let look = self.look(line, &keys, attempt.until)?;
        let ago = Clock::system().moment().since(began);
        let ended = |(was_ours, (key, held)): (bool, (&Key, &Held))| Ended {
            was_ours,
            went_before: !was_ours && look.was_held(key, held.owner, ago),
        };
        Ok(ours.into_iter().zip(keys.iter().zip(held)).map(ended).collect())
    }

    fn end_ours(&self, line: &mut Line<S>, held: &[Held], micros: u128, until: Moment) -> Result<Vec<bool>, Failure> {
        let asked: Vec<(Key, String)> = held.iter().map(|held| (Key::of(&held.name), held.owner.to_string())).collect();
        let mut in_order: Vec<&(Key, String)> = asked.iter().collect();
        in_order.sort();
        let ours = in_order.iter().map(|(key, owner)| format!("(name = '{key}' AND owner = '{owner}')"));
        let ours = ours.collect::<Vec<_>>().join(" OR ");
        let rows = patiently(line, &self.texts.end.with(&[("ours", &ours), ("micros", &micros)]), until)?;
        let was_ours = |(key, owner): &(Key, String)| {
            rows.iter().any(|row| matches!(&row[..], [name, of] if name == key.as_str() && of == owner))
        };
        Ok(asked.iter().map(was_ours).collect())
    }

    /// Gives back what is owed.
    pub(super) fn settle(&self, line: &mut Line<S>, debts: &[Debt], until: Moment) -> Result<(), Failure> {
        if debts.is_empty() {
            return Ok(());
        }
        let held: Vec<Held> = debts.iter().map(|debt| debt.held.clone()).collect();
        let Some(give_back) = &self.texts.give_back else { return self.end_ours(line, &held, 0, until).map(drop) };
        let mut owed: Vec<(Key, String)> =
            held.iter().map(|held| (Key::of(&held.name), held.owner.to_string())).collect();
        owed.sort();
        owed.dedup();
        let each = owed.iter().map(|(key, owner)| give_back.with(&[("name", key), ("owner", owner)]));
        patiently(line, &each.collect::<Vec<_>>().join(" "), until).map(drop)
    }

    /// Deletes rows that have ended, at most a batch of them; how many that were.
    pub(super) fn clean_up(&self) -> Result<u64, Failure> {
        count::<S>(&self.ask_for(&self.clean_up_with(Patience::ASecond))?)
    }

    /// The same on a connection that nobody needs. `None`: there is none.
    pub(super) fn clean_up_on_idle(&self) -> Option<Result<u64, Failure>> {
        let statements = self.clean_up_with(Patience::None);
        let answer = self.server.ask_on_idle(|line, attempt| patiently(line, &statements, attempt.until))?;
        Some(answer.and_then(|rows| count::<S>(&rows)))
    }

    fn clean_up_with(&self, patience: Patience) -> String {
        let places: [(&str, &dyn Display); 3] =
            [("kept", &KEPT_SECONDS), ("batch", &BATCH), ("patience", &(patience as u8))];
        self.texts.clean_up.with(&places)
    }
}

/// The number of rows that the statements wrote or deleted, which is the last that they return.
fn count<S: Session>(rows: &[Row]) -> Result<u64, Failure> {
    let count = rows.last().and_then(|row| row.first()?.parse().ok());
    count.ok_or_else(|| Failure::not_understood(rows, S::DIALECT.kind))
}

/// A connection goes where it can be left in words.
impl<S: Session> Drop for Table<S> {
    fn drop(&mut self) {
        let idle = self.server.take_idle();
        let _ = outside(|| drop(idle)); // Where no thread can be started, it goes without a word.
    }
}

/// Asks until nobody comes in between.
fn patiently<S: Session>(line: &mut Line<S>, statements: &str, until: Moment) -> Result<Vec<Row>, Failure> {
    let mut tries = 1;
    loop {
        match line.connection.query(statements, until) {
            Err(failure) if failure.outlook() == Some(Outlook::MayPass) && tries < TRIES => tries += 1,
            answer => return answer,
        }
    }
}
