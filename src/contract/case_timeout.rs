//! The time limit of a case. A case fails if the store hangs, but not if the store is only slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::store::event_mutex::delegate::delegate;
use crate::time::clock::Clock;

/// The number of calls that a case has made to the store.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(Arc<AtomicUsize>);

/// The time limits of a case.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// The longest time between two calls to the store. If a store never answers, this limit lets the suite fail
    /// instead of waiting for ever.
    in_silence: Duration,
    /// The longest time of a case. It is shorter than the long leases of a case, because these must not end during the
    /// case. It is long enough for the longest cases, which send about ten thousand requests.
    in_all: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { in_silence: Duration::from_secs(60), in_all: Duration::from_secs(5 * 60) }
    }
}

impl Calls {
    /// Waits until the case has `ended`. Returns an error if a time limit passes first.
    pub(super) fn wait_for(&self, ended: &Receiver<()>, patience: Patience) -> Result<(), String> {
        let Patience { in_silence, in_all } = patience;
        let clock = Clock::system();
        let began = clock.moment();
        let mut before = 0;
        while ended.recv_timeout(in_silence) == Err(RecvTimeoutError::Timeout) {
            let now = self.0.load(Ordering::Relaxed);
            if now == before {
                return Err(format!("no call returned for {in_silence:?} after call {now}"));
            }
            if clock.moment().since(began) >= in_all {
                return Err(format!("the case did not end within {in_all:?} and {now} calls"));
            }
            before = now;
        }
        Ok(())
    }
}

/// A store whose calls are counted.
#[derive(Debug)]
pub(super) struct Watched<M> {
    calls: Calls,
    mutex: M,
}

impl<M> Watched<M> {
    pub(super) fn new(mutex: M, calls: Calls) -> Self {
        Self { calls, mutex }
    }

    /// Counts a call, and returns the store.
    fn asked(&self) -> &M {
        self.calls.0.fetch_add(1, Ordering::Relaxed);
        &self.mutex
    }
}

delegate!(impl<M> EventMutex for Watched<M>, |this| this.asked());

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::lease::name::MutexName;
    use crate::store::{event_mutex::EventMutex, memory::MemoryMutex};

    /// Runs a case, and returns the result of the wait for its end. The case makes a number of `calls`, with a `pause`
    /// in milliseconds before each call. Then the case ends, or hangs.
    fn wait_for(calls: u32, pause: u64, hangs: bool, patience: Patience) -> Result<(), String> {
        let counted = Calls::default();
        let mutex = Watched::new(MemoryMutex::new(), counted.clone());
        let (running, ended) = mpsc::channel();
        let (gives_up, told) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                let _running = running;
                for _ in 0..calls {
                    if told.recv_timeout(Duration::from_millis(pause)) != Err(RecvTimeoutError::Timeout) {
                        return;
                    }
                    assert!(!mutex.exists(&MutexName::lease("report").unwrap()).unwrap());
                }
                if hangs {
                    let _ = told.recv(); // This returns only when `gives_up` is dropped.
                }
            });
            let waited = counted.wait_for(&ended, patience);
            drop(gives_up);
            waited
        })
    }

    #[test]
    fn a_slow_store_is_waited_for_and_one_that_hangs_is_not() {
        let patience = Patience { in_silence: Duration::from_secs(2), ..Patience::default() };
        assert_eq!(
            wait_for(30, 100, false, patience),
            Ok(()),
            "the whole case takes longer than the limit, but no pause does"
        );
        assert_eq!(wait_for(3, 1, true, patience), Err("no call returned for 2s after call 3".into()));
        let once = Patience { in_all: Duration::ZERO, ..patience };
        let endless = wait_for(u32::MAX, 1, false, once).expect_err("the case does not end");
        assert!(endless.starts_with("the case did not end within 0ns and "), "{endless}");
    }
}
