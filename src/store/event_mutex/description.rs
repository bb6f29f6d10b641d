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
    /// Describes a store whose handles all share the value `shared`. The [identity](Self::identity) of the store is the
    /// address of `shared` in memory. The scope is [`Scope::Unknown`], and the store can't extend a lease.
    pub fn of<T: ?Sized>(shared: &T) -> Self {
        Self { identity: StoreId::of(shared), scope: Scope::Unknown, can_extend: false }
    }

    /// Sets the scope.
    pub fn with_scope(self, scope: Scope) -> Self {
        Self { scope, ..self }
    }

    /// Records that the store can [`extend`](crate::EventMutex::extend) a lease.
    pub fn with_extension(self) -> Self {
        Self { can_extend: true, ..self }
    }

    /// Returns the identity of the store, which is equal for all its handles. A tick admits the events of one store
    /// together, and reports an outage of the store once for all of them.
    pub fn identity(&self) -> StoreId {
        self.identity
    }

    /// Returns which processes share the store. A schedule warns if an event is
    /// [`on_one_server`](crate::Event::on_one_server), but no other process can use the store. A schedule never warns
    /// about [`Scope::Unknown`].
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns whether the store can extend a lease. Renewal and `hold_at_least` need that. If the store can't extend a
    /// lease, give the event a fixed term with [`without_overlapping_for`](crate::Event::without_overlapping_for).
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
    /// The store does not say which processes share it.
    Unknown,
}
