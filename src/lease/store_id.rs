//! The identity of the store of a handle.

use std::any::type_name;
use std::ptr;

/// The identity of the store of a handle, for the life of the store; see [`Description::identity`](crate::store::Description::identity).
///
/// ```
/// use std::sync::Arc;
/// use soloist::{EventMutex, MemoryMutex};
///
/// let store: Arc<dyn EventMutex> = Arc::new(MemoryMutex::new());
/// assert_eq!(store.describe().identity(), Arc::clone(&store).describe().identity());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId {
    address: usize,
    /// Needed, because a store and its first field have one address.
    kind: &'static str,
}

impl StoreId {
    /// Returns the identity of the store whose handles share this value, by the value's place in memory.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use soloist::store::StoreId;
    ///
    /// let pool = Arc::new(String::from("what every clone of a handle has"));
    /// assert_eq!(StoreId::of(&*pool), StoreId::of(&*Arc::clone(&pool)));
    /// ```
    pub fn of<T: ?Sized>(shared: &T) -> Self {
        Self { address: ptr::from_ref(shared).addr(), kind: type_name::<T>() }
    }
}
