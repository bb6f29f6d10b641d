//! On which thread a run is performed: `process::exit` gives back the lease of the run that calls it.

use std::sync::atomic::{AtomicUsize, Ordering};

/// No thread has this number.
pub(crate) const NO_THREAD: usize = 0;

/// The thread on which a run is performed, while it is.
#[derive(Debug, Default)]
pub(crate) struct AtWork(AtomicUsize);

impl AtWork {
    /// The run is performed on this thread from here on, until [`ends`](Self::ends).
    #[inline]
    pub(crate) fn begins_here(&self) {
        self.0.store(this_thread(), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn ends(&self) {
        self.0.store(NO_THREAD, Ordering::Relaxed);
    }

    pub(crate) fn is_on(&self, thread: usize) -> bool {
        thread != NO_THREAD && self.0.load(Ordering::Relaxed) == thread
    }
}

#[cfg(unix)]
#[inline]
pub(crate) fn this_thread() -> usize {
    crate::base::system::Thread::this().number()
}

/// Elsewhere nobody asks for it.
#[cfg(not(unix))]
pub(crate) fn this_thread() -> usize {
    NO_THREAD
}
