//! The threads of this process that wait for one record, first come, first served. So no more than one of them competes
//! with other processes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::base::process;
use crate::store::file::open_file::FileId;
use crate::time::clock::Clock;

/// Where the system does not tell files apart, all wait in one line. The other side of a `fork` has lines of its own.
type Key = (u32, FileId);

/// Who waits behind whoever is first, for each record at which somebody is.
static LINES: Mutex<BTreeMap<Key, VecDeque<Arc<Waiter>>>> = Mutex::new(BTreeMap::new());

struct Waiter {
    thread: Thread,
    /// Its turn, or why it will not come.
    answer: OnceLock<Result<(), Arc<str>>>,
}

/// The first in the line. When it is dropped, the next one is.
#[derive(Debug)]
pub(super) struct First(Key);

impl First {
    /// Waits in the line for this record until all have gone that came before.
    pub(super) fn in_line(record: FileId, limit: Duration) -> Result<Self, Arc<str>> {
        let key = (process::id(), record);
        let waiter = {
            let mut lines = lines();
            let Some(line) = lines.get_mut(&key) else {
                lines.insert(key, VecDeque::new());
                return Ok(Self(key));
            };
            let waiter = Arc::new(Waiter { thread: thread::current(), answer: OnceLock::new() });
            line.push_back(Arc::clone(&waiter));
            waiter
        };
        let clock = Clock::system();
        let over = clock.moment().plus(limit);
        while waiter.answer.get().is_none() && clock.moment() < over {
            thread::park_timeout(over.since(clock.moment()));
        }
        let mut lines = lines();
        if let Some(answer) = waiter.answer.get() {
            return answer.clone().map(|()| Self(key));
        }
        if let Some(line) = lines.get_mut(&key) {
            line.retain(|other| !Arc::ptr_eq(other, &waiter));
        }
        Err(format!("other threads of this process have been at it for {} s", limit.as_secs()).into())
    }

    /// Gives up, and lets all who wait behind do the same: they would wait for the same thing.
    pub(super) fn give_up(self, why: &Arc<str>) {
        let waiting = lines().get_mut(&self.0).map(std::mem::take).unwrap_or_default();
        for waiter in waiting {
            waiter.is_told(Err(Arc::clone(why)));
        }
    }
}

impl Drop for First {
    fn drop(&mut self) {
        let mut lines = lines();
        match lines.get_mut(&self.0).and_then(VecDeque::pop_front) {
            Some(next) => next.is_told(Ok(())),
            None => drop(lines.remove(&self.0)),
        }
    }
}

impl Waiter {
    fn is_told(&self, answer: Result<(), Arc<str>>) {
        let _ = self.answer.set(answer);
        self.thread.unpark();
    }
}

fn lines() -> MutexGuard<'static, BTreeMap<Key, VecDeque<Arc<Waiter>>>> {
    // No code that can panic runs while they are half-changed.
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    /// Ten threads in a line, one after another, and what becomes of them.
    fn ten_behind(first: First, then: impl FnOnce(First)) -> Vec<Result<u32, Arc<str>>> {
        let (record, (tell, told)) = (first.0.1, mpsc::channel());
        thread::scope(|scope| {
            for number in 0..10 {
                let tell = tell.clone();
                scope.spawn(move || {
                    let turn = First::in_line(record, LIMIT);
                    tell.send(turn.as_ref().map(|_| number).map_err(Arc::clone)).unwrap();
                });
                while lines()[&first.0].len() <= number as usize {
                    thread::yield_now();
                }
            }
            then(first);
        });
        drop(tell);
        told.iter().collect()
    }

    /// A file of its own for as long as the first is there, so that no other test has its number.
    fn record() -> (tempfile::NamedTempFile, FileId) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let id = FileId::at(file.path()).unwrap();
        (file, id)
    }

    #[test]
    fn those_who_came_first_are_served_first() {
        let (_file, record) = record();
        let served = ten_behind(First::in_line(record, LIMIT).unwrap(), drop);
        assert_eq!(served, (0..10).map(Ok).collect::<Vec<_>>());
        assert!(!lines().contains_key(&(process::id(), record)));
    }

    #[test]
    fn all_who_wait_for_the_same_give_up_together() {
        let (_file, record) = record();
        let served = ten_behind(First::in_line(record, LIMIT).unwrap(), |first| first.give_up(&"it is stuck".into()));
        assert_eq!(served, vec![Err("it is stuck".into()); 10]);
        assert!(First::in_line(record, LIMIT).is_ok());
    }

    #[test]
    fn who_waited_for_too_long_leaves_the_line() {
        let (_file, record) = record();
        let first = First::in_line(record, LIMIT).unwrap();
        let error = thread::scope(|scope| scope.spawn(|| First::in_line(record, Duration::ZERO)).join().unwrap());
        assert_eq!(&*error.unwrap_err(), "other threads of this process have been at it for 0 s");
        assert!(lines()[&first.0].is_empty());
    }
}
