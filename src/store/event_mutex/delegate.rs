//! A macro that implements `EventMutex` for a handle of a store.

/// Implements `EventMutex` for a handle. The three required methods call the store. The other methods have the defaults
/// of the trait, which call the store through `inner`.
macro_rules! delegate {
    (impl$(<$store:ident>)? EventMutex for $handle:ty, |$this:ident| $inner:expr) => {
        impl$(<$store: $crate::store::event_mutex::EventMutex>)? $crate::store::event_mutex::EventMutex for $handle {
            fn inner(&self) -> Option<&dyn $crate::store::event_mutex::EventMutex> {
                let $this = self;
                Some($inner)
            }

            fn create(
                &self,
                request: &$crate::lease::request::LeaseRequest,
            ) -> Result<Option<$crate::lease::request::Lease>, $crate::base::error::MutexError> {
                let $this = self;
                $inner.create(request)
            }

            fn exists(
                &self,
                name: &$crate::lease::name::MutexName,
            ) -> Result<bool, $crate::base::error::MutexError> {
                let $this = self;
                $inner.exists(name)
            }

            fn forget(
                &self,
                lease: &$crate::lease::request::Lease,
            ) -> Result<bool, $crate::base::error::MutexError> {
                let $this = self;
                $inner.forget(lease)
            }
        }
    };
}
pub(crate) use delegate;
