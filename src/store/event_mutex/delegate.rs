//! A macro that implements `EventMutex` for a handle of a store.

/// Implements `EventMutex` for a handle. The three required methods and `carry_out` call the store. The other methods
/// have the defaults of the trait, which call the store through `inner`.
macro_rules! delegate {
    (impl$(<$store:ident>)? EventMutex for $handle:ty, |$this:ident| $inner:expr) => {
        const _: () = {
            use $crate::base::error::MutexError;
            use $crate::lease::{name::MutexName, request::Lease, request::LeaseRequest};
            use $crate::store::event_mutex::{EventMutex, batch::Batch};

            impl$(<$store: EventMutex>)? EventMutex for $handle {
                fn inner(&self) -> Option<&dyn EventMutex> {
                    let $this = self;
                    Some($inner)
                }

                fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
                    let $this = self;
                    $inner.create(request)
                }

                fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
                    let $this = self;
                    $inner.exists(name)
                }

                fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
                    let $this = self;
                    $inner.forget(lease)
                }

                fn carry_out(&self, batch: &mut Batch) {
                    let $this = self;
                    $inner.carry_out(batch);
                }
            }
        };
    };
}
pub(crate) use delegate;
