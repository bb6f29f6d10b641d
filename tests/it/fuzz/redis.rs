//! A server that sends random replies: no panic, no late answer, no memory for announced lengths, and no grant
//! without a reply that grants it.

use std::time::{Duration, Instant};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use soloist::store::{Admission, Admitted, Batch, Held, Lease, LeaseRequest, Names, Slot};
use soloist::time::Clock;
use soloist::{EventMutex, FencingToken, MutexError, MutexName, RedisMutex, Term};

use self::reply::{End, Manners, Turn};
use self::server::Hostile;
use super::Rounds;
use crate::support::noon;

mod reply;
mod server;

/// The timeout of one call. A call takes at most two of it, and the delay of a busy machine.
const TIMEOUT: Duration = Duration::from_millis(40);
/// A timeout that is enough for any machine. A request that times out is repeated after its release, and a server
/// that sends more replies than it got requests can make a grant of that.
const ENOUGH: Duration = Duration::from_secs(10);
const IN_TIME: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug)]
enum Act {
    Create,
    CreateClaim,
    AdmitSome,
    AdmitBothAndRelease,
    AdmitUnless,
    Exists,
    Forget,
    Extend,
    ReleaseAfter,
    Holder,
    List,
    Break,
    Check,
    /// Nothing: meanwhile the server says something by itself.
    Nothing,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let acts = vec![
        Act::Create,
        Act::CreateClaim,
        Act::AdmitSome,
        Act::AdmitBothAndRelease,
        Act::AdmitUnless,
        Act::Exists,
        Act::Forget,
        Act::Extend,
        Act::ReleaseAfter,
        Act::Holder,
        Act::List,
        Act::Break,
        Act::Check,
    ];
    vec(select(acts), 1..6)
}

fn name(number: usize) -> MutexName {
    MutexName::lease(format!("fuzzed-{number}")).expect("a name")
}

fn minute() -> Term {
    Term::new(Duration::from_secs(60)).expect("a term")
}

fn request(name: MutexName) -> LeaseRequest {
    LeaseRequest::new(name, minute(), &Clock::system())
}

fn both(number: usize) -> Admission {
    let lease = request(name(number));
    let claim = lease.with(name(number).claim("fuzzed", noon()), minute());
    Admission::both(lease, claim)
}

/// The grants of a call. Every failure must fit on one line.
#[derive(Default)]
struct Grants {
    grants: Vec<FencingToken>,
}

impl Grants {
    #[track_caller]
    fn answer<T>(answer: Result<T, MutexError>) -> Option<T> {
        match answer {
            Ok(answer) => Some(answer),
            Err(error) => {
                let said = format!("{error} {error:?}");
                assert!(said.contains("redis://127.0.0.1:") && !said.contains(char::is_control), "{said:?}");
                // The server's words are shown, but not all of them.
                assert!(said.len() < 10_000, "{} bytes: {said:.200}", said.len());
                None
            }
        }
    }

    fn created(&mut self, answer: Result<Option<Lease>, MutexError>) {
        self.grants.extend(Self::answer(answer).flatten().map(|lease| lease.token()));
    }

    #[track_caller]
    fn listed(answer: Result<Vec<Held>, MutexError>) {
        for held in Self::answer(answer).unwrap_or_default() {
            let holder = held.holder().expect("who holds it is known");
            assert!(held.name().mutex().starts_with("fuzzed") && !format!("{holder:?} {holder}").is_empty());
        }
    }

    /// Executes the batch, and asserts that each slot has an answer.
    #[track_caller]
    fn carried_out(&mut self, mutex: &RedisMutex, mut batch: Batch) {
        mutex.carry_out(&mut batch);
        for slot in batch.releases() {
            Self::answer(slot.answer().expect("an answer").clone());
        }
        for slot in batch.admissions() {
            if let Some(Admitted::Granted(grant)) = Self::answer(slot.answer().expect("an answer").clone()) {
                self.grants.push(grant.token());
            }
        }
    }

