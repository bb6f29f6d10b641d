//! A macro that implements `EventMutex` for a handle: each method asks the store behind the handle.

macro_rules! delegate {
    (impl$(<$store:ident>)? EventMutex for $handle:ty, |$this:ident| $inner:expr) => {
        const _: () = {
            use $crate::base::error::MutexError;
            use $crate::lease::holder::Holder;
            use $crate::lease::name::MutexName;
            use $crate::lease::request::{Lease, LeaseRequest};
            use $crate::lease::store_id::StoreId;
            use $crate::lease::term::Term;
            use $crate::store::event_mutex::admission::{Admission, Admitted};
            use $crate::store::event_mutex::broken_lease::Broken;
            use $crate::store::event_mutex::delegate::delegate;
            use $crate::store::event_mutex::lifeline::Lifeline;
            use $crate::store::event_mutex::warning::StoreWarning;
            use $crate::store::event_mutex::{Answers, EventMutex, Scope};
            use $crate::time::clock::Clock;

            impl$(<$store: EventMutex + ?Sized>)? EventMutex for $handle {
                delegate! { |$this| $inner;
                    create(request: &LeaseRequest) -> Result<Option<Lease>, MutexError>;
                    exists(name: &MutexName) -> Result<bool, MutexError>;
                    forget(lease: &Lease) -> Result<bool, MutexError>;
                    inner() -> Option<&dyn EventMutex>;
                    identity() -> StoreId;
                    scope() -> Scope;
                    clock() -> Clock;
                    admit(admissions: &[Admission]) -> Answers<Admitted>;
                    admit_one(admission: &Admission) -> Result<Admitted, MutexError>;
                    release(leases: &[Lease]) -> Answers<bool>;
                    release_then_admit(ended: &[Lease], admissions: &[Admission]) -> (Answers<bool>, Answers<Admitted>);
                    can_extend() -> bool;
                    extend(leases: &[Lease], term: Term) -> Answers<bool>;
                    release_after(leases: &[Lease], rest: Term) -> Answers<bool>;
                    lifeline(lease: &Lease) -> Result<Option<Lifeline>, MutexError>;
                    holder(name: &MutexName) -> Result<Option<Holder>, MutexError>;
                    break_lease(name: &MutexName) -> Result<Broken, MutexError>;
                    check() -> Result<Vec<StoreWarning>, MutexError>;
                }
            }
        };
    };
    (|$this:ident| $inner:expr; $($method:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*) => {$(
        fn $method(&self, $($arg: $type),*) -> $answer {
            let $this = self;
            $inner.$method($($arg),*)
        }
    )*};
}
pub(crate) use delegate;
