//! Doctored histories: what is wrong in them is found, and what explains it is not taken for more than it is.

use std::time::Duration;

use super::{Count, Double, Overlap, Verdict, Why, judge};
use crate::history::{At, End, Fault, History, Life, written};
use crate::plan::{Kind, Protection};
use crate::worker_log::Line;

/// When the histories begin; before that is what a term or our slack reaches back to.
const BEGAN: At = 1_000_000_000_000;

fn at(milliseconds: u64) -> At {
    BEGAN + milliseconds * 1_000_000
}

/// Of two minutes, as the lines say: which worker, when in milliseconds, what, in which minute, and in any order
/// `token 7`, `by 2`, `lost 100`, `says so` and a reason. The workers 1 and 2 are the processes 1 and 2.
struct Doctored(History);

impl Doctored {
    #[track_caller]
    fn of(protection: Protection, text: &str) -> Self {
        let life = |pid: u32| Life {
            name: format!("worker {pid}"),
            pid,
            began: BEGAN,
            minutes: 0..2,
            lines: text.lines().filter_map(|line| read(line.trim(), pid)).collect(),
            end: End::Done,
        };
        Self(History {
            protection,
            events: vec!["report".into()],
            minutes: 2,
            minute: Duration::ZERO,
            term: Duration::from_secs(3),
            frees_at_once: false,
            outlives: false,
            is_slow: false,
            lives: vec![life(1), life(2)],
            faults: Vec::new(),
        })
    }

    fn with(mut self, kind: Kind, from: u64, until: u64, pid: Option<u32>) -> Self {
        let event = (kind == Kind::Broken).then(|| "report".into());
        self.0.faults.push(Fault { kind, from: at(from), until: at(until), pid, event });
        self
    }

    fn killed(mut self, pid: u32, when: u64) -> Self {
        self.life(pid).end = End::Killed(at(when));
        self.with(Kind::Killed, when, when, Some(pid))
    }

    fn life(&mut self, pid: u32) -> &mut Life {
        self.0.lives.iter_mut().find(|life| life.pid == pid).expect("there is one")
    }

    #[track_caller]
    fn passes(self) -> Verdict {
        let verdict = judge(&self.0);
        assert!(verdict.violations.is_empty(), "{:#?}", verdict.violations);
        verdict
    }

    /// This is wrong with it, and perhaps what follows from it.
    #[track_caller]
    fn fails_with(self, how: &str) -> Verdict {
        let verdict = judge(&self.0);
        let is_found = verdict.violations.iter().any(|violation| violation.contains(how));
        assert!(is_found, "nothing is said of {how:?}: {:#?}", verdict.violations);
        verdict
    }

    /// So many occurrences started nowhere, and this explains it.
    #[track_caller]
    fn loses(self, why: Why) {
        let verdict = self.passes();
        assert_eq!(lost(&verdict), [why]);
    }
}

/// Those that nothing explains, those past a term, and those whose lease was taken away.
fn overlaps(verdict: &Verdict) -> [usize; 3] {
    [Overlap::Unexplained, Overlap::PastItsTerm, Overlap::TakenAway].map(|why| verdict.of(Count::Overlapped(why)))
}

/// Those that nothing explains, and those whose store had lost its data.
fn doubles(verdict: &Verdict) -> [usize; 2] {
    [Double::Unexplained, Double::Emptied].map(|why| verdict.of(Count::StartedTwice(why)))
}

/// What explains the occurrences that did not start, each in its own words.
fn lost(verdict: &Verdict) -> Vec<Why> {
    let not_started = Count::ALL.into_iter().filter_map(|what| match what {
        Count::NotStarted(why) => Some((why, verdict.of(what))),
        _ => None,
    });
    not_started.flat_map(|(why, often)| std::iter::repeat_n(why, often)).collect()
}