    #[track_caller]
    fn act(&mut self, act: Act, mutex: &RedisMutex, hostile: &Hostile) {
        let lease = || request(name(0)).granted(FencingToken::new(1));
        let mut batch = Batch::new();
        match act {
            Act::Create => self.created(mutex.create(&request(name(0)))),
            Act::CreateClaim => self.created(mutex.create(&request(name(0).claim("fuzzed", noon())))),
            Act::AdmitSome => {
                for admission in [both(0), Admission::lease_only(request(name(1))), both(2)] {
                    batch.admit(admission);
                }
                self.carried_out(mutex, batch);
            }
            Act::AdmitBothAndRelease => {
                batch.release(lease());
                batch.release(lease());
                batch.admit(both(0));
                self.carried_out(mutex, batch);
            }
            Act::AdmitUnless => {
                batch.admit(both(0).unless(name(1)));
                batch.admit(both(2).unless(name(1)));
                self.carried_out(mutex, batch);
            }
            Act::Exists => _ = Self::answer(mutex.exists(&name(0))),
            Act::Forget => _ = Self::answer(mutex.forget(&lease())),
            Act::Extend => {
                let mut slots = [Slot::new(lease()), Slot::new(lease())];
                mutex.extend(&mut slots, minute());
                for slot in &slots {
                    _ = Self::answer(slot.answer().expect("an answer").clone());
                }
            }
            Act::ReleaseAfter => {
                batch.release_after(lease(), minute());
                self.carried_out(mutex, batch);
            }
            Act::Holder => Self::listed(mutex.held(Names::of(&name(0)))),
            Act::List => Self::listed(mutex.held(Names::LeasesWithPrefix("fuzzed"))),
            Act::Break => _ = Self::answer(mutex.break_lease(&name(0))),
            Act::Nothing => hostile.grant_unasked(),
            Act::Check => {
                if let Some(warnings) = Self::answer(mutex.check()) {
                    assert!(warnings.iter().all(|warning| !warning.to_string().is_empty()));
                }
            }
        }
    }
}

fn played(timeout: Duration, hostile: &Hostile, manners: Manners, turns: &[Turn], acts: &[Act]) -> Grants {
    hostile.play(manners, turns);
    let mutex = RedisMutex::builder(&hostile.url()).timeout(timeout).build().expect("a url");
    let mut heard = Grants::default();
    for act in acts {
        let began = Instant::now();
        heard.act(*act, &mutex, hostile);
        assert!(began.elapsed() < IN_TIME, "{act:?} took {:?}", began.elapsed());
    }
    heard
}

fn judge(hostile: &Hostile, manners: Manners, turns: &[Turn], acts: &[Act]) {
    for token in played(TIMEOUT, hostile, manners, turns, acts).grants {
        assert!(hostile.has_granted(token), "{token} was granted, and nobody said so");
    }
}

#[test]
fn a_server_that_answers_anything_grants_nothing_by_it() {
    let hostile = Hostile::new();
    let inputs = || (reply::manners(), vec(reply::turns(), 1..6), acts());
    Rounds { rounds: 4, inputs: 60 }.feed(inputs, move |(manners, turns, acts)| judge(&hostile, *manners, turns, acts));
}

#[test]
fn what_another_has_is_granted_to_nobody_whatever_else_is_said() {
    let hostile = Hostile::new();
    let acts = || vec(select(vec![Act::Create, Act::CreateClaim, Act::Exists, Act::Holder]), 1..5);
    let turns = || prop_oneof![vec(reply::refusals(), 1..5), vec(reply::refusals_with_more(), 1..5)];
    let inputs = move || (turns(), acts());
    Rounds { rounds: 3, inputs: 100 }.feed(inputs, move |(turns, acts)| {
        let heard = played(ENOUGH, &hostile, Manners::Polite, turns, acts);
        assert!(heard.grants.is_empty(), "{:?} was granted, and is another's", heard.grants);
    });
}

/// Asks twice, on one connection as long as that may be trusted.
#[track_caller]
fn assert_not_granted(reply: &[u8], end: End) {
    let hostile = Hostile::new();
    let turn = Turn { reply: reply::Bytes(reply.to_vec()), end };
    let meanwhile = (end == End::Granting).then_some(Act::Nothing);
    let acts: Vec<Act> = [Act::Create].into_iter().chain(meanwhile).chain([Act::Create]).collect();
    let heard = played(ENOUGH, &hostile, Manners::Polite, &[turn], &acts);
    assert!(heard.grants.is_empty(), "{:?}", heard.grants);
}

const TAKEN: &[u8] = b"*2\r\n$16\r\n1772366400000000\r\n*3\r\n$5\r\nlease\r\n$98\r\n\
    v1 0123456789abcdef0123456789abcdef-1 token=0 term=60000 since=2026-03-01T12:00:00.000Z host=web-1\r\n:0\r\n";

#[test]
fn a_reply_that_nobody_asked_for_is_not_the_answer_to_the_next_question() {
    assert_not_granted(&[TAKEN, reply::GRANTED].concat(), End::None);
}

#[test]
fn a_reply_that_comes_between_two_questions_is_not_the_answer_to_the_second() {
    assert_not_granted(TAKEN, End::Granting);
}
