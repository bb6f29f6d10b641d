//! The question and the answer of `EventMutex::held`: the names to check, and the held names with their holders.

use std::slice;

#[cfg(feature = "server")]
use crate::lease::name::text::event_key_text;
use crate::lease::{holder::Holder, name::MutexName};

/// The names that [`held`](crate::EventMutex::held) asks about.
///
/// ```
/// use soloist::store::Names;
/// use soloist::{EventMutex, MemoryMutex, MutexName};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (mutex, name) = (MemoryMutex::new(), MutexName::lease("reports")?);
/// assert!(mutex.held(Names::of(&name))?.is_empty());
/// assert!(mutex.held(Names::LeasesWithPrefix("rep"))?.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Names<'a> {
    /// These names, of any kind. If the store can, it reads all of them at one moment.
    Each(&'a [MutexName]),
    /// The leases of all mutexes whose names begin with this text; an empty text stands for all leases. Claims, permits
    /// and markers are not included.
    LeasesWithPrefix(&'a str),
    /// All markers that belong to this mutex: the pauses of a schedule, or the waiting occurrences of an event.
    MarksOf(&'a str),
}

impl<'a> Names<'a> {
    /// Asks about a single name.
    pub fn of(name: &'a MutexName) -> Self {
        Self::Each(slice::from_ref(name))
    }

    /// Returns whether `name` is one of these names.
    ///
    /// ```
    /// use soloist::store::Names;
    /// use soloist::MutexName;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let lease = MutexName::lease("reports:daily")?;
    /// assert!(Names::LeasesWithPrefix("reports:").contain(&lease));
    /// assert!(!Names::LeasesWithPrefix("reports:").contain(&lease.claim("reports:daily", chrono::DateTime::UNIX_EPOCH)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn contain(&self, name: &MutexName) -> bool {
        match self {
            Self::Each(names) => names.contains(name),
            Self::LeasesWithPrefix(prefix) => name.is_lease() && name.mutex().starts_with(prefix),
            Self::MarksOf(mutex) => name.marked().is_some() && name.mutex() == *mutex,
        }
    }

    /// Returns the beginning that the texts of these leases or markers have in common in the keys of a server.
    #[cfg(feature = "server")]
    pub(crate) fn beginning_of_keys(&self) -> String {
        match self {
            Self::Each(_) => String::new(),
            Self::LeasesWithPrefix(prefix) => format!("lease/{}", event_key_text(prefix)),
            Self::MarksOf(mutex) => format!("mark/{}/", event_key_text(mutex)),
        }
    }
}

/// A name that is held; see [`EventMutex::held`](crate::EventMutex::held).
///
/// ```
/// use soloist::store::{LeaseRequest, Names};
/// use soloist::time::Clock;
/// use soloist::{EventMutex, MemoryMutex, MutexName, Term};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mutex = MemoryMutex::new();
/// mutex.create(&LeaseRequest::new(MutexName::lease("reports")?, Term::DEFAULT, &Clock::system()))?;
/// for held in mutex.held(Names::LeasesWithPrefix(""))? {
///     println!("{}: {:?}", held.name(), held.holder());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    name: MutexName,
    holder: Option<Holder>,
}

impl Held {
    /// Makes the answer for a held name; `holder` is `None` if the store does not know the holder.
    pub fn new(name: MutexName, holder: Option<Holder>) -> Self {
        Self { name, holder }
    }

    /// Returns the name that is held.
    pub fn name(&self) -> &MutexName {
        &self.name
    }

    /// Returns the holder and its times, or `None` if the store does not know the holder.
    pub fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// Takes the holder out of this answer. Returns `None` if the store does not know the holder.
    pub fn into_holder(self) -> Option<Holder> {
        self.holder
    }
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_leases_and_marks_have_a_beginning_in_common() {
        for text in ["reports:generate", "a/b%20 'ü'\\\n", "100%_!", "%25", "%~", "100% ü}*?[x]\\:{%41"] {
            let name = MutexName::lease(text).unwrap();
            assert_eq!(Names::LeasesWithPrefix(text).beginning_of_keys(), name.key_text(""));
        }
        assert_eq!(Names::LeasesWithPrefix("").beginning_of_keys(), "lease/");
        assert_eq!(Names::MarksOf("a_/b").beginning_of_keys(), "mark/a_%2Fb/");
    }
}
