//! The description of a store: which one it is, how far it reaches, and whether it can extend a lease.

use crate::lease::store_id::StoreId;

/// What a store says of itself, see [`EventMutex::describe`](crate::EventMutex::describe).
///
/// ```
/// use soloist::{EventMutex, MemoryMutex, Scope};
///
/// let mutex = MemoryMutex::new();
/// let description = mutex.describe();
/// assert_eq!(description.identity(), mutex.clone().describe().identity());
/// assert_eq!(description.scope(), Scope::Process);
/// assert!(description.can_extend());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Description {
    identity: StoreId,
    scope: Scope,
    can_extend: bool,
}

impl Description {
    /// The store whose handles all share this value: its [identity](Self::identity) is the place of the value in memory.
    /// Its scope is [`Scope::Unknown`], and it can't extend.
    pub fn of<T: ?Sized>(shared: &T) -> Self {
        Self { identity: StoreId::of(shared), scope: Scope::Unknown, can_extend: false }
    }

    /// The same with this scope.
    pub fn with_scope(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// The same for a store that has an [`extend`](crate::EventMutex::extend).
    pub fn with_extension(self) -> Self {
        Self { can_extend: true, ..self }
    }

    /// Which store this is, whatever handle it is asked through. The events of a tick that have the same store are gated
    /// together, and an outage is told to all of them.
    pub fn identity(&self) -> StoreId {
        self.identity
    }

    /// Who sees what the store holds. [`Scope::Unknown`] is never warned of.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Whether the store can extend a lease, which renewal and `hold_at_least` need. An event on a store that can't asks
    /// for a fixed term, with [`without_overlapping_for`](crate::Event::without_overlapping_for).
    pub fn can_extend(&self) -> bool {
        self.can_extend
    }
}

/// How far a store's word reaches.
///
/// ```
/// use soloist::{EventMutex, MemoryMutex, Scope};
///
/// assert_eq!(MemoryMutex::new().describe().scope(), Scope::Process);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// Only this process sees it.
    Process,
    /// Every process on this host sees it.
    Host,
    /// Every host that is connected to it sees it.
    Fleet,
    /// The store does not say.
    Unknown,
}
