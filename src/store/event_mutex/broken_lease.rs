//! The answer to `break_lease`: whether somebody held the name, and whether its command still runs.

use crate::lease::holder::Holder;

/// What [`break_lease`](crate::EventMutex::break_lease) has done.
///
/// ```
/// use soloist::{Broken, EventMutex, MemoryMutex, MutexName};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// match MemoryMutex::new().break_lease(&MutexName::lease("reports")?)? {
///     Broken::NotHeld => println!("nobody held it"),
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
    /// Nobody held the name.
    NotHeld,
    /// The name is free. If its holder is still at work, its run is cancelled at its next renewal.
    Freed,
    /// The name is free, and a command still runs under the lease of a process that [has
    /// ended](Holder::has_ended). Nothing stops that command: end its [process
    /// group](Holder::process_group) now, or the next run overlaps with it. To look before, ask
    /// [`held`](crate::EventMutex::held).
    FreedWhileRunning(Holder),
}

impl Broken {
    /// For a store that knows no more than whether somebody held the name.
    pub fn if_held(was_held: bool) -> Self {
        if was_held { Self::Freed } else { Self::NotHeld }
    }

    /// Whether somebody held the name, and it is free now.
    pub fn is_freed(&self) -> bool {
        !matches!(self, Self::NotHeld)
    }
}
