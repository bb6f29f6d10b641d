//! Stores that are handles of another.

/// What is asked of a handle is asked of the store behind it.
macro_rules! forward {
    (impl$(<$store:ident>)? EventMutex for $handle:ty, |$this:ident| $inner:expr) => {
        impl$(<$store: EventMutex + ?Sized>)? EventMutex for $handle {
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
            fn inner(&self) -> Option<&dyn EventMutex> {
                let $this = self;
                $inner.inner()
            }
            fn identity(&self) -> StoreId {
                let $this = self;
                $inner.identity()
            }
            fn scope(&self) -> Scope {
                let $this = self;
                $inner.scope()
            }
            fn clock(&self) -> Clock {
                let $this = self;
                $inner.clock()
            }
            fn admit(&self, admissions: &[Admission]) -> Answers<Admitted> {
                let $this = self;
                $inner.admit(admissions)
            }
            fn admit_one(&self, admission: &Admission) -> Result<Admitted, MutexError> {
                let $this = self;
                $inner.admit_one(admission)
            }
            fn release(&self, leases: &[Lease]) -> Answers<bool> {
                let $this = self;
                $inner.release(leases)
            }
            fn release_then_admit(
                &self,
                ended: &[Lease],
                admissions: &[Admission],
            ) -> (Answers<bool>, Answers<Admitted>) {
                let $this = self;
                $inner.release_then_admit(ended, admissions)
            }
            fn can_extend(&self) -> bool {
                let $this = self;
                $inner.can_extend()
            }
            fn extend(&self, leases: &[Lease], term: Term) -> Answers<bool> {
                let $this = self;
                $inner.extend(leases, term)
            }
            fn release_after(&self, leases: &[Lease], rest: Term) -> Answers<bool> {
                let $this = self;
                $inner.release_after(leases, rest)
            }
            fn lifeline(&self, lease: &Lease) -> Result<Option<Lifeline>, MutexError> {
                let $this = self;
                $inner.lifeline(lease)
            }
            fn holder(&self, name: &MutexName) -> Result<Option<Holder>, MutexError> {
                let $this = self;
                $inner.holder(name)
            }
            fn break_lease(&self, name: &MutexName) -> Result<Broken, MutexError> {
                let $this = self;
                $inner.break_lease(name)
            }
            fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
                let $this = self;
                $inner.check()
            }
        }
    };
}
pub(crate) use forward;
