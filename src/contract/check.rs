//! Runs the cases: one case as a test, or all cases in a program. In a child process, plays the role of the process in
//! a case.

use std::any::{Any, TypeId};
use std::fmt;
use std::panic;
use std::process;
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::cases::{self, Case, processes};
use super::child::{self, EntryPoint, Role};
use super::harness::Harness;
use super::subject::{CaseResult, DoesNotApply, Subject};
use crate::base::lock::lock;

/// The time limit of a case, so that a call that does not return fails the suite. The limit is shorter than the long
/// leases of a case, because these must not end during the case. It is long enough for the longest cases, which send
/// about ten thousand requests.
const TIME_LIMIT: Duration = Duration::from_secs(5 * 60);

/// Runs all cases in order, and prints a line for each case. Use this in a program without a test harness.
///
/// `make` is called once for each case. A case that needs other processes starts this program again, with the same
/// arguments. In the new process, this function plays the role of that process in the case, and then ends the process.
///
/// # Errors
///
/// The cases that failed, with their messages. A failure does not stop the other cases.
///
/// ```
/// use std::time::Duration;
/// use soloist::contract::{self, Harness};
/// use soloist::time::{Clock, ManualClock};
/// use soloist::MemoryMutex;
///
/// struct InMemory(ManualClock, MemoryMutex);
///
/// impl Harness for InMemory {
///     type Mutex = MemoryMutex;
///
///     fn mutex(&self) -> MemoryMutex {
///         self.1.clone()
///     }
///     fn clock(&self) -> Clock {
///         Clock::from(&self.0)
///     }
///     fn let_time_pass(&self, by: Duration) {
///         self.0.advance(by);
///     }
/// }
///
/// fn main() -> Result<(), contract::Failed> {
///     contract::check(|| {
///         let clock = ManualClock::at(chrono::DateTime::UNIX_EPOCH);
///         InMemory(clock.clone(), MemoryMutex::with_clock(clock))
///     })
/// }
/// ```
pub fn check<H: Harness>(make: impl Fn() -> H) -> Result<(), Failed> {
    match child::part_of::<H>() {
        Some(Role::Here { address, run, role }) => {
            play::<H>(&address, run, &role);
            process::exit(0);
        }
        Some(Role::Elsewhere) => return Ok(()),
        None => {}
    }
    let cases = cases::all::<H>();
    let (mut passed, mut failed) = (0, Vec::new());
    for (name, case) in &cases {
        match run(name, *case, make(), EntryPoint::Program, TIME_LIMIT) {
            Ok(Ok(())) => {
                passed += 1;
                println!("{name}: passed");
            }
            Ok(Err(DoesNotApply(why))) => println!("{name}: does not apply, {why}"),
            Err(panic) => {
                println!("{name}: FAILED");
                failed.push((*name, message(&*panic).to_owned()));
            }
        }
    }
    let inapplicable = cases.len() - passed - failed.len();
    println!("{} cases: {passed} passed, {inapplicable} do not apply, {} failed", cases.len(), failed.len());
    if failed.is_empty() { Ok(()) } else { Err(Failed { cases: failed }) }
}

/// The cases of [`check`] that failed. `Debug` writes the text of `Display`, because Rust prints `Debug` if `main`
/// returns an error.
///
/// ```
/// use soloist::contract::Failed;
///
/// fn first(failed: &Failed) -> Option<&str> {
///     failed.cases().next()
/// }
/// ```
pub struct Failed {
    cases: Vec<(&'static str, String)>,
}

impl Failed {
    /// Returns the names of the failed cases, in the order in which they ran. There is at least one.
    ///
    /// ```
    /// # use soloist::contract::Failed;
    /// fn broke(failed: &Failed, case: &str) -> bool {
    ///     failed.cases().any(|failed| failed == case)
    /// }
    /// ```
    pub fn cases(&self) -> impl Iterator<Item = &str> {
        self.cases.iter().map(|(name, _)| *name)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the store does not keep the contract")?;
        self.cases.iter().try_for_each(|(name, saw)| write!(f, "\n  {name}: {saw}"))
    }
}

impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failed {}

/// Runs one case. `module` is the module that calls `contract_tests!`. The `#[test]` with the name of the case in that
/// module calls this function.
///
/// # Panics
///
/// The function panics if the case fails.
#[doc(hidden)]
pub fn run_as_test<H: Harness>(case: &str, module: &str, harness: H) {
    let cases = cases::all::<H>();
    let (name, function) = cases
        .into_iter()
        .find(|(name, _)| *name == case)
        .unwrap_or_else(|| panic!("no case has the name {case}, although the tests are made from the list of cases"));
    match run(name, function, harness, EntryPoint::test_in(module), TIME_LIMIT) {
        Ok(Ok(())) => {}
        Ok(Err(DoesNotApply(why))) => println!("does not apply, {why}"),
        Err(panic) => {
            eprintln!("{name}: {}", message(&*panic));
            panic::resume_unwind(panic);
        }
    }
}

/// Plays the role for which a case in another process started this process. Without such a role, does nothing.
#[doc(hidden)]
pub fn run_as_child<H: Harness>(_make: impl FnOnce() -> H) {
    if let Some(Role::Here { address, run, role }) = child::part_of::<H>() {
        play::<H>(&address, run, &role);
    }
}

/// Plays `role` on the store at `address`, until the role is over, or until the process that started this process ends.
fn play<H: Harness>(address: &str, run: String, role: &str) {
    let subject = Subject::of_run(H::at(address), EntryPoint::Program, run);
    processes::play(&subject, role, &child::words());
}

fn run<H: Harness>(
    name: &'static str,
    case: Case<H>,
    harness: H,
    entry: EntryPoint,
    limit: Duration,
) -> Result<CaseResult, Box<dyn Any + Send>> {
    /// Harnesses with a case that did not end. Their other cases fail at once, without another wait.
    static HANGING: Mutex<Vec<TypeId>> = Mutex::new(Vec::new());
    let hanging = || lock(&HANGING);

    if hanging().contains(&TypeId::of::<H>()) {
        return Err(Box::new("it was not run: the store left another case without an answer".to_owned()));
    }
    let (running, ended) = mpsc::channel::<()>();
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _running = running;
        case(&Subject::new(harness, entry))
    });
    let thread = thread.expect("a thread for the case can be started");
    if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
        hanging().push(TypeId::of::<H>());
        let why = format!(
            "promised: no call blocks for longer than a few seconds; but the case did not end within {limit:?}: a call did not \
             return, or all calls are slow"
        );
        return Err(Box::new(why));
    }
    thread.join()
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked without a message")
}

