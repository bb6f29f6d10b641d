//! Every store passes the behaviour suite; so does a store that has only the three methods that it must have.

/// The store that users write in their own crate, with processes that share it.
#[path = "../../examples/custom_mutex.rs"]
#[expect(dead_code, reason = "an example has a main function")]
mod custom_mutex;

mod memory {
    use std::time::Duration;

    use soloist::contract::Harness;
    use soloist::{Clock, ManualClock, MemoryMutex};

    struct Memory {
        clock: ManualClock,
        mutex: MemoryMutex,
    }

    impl Memory {
        fn new() -> Self {
            let clock = ManualClock::at(chrono::DateTime::UNIX_EPOCH);
            Self { mutex: MemoryMutex::with_clock(&clock), clock }
        }
    }

    impl Harness for Memory {
        type Mutex = MemoryMutex;

        fn mutex(&self) -> MemoryMutex {
            self.mutex.clone()
        }

        fn clock(&self) -> Clock {
            Clock::from(&self.clock)
        }

        fn let_time_pass(&self, by: Duration) {
            self.clock.advance(by);
        }
    }

    soloist::contract_tests!(Memory::new());
}

/// The default `admit` and its kin are under test here: the store is as simple as its trait allows.
mod three_methods {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex, MutexGuard};
    use std::thread;
    use std::time::Duration;

    use soloist::contract::Harness;
    use soloist::{
        Admission, Admitted, Clock, EventMutex, FencingToken, Lease, LeaseRequest, ManualClock, Moment, MutexError,
        MutexName, Owner, Term,
    };

    #[derive(Debug)]
    struct Table {
        clock: Clock,
        rows: Mutex<Rows>,
    }

    #[derive(Debug, Default)]
    struct Rows {
        granted: u64,
        held: BTreeMap<String, (Owner, Moment)>,
    }

    impl Table {
        /// Others have their turn before each step, as they have in front of a server.
        fn rows(&self) -> MutexGuard<'_, Rows> {
            thread::yield_now();
            self.rows.lock().unwrap()
        }

        fn owner(&self, rows: &Rows, name: &MutexName) -> Option<Owner> {
            let (owner, until) = rows.held.get(&name.to_string())?;
            (self.clock.moment() < *until).then_some(*owner)
        }
    }

    impl EventMutex for Table {
        fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
            let mut rows = self.rows();
            if self.owner(&rows, request.name()).is_some() {
                return Ok(None);
            }
            let until = self.clock.moment().plus(request.term().get());
            rows.held.insert(request.name().to_string(), (request.owner(), until));
            rows.granted += 1;
            Ok(Some(request.granted(FencingToken::new(rows.granted))))
        }

        fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
            Ok(self.owner(&self.rows(), name).is_some())
        }

        fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
            let mut rows = self.rows();
            let ours = self.owner(&rows, lease.name()) == Some(lease.owner());
            if ours {
                rows.held.remove(&lease.name().to_string());
            }
            Ok(ours)
        }
    }

    struct InTable {
        clock: ManualClock,
        table: Arc<Table>,
    }

    impl InTable {
        fn new() -> Self {
            let clock = ManualClock::at(chrono::DateTime::UNIX_EPOCH);
            Self { table: Arc::new(Table { clock: Clock::from(&clock), rows: Mutex::default() }), clock }
        }
    }

    impl Harness for InTable {
        type Mutex = Arc<Table>;

        fn mutex(&self) -> Arc<Table> {
            Arc::clone(&self.table)
        }

        fn clock(&self) -> Clock {
            Clock::from(&self.clock)
        }

        fn let_time_pass(&self, by: Duration) {
            self.clock.advance(by);
        }

        fn witness(&self, name: &MutexName) -> Option<bool> {
            let rows = self.table.rows.lock().unwrap();
            let row = rows.held.get(&name.to_string());
            Some(row.is_some_and(|(_, until)| Clock::from(&self.clock).moment() < *until))
        }
    }

    soloist::contract_tests!(InTable::new());

    /// A store that was looked at just before another took the claim.
    #[derive(Debug)]
    struct LookedAtTooEarly(Arc<Table>);

    impl EventMutex for LookedAtTooEarly {
        fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
            self.0.create(request)
        }

        fn exists(&self, _: &MutexName) -> Result<bool, MutexError> {
            Ok(false)
        }

        fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
            self.0.forget(lease)
        }
    }

    #[test]
    fn the_default_admission_gives_the_lease_back_when_the_claim_was_taken_after_the_look() {
        let table = InTable::new().mutex();
        let name = MutexName::lease("reports").unwrap();
        let lease = LeaseRequest::new(name.clone(), Term::MAX, &table.clock);
        let claim = lease.with(name.claim("reports", chrono::DateTime::UNIX_EPOCH), Term::MAX);
        table.create(&claim).unwrap().unwrap();

        let admitted = LookedAtTooEarly(Arc::clone(&table)).admit(&[Admission::both(lease, claim)]).remove(0);

        assert_eq!(admitted.unwrap(), Admitted::ClaimTaken(None));
        assert!(!table.exists(&name).unwrap(), "the lease was kept");
    }
}

mod shared_folder {
    soloist::contract_tests!(super::custom_mutex::InFolder::new().unwrap());
}
