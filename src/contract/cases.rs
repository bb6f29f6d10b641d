//! The list of all cases.

use super::harness::Harness;
use super::subject::{CaseResult, IntoCaseResult, Subject};

mod admitting;
mod contention;
mod extension;
mod holding;
mod logging;
mod looking;
mod naming;
mod outliving;
mod ownership;
pub(super) mod processes;
mod releasing;
mod tokens;

pub(super) type Case<H> = fn(&Subject<H>) -> CaseResult;

macro_rules! table {
    (($harness:ident) $($concept:ident { $($case:ident)* })*) => {
        vec![$($(
            (stringify!($case), (|subject| $concept::$case(subject).case_result()) as Case<$harness>),
        )*)*]
    };
}

/// All cases, in the order in which they run. `contract_tests!` and `check` use this list.
#[doc(hidden)]
#[macro_export]
macro_rules! __contract_cases {
    ([$($each:tt)+] $with:tt) => {
        $($each)+! { $with
            holding {
                all_handles_of_a_harness_are_for_one_store
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
                the_holder_tells_for_which_occurrence_it_holds
                the_holder_tells_its_application_and_its_instance
                each_of_several_names_is_told_that_is_held
                a_store_lists_the_leases_that_are_held_and_nothing_else
                a_prefix_is_text_and_no_pattern
            }
            ownership {
                a_second_forget_changes_nothing
                a_forget_after_the_end_changes_nothing
                a_late_forget_leaves_the_new_holder_alone
                a_late_release_of_several_leaves_the_new_holder_alone
            }
            naming {
                one_name_has_nothing_to_do_with_another
                odd_names_are_all_different_and_all_work
                a_lease_and_a_claim_never_collide
                a_permit_collides_with_nothing_else
                the_longest_names_are_told_apart_at_their_last_character
            }
            extension {
                a_store_says_whether_it_can_extend
                an_extension_moves_the_end_each_time
                an_extension_can_shorten
                an_extension_after_the_end_is_refused
                an_extension_after_a_forget_is_refused
                an_extension_after_a_break_is_refused
                a_late_extension_leaves_the_new_holder_alone
                several_extensions_are_independent
            }
            releasing {
                several_leases_are_released_in_order
                a_name_that_is_released_later_is_held_until_then
                a_later_release_shortens_and_lengthens
                a_later_release_of_what_is_not_ours_any_more_takes_nothing
                a_late_later_release_leaves_the_new_holder_alone
                several_later_releases_are_independent
                releases_of_one_batch_have_minimum_holds_of_their_own
                a_broken_name_is_free_and_its_holder_can_not_come_back
                breaking_a_free_name_changes_nothing
            }
            outliving {
                a_lease_with_a_lifeline_outlasts_its_term
                an_extension_does_not_end_a_lease_with_a_lifeline
                a_forget_frees_a_name_whoever_has_its_lifeline
                a_later_release_frees_a_name_whoever_has_its_lifeline
                a_break_frees_a_name_whoever_has_its_lifeline
                what_is_not_ours_any_more_gets_no_lifeline
                a_lease_without_a_lifeline_is_as_it_was
            }
            admitting {
                an_admission_is_granted_as_it_was_asked_for
                a_taken_lease_leaves_the_claim_free
                a_taken_claim_leaves_the_lease_free
                a_permit_is_a_claim_like_any_other
                an_expired_lease_and_claim_are_granted_again
                several_admissions_are_independent_and_in_order
                of_two_admissions_of_a_name_in_one_call_the_first_wins
                a_batch_releases_before_it_admits
                a_batch_does_not_admit_to_what_it_releases_later
                asking_for_nothing_answers_nothing
                an_admission_is_excluded_while_the_name_is_held
                an_exclusion_ends_with_the_term_of_its_name
                an_exclusion_ends_when_its_name_is_broken
                an_exclusion_is_looked_at_before_the_claim_and_the_lease
                admissions_that_share_an_excluding_name_are_decided_one_by_one
                an_admission_is_excluded_by_what_was_admitted_before_it
                each_of_several_names_excludes
                a_mark_is_admitted_with_another_and_released
            }
            logging {
                a_record_is_read_back_as_it_was_written
                an_end_takes_the_place_of_its_start_and_no_start_that_of_an_end
                the_newest_runs_stay_and_the_last_success
                runs_are_in_the_order_in_which_the_store_was_told_of_them
                skipped_occurrences_are_counted_beside_the_runs
                the_log_of_one_event_has_nothing_to_do_with_anything_else
                no_run_is_lost_and_none_too_many_stays_where_many_write_at_once
            }
            tokens {
                tokens_rise_over_forgetting
                tokens_rise_over_expiry
                tokens_rise_over_a_break
                tokens_rise_over_the_lease_and_all_claims_of_a_mutex
            }
            contention {
                of_eight_threads_exactly_one_wins_each_round
                of_many_who_take_over_an_expired_name_exactly_one_wins
                of_many_forgets_at_once_exactly_one_counts
                no_update_is_lost_between_threads
                of_racing_admissions_of_an_occurrence_exactly_one_is_granted
                an_admission_that_loses_the_claim_in_a_race_keeps_no_lease
                a_lost_race_consumes_no_occurrence
            }
            processes {
                of_four_processes_exactly_one_wins_each_name
                no_update_is_lost_between_processes
                the_name_of_a_killed_process_is_free_when_its_term_is_over
                a_process_that_was_late_can_not_come_back
                a_name_that_is_released_later_outlives_its_process
                a_lease_of_a_killed_process_lasts_as_long_as_a_command_has_its_lifeline
                a_lease_of_a_killed_process_ends_when_nobody_has_its_lifeline
            }
        }
    };
}

/// Returns all cases with their names, in the order in which they run.
pub(super) fn all<H: Harness>() -> Vec<(&'static str, Case<H>)> {
    __contract_cases!([table](H))
}
