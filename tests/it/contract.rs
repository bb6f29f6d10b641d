//! Every store passes the behaviour suite; so does a store that has only the three methods that it must have.

/// The store that users write in their own crate, with processes that share it.
#[path = "../../examples/custom_mutex.rs"]
#[expect(dead_code, reason = "an example has a main function")]
mod custom_mutex;

mod batches;
#[cfg(unix)]
mod lifelines;

use soloist::contract::{Harness, run_as_test};

/// Returns the message of a case about a store that breaks its promise; empty if the store keeps all.
#[track_caller]
fn says<H: Harness>(case: &str, module: &str, harness: H) -> String {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run_as_test(case, module, harness))) {
        Ok(()) => String::new(),
        Err(panic) => *panic.downcast::<String>().expect("a case says what was promised"),
    }
}

/// Makes a test for each case of the suite: the case finds each of these flaws in a store, and passes the store
/// without a flaw.
macro_rules! finds {
    ($store:path, $flaw:ident; $($case:ident: $($flawed:ident $said:literal),+;)+) => {$(
        #[test]
        fn $case() {
            let says = |flaw| super::says(stringify!($case), module_path!(), $store(flaw));
            assert_eq!(says($flaw::Nothing), "");
            $(
                let said = says($flaw::$flawed);
                assert!(said.starts_with(concat!("promised: ", $said, "; ")), "{:?}: {said}", $flaw::$flawed);
            )+
        }
    )+};
}
use finds;

/// A harness whose handles are for several stores.
struct Scattered;

impl Harness for Scattered {
    type Mutex = soloist::MemoryMutex;

    fn mutex(&self) -> soloist::MemoryMutex {
        soloist::MemoryMutex::new()
    }
}

#[test]
fn a_harness_of_several_stores_is_told_so() {
    let said = says("all_handles_of_a_harness_are_for_one_store", module_path!(), Scattered);
    assert!(said.starts_with("promised: all handles of `Harness::mutex` are for one store; "), "{said}");
    assert!(said.ends_with("another handle does not see the lease: let `mutex` return a clone of one store"), "{said}");
}

/// A harness whose short term is so long that a case would exceed its time limit.
struct Lengthy;

impl Harness for Lengthy {
    type Mutex = soloist::MemoryMutex;

    fn mutex(&self) -> soloist::MemoryMutex {
        soloist::MemoryMutex::new()
    }

    fn short_term(&self) -> soloist::Term {
        soloist::Term::new(std::time::Duration::from_secs(6)).expect("it is a term")
    }
}

#[test]
fn a_harness_with_a_long_short_term_is_told_so() {
    let said = says("a_forgotten_name_is_free_again", module_path!(), Lengthy);
    assert!(said.starts_with("the harness has a `short_term` of 6s: "), "{said}");
}

/// A store with room for 200 characters of a holder's text.
mod cut {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use soloist::contract::Harness;
    use soloist::store::{Held, Holder, Lease, LeaseRequest, Names, Owner};
    use soloist::{EventMutex, MemoryMutex, MutexError, MutexName};

    #[derive(Clone, Debug, Default)]
    struct Cut {
        memory: MemoryMutex,
        texts: Arc<Mutex<BTreeMap<Owner, String>>>,
    }

    impl EventMutex for Cut {
        fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
            let text = request.holder_text().chars().take(200).collect();
            self.texts.lock().unwrap().insert(request.owner(), text);
            self.memory.create(request)
        }

        fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
            self.memory.exists(name)
        }

        fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
            self.memory.forget(lease)
        }

        fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
            let with_its_text = |held: Held| {
                let name = held.name().clone();
                let holder = held.into_holder().map(|holder| {
                    let text = self.texts.lock().unwrap()[&holder.owner()].clone();
                    Holder::new(holder.owner(), holder.token(), text, holder.since(), holder.until())
                });
                Held::new(name, holder)
            };
            Ok(self.memory.held(names)?.into_iter().map(with_its_text).collect())
        }
    }

    impl Harness for Cut {
        type Mutex = Self;

        fn mutex(&self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn a_store_may_cut_off_the_end_of_a_long_text() {
        let case = "the_holder_tells_its_application_and_its_instance";
        assert_eq!(super::says(case, module_path!(), Cut::default()), "");
    }
}

mod memory {
    use std::time::Duration;

    use soloist::MemoryMutex;
    use soloist::contract::Harness;
    use soloist::time::{Clock, ManualClock};

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

/// A store with the three required methods, which answers one call after another, each late: like a store that writes its file anew
/// at each call, on a busy machine.
mod slow {
    use std::sync::{Arc, Mutex};
    use std::thread;
    use std::time::Duration;

    use soloist::contract::Harness;
    use soloist::store::{Lease, LeaseRequest};
    use soloist::{EventMutex, MemoryMutex, MutexError, MutexName};

    #[derive(Clone, Debug, Default)]
    struct Slow(Arc<Mutex<MemoryMutex>>);

    impl Slow {
        fn ask<T>(&self, ask: impl FnOnce(&MemoryMutex) -> T) -> T {
            let memory = self.0.lock().expect("nothing panics here");
            thread::sleep(Duration::from_millis(25)); // the time of an answer
            ask(&memory)
        }
    }

    impl EventMutex for Slow {
        fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
            self.ask(|memory| memory.create(request))
        }

        fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
            self.ask(|memory| memory.exists(name))
        }

        fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
            self.ask(|memory| memory.forget(lease))
        }
    }

    #[derive(Default)]
    struct Late(Slow);

    impl Harness for Late {
        type Mutex = Slow;

        fn mutex(&self) -> Slow {
            self.0.clone()
        }
    }

    soloist::contract_tests!(Late::default());
}

