//! The identity of a store.

use std::any::type_name;
use std::ptr;

/// The identity of a store in this process. All handles of a store have one identity; see
/// [`Description::identity`](crate::store::Description::identity).
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
    /// The type of the value at `address`. The address is not enough, because a value and its first field can have
    /// equal addresses.
    kind: &'static str,
}

impl StoreId {
    /// Makes the identity of a store from the address of `shared`. All handles of the store must share this value.
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
