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
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use soloist::contract::Harness;
    use soloist::{
        Clock, EventMutex, FencingToken, Lease, LeaseRequest, ManualClock, Moment, MutexError, MutexName, Owner,
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
        fn owner(&self, rows: &Rows, name: &MutexName) -> Option<Owner> {
            let (owner, until) = rows.held.get(&name.to_string())?;
            (self.clock.moment() < *until).then_some(*owner)
        }
    }

    impl EventMutex for Table {
        fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
            let mut rows = self.rows.lock().unwrap();
            if self.owner(&rows, request.name()).is_some() {
                return Ok(None);
            }
            let until = self.clock.moment().plus(request.term().get());
            rows.held.insert(request.name().to_string(), (request.owner(), until));
            rows.granted += 1;
            Ok(Some(request.granted(FencingToken::new(rows.granted))))
        }

        fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
            Ok(self.owner(&self.rows.lock().unwrap(), name).is_some())
        }

        fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
            let mut rows = self.rows.lock().unwrap();
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
}

mod shared_folder {
    soloist::contract_tests!(super::custom_mutex::InFolder::new().unwrap());
}
