//! Operators, who pause events of a fleet and resume them.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use soloist::Schedule;
use soloist::observe::PauseError;

use crate::crew::events;
use crate::history::{At, Pause, nanoseconds, now};
use crate::plan::{PauseEnd, Round};

/// Lets two operators pause the first two events as the round has it. `connect` makes the schedule of an operator.
pub(crate) fn pause_events(round: &Round, began: Instant, connect: impl Fn() -> Schedule + Sync) -> Vec<Pause> {
    let is_over = || round.is_over(began);
    let events = events(round);
    let mut pauses = Vec::new();
    for pair in &round.pauses {
        thread::sleep(pair.after); // as the round has it
        if is_over() {
            break;
        }
        let together = Barrier::new(pair.ends.len());
        let pause = |(event, end): (&String, PauseEnd)| {
            let operator = connect();
            together.wait();
            pause(&operator, event, end, is_over)
        };
        thread::scope(|scope| {
            let start = |order| scope.spawn(move || pause(order));
            let operators: Vec<_> = events.iter().zip(pair.ends).map(start).collect();
            let ended =
                operators.into_iter().map(|operator| operator.join().expect("an operator repeats its requests"));
            pauses.extend(ended);
        });
    }
    pauses
}

/// Pauses an event, and waits until the pause has ended.
fn pause(operator: &Schedule, event: &str, end: PauseEnd, is_over: impl Fn() -> bool) -> Pause {
    let (lasts, ends) = match end {
        PauseEnd::Expires(after) => (after, after),
        // The pause would have lasted longer.
        PauseEnd::Resumed(after) => (2 * after, after),
    };
    let from = now();
    let mut until = from;
    let answered = repeat(&is_over, || {
        until = now() + nanoseconds(lasts);
        operator.pause_event(event, instant(until), "the fleet is under fire").map(|()| true)
    });
    let mut over = now() + nanoseconds(lasts);
    thread::sleep(ends); // as the round has it
    if let PauseEnd::Resumed(_) = end {
        until = until.min(now());
        if repeat(&is_over, || operator.resume_event(event)).is_some() {
            over = now();
        }
    }
    Pause { event: event.to_owned(), by: std::process::id(), from, confirmed: answered, until, over }
}

/// Repeats a request until the store has answered in time, and returns when it did. `None`: it did not before the round was over,
/// or it had done so before and the answer was lost.
fn repeat(is_over: impl Fn() -> bool, mut request: impl FnMut() -> Result<bool, PauseError>) -> Option<At> {
    loop {
        match request() {
            Ok(is_done) => return is_done.then(now),
            Err(PauseError::Store(_) | PauseError::Over { .. }) if is_over() => return None,
            // The store was unavailable, perhaps for longer than the pause was to last.
            Err(PauseError::Store(_) | PauseError::Over { .. }) => thread::sleep(Duration::from_millis(20)),
            Err(error) => panic!("{error}"),
        }
    }
}

fn instant(at: At) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::nanoseconds(i64::try_from(at).expect("before the year 2262"))
}