#[doc(hidden)]
#[macro_export]
macro_rules! __contract_test_functions {
    (($make:expr) $($concept:ident { $($case:ident)* })*) => {$($(
        #[test]
        fn $case() {
            $crate::contract::run_as_test(stringify!($case), module_path!(), $make);
        }
    )*)*};
}

/// Makes one `#[test]` for each case of the suite, in the module that calls the macro. The argument is an expression
/// that makes a [`Harness`]. The expression is evaluated once for each case. So if the store needs a server, start
/// the server only once, and use it in all harnesses.
///
/// A case that needs other processes starts this test binary again. The new process runs only one test of this module,
/// and has environment variables that begin with `SOLOIST_CONTRACT_`.
///
/// ```
/// use soloist::MemoryMutex;
/// use soloist::contract::Harness;
///
/// #[derive(Default)]
/// struct InMemory(MemoryMutex);
///
/// impl Harness for InMemory {
///     type Mutex = MemoryMutex;
///
///     fn mutex(&self) -> MemoryMutex {
///         self.0.clone()
///     }
/// }
///
/// mod in_memory {
///     soloist::contract_tests!(crate::InMemory::default());
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! contract_tests {
    ($make:expr $(,)?) => {
        $crate::__contract_cases!([$crate::__contract_test_functions]($make));

        #[test]
        fn processes_of_other_cases_begin_here() {
            $crate::contract::run_as_child(|| $make);
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::MutexError;
    use crate::lease::name::MutexName;
    use crate::lease::request::{Lease, LeaseRequest};
    use crate::store::{event_mutex::EventMutex, memory::MemoryMutex};

    /// A store whose `exists` does not return.
    #[derive(Debug)]
    struct Hanging;

    impl EventMutex for Hanging {
        fn create(&self, _: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
            Ok(None)
        }

        fn exists(&self, _: &MutexName) -> Result<bool, MutexError> {
            loop {
                thread::park();
            }
        }

        fn forget(&self, _: &Lease) -> Result<bool, MutexError> {
            Ok(false)
        }
    }

    struct OnHanging;

    impl Harness for OnHanging {
        type Mutex = Hanging;

        fn mutex(&self) -> Hanging {
            Hanging
        }
    }

    struct InMemory;

    impl Harness for InMemory {
        type Mutex = MemoryMutex;

        fn mutex(&self) -> MemoryMutex {
            MemoryMutex::new()
        }
    }

    /// Runs a case that reads a name, and returns the message of its failure.
    fn failure<H: Harness>(harness: H, limit: Duration) -> Option<String> {
        let case = |subject: &Subject<H>| {
            assert!(!subject.exists(&subject.name("report")));
            Ok(())
        };
        run("a_free_name_is_free", case, harness, EntryPoint::Program, limit)
            .err()
            .map(|panic| message(&*panic).to_owned())
    }

    #[test]
    fn a_store_that_hangs_fails_one_case_at_the_time_limit_and_the_others_at_once() {
        let hanging = failure(OnHanging, Duration::from_millis(200)).expect("a call does not return");
        assert!(hanging.contains("; but the case did not end within 200ms: a call did not return, "), "{hanging}");
        let other = failure(OnHanging, Duration::from_secs(5)).expect("the case is not run");
        assert!(other.starts_with("it was not run: "), "{other}");
        assert_eq!(failure(InMemory, TIME_LIMIT), None, "another store is not concerned");
    }
}
