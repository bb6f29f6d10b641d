//! A value for each process, so that a child process made by `fork` does not use the connections of its parent. The
//! child has a copy of the parent's memory, and shares the parent's open files and sockets. But of the parent's threads,
//! the child has only the thread that called `fork`.

use std::mem;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, OnceLock};

#[cfg(unix)]
use super::system::at_fork;

/// A value for each process. A child process made by `fork` gets a new value, and leaves the value of its parent
/// unchanged.
///
/// The two processes share no lock, except while the first value is made. A lock that a thread of the parent holds at
/// the moment of the `fork` stays locked in the child for ever.
pub(crate) struct PerProcess<T> {
    first: OnceLock<Box<OfProcess<T>>>,
}

struct OfProcess<T> {
    process: Process,
    /// `None` only during the drop of the `PerProcess`.
    value: Option<T>,
    /// The value of a child of this process.
    next: OnceLock<Box<OfProcess<T>>>,
}

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self { first: OnceLock::new() }
    }
}

impl<T: Default> PerProcess<T> {
    pub(crate) fn get(&self) -> &T {
        let process = Process::this();
        let mut next = &self.first;
        loop {
            let place = next.get_or_init(|| Box::new(OfProcess::of(process)));
            match &place.value {
                Some(value) if place.process == process => return value,
                _ => next = &place.next,
            }
        }
    }
}

impl<T: Default> OfProcess<T> {
    fn of(process: Process) -> Self {
        Self { process, value: Some(T::default()), next: OnceLock::new() }
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Drops only the value of this process. The drop of a parent's value would close a connection that the parent still
/// uses.
impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let process = Process::this();
        let mut next = self.first.take();
        while let Some(mut place) = next {
            if place.process != process {
                mem::forget(place.value.take());
            }
            next = place.next.take();
        }
    }
}

/// The identity of a process. It differs from the identities of the process's ancestors, even if the system has given
/// the id of an ended ancestor to the process.
///
/// The identity is the number of forks that led to the process. No system call reads it, because each run reads it
/// several times. The handlers of `fork` do not run in a child that is made by `_Fork` or a system call. Such a child
/// counts as its parent, and must not use this library: POSIX allows it only functions that a signal handler may call.
/// If the forks can't be counted, because there is no memory for the handler, the identity is the id of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process(u32);

impl Process {
    pub(crate) fn this() -> Self {
        static FORKS: AtomicU32 = AtomicU32::new(0);
        static ARE_COUNTED: LazyLock<bool> = LazyLock::new(|| {
            extern "C" fn in_the_child() {
                FORKS.fetch_add(1, Ordering::Relaxed);
            }
            at_fork(in_the_child)
        });
        Self(if *ARE_COUNTED { FORKS.load(Ordering::Relaxed) } else { process::id() })
    }
}

/// Returns `true`, because this system has no `fork`.
#[cfg(not(unix))]
fn at_fork(_: extern "C" fn()) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static DROPPED: Cell<u32> = const { Cell::new(0) };
    }

    #[derive(Default)]
    struct Counted;

    impl Drop for Counted {
        fn drop(&mut self) {
            DROPPED.set(DROPPED.get() + 1);
        }
    }

    #[test]
    fn a_process_finds_its_own_value_and_drops_no_other() {
        let inherited = PerProcess::<Counted>::default();
        let parents = OfProcess::of(Process(Process::this().0 + 1));
        assert!(inherited.first.set(Box::new(parents)).is_ok());
        let own: *const Counted = inherited.get();
        assert!(std::ptr::eq(own, inherited.get()), "each call returns one value");
        assert!(
            !std::ptr::eq(own, inherited.first.get().unwrap().value.as_ref().unwrap()),
            "the value is not the parent's"
        );
        drop(inherited);
        assert_eq!(DROPPED.get(), 1);
    }
}