#[track_caller]
fn read(line: &str, pid: u32) -> Option<Line> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [worker, when, what, minute, details @ ..] = &words[..] else { return None };
    if *worker != pid.to_string() {
        return None;
    }
    let after = |word: &str| details.iter().position(|detail| *detail == word).map(|place| details[place + 1]);
    let reasons = ["overlapping", "ran_elsewhere", "store_unavailable", "lease_lost"];
    Some(Line {
        at: at(when.parse().expect("milliseconds")),
        event: "report".into(),
        what: (*what).into(),
        occurrence: written(minute.parse().expect("a minute")),
        token: after("token").map(|token| token.parse().expect("a number")),
        late_ms: None,
        reason: details.iter().find(|detail| reasons.contains(detail)).map(ToString::to_string),
        holder: after("by").map(|holder| format!("web-1, pid {holder}, since noon")),
        text: after("says").map(|text| text.replace('_', " ")),
        lost_at: after("lost").map(|when| at(when.parse().expect("milliseconds"))),
    })
}

const FINE: &str = "
    1     0 start   0 token 1
    2     5 skipped 0 ran_elsewhere by 1
    1   100 end     0
    2 60000 start   1 token 2
    1 60005 skipped 1 overlapping by 2
    2 60100 end     1
";

/// `FINE`, but for one line.
#[track_caller]
fn with_line(old: &str, new: &str) -> String {
    assert!(FINE.contains(old), "{old} is not in it");
    FINE.replace(old, new)
}

