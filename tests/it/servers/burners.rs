//! A busy machine.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Threads that burn a processor each, until this is dropped.
pub(crate) struct Burners {
    done: Arc<AtomicBool>,
    threads: Vec<JoinHandle<u64>>,
}

impl Burners {
    pub(crate) fn start(count: usize) -> Self {
        let done = Arc::new(AtomicBool::new(false));
        let burn = |done: Arc<AtomicBool>| {
            let thread = thread::Builder::new().name("burner".into()).spawn(move || {
                let numbers = (0_u64..).take_while(|_| !done.load(Ordering::Relaxed));
                numbers.fold(0, |sum, number| black_box(sum ^ number))
            });
            thread.expect("a thread can be started")
        };
        let threads = (0..count).map(|_| burn(Arc::clone(&done))).collect();
        Self { done, threads }
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
