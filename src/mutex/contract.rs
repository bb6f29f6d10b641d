//! The behaviour suite that every [`EventMutex`] passes: the words of its contract as tests, for a store of your own.
//!
//! A [`Harness`] gives the suite the store, a way to let time pass, and, where there is one, an independent look.
//! [`contract_tests!`](crate::contract_tests) turns it into one `#[test]` a case; [`check`] runs the same cases in a
//! program. The feature belongs into the dev-dependencies:
//!
//! ```toml
//! [dev-dependencies]
//! soloist = { version = "0.1", features = ["contract-tests"] }
//! ```
//!
//! Every case uses names of its own, so the suite runs on a store that others use at the same time, and any number of
//! cases beside one another. A case that a store can't be asked, because it keeps no holders, say, tests that the
//! store says so each time, and prints why the rest does not apply. What a case leaves behind expires in ten minutes.

use std::any::{Any, TypeId};
use std::fmt;
use std::panic;
use std::process;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::clock::Clock;
use crate::lease::{MutexName, Term};
use crate::mutex::EventMutex;

mod subject;
mod race;
mod child;
mod holding;
mod looking;
mod ownership;
mod names;
mod extension;
mod breaking;
mod admission;
mod tokens;
mod contention;
mod processes;

use child::{Entry, Part};
use subject::{Subject, Verdict};

/// How the suite reaches a store.
///
/// ```
/// use std::time::Duration;
/// use soloist::contract::Harness;
/// use soloist::{Clock, ManualClock, MemoryMutex};
///
/// struct InMemory(ManualClock, MemoryMutex);
///
/// impl InMemory {
///     fn new() -> Self {
///         let clock = ManualClock::at(chrono::DateTime::UNIX_EPOCH);
///         Self(clock.clone(), MemoryMutex::with_clock(clock))
///     }
/// }
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
/// soloist::contract_tests!(InMemory::new());
/// # fn main() {}
/// ```
pub trait Harness: Sized + Send + Sync + 'static {
    /// The store, or a handle on it: `Arc<dyn EventMutex>` is one too.
    type Mutex: EventMutex;

    /// A handle on the store under test, the same store each time.
    fn mutex(&self) -> Self::Mutex;

    /// The clock on which requests are made and deadlines measured: the machine's, unless the store has one injected.
    fn clock(&self) -> Clock {
        Clock::system()
    }

    /// Returns when at least `by` has passed on the store's clock; `by` is never less than
    /// [`short_term`](Self::short_term). The default sleeps.
    ///
    /// A clock that is moved belongs to a store that no other harness sees, or its leases end too.
    fn let_time_pass(&self, by: Duration) {
        thread::sleep(by);
    }

    /// The length of the leases that the suite lets expire, and so the smallest step of its time. It has to be long
    /// enough for a few round trips on a busy machine; a case that was too slow to see a lease before its end
    /// tries again. The default is 250 milliseconds.
    fn short_term(&self) -> Term {
        Term::new(Duration::from_millis(250)).expect("250 milliseconds are a term")
    }

    /// Whether the name is held now, seen past the store's own code, with a raw client say; an expired entry is not
    /// held. `None`, the default: there is no other way to look.
    fn witness(&self, name: &MutexName) -> Option<bool> {
        let _ = name;
        None
    }

    /// Where another process finds this store. `None`, the default: only this process sees it, and the cases that
    /// start processes do not apply. A store with an address is on the clock that its processes share.
    fn address(&self) -> Option<String> {
        None
    }

    /// The store at the [`address`](Self::address) of a harness in another process. It is not this one's to remove.
    ///
    /// # Panics
    ///
    /// The default panics: a store without an address is never opened by one.
    fn at(address: &str) -> Self {
        panic!("the harness gave the address {address:?}, and has no `at` that opens it");
    }
}

