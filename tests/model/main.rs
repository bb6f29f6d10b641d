//! The protocol, checked exhaustively for three servers: each test tries every order of all steps.
//!
//! Promises 1, 2, 4 and 7 are the properties, see `promises`. Any server may be late at any step, like a stopped
//! process; there is one fault besides. Not modelled: claims that expire, and admissions that are too late for
//! them; clocks that run at different speeds; and a store that breaks its word.

use soloist_model::queue::{
    EACH_WAITS_ONCE, FULL_IS_FULL, IN_THEIR_ORDER, NOBODY_OVERTAKES, QueueFlaw, QueueModel, THE_LATEST_REPLACES, Ticks,
    WHAT_WAITED_STARTS, queue_breaks, queue_holds,
};
use soloist_model::{Admit, Broken, Variant, breaks, holds, promises};

/// Checks every order, also those in which a task fails and starts again.
#[test]
fn the_promises_hold_where_the_store_admits_at_once() {
    holds(Variant { admit: Admit::AtOnce, broken: None, faults: 1, retries: true });
}

#[test]
fn the_promises_hold_where_the_store_admits_in_steps() {
    holds(Variant { admit: Admit::InSteps, broken: None, faults: 1, retries: false });
}

#[track_caller]
fn is_found(admit: Admit, broken: Broken, faults: u8, promise: &'static str) {
    let retries = matches!(broken, Broken::RetriesPastItsDeadline | Broken::ReleasesToWait);
    breaks(Variant { admit, broken: Some(broken), faults, retries }, promise);
}

#[test]
fn a_forget_that_ignores_the_owner_is_found() {
    is_found(Admit::AtOnce, Broken::ForgetIgnoresOwner, 0, promises::ONLY_THE_OWNER);
    is_found(Admit::AtOnce, Broken::ForgetIgnoresOwner, 0, promises::ONE_AT_A_TIME);
}

#[test]
fn an_extend_that_ignores_the_owner_is_found() {
    is_found(Admit::AtOnce, Broken::ExtendIgnoresOwner, 0, promises::ONLY_THE_OWNER);
}

#[test]
fn a_claim_that_is_taken_before_the_lease_is_found() {
    is_found(Admit::InSteps, Broken::ClaimBeforeLease, 0, promises::SOMEBODY_RUNS);
}

#[test]
fn a_deadline_that_counts_from_the_reply_is_found() {
    is_found(Admit::AtOnce, Broken::DeadlineAfterReply, 0, promises::ONE_AT_A_TIME);
    is_found(Admit::InSteps, Broken::DeadlineAfterReply, 0, promises::ONE_AT_A_TIME);
}

#[test]
fn a_renewal_that_gives_up_at_the_first_error_is_found() {
    is_found(Admit::AtOnce, Broken::RenewalGivesUp, 1, promises::CANCELLED_FOR_A_REASON);
}

#[test]
fn a_token_that_starts_again_is_found() {
    is_found(Admit::AtOnce, Broken::TokenStartsAgain, 0, promises::TOKENS_RISE);
    is_found(Admit::AtOnce, Broken::TokenStartsAgain, 0, promises::FENCED);
}

#[test]
fn a_grant_that_is_run_although_it_came_too_late_is_found() {
    is_found(Admit::AtOnce, Broken::LateGrantRuns, 0, promises::UNDER_A_LEASE);
}

#[test]
fn a_claim_that_is_given_back_after_the_run_is_found() {
    is_found(Admit::AtOnce, Broken::ClaimGivenBack, 0, promises::STARTS_ONCE);
}

#[test]
fn an_owner_who_is_not_known_again_is_found() {
    is_found(Admit::AtOnce, Broken::RetryIsStranger, 1, promises::KNOWN_AGAIN);
}

#[test]
fn a_claim_that_a_late_copy_takes_back_is_found() {
    is_found(Admit::AtOnce, Broken::LateCopyTakesClaimBack, 1, promises::STARTS_ONCE);
}

#[test]
fn a_retry_that_begins_when_its_deadline_has_passed_is_found() {
    is_found(Admit::AtOnce, Broken::RetriesPastItsDeadline, 0, promises::UNDER_A_LEASE);
}

#[test]
fn a_run_that_releases_its_lease_while_it_waits_for_a_retry_is_found() {
    is_found(Admit::AtOnce, Broken::ReleasesToWait, 0, promises::UNDER_A_LEASE);
    is_found(Admit::AtOnce, Broken::ReleasesToWait, 0, promises::ONE_AT_A_TIME);
}

#[test]
fn a_queue_keeps_its_promises_whoever_crashes() {
    for (ticks, places, crashes) in [(Ticks::All, 1, 2), (Ticks::All, 2, 2), (Ticks::OneEach, 3, 1)] {
        for crashes in [0, crashes] {
            queue_holds(QueueModel { flaw: None, ticks, places, replaces: false, crashes });
        }
    }
}

#[test]
fn what_replaces_a_run_keeps_the_promises_of_a_queue_and_is_the_latest() {
    for (ticks, places, crashes) in [(Ticks::All, 2, 2), (Ticks::OneEach, 3, 1)] {
        for crashes in [0, crashes] {
            queue_holds(QueueModel { flaw: None, ticks, places, replaces: true, crashes });
        }
    }
}

#[track_caller]
fn is_found_in_a_queue(flaw: QueueFlaw, places: usize, crashes: u8, promise: &'static str) {
    let replaces = promise == THE_LATEST_REPLACES;
    queue_breaks(QueueModel { flaw: Some(flaw), ticks: Ticks::All, places, replaces, crashes }, promise);
}

#[test]
fn newcomers_that_look_at_no_place_are_found() {
    is_found_in_a_queue(QueueFlaw::NewcomersLookAtNoPlace, 1, 0, NOBODY_OVERTAKES);
}

#[test]
fn a_newcomer_that_takes_the_last_place_is_found() {
    is_found_in_a_queue(QueueFlaw::TakesTheLastPlace, 2, 0, FULL_IS_FULL);
}

#[test]
fn an_order_of_places_is_found() {
    is_found_in_a_queue(QueueFlaw::CountsPlaces, 2, 0, IN_THEIR_ORDER);
}

#[test]
fn a_place_that_is_left_before_the_run_is_granted_is_found() {
    is_found_in_a_queue(QueueFlaw::LeavesItsPlaceFirst, 1, 0, NOBODY_OVERTAKES);
    is_found_in_a_queue(QueueFlaw::LeavesItsPlaceFirst, 1, 0, EACH_WAITS_ONCE);
}

#[test]
fn an_occurrence_that_is_waited_for_twice_is_found() {
    is_found_in_a_queue(QueueFlaw::WaitsForNothingInParticular, 2, 0, EACH_WAITS_ONCE);
}

#[test]
fn a_waiter_that_none_looks_for_is_found() {
    is_found_in_a_queue(QueueFlaw::LooksForNoWaiter, 1, 1, WHAT_WAITED_STARTS);
}

#[test]
fn a_cancellation_without_a_token_is_found() {
    is_found_in_a_queue(QueueFlaw::CancelsWithoutAToken, 2, 0, THE_LATEST_REPLACES);
}

#[test]
fn an_earlier_occurrence_that_replaces_a_later_one_is_found() {
    is_found_in_a_queue(QueueFlaw::LooksAtNoOccurrence, 2, 0, THE_LATEST_REPLACES);
}
