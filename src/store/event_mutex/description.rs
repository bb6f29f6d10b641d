//! The description of a store: its identity, its scope, and whether it can extend a lease.

use crate::lease::store_id::StoreId;

/// The description of a store, see [`EventMutex::describe`](crate::EventMutex::describe).
///
/// ```
/// use soloist::store::Scope;
/// use soloist::{EventMutex, MemoryMutex};
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
    /// Describes a store whose handles all share this value: its [identity](Self::identity) is the address of the value in memory.
    /// Its scope is [`Scope::Unknown`], and it can't extend a lease.
    pub fn of<T: ?Sized>(shared: &T) -> Self {
        Self { identity: StoreId::of(shared), scope: Scope::Unknown, can_extend: false }
    }

    /// Sets the scope.
    pub fn with_scope(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// Notes that the store has an [`extend`](crate::EventMutex::extend).
    pub fn with_extension(self) -> Self {
        Self { can_extend: true, ..self }
    }

    /// Returns the identity of the store, which all its handles share. The events of a tick that share a store are admitted
    /// together, and its outage is reported for all of them.
    pub fn identity(&self) -> StoreId {
        self.identity
    }

    /// Returns which processes share the store. A schedule never warns about [`Scope::Unknown`].
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns whether the store can extend a lease, which renewal and `hold_at_least` need. On a store that can't, give an event
    /// a fixed term with [`without_overlapping_for`](crate::Event::without_overlapping_for).
    pub fn can_extend(&self) -> bool {
        self.can_extend
    }
}

/// The processes that share a store.
///
/// ```
/// use soloist::store::Scope;
/// use soloist::{EventMutex, MemoryMutex};
///
/// assert_eq!(MemoryMutex::new().describe().scope(), Scope::Process);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// Only this process.
    Process,
    /// All processes on this host.
    Host,
    /// All hosts that are connected to the store.
    Fleet,
    /// The store does not say.
    Unknown,
}
