//! What became of a lease that was broken.

use crate::lease::Holder;

/// What [`break_lease`](super::EventMutex::break_lease) has done.
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
#[must_use = "what was started under the lease may still run"]
#[non_exhaustive]
pub enum Broken {
    /// Nobody held the name.
    NotHeld,
    /// The name is free. If its holder is still at work, it is told at its next renewal, and stops.
    Freed,
    /// The name is free, and a command still runs under the lease of a process that [has
    /// ended](Holder::has_ended). Nobody will stop it, and the next run overlaps with it: stop its [process
    /// group](Holder::process_group) first, if that must not be.
    FreedWhileRunning(Holder),
}

impl Broken {
    /// For a store that knows no more than whether somebody held the name.
    ///
    /// ```
    /// assert_eq!(soloist::Broken::if_held(false), soloist::Broken::NotHeld);
    /// ```
    pub fn if_held(was_held: bool) -> Self {
        if was_held { Self::Freed } else { Self::NotHeld }
    }

    /// Whether somebody held the name, and it is free now.
    ///
    /// ```
    /// assert!(soloist::Broken::Freed.is_freed());
    /// ```
    pub fn is_freed(&self) -> bool {
        !matches!(self, Self::NotHeld)
    }
}
