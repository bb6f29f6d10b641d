//! Runs at the same time, and the tokens of runs one after another.

use super::super::judge;
use super::{Doctored, TWICE, overlaps, with_line};
use crate::checker::{Count, Overlap};
use crate::plan::{Kind, Protection};

#[test]
fn a_poll_of_a_future_that_begins_when_its_lease_is_over_is_found() {
    let polled = |what: &str| with_line("1   100 end     0", &format!("1 99 {what} 0\n1   100 end     0"));
    let verdict = Doctored::of(Protection::Both, &polled("poll_in_flight")).passes();
    assert_eq!(verdict.of(Count::PollsInFlight), 1);
    Doctored::of(Protection::Both, &polled("late_poll")).fails_with("a poll began when the lease was over");
}

#[test]
fn an_overlap_is_found() {
    let overlap = with_line("1   100 end     0", "1 60050 end     0");
    let verdict =
        Doctored::of(Protection::Both, &overlap.replace("1 60005 skipped", "1 60060 skipped")).fails_with("overlap");
    assert_eq!(overlaps(&verdict), [1, 0, 0]);
}

/// The first was stopped from its start on, and the second began meanwhile.
const STOPPED: &str = "
    1     0 start     0 token 5
    2     5 skipped   0 overlapping by 1
    2  4000 start     1 token 6
    1  4050 cancelled 0 lease_lost
    1  4055 failed    0 lost 3000
    1  4060 skipped   1 overlapping by 2
    2  4100 end       1
";

fn stopped(history: &str) -> Doctored {
    Doctored::of(Protection::Both, history).with(Kind::Stopped, 10, 4040, Some(1))
}

#[test]
fn an_overlap_with_who_was_stopped_is_fenced() {
    assert_eq!(overlaps(&stopped(STOPPED).passes()), [0, 1, 0]);
}

#[test]
fn it_is_not_if_whoever_was_stopped_was_not_told() {
    let unaware = STOPPED.replace("cancelled 0 lease_lost", "end 0").replace("1  4055 failed    0 lost 3000", "");
    stopped(&unaware).fails_with("overlap");
}

#[test]
fn it_is_not_if_whoever_was_stopped_lost_its_lease_after_the_second_had_begun() {
    let late = STOPPED.replace("lost 3000", "lost 4010");
    stopped(&late).fails_with("overlap");
    // The run cannot know of a loss at the store before its end.
    let taken = stopped(&late).with(Kind::Broken, 2000, 2000, Some(1)).passes();
    assert_eq!(overlaps(&taken), [0, 0, 1]);
    let at_its_end = STOPPED.replace("cancelled 0 lease_lost", "end 0");
    let at_its_end =
        at_its_end.replace("failed    0 lost 3000", "failed 0 says the_lease_was_lost_while_the_task_was_running");
    stopped(&at_its_end).with(Kind::Broken, 2000, 2000, Some(1)).passes();
    stopped(&at_its_end).fails_with("overlap");
}

/// Lets a run end between a loss of the store's data and its next renewal. Its release fails in another outage.
#[test]
fn an_overlap_after_a_loss_of_data_that_no_answer_told_is_known() {
    let unheard = "
        1    0 start   0 token 5
        2    5 skipped 0 overlapping by 1
        2  600 start   1 token 6
        1  950 end     0
        1 2955 failed  0 says the_lease_was_not_released
        1 2960 skipped 1 overlapping by 2
        2 3000 end     1
    ";
    let killed = || Doctored::of(Protection::Lease, unheard).with(Kind::PrimaryKilled, 590, 2800, None);
    assert_eq!(overlaps(&killed().with(Kind::ServerEmptied, 100, 500, None).passes()), [0, 0, 1]);
    killed().fails_with("overlap");
    Doctored::of(Protection::Lease, unheard).with(Kind::ServerEmptied, 100, 500, None).fails_with("overlap");
}

#[test]
fn it_is_fenced_too_if_whoever_was_stopped_was_killed_before_its_report() {
    let silenced =
        STOPPED.replace("1  4055 failed    0 lost 3000", "").replace("1  4060 skipped   1 overlapping by 2", "");
    assert_eq!(overlaps(&stopped(&silenced).killed(1, 4052).passes()), [0, 1, 0]);
    // If it was killed alone, the second was granted a lease that the first still held.
    Doctored::of(Protection::Both, &silenced).killed(1, 4052).fails_with("overlap");
}

#[test]
fn it_is_not_if_the_token_of_the_second_is_not_higher() {
    let verdict = judge(&stopped(&STOPPED.replace("token 6", "token 4")).0);
    assert_eq!(overlaps(&verdict), [1, 0, 0], "{:?}", verdict.violations);
}

#[test]
fn it_is_not_if_another_process_was_stopped() {
    let other = Doctored::of(Protection::Both, STOPPED).with(Kind::Stopped, 10, 4040, Some(2));
    assert_eq!(overlaps(&judge(&other.0)), [1, 0, 0]);
}