mod file {
    use std::fs::{self, File};
    use std::path::{Path, PathBuf};

    use soloist::contract::Harness;
    use soloist::time::Clock;
    use soloist::{FileMutex, MutexName};

    /// The directory goes with the harness that made it.
    struct OnFile {
        mutex: FileMutex,
        _ours: Option<tempfile::TempDir>,
    }

    impl OnFile {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a temporary directory");
            Self { mutex: FileMutex::in_dir(dir.path()).expect("it is ours"), _ours: Some(dir) }
        }
    }

    impl Harness for OnFile {
        type Mutex = FileMutex;

        fn mutex(&self) -> FileMutex {
            self.mutex.clone()
        }

        /// Finds the line of the name, as a person would, reads it, and checks whether its life file is locked.
        fn witness(&self, name: &MutexName) -> Option<bool> {
            let Some((path, text)) = state(self.mutex.dir(), name.mutex()) else { return Some(false) };
            let of_name = format!("\t{}\t", escaped(&name.to_string()));
            let Some(line) = text.lines().find(|line| line.contains(&of_name)) else { return Some(false) };
            let mut words = line.split(['\t', ' ']).skip_while(|word| *word != "until").skip(1);
            let until: chrono::DateTime<chrono::Utc> =
                words.next().and_then(|until| until.parse().ok()).expect("a time");
            let lasts = until > Clock::system().now();
            let mut id = line.split('\t').find_map(|field| field.strip_prefix("life ")).unwrap_or("-").split(' ');
            let path = match id.next().expect("it has a word") {
                "0" => path.with_extension("life"),
                generation => path.with_extension(format!("life-{generation}")),
            };
            let is_locked = || {
                let file = File::open(path).expect("the life file is there");
                let is_locked = file.try_lock().is_err();
                let _ = file.unlock(); // a child of another test may have a duplicate until it starts its program
                is_locked
            };
            Some(match words.next().expect("it has a word") {
                "alive" => lasts && is_locked(),
                "bound" => is_locked(),
                "fixed" => lasts,
                word => {
                    assert_eq!(word, "ended");
                    false
                }
            })
        }

        fn address(&self) -> Option<String> {
            self.mutex.dir().to_str().map(str::to_owned)
        }

        fn at(address: &str) -> Self {
            Self { mutex: FileMutex::in_dir(address).expect("the parent made it"), _ours: None }
        }
    }

    fn state(dir: &Path, mutex: &str) -> Option<(PathBuf, String)> {
        let named = format!("\nname {}\n", escaped(mutex));
        let files = fs::read_dir(dir).expect("the directory is there").map(|file| file.expect("it is readable").path());
        let mut states = files.filter(|path| path.extension().is_some_and(|kind| kind == "state"));
        states.find_map(|path| {
            let text = fs::read_to_string(&path).expect("it is readable");
            text.contains(&named).then_some((path, text))
        })
    }

    fn escaped(text: &str) -> String {
        let escape = |char: char| {
            if char == '%' || char.is_control() {
                char.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat()
            } else {
                char.to_string()
            }
        };
        text.chars().map(escape).collect()
    }

    soloist::contract_tests!(OnFile::new());
}

/// The default `carry_out` is under test here: the store is as simple as its trait allows.
mod three_methods {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex, MutexGuard};
    use std::thread;
    use std::time::Duration;

    use soloist::contract::Harness;
    use soloist::store::{Admission, Admitted, Lease, LeaseRequest, Owner};
    use soloist::time::{Clock, ManualClock, Moment};
    use soloist::{EventMutex, FencingToken, MutexError, MutexName, Term};

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
        /// Yields before each step, so that others have their turn, as in front of a server.
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

    /// A store that is read just before another server takes the claim.
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

        let admitted = Admission::both(lease, claim).ask(&LookedAtTooEarly(Arc::clone(&table)));

        assert_eq!(admitted.unwrap(), Admitted::ClaimTaken(None));
        assert!(!table.exists(&name).unwrap(), "the lease was kept");
    }
}

mod shared_folder {
    soloist::contract_tests!(super::custom_mutex::InFolder::new().unwrap());
}
