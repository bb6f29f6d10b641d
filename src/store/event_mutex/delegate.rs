//! A macro that implements `EventMutex` for a handle: each method asks the store behind the handle.

macro_rules! delegate {
    (impl$(<$store:ident>)? EventMutex for $handle:ty, |$this:ident| $inner:expr) => {
        const _: () = {
            use $crate::base::error::MutexError;
            use $crate::lease::name::MutexName;
            use $crate::lease::request::{Lease, LeaseRequest};
            use $crate::lease::term::Term;
            use $crate::store::event_mutex::batch::Batch;
            use $crate::store::event_mutex::broken_lease::Broken;
            use $crate::store::event_mutex::delegate::delegate;
            use $crate::store::event_mutex::description::Description;
            use $crate::store::event_mutex::held::{Held, Names};
            use $crate::store::event_mutex::lifeline::Lifeline;
            use $crate::store::event_mutex::run_log::RunLog;
            use $crate::store::event_mutex::slot::Slot;
            use $crate::store::event_mutex::warning::StoreWarning;
            use $crate::store::event_mutex::EventMutex;
            use $crate::time::clock::Clock;

            impl$(<$store: EventMutex + ?Sized>)? EventMutex for $handle {
                delegate! { |$this| $inner;
                    create(request: &LeaseRequest) -> Result<Option<Lease>, MutexError>;
                    exists(name: &MutexName) -> Result<bool, MutexError>;
                    forget(lease: &Lease) -> Result<bool, MutexError>;
                    inner() -> Option<&dyn EventMutex>;
                    describe() -> Description;
                    clock() -> Clock;
                    carry_out(batch: &mut Batch);
                    extend(leases: &mut [Slot<Lease, bool>], term: Term);
                    held(names: Names<'_>) -> Result<Vec<Held>, MutexError>;
                    break_lease(name: &MutexName) -> Result<Broken, MutexError>;
                    lifeline(lease: &Lease) -> Result<Option<Lifeline>, MutexError>;
                    check() -> Result<Vec<StoreWarning>, MutexError>;
                    run_log() -> Option<&dyn RunLog>;
                }
            }
        };
    };
    (|$this:ident| $inner:expr; $($method:ident($($arg:ident: $type:ty),*) $(-> $answer:ty)?;)*) => {$(
        fn $method(&self, $($arg: $type),*) $(-> $answer)? {
            let $this = self;
            $inner.$method($($arg),*)
        }
    )*};
}
pub(crate) use delegate;