#[test]
fn tokens_that_do_not_rise_are_found() {
    for token in ["1", "0"] {
        let again = with_line("1 token 2", &format!("1 token {token}"));
        Doctored::of(Protection::Both, &again).fails_with("tokens");
    }
    Doctored::of(Protection::Both, &with_line(" token 1", "")).fails_with("no token");
}

/// The first was killed, and its command lives on.
const ORPHANED: &str = "
    1    0 start   0 token 1
    2    5 skipped 0 overlapping by 1
    2 3100 start   1 token 2
    1 3150 beat    0
    1 3160 end     0
    2 3200 end     1
";

fn orphaned(history: &str) -> Doctored {
    let mut orphaned = Doctored::of(Protection::Both, history).killed(1, 50);
    orphaned.0.outlives = true;
    orphaned
}

#[test]
fn a_command_that_lives_on_beside_another_run_is_found() {
    orphaned(ORPHANED).fails_with("overlap");
}

/// Leaves out the last word of the command: the trace of a watchdog that comes too late.
#[test]
fn a_command_that_is_ended_beside_another_run_is_found() {
    let ended = ORPHANED.replace("1 3160 end     0", "");
    orphaned(&ended).with(Kind::Delayed, 0, 20, None).fails_with("overlap");
}

#[test]
fn a_run_that_goes_on_long_after_it_was_told_is_found() {
    let late = STOPPED.replace("4050", "6550").replace("4055", "6555").replace("4060", "6560").replace("4100", "6600");
    stopped(&late).fails_with("overlap");
}

#[test]
fn an_overlap_that_ends_with_a_kill_is_found() {
    let text = |second: u64| {
        format!(
            "1 0 start 0 token 1
             2 5 skipped 0 overlapping by 1
             2 {second} start 1 token 2
             2 9000 end 1"
        )
    };
    let killed =
        |second| Doctored::of(Protection::Both, &text(second)).killed(1, 5050).with(Kind::Delayed, 0, 20, None);
    killed(100).fails_with("overlap");
    // The run had no time to be cancelled.
    assert_eq!(overlaps(&judge(&killed(4100).0)), [0, 1, 0]);
    let stopped_until = |until| killed(3100).with(Kind::Stopped, 10, until, Some(1));
    assert_eq!(overlaps(&judge(&stopped_until(4900).0)), [0, 1, 0]);
    stopped_until(3200).fails_with("overlap");
}

#[test]
fn tokens_fall_only_where_somebody_starts_late() {
    let fallen = with_line("0 token 1", "0 token 9");
    let killed = Doctored::of(Protection::Both, &fallen.replace("2 60100 end     1", "")).killed(2, 61_000);
    killed.fails_with("tokens");
    let claims = |text: &str| Doctored::of(Protection::Claim, text);
    claims(&fallen.replace("1 overlapping", "1 ran_elsewhere")).fails_with("tokens");
    // The clock of the second is ahead, and it was granted first.
    let late = "
        1   10 start   0 token 9
        1  100 end     0
        2 4000 start   1 token 2
        2 4100 end     1
        1 4200 skipped 1 ran_elsewhere by 2
        2 4200 skipped 0 ran_elsewhere by 1
    ";
    claims(late).passes();
    claims(&late.replace("2 4200 skipped 0", "2 20 skipped 0")).passes();
    let asked_later =
        format!("2 20 skipped 0 ran_elsewhere by 1{}", late.replace("2 4200 skipped 0 ran_elsewhere by 1", ""));
    claims(&asked_later).fails_with("tokens");
}

#[test]
fn whoever_had_its_lease_broken_before_it_started_has_the_lower_token() {
    let text = "
        2  50 skipped 0 overlapping by 1
        2 100 start   1 token 2
        1 101 start   0 token 1
        1 120 failed  0 says the_lease_was_lost lost 110
        2 125 end     1
        1 130 skipped 1 overlapping by 2
    ";
    let broken = |text: &str| Doctored::of(Protection::Both, text).with(Kind::Broken, 90, 91, Some(1));
    assert_eq!(overlaps(&broken(text).passes()), [0, 0, 1]);
    broken(&text.replace("says the_lease_was_lost lost 110", "")).fails_with("tokens");
    Doctored::of(Protection::Both, text).fails_with("tokens");
}

#[test]
fn whoever_is_cut_off_past_its_term_stops_at_its_end() {
    let cut = |stops: u64| {
        let text = format!(
            "1    0 start     0 token 5
             2    5 skipped   0 overlapping by 1
             2 3001 start     1 token 6
             1 {stops} cancelled 0 lease_lost
             1 {stops} failed 0 lost 3000
             1 5000 skipped   1 overlapping by 2
             2 4990 end       1"
        );
        Doctored::of(Protection::Both, &text).with(Kind::Cut, 10, 4000, None)
    };
    assert_eq!(overlaps(&cut(3050).passes()), [0, 1, 0]);
    cut(4900).fails_with("overlap");
}

