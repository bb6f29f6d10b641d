//! The threads of this process that wait for one record, first come, first served. So only one of them competes with
//! other processes.

use std::collections::VecDeque;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::process_id;
use crate::store::file::open_file::FileId;

/// The other side of a `fork` has queues of its own.
type QueueKey = (u32, FileId);

/// Tells a thread that its turn has come, or why it will not.
type Waiter = Sender<Result<(), Arc<str>>>;

/// The threads that wait behind the first one, for each record at which a thread is.
static QUEUES: Mutex<Queues> = Mutex::new(Queues(Vec::new()));

/// A list, because few records are in use at the same moment.
struct Queues(Vec<(QueueKey, VecDeque<Waiter>)>);

/// The first thread of a queue. When this is dropped, the next thread is the first.
#[derive(Debug)]
pub(super) struct QueueHead(QueueKey);

impl QueueHead {
    /// Waits until all threads have gone that came to this record before.
    pub(super) fn wait_for(record: FileId, limit: Duration) -> Result<Self, Arc<str>> {
        let key = (process_id::current(), record);
        let turn = {
            let mut queues = queues();
            let Some(queue) = queues.at(key) else {
                queues.0.push((key, VecDeque::new()));
                return Ok(Self(key));
            };
            let (waiter, turn) = channel();
            queue.push_back(waiter);
            turn
        };
        let answer = turn.recv_timeout(limit).or_else(|_| {
            // The turn may have come just now. Later it can't: whoever is gone is left out.
            let _queues = queues();
            let turn = turn;
            turn.try_recv()
        });
        let too_long = || format!("other threads of this process have been at it for {} s", limit.as_secs()).into();
        answer.unwrap_or_else(|_| Err(too_long())).map(|()| Self(key))
    }

    /// Gives up, and makes all who wait behind do the same: they would wait for the same thing.
    pub(super) fn give_up(self, why: &Arc<str>) {
        let waiting = queues().at(self.0).map(std::mem::take).unwrap_or_default();
        for waiter in waiting {
            let _ = waiter.send(Err(Arc::clone(why)));
        }
    }
}

impl Drop for QueueHead {
    fn drop(&mut self) {
        let mut queues = queues();
        while let Some(next) = queues.at(self.0).and_then(VecDeque::pop_front) {
            if next.send(Ok(())).is_ok() {
                return;
            }
        }
        queues.0.retain(|(key, _)| *key != self.0);
    }
}

impl Queues {
    fn at(&mut self, key: QueueKey) -> Option<&mut VecDeque<Waiter>> {
        self.0.iter_mut().find(|(at, _)| *at == key).map(|(_, queue)| queue)
    }
}

fn queues() -> MutexGuard<'static, Queues> {
    // No code that can panic runs while they are half-changed.
    QUEUES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    /// Ten threads in a queue, and what becomes of them.
    fn ten_behind(first: QueueHead, then: impl FnOnce(QueueHead)) -> Vec<Result<u32, Arc<str>>> {
        let (record, (tell, told)) = (first.0.1, mpsc::channel());
        thread::scope(|scope| {
            for number in 0..10 {
                let tell = tell.clone();
                scope.spawn(move || {
                    let turn = QueueHead::wait_for(record, LIMIT);
                    tell.send(turn.as_ref().map(|_| number).map_err(Arc::clone)).unwrap();
                });
                while queues().at(first.0).unwrap().len() <= number as usize {
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
    fn threads_that_came_first_are_served_first() {
        let (_file, record) = record();
        let served = ten_behind(QueueHead::wait_for(record, LIMIT).unwrap(), drop);
        assert_eq!(served, (0..10).map(Ok).collect::<Vec<_>>());
        assert!(queues().at((process_id::current(), record)).is_none());
    }

    #[test]
    fn all_that_wait_for_the_same_give_up_together() {
        let (_file, record) = record();
        let served =
            ten_behind(QueueHead::wait_for(record, LIMIT).unwrap(), |first| first.give_up(&"it is stuck".into()));
        assert_eq!(served, vec![Err("it is stuck".into()); 10]);
        assert!(QueueHead::wait_for(record, LIMIT).is_ok());
    }

    #[test]
    fn a_thread_that_waited_too_long_leaves_the_queue() {
        let (_file, record) = record();
        let first = QueueHead::wait_for(record, LIMIT).unwrap();
        let error = thread::scope(|scope| scope.spawn(|| QueueHead::wait_for(record, Duration::ZERO)).join().unwrap());
        assert_eq!(&*error.unwrap_err(), "other threads of this process have been at it for 0 s");
        let mut served = ten_behind(first, drop);
        served.sort();
        assert_eq!(served, (0..10).map(Ok).collect::<Vec<_>>(), "those behind it have their turns");
        assert!(queues().at((process_id::current(), record)).is_none());
    }
}
