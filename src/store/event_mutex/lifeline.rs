//! The lifeline: a descriptor that a command inherits, so that its lease lasts as long as the command.

use std::fmt;
#[cfg(unix)]
use std::os::fd::OwnedFd;

/// A descriptor that a command inherits; see [`EventMutex::lifeline`](crate::EventMutex::lifeline). The lease lasts as
/// long as a process has the descriptor open. The command has the descriptor open, and so have the processes that the
/// command starts, unless they close the descriptor.
///
/// On Unix, a lifeline is an `OwnedFd`. No process inherits the descriptor by accident, because `exec` closes it. Pass
/// it to a program on purpose, for example as a standard stream. Other systems have no lifelines.
///
/// ```
/// # #[cfg(unix)]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::os::fd::OwnedFd;
/// use std::process::Command;
/// use soloist::store::LeaseRequest;
/// use soloist::time::Clock;
/// use soloist::{EventMutex, FileMutex, MutexName, Term};
///
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// let (mutex, name) = (FileMutex::in_dir(dir)?, MutexName::lease("backup")?);
/// let lease = mutex.create(&LeaseRequest::new(name, Term::DEFAULT, &Clock::system()))?.expect("it is free");
/// if let Some(lifeline) = mutex.lifeline(&lease)? {
///     Command::new("true").stdin(OwnedFd::from(lifeline)).status()?;
/// }
/// mutex.forget(&lease)?;
/// # Ok(())
/// # }
/// # #[cfg(not(unix))]
/// # fn main() {}
/// ```
#[must_use = "a dropped lifeline is closed, and no command inherits it"]
pub struct Lifeline {
    inherited: Inherited,
    tell: Option<Tell>,
}

/// A callback that receives the number of the process group of a command.
type Tell = Box<dyn FnOnce(u32) + Send + Sync>;

#[cfg(unix)]
type Inherited = OwnedFd;

/// A type without a value, because this system has no lifelines.
#[cfg(not(unix))]
type Inherited = std::convert::Infallible;

#[cfg(unix)]
impl Lifeline {
    /// Makes a lifeline of a descriptor. Your store must be able to see whether a process still has this descriptor
    /// open. Examples are a file that is locked with `flock`, and a pipe or a socket whose other end the store watches.
    ///
    /// ```
    /// # #[cfg(unix)]
    /// # fn main() -> std::io::Result<()> {
    /// let (watched, inherited) = std::io::pipe()?;
    /// let lifeline = soloist::store::Lifeline::of(inherited);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))]
    /// # fn main() {}
    /// ```
    pub fn of(inherited: impl Into<OwnedFd>) -> Self {
        Self { inherited: inherited.into(), tell: None }
    }

    /// Adds a callback: a scheduler calls `tell` with the number of the command's process group when the command has
    /// begun.
    ///
    /// ```
    /// # #[cfg(unix)]
    /// # fn main() -> std::io::Result<()> {
    /// let (watched, inherited) = std::io::pipe()?;
    /// let lifeline = soloist::store::Lifeline::of(inherited).telling(|group| println!("process group {group} has begun"));
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))]
    /// # fn main() {}
    /// ```
    pub fn telling(self, tell: impl FnOnce(u32) + Send + Sync + 'static) -> Self {
        Self { tell: Some(Box::new(tell)), ..self }
    }

    pub(crate) fn into_parts(self) -> (OwnedFd, Option<Tell>) {
        (self.inherited, self.tell)
    }
}

/// Takes the descriptor out of the lifeline, so that you can pass it to a [`Command`](std::process::Command).
#[cfg(unix)]
impl From<Lifeline> for OwnedFd {
    fn from(lifeline: Lifeline) -> Self {
        lifeline.inherited
    }
}

impl fmt::Debug for Lifeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tells = self.tell.is_some();
        f.debug_struct("Lifeline").field("inherited", &self.inherited).field("tells", &tells).finish()
    }
}