#[test]
fn claims_of_several_occurrences_may_have_the_same_token() {
    let claims = |text: &str| Doctored::of(Protection::Claim, &text.replace("overlapping", "ran_elsewhere"));
    let same = with_line("1 token 2", "1 token 1");
    claims(&same).passes();
    claims(&TWICE.replace("0 token 2", "0 token 1")).fails_with("tokens: one that was there before");
}

#[test]
fn an_overlap_after_the_store_has_lost_its_data_is_fenced_when_it_is_told_of() {
    let text = "
        1     0 start     0 token 5
        2     5 skipped   0 overlapping by 1
        2   600 start     1 token 6
        1   950 cancelled 0 lease_lost
        1   955 failed    0 lost 950
        1   960 skipped   1 overlapping by 2
        2  1100 end       1
    ";
    let emptied = |text: &str| Doctored::of(Protection::Both, text).with(Kind::ServerEmptied, 100, 500, None);
    assert_eq!(overlaps(&emptied(text).passes()), [0, 0, 1]);
    emptied(&text.replace("cancelled 0 lease_lost", "end 0").replace("1   955 failed    0 lost 950", ""))
        .fails_with("overlap");
    Doctored::of(Protection::Both, text).with(Kind::ServerRestarted, 100, 500, None).fails_with("overlap");
    // The run ends by itself, and its process is killed before it logs the reply to the release.
    let killed = text.lines().filter(|line| !line.contains("failed") && !line.contains("1   960"));
    let killed = killed.map(|line| line.replace("cancelled 0 lease_lost", "end 0")).collect::<Vec<_>>().join("\n");
    assert_eq!(overlaps(&emptied(&killed).killed(1, 1000).passes()), [0, 0, 1]);
}

#[test]
fn two_primaries_explain_that_two_runs_overlap_if_the_grant_of_one_was_lost() {
    let text = TWICE.replace("2   300 start", "2    50 start").replace("2   400 end", "2   150 end");
    let failed_over = |lost| Doctored::of(Protection::Both, &text).failed_over(Kind::PrimaryStopped, 20, 60, lost);
    for lost in [1, 2] {
        assert_eq!(failed_over(lost).passes().of(Count::Overlapped(Overlap::TwoPrimaries)), 1);
    }
    failed_over(3).fails_with("overlap");
}

#[test]
fn two_runs_in_two_slots_do_not_overlap_and_in_one_they_do() {
    let of = |slot: usize| {
        let text = format!(
            "1   0 start 0 token 1 slot 0
             2   5 skipped 0 ran_elsewhere by 1
             2  50 start 1 token 2 slot {slot}
             1  60 skipped 1 ran_elsewhere by 2
             1 100 end 0
             2 110 end 1"
        );
        let mut doctored = Doctored::of(Protection::Both, &text.replace("1  60 skipped", "1 120 skipped"));
        doctored.0.slots = 2;
        doctored
    };
    of(1).passes();
    of(0).fails_with("overlap");
    of(2).fails_with("it has no slot of its event, but Some(2)");
}

#[test]
fn runs_of_two_events_overlap_where_these_share_a_mutex() {
    let text = "
        1   0 start   0 token 1
        2   5 skipped 0 ran_elsewhere by 1
        2  50 start   0 token 2 of other
        1 100 end     0
        2 110 end     0 of other
        1 120 skipped 0 ran_elsewhere by 2 of other
        1 200 start   1 token 3
        1 210 end     1
        1 220 start   1 token 4 of other
        1 230 end     1 of other
        2 240 skipped 1 ran_elsewhere by 1
        2 240 skipped 1 ran_elsewhere by 1 of other";
    let sharing = |text: &str| Doctored::of(Protection::Both, text).with_a_shared_mutex();
    sharing(text).fails_with("overlap: worker 1 (report");
    let mut alone = sharing(text);
    alone.0.shares_mutex = false;
    alone.passes();
    let after = text.replace("2  50 start", "2 101 start");
    sharing(&after).passes();
    sharing(&after.replace("token 2", "token 1")).fails_with("tokens");
    // The one is refused because of a run of the other.
    let met = after.replace("2   5 skipped 0 ran_elsewhere by 1", "2   5 skipped 0 overlapping by 1");
    let met = met.replace("1 220 start   1 token 4 of other", "1 205 skipped 1 overlapping by 1 of other");
    let met = met
        .replace("1 230 end     1 of other", "")
        .replace("1 ran_elsewhere by 1 of other", "1 overlapping by 1 of other");
    sharing(&met).passes();
}

#[test]
fn a_future_that_was_dropped_had_its_lease_until_its_report_says() {
    let of = |lost: &str| {
        let text = format!(
            "1     0 start   0 token 1
             2  2000 skipped 0 overlapping by 1
             1  3000 failed  0 {lost} says cancelled;_the_lease_was_lost
             1 60000 start   1 token 2
             2 60005 skipped 1 ran_elsewhere by 1
             1 60100 end     1"
        );
        let mut doctored = Doctored::of(Protection::Both, &text).with(Kind::Broken, 2763, 2763, Some(1));
        doctored.0.frees_at_once = true;
        doctored
    };
    of("lost 2763").passes();
    of("lost 500").fails_with("without cause");
}