#[test]
fn a_history_in_which_all_went_well_passes() {
    let verdict = Doctored::of(Protection::Both, FINE).passes();
    let [runs, undisturbed, due, started] =
        [Count::Runs, Count::UndisturbedRuns, Count::Due, Count::Started].map(|what| verdict.of(what));
    assert_eq!((runs, undisturbed, due, started), (2, 2, 2, 2));
    assert_eq!((overlaps(&verdict), doubles(&verdict), lost(&verdict)), ([0, 0, 0], [0, 0], vec![]));
    assert!(verdict.recoveries.is_empty());
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
    // What was taken from it at the store it can't know, and may hear of at its end.
    let taken = stopped(&late).with(Kind::Broken, 2000, 2000, Some(1)).passes();
    assert_eq!(overlaps(&taken), [0, 0, 1]);
    let at_its_end = STOPPED.replace("cancelled 0 lease_lost", "end 0");
    let at_its_end =
        at_its_end.replace("failed    0 lost 3000", "failed 0 says the_lease_was_lost_while_it_was_at_work");
    stopped(&at_its_end).with(Kind::Broken, 2000, 2000, Some(1)).passes();
    stopped(&at_its_end).fails_with("overlap");
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
fn a_lease_that_is_lost_without_cause_is_found() {
    let lost = with_line("1   100 end     0", "1   100 cancelled 0 lease_lost");
    Doctored::of(Protection::Both, &lost).fails_with("lost without cause");
    // It is renewed when the store is there again, as long as that is long enough before its end.
    let late = with_line("1   100 end     0", "1 5000 cancelled 0 lease_lost\n1 5001 failed 0 lost 5000");
    let cut = |from, until| Doctored::of(Protection::Both, &late).with(Kind::Cut, from, until, None);
    cut(3100, 4900).passes();
    cut(3100, 4200).fails_with("lost without cause");
    cut(3800, 4900).fails_with("lost without cause");
    cut(3100, 3600).with(Kind::ServerRestarted, 4000, 4900, None).passes();
    // A reply that does not come is waited for.
    cut(3100, 4200).with(Kind::ReplyDropped, 4500, 4550, None).passes();
    // Where each reply takes its time, the next renewal may come too late.
    let mut slow = cut(3100, 4200);
    slow.0.is_slow = true;
    slow.passes();
}

const TWICE: &str = "
    1     0 start   0 token 1
    1   100 end     0
    2   300 start   0 token 2
    2   400 end     0
    2 60000 start   1 token 3
    1 60005 skipped 1 overlapping by 2
    2 60100 end     1
";

#[test]
fn an_occurrence_that_starts_twice_is_found() {
    let twice = |protection| Doctored::of(protection, TWICE);
    assert_eq!(doubles(&twice(Protection::Both).fails_with("started twice")), [1, 0]);
    assert_eq!(doubles(&twice(Protection::Lease).passes()), [0, 0], "nothing speaks against it");
    let emptied = twice(Protection::Both).with(Kind::ServerEmptied, 150, 250, None).passes();
    assert_eq!(doubles(&emptied), [0, 1]);
    twice(Protection::Both).with(Kind::ServerEmptied, 5000, 6000, None).fails_with("started twice");
    twice(Protection::Both).with(Kind::ServerRestarted, 150, 250, None).fails_with("started twice");
}

#[test]
fn tokens_that_do_not_rise_are_found() {
    for token in ["1", "0"] {
        let again = with_line("1 token 2", &format!("1 token {token}"));
        Doctored::of(Protection::Both, &again).fails_with("tokens");
    }
    Doctored::of(Protection::Both, &with_line(" token 1", "")).fails_with("no token");
}

/// Nobody starts the first minute.
fn nowhere(first: &str, second: &str) -> Doctored {
    let text = with_line("1     0 start   0 token 1", "").replace("1   100 end     0", "");
    let text = text.replace("2     5 skipped 0 ran_elsewhere by 1", &format!("{first}\n{second}"));
    Doctored::of(Protection::Both, &text)
}

#[test]
fn an_occurrence_that_is_taken_and_never_started_is_found() {
    let taken = || nowhere("1 4 skipped 0 ran_elsewhere by 2", "2 5 skipped 0 ran_elsewhere by 1");
    assert_eq!(lost(&taken().fails_with("started nowhere")), [Why::Unexplained]);
    // Something was done to somebody, at another time.
    taken().with(Kind::Stopped, 50_000, 54_000, Some(1)).fails_with("started nowhere");
    taken().with(Kind::Cut, 4, 900, None).fails_with("started nowhere");
}

#[test]
fn whoever_was_killed_or_cut_off_before_the_start_explains_a_loss() {
    let mut killed = nowhere("", "2 5 skipped 0 ran_elsewhere by 1").killed(1, 6);
    killed.life(1).lines.clear();
    // Nobody is there who would meet the second run.
    killed.loses(Why::Killed);
    let cut_off = nowhere("1 4 skipped 0 store_unavailable", "2 5 skipped 0 ran_elsewhere by 1");
    cut_off.with(Kind::ReplyDropped, 1, 3, None).loses(Why::CutOff);
}

#[test]
fn whoever_was_admitted_and_stopped_before_the_start_explains_a_loss() {
    let stopped = || nowhere("1 4000 failed 0", "2 5 skipped 0 ran_elsewhere by 1");
    stopped().with(Kind::Stopped, 1, 3900, Some(1)).loses(Why::CutOff);
    stopped().fails_with("as not_started by None");
    stopped().with(Kind::Stopped, 1, 3900, Some(2)).fails_with("started nowhere");
}

#[test]
fn an_answer_of_overlapping_needs_a_run() {
    let overlapping = || nowhere("1 60101 skipped 0 overlapping by 2", "2 59999 skipped 0 overlapping by 1");
    overlapping().fails_with("as overlapping by");
    let alone =
        |by| nowhere(&format!("1 4 skipped 0 overlapping by {by}"), &format!("2 5 skipped 0 overlapping by {by}"));
    alone(3).fails_with("as overlapping by");
    // The run before this history was its.
    let mut met = alone(3);
    let mut other = met.life(1).clone();
    let start = |what: &str, when| Line { at: at(when), what: what.into(), ..other.lines[0].clone() };
    other.lines = vec![
        Line { token: Some(0), occurrence: written(9), ..start("start", 0) },
        Line { occurrence: written(9), ..start("end", 50) },
    ];
    (other.name, other.pid, other.minutes) = ("worker 3".into(), 3, 9..9);
    met.0.lives.push(other);
    met.loses(Why::Overlapping);
}

#[test]
fn a_store_that_answers_nobody_has_its_cause() {
    let unanswered = || nowhere("1 4 skipped 0 store_unavailable", "2 5 skipped 0 store_unavailable");
    unanswered().fails_with("as store_unavailable");
    unanswered().with(Kind::ServerStopped, 0, 3, None).loses(Why::Unanswered);
    unanswered().with(Kind::ServerStopped, 50_000, 53_000, None).fails_with("as store_unavailable");
}

#[test]
fn a_tick_that_is_not_accounted_for_is_found() {
    Doctored::of(Protection::Both, &with_line("2     5 skipped 0 ran_elsewhere by 1", "")).fails_with("tells 0 times");
    let twice = "1 60005 skipped 1 overlapping by 2\n1 60006 skipped 1 overlapping by 2";
    Doctored::of(Protection::Both, &with_line("1 60005 skipped 1 overlapping by 2", twice)).fails_with("tells 2 times");
    let mut badly = Doctored::of(Protection::Both, FINE);
    badly.life(1).end = End::Badly("signal: 11".into());
    badly.fails_with("ended badly: signal: 11");
}

#[test]
fn a_skip_for_another_reason_is_found() {
    let late = with_line("ran_elsewhere by 1", "too_late");
    Doctored::of(Protection::Both, &late).fails_with("as  by");
    Doctored::of(Protection::Lease, FINE).fails_with("as ran_elsewhere");
    Doctored::of(Protection::Claim, FINE).fails_with("as overlapping");
}

/// The first is killed in its task; the second runs the next minute.
fn killed(met: u64, next: u64) -> Doctored {
    let text = format!(
        "1 0 start 0 token 1
         2 {met} skipped 0 overlapping by 1
         2 {next} start 1 token 2
         2 {} end 1",
        next + 9
    );
    Doctored::of(Protection::Both, &text).killed(1, 50)
}

#[test]
fn a_killed_process_is_recovered_from() {
    let verdict = killed(1000, 3050).passes();
    assert_eq!(verdict.recoveries, [Duration::from_secs(3)]);
}

#[test]
fn a_killed_process_that_holds_its_event_for_too_long_is_found() {
    // The second is told so in its last minute, which began when the one before had ended.
    let holds = |since: u64| {
        let text =
            format!("1 0 start 0 token 1\n2 {since} skipped 0 overlapping by 1\n2 {since} skipped 1 overlapping by 1");
        Doctored::of(Protection::Both, &text).killed(1, 50)
    };
    holds(4000).passes();
    holds(4100).fails_with("as overlapping by Some(1) at 4.100 s without cause");
    let mut on_file = holds(1100);
    on_file.0.frees_at_once = true;
    on_file.fails_with("as overlapping by Some(1) at 1.100 s without cause");
}

#[test]
fn a_command_that_lives_on_beside_another_run_is_found() {
    let text = "
        1    0 start   0 token 1
        2    5 skipped 0 overlapping by 1
        2 3100 start   1 token 2
        1 3150 beat    0
        1 3160 end     0
        2 3200 end     1
    ";
    let mut orphan = Doctored::of(Protection::Both, text).killed(1, 50);
    orphan.0.outlives = true;
    orphan.fails_with("overlap");
}

/// The same without its last word, which is what a watchdog that comes too late leaves.
#[test]
fn a_command_that_is_ended_beside_another_run_is_found() {
    let text = "
        1    0 start   0 token 1
        2    5 skipped 0 overlapping by 1
        2 3100 start   1 token 2
        1 3150 beat    0
        2 3200 end     1
    ";
    let mut orphan = Doctored::of(Protection::Both, text).killed(1, 50).with(Kind::Delayed, 0, 20, None);
    orphan.0.outlives = true;
    orphan.fails_with("overlap");
}

#[test]
fn a_store_that_is_asked_in_vain_when_nothing_is_wrong_any_more_is_found() {
    let text = "
        1     5 skipped 0 store_unavailable
        2     5 skipped 0 store_unavailable
        1 60005 skipped 1 store_unavailable
        2 60005 skipped 1 store_unavailable
    ";
    let cut = Doctored::of(Protection::Both, text).with(Kind::Cut, 0, 1, None);
    assert!(cut.fails_with("as store_unavailable by None at 60.005 s").violations[0].contains("nothing ran at all"));
}

#[test]
fn a_lease_that_is_not_released_is_found() {
    let text = "
        1     0 start   0 token 1
        2     5 skipped 0 overlapping by 1
        1   100 end     0
        2  2500 skipped 1 overlapping by 1
        1  4500 skipped 1 overlapping by 1
    ";
    let held = || Doctored::of(Protection::Both, &text.replace("2     5", "2  2200"));
    held().fails_with("worker 2 skipped report of 2026-03-01T00:01:00Z as overlapping");
    // The store was out when it was to be released.
    held().with(Kind::Cut, 90, 900, None).passes();
}

#[test]
fn a_run_that_does_not_end_or_fails_for_no_reason_is_found() {
    Doctored::of(Protection::Both, &with_line("1   100 end     0", "")).fails_with("it started and did not end");
    let failed = |says: &str| {
        let failed = with_line("1   100 end     0", &format!("1 100 end 0\n1 101 failed 0 says {says}"));
        Doctored::of(Protection::Both, &failed)
    };
    let outage = |failed: Doctored| failed.with(Kind::ServerStopped, 90, 110, None);
    failed("exit_status:_101").fails_with("a run failed without cause");
    outage(failed("exit_status:_101")).fails_with("a run failed without cause");
    failed("the_lease_was_not_given_back").fails_with("a run failed without cause");
    outage(failed("the_lease_was_not_given_back")).passes();
    outage(failed("panicked")).fails_with("a run failed without cause");
    failed("panicked").with(Kind::Panicked, 50, 50, Some(1)).passes();
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
    // It had no time to be told.
    assert_eq!(overlaps(&judge(&killed(4100).0)), [0, 1, 0]);
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
fn a_claim_of_nobody_is_found() {
    Doctored::of(Protection::Both, &with_line("ran_elsewhere by 1", "ran_elsewhere by 77")).fails_with("by Some(77)");
    Doctored::of(Protection::Both, &with_line("ran_elsewhere by 1", "ran_elsewhere")).fails_with("by None");
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
fn what_was_granted_after_the_store_had_lost_its_data_is_not_granted_again() {
    let text = |since: u64| {
        format!(
            "1 {since} skipped 1 overlapping by 2
             1   2400 start   0 token 2
             1   2500 end     0
             2     10 start   1 token 1
             2   2390 end     1
             2   2600 start   0 token 3
             2   2700 end     0"
        )
    };
    let emptied = |since| Doctored::of(Protection::Both, &text(since)).with(Kind::ServerEmptied, 0, 500, None);
    assert_eq!(doubles(&emptied(490).passes()), [0, 1]);
    assert_eq!(doubles(&emptied(510).fails_with("started twice")), [1, 0]);
}

#[test]
fn a_lease_that_is_not_released_beside_another_fault_is_found() {
    let text = "
        1   10 start   0 token 1
        1  100 end     0
        2   20 skipped 0 overlapping by 1
        1 5000 skipped 1 overlapping by 1
        2 5000 skipped 1 overlapping by 1
    ";
    let mut killed = Doctored::of(Protection::Both, text).with(Kind::ConnectionsKilled, 1050, 1050, None);
    killed.0.minute = Duration::from_secs(5);
    killed.fails_with("as overlapping");
    // Its process has gone on.
    let gone_on =
        text.replace("1 5000 skipped 1", "1 1100 skipped 1").replace("2 5000", "2 2000").replace("2   20", "2 1900");
    let gone_on = Doctored::of(Protection::Both, &gone_on).with(Kind::ConnectionsKilled, 105, 105, None);
    gone_on.fails_with("as overlapping by Some(1) at 2.000 s");
}

#[test]
fn whoever_had_a_lease_and_did_not_start_explains_that_it_was_met() {
    let text = "
        1 3000 skipped 0 overlapping by 2
        2 2800 failed  0 says not_started
        1 3100 start   1 token 1
        1 3200 end     1
        2 3300 skipped 1 ran_elsewhere by 1
    ";
    let late = || Doctored::of(Protection::Both, text);
    late().fails_with("as not_started");
    late().with(Kind::ServerStopped, 1000, 2700, None).loses(Why::CutOff);
    let killed = |when| {
        let text = "1 1000 skipped 0 overlapping by 2\n1 5000 start 1 token 1\n1 5100 end 1";
        Doctored::of(Protection::Both, text).killed(2, when)
    };
    killed(1100).loses(Why::Killed);
    killed(2100).fails_with("as overlapping by Some(2)");
}

#[test]
fn whoever_was_granted_and_refused_at_the_second_asking_explains_that_it_was_met() {
    // The first is stopped when it has its grant, and asks again when it goes on: the lease has another by then.
    let text = "
        2   20 skipped 0 ran_elsewhere by 1
        2 4000 start   1 token 2
        1 4200 skipped 0 overlapping by 2
        1 4250 skipped 1 ran_elsewhere by 2
        2 4300 end     1
    ";
    let stopped = || Doctored::of(Protection::Both, text);
    stopped().with(Kind::Stopped, 15, 4150, Some(1)).loses(Why::CutOff);
    stopped().fails_with("as ran_elsewhere by Some(1)");
    stopped().with(Kind::Stopped, 15, 4150, Some(2)).fails_with("as ran_elsewhere by Some(1)");
}

#[test]
fn claims_of_several_occurrences_may_have_the_same_token() {
    let claims = |text: &str| Doctored::of(Protection::Claim, &text.replace("overlapping", "ran_elsewhere"));
    let same = with_line("1 token 2", "1 token 1");
    claims(&same).passes();
    claims(&TWICE.replace("0 token 2", "0 token 1")).fails_with("tokens: one that was there before");
}

#[test]
fn a_lease_of_who_is_stopped_is_met_also_for_occurrences_that_it_asks_for_later() {
    // The first was granted the minute before these, and has the next one to ask for when it goes on.
    let text = "
        2    20 skipped 0 overlapping by 1
        1  5000 skipped 0 store_unavailable
        2  5100 start   1 token 2
        2  5200 end     1
        1  5300 skipped 1 ran_elsewhere by 2
    ";
    let mut stopped = Doctored::of(Protection::Both, text).with(Kind::Stopped, 5, 4900, Some(1));
    let before = Line { at: at(4950), occurrence: written(9), ..stopped.life(1).lines[0].clone() };
    stopped.life(1).lines.insert(0, before);
    stopped.with(Kind::Cut, 4980, 5010, None).loses(Why::Overlapping);
}

#[test]
fn a_lease_that_is_broken_after_its_task_may_be_told_of_at_its_release() {
    let text = with_line("1   100 end     0", "1 100 end 0\n1 150 failed 0 says but_the_lease_was_lost");
    let broken = |when| Doctored::of(Protection::Both, &text).with(Kind::Broken, when, when, Some(1));
    broken(120).passes();
    broken(160).fails_with("a lease was lost without cause");
    // Nor does a server that stands still hear of the release before the term is over.
    let stopped = |from, until| Doctored::of(Protection::Both, &text).with(Kind::ServerStopped, from, until, None);
    stopped(90, 140).passes();
    stopped(50, 90).fails_with("a lease was lost without cause");
}

#[test]
fn more_losses_than_faults_are_found() {
    let cut_off = || {
        let first = nowhere("1 4 skipped 0 store_unavailable", "2 5 skipped 0 ran_elsewhere by 1").0;
        let mut both = Doctored(first);
        both.0.minutes = 3;
        both.life(1).minutes = 0..3;
        both.life(2).minutes = 0..3;
        let again: Vec<Line> = both.0.lives.iter().flat_map(|life| life.lines[..1].to_vec()).collect();
        for (pid, line) in (1..).zip(again) {
            both.life(pid).lines.push(Line { at: at(61_000), occurrence: written(2), ..line });
        }
        both
    };
    let cut = |history: Doctored, when| history.with(Kind::Cut, when, when + 1, None);
    cut(cut(cut_off(), 4), 60_990).passes();
    let once = cut_off().with(Kind::Cut, 4, 60_990, None);
    once.fails_with("2 occurrences were lost, CutOff, by 1 faults");
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
}