/// Every case, in the order in which they run. This one list feeds both [`contract_tests!`] and [`check`].
#[doc(hidden)]
#[macro_export]
macro_rules! __contract_cases {
    ([$($each:tt)+] $with:tt) => {
        $($each)+! { $with
            holding {
                a_free_name_is_granted_as_it_was_asked_for
                a_held_name_is_refused_and_its_holder_left_alone
                a_forgotten_name_is_free_again
                an_expired_name_is_free_again
                a_lease_lasts_for_its_whole_term
            }
            looking {
                looking_at_a_free_name_leaves_it_free
                looking_at_a_held_name_does_not_end_it
                looking_at_a_held_name_does_not_prolong_it
                looking_never_makes_a_create_fail
                the_holder_is_told_truly_or_not_at_all
            }
            ownership {
                a_second_forget_changes_nothing
                a_forget_after_the_end_changes_nothing
                a_late_forget_leaves_the_new_holder_alone
                a_late_release_of_several_leaves_the_new_holder_alone
            }
            names {
                one_name_has_nothing_to_do_with_another
                odd_names_are_all_different_and_all_work
                a_lease_and_a_claim_never_collide
                the_longest_names_are_told_apart_at_their_last_character
            }
            extension {
                an_extension_moves_the_end_each_time
                an_extension_can_shorten
                an_extension_after_the_end_is_refused
                an_extension_after_a_forget_is_refused
                a_late_extension_leaves_the_new_holder_alone
                several_extensions_are_independent
            }
            breaking {
                a_broken_name_is_free_and_its_holder_can_not_come_back
                breaking_a_free_name_changes_nothing
            }
            admission {
                an_admission_is_granted_as_it_was_asked_for
                a_taken_lease_leaves_the_claim_free
                a_taken_claim_leaves_the_lease_free
                an_expired_lease_and_claim_are_granted_again
                several_admissions_are_independent_and_in_order
                of_two_admissions_of_a_name_in_one_call_the_first_wins
                asking_for_nothing_answers_nothing
                several_leases_are_released_in_order
                of_racing_admissions_of_an_occurrence_exactly_one_is_granted
                an_admission_that_loses_the_claim_in_a_race_keeps_no_lease
                a_lost_race_consumes_no_occurrence
            }
            tokens {
                tokens_rise_over_forgetting
                tokens_rise_over_expiry
                tokens_rise_over_a_break
                tokens_rise_over_the_lease_and_all_claims_of_a_mutex
            }
            contention {
                of_eight_threads_exactly_one_wins_each_of_a_thousand_rounds
                of_many_who_take_over_an_expired_name_exactly_one_wins
                of_many_forgets_at_once_exactly_one_counts
                no_update_is_lost_between_threads
            }
            processes {
                of_four_processes_exactly_one_wins_each_of_a_thousand_names
                no_update_is_lost_between_processes
                the_name_of_a_killed_process_is_free_when_its_term_is_over
                a_process_that_was_late_can_not_come_back
            }
        }
    };
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

/// One `#[test]` for each case of the suite, in the module where it stands. Takes what makes a [`Harness`]; it is
/// evaluated once for each case, so a harness over a server shares the server.
///
/// The cases that need other processes start this test binary again, with one test of this module as the filter and
/// environment variables that begin with `SOLOIST_CONTRACT_`.
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
///     soloist::contract_tests!(super::InMemory::default());
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

type Case<H> = fn(&Subject<H>) -> Verdict;

macro_rules! table {
    (($harness:ident) $($concept:ident { $($case:ident)* })*) => {
        [$($(
            (stringify!($case), (|subject| Verdict::from($concept::$case(subject))) as Case<$harness>),
        )*)*]
    };
}

/// Runs every case in order and prints a line for each, for programs without a test harness.
///
/// `make` is called once for each case. The cases that need other processes start this program again, with the same
/// arguments: there this function plays its part in the case and ends the process.
///
/// # Errors
///
/// The cases that failed, with what each saw. The other cases ran all the same.
///
/// ```
/// use std::time::Duration;
/// use soloist::contract::{self, Harness};
/// use soloist::{Clock, ManualClock, MemoryMutex};
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
        Some(Part::Here { address, run, role }) => {
            child::play::<H>(&address, run, &role);
            process::exit(0);
        }
        Some(Part::Elsewhere) => return Ok(()),
        None => {}
    }
    let cases = __contract_cases!([table](H));
    let (mut passed, mut failed) = (0, Vec::new());
    for (name, case) in cases {
        match run(name, case, make(), Entry::Program) {
            Ok(Verdict::Passed) => {
                passed += 1;
                println!("{name}: passed");
            }
            Ok(Verdict::DoesNotApply(why)) => println!("{name}: does not apply, {why}"),
            Err(panic) => {
                println!("{name}: FAILED");
                failed.push((name, message(&*panic).to_owned()));
            }
        }
    }
    println!("{} cases: {passed} passed, {} failed", cases.len(), failed.len());
    if failed.is_empty() { Ok(()) } else { Err(Failed { cases: failed }) }
}

/// The cases of [`check`] that failed. `Debug` reads like `Display`, so that `main` can return it.
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
    /// Their names, in the order in which they ran; there is at least one.
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
        f.write_str("the store breaks its contract")?;
        self.cases.iter().try_for_each(|(name, saw)| write!(f, "\n  {name}: {saw}"))
    }
}

impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failed {}

/// Runs one case as the `#[test]` of its name in `module`.
///
/// # Panics
///
/// As the case does.
#[doc(hidden)]
pub fn run_as_test<H: Harness>(case: &str, module: &str, harness: H) {
    let cases = __contract_cases!([table](H));
    let (name, function) = cases
        .into_iter()
        .find(|(name, _)| *name == case)
        .unwrap_or_else(|| panic!("no case is called {case}, although the tests were made from their list"));
    match run(name, function, harness, Entry::test_in(module)) {
        Ok(Verdict::Passed) => {}
        Ok(Verdict::DoesNotApply(why)) => println!("does not apply, {why}"),
        Err(panic) => {
            eprintln!("{name}: {}", message(&*panic));
            panic::resume_unwind(panic);
        }
    }
}

/// The test at which the processes of other cases begin; in a process that no case started it has nothing to do.
#[doc(hidden)]
pub fn run_as_child<H: Harness>(_make: impl FnOnce() -> H) {
    if let Some(Part::Here { address, run, role }) = child::part_of::<H>() {
        child::play::<H>(&address, run, &role);
    }
}

/// How long one case may take. A store that never answers fails the suite; it does not hang it.
const PATIENCE: Duration = Duration::from_secs(60);

fn run<H: Harness>(
    name: &'static str,
    case: Case<H>,
    harness: H,
    entry: Entry,
) -> Result<Verdict, Box<dyn Any + Send>> {
    /// The harnesses of which a case did not end: the others are spared the wait.
    static HANGING: Mutex<Vec<TypeId>> = Mutex::new(Vec::new());
    let hanging = || HANGING.lock().unwrap_or_else(PoisonError::into_inner);

    if hanging().contains(&TypeId::of::<H>()) {
        return Err(Box::new("it was not run: the store left another case without an answer".to_owned()));
    }
    let (running, ended) = mpsc::channel::<()>();
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _running = running;
        case(&Subject::new(harness, entry))
    });
    let thread = thread.expect("a thread for the case can be started");
    if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
        hanging().push(TypeId::of::<H>());
        let promised = "promised: nothing blocks for longer than a few seconds";
        return Err(Box::new(format!("{promised}; but the case did not end within {PATIENCE:?}")));
    }
    thread.join()
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked without a message")
}
