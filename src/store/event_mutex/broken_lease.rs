//! The answer to `break_lease`: whether the name was held, and whether its command still runs.

use crate::lease::holder::Holder;

/// The answer to [`break_lease`](crate::EventMutex::break_lease).
///
/// ```
/// use soloist::store::Broken;
/// use soloist::{EventMutex, MemoryMutex, MutexName};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// match MemoryMutex::new().break_lease(&MutexName::lease("reports")?)? {
///     Broken::NotHeld => println!("it was not held"),
///     Broken::FreedWhileRunning(holder) => println!("it is free, but: {holder}"),
///     _ => println!("it is free"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a command may still run without its lease"]
#[non_exhaustive]
pub enum Broken {
    /// The name was not held.
    NotHeld,
    /// The name is free. If the run of its holder is still running, it is cancelled at its next renewal.
    Freed,
    /// The name is free, and a command still runs under the lease of a process that [has
    /// ended](Holder::has_ended). Nothing stops that command: end its [process
    /// group](Holder::process_group) now, or the next run overlaps with it. To know before, call
    /// [`held`](crate::EventMutex::held).
    FreedWhileRunning(Holder),
}

impl Broken {
    /// Returns the answer of a store that knows only whether the name was held.
    pub fn if_held(was_held: bool) -> Self {
        if was_held { Self::Freed } else { Self::NotHeld }
    }

    /// Returns whether the name was held, and is free now.
    pub fn is_freed(&self) -> bool {
        !matches!(self, Self::NotHeld)
    }
}
