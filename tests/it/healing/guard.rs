//! The protection alone.

use super::*;

fn millis(count: u64) -> Term {
    Term::new(Duration::from_millis(count)).unwrap()
}

#[track_caller]
fn acquired(store: &MemoryMutex, term: Term) -> LeaseGuard {
    LeaseGuard::acquire(store, lease("g"), term).unwrap().expect("nobody holds it")
}

#[test]
fn a_guard_is_renewed_for_as_long_as_it_is_there() {
    let store = MemoryMutex::new();
    let held_for_three_terms = |term: u64| {
        let guard = acquired(&store, millis(term));
        let end = guard.lease().deadline().plus(2 * guard.lease().term().get());
        while Clock::system().moment() < end {
            let second = LeaseGuard::acquire(&store, lease("g"), millis(term)).unwrap();
            if guard.is_lost() {
                return None;
            }
            assert!(second.is_none(), "one at a time");
            // A real lease on the machine's clock.
            assert!(!guard.wait_lost(Duration::from_millis(10)) || guard.is_lost());
        }
        Some(guard.release().unwrap())
    };
    // A machine that stands still for two thirds of a term proves nothing: then once more, with a longer one.
    let released = [300, 300, 300, 1_000, 3_000, 9_000].into_iter().find_map(held_for_three_terms);
    assert_eq!(released, Some(true));
    assert!(!store.exists(&lease("g")).unwrap());
}

#[test]
fn a_guard_whose_lease_was_broken_knows_within_a_term() {
    let clock = ManualClock::at(noon());
    let store = MemoryMutex::with_clock(&clock);
    let guard = acquired(&store, Term::DEFAULT);
    assert!(store.break_lease(&lease("g")).unwrap().is_some());
    assert!(!guard.is_lost(), "nobody knows yet");
    clock.advance(THIRD);
    until(|| guard.is_lost()).expect("it is told at its next renewal");
    assert!(guard.is_lost() && !guard.release().unwrap());
}

#[test]
fn a_guard_whose_lease_was_broken_knows_as_soon_as_its_process_asks_for_the_name_again() {
    let store = MemoryMutex::with_clock(ManualClock::at(noon()));
    let guard = acquired(&store, Term::DEFAULT);
    assert!(store.break_lease(&lease("g")).unwrap().is_some());
    let second = LeaseGuard::acquire(&store, lease("g"), Term::DEFAULT).unwrap();
    assert!(second.is_none(), "the first one may still be at work");
    until(|| guard.is_lost()).expect("it is told by a renewal that is sent at once");
    let next = acquired(&store, Term::DEFAULT);
    assert!(!guard.release().unwrap(), "it was not ours any more");
    assert!(!next.is_lost() && next.release().unwrap(), "the new holder was left alone");
}

#[test]
fn a_guard_that_is_not_lost_waits_for_as_long_as_it_is_told() {
    let guard = acquired(&MemoryMutex::new(), Term::MAX);
    let before = Clock::system().moment();
    assert!(!guard.wait_lost(Duration::from_millis(20)));
    assert!(Clock::system().moment().since(before) >= Duration::from_millis(20));
}

#[test]
fn a_fixed_guard_ends_with_its_term() {
    let store = MemoryMutex::new();
    let guard = LeaseGuard::acquire_for(&store, lease("g"), millis(3_000)).unwrap().expect("nobody holds it");
    assert!(guard.wait_lost(PATIENCE) && guard.is_lost());
    let next = acquired(&store, Term::MAX);
    assert!(!guard.release().unwrap());
    assert!(next.release().unwrap());
}

#[test]
fn a_store_that_can_not_extend_has_fixed_guards_only() {
    let store = Arc::new(plain());
    let error = LeaseGuard::acquire(&store, lease("g"), Term::MAX).unwrap_err();
    let advice = "this store can't extend a lease, which `acquire` and `acquire_within` need: use `acquire_for`";
    assert_eq!((error.is_unsupported(), format!("{error:?}")), (true, advice.to_owned()));
    let guard = LeaseGuard::acquire_for(&store, lease("g"), Term::MAX).unwrap().expect("nobody holds it");
    assert!(LeaseGuard::acquire_for(&store, lease("g"), Term::MAX).unwrap().is_none());
    assert!(guard.release().unwrap());
}

#[test]
fn a_term_that_would_be_renewed_all_the_time_is_refused() {
    let error = LeaseGuard::acquire(&MemoryMutex::new(), lease("g"), millis(99)).unwrap_err();
    let advice = "could not create lease/g: the term is 99ms, but `acquire` and `acquire_within` need 100ms or longer: use `acquire_for`";
    assert_eq!(format!("{error:?}"), advice);
    let store = MemoryMutex::with_clock(ManualClock::at(noon()));
    assert!(LeaseGuard::acquire(&store, lease("g"), millis(100)).unwrap().is_some());
}

#[test]
fn a_guard_whose_term_was_over_before_it_came_is_given_back() {
    let store = Arc::new(plain());
    // The store is slower than the term.
    let error = LeaseGuard::acquire_for(&store, lease("slow"), millis(1)).unwrap_err();
    let why = "could not admit lease/slow: the store answered after the term of the lease was over; choose a term that is longer than \
               the store's timeout";
    assert_eq!(format!("{error:?}"), why);
    assert!(!store.exists(&lease("slow")).unwrap());
}

#[test]
fn a_store_of_a_fleet_that_forgot_gives_no_second_guard_beside_one_of_this_process() {
    let inner = MemoryMutex::new();
    let store = Arc::new(Scripted::over(inner.clone()).scope(Scope::Fleet));
    let guard = LeaseGuard::acquire(&store, lease("g"), Term::MAX).unwrap().expect("nobody holds it");
    assert!(inner.break_lease(&lease("g")).unwrap().is_some(), "the server has lost its memory");
    assert!(LeaseGuard::acquire(&store, lease("g"), Term::MAX).unwrap().is_none());
    assert!(!inner.exists(&lease("g")).unwrap(), "what it granted was given back");
    drop(guard);
    assert!(LeaseGuard::acquire(&store, lease("g"), Term::MAX).unwrap().is_some());
}

#[test]
fn a_fixed_guard_whose_lease_was_broken_stands_in_nobodys_way() {
    let inner = MemoryMutex::new();
    let store = Arc::new(Scripted::over(inner.clone()).scope(Scope::Fleet));
    let broken = LeaseGuard::acquire_for(&store, lease("g"), Term::MAX).unwrap().expect("nobody holds it");
    for acquire in [LeaseGuard::acquire_for, LeaseGuard::acquire] {
        assert!(inner.break_lease(&lease("g")).unwrap().is_some());
        let next = acquire(&store, lease("g"), Term::MAX).unwrap().expect("an operator has freed it");
        assert!(!next.is_lost());
        // The next one finds it as the first did.
        std::mem::forget(next);
    }
    assert!(!broken.is_lost() && !broken.release().unwrap(), "it was never asked for");
}
