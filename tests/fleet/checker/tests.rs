//! Doctored histories: each wrong history is found, and a fault excuses no more than it explains.

mod answers;
mod attempts;
mod logged;
mod occurrences;
mod overlaps;
mod pauses;
mod places;
mod queues;

use std::time::Duration;

use super::{Count, Double, Overlap, Verdict, Why, judge};
use crate::history::{At, End, Fault, History, Life, Pause, written};
use crate::plan::{Kind, OnOverlap, Protection};
use crate::worker_log::Line;

/// The begin of the histories, later than any term or slack.
const BEGAN: At = 1_000_000_000_000;

fn at(milliseconds: u64) -> At {
    BEGAN + milliseconds * 1_000_000
}

/// A history of two minutes. A line has: worker, time in milliseconds, word, minute, and in any order `token 7`,
/// `by 2`, `lost 100`, `says so`, `of other` and a reason. The default event is `report`. The workers 1 and 2 are
/// the processes 1 and 2.
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
            on_overlap: OnOverlap::Skip,
            slots: 1,
            shares_mutex: false,
            is_filtered: false,
            events: vec!["report".into()],
            minutes: 2,
            minute: Duration::ZERO,
            term: Duration::from_secs(3),
            frees_at_once: false,
            outlives: false,
            retries: None,
            is_slow: false,
            lingers: Duration::ZERO,
            limit: Duration::from_secs(2),
            late: Duration::ZERO,
            lives: vec![life(1), life(2)],
            faults: Vec::new(),
            pauses: Vec::new(),
            log: (0, Vec::new()),
        })
    }

    fn with(mut self, kind: Kind, from: u64, until: u64, pid: Option<u32>) -> Self {
        let event = (kind == Kind::Broken).then(|| "report".into());
        self.0.faults.push(Fault { kind, from: at(from), until: at(until), pid, event, lost: Vec::new() });
        self
    }

    /// Adds a failover, which has lost the claim with this token.
    fn failed_over(self, kind: Kind, from: u64, until: u64, token: u64) -> Self {
        let mut history = self.with(kind, from, until, None);
        history.0.faults.last_mut().expect("it was added").lost.push(token);
        history
    }

    /// Adds a second event, `other`, under the mutex of the first.
    fn with_a_shared_mutex(mut self) -> Self {
        self.0.events.push("other".into());
        self.0.shares_mutex = true;
        self
    }

    /// Adds a pause of `report` by process 9, which was confirmed after 10 ms and is over when its operator ends it.
    fn paused(mut self, from: u64, until: u64) -> Self {
        let confirmed = Some(at(from + 10));
        let (event, from, until) = ("report".into(), at(from), at(until));
        self.0.pauses.push(Pause { event, by: 9, from, confirmed, until, over: until });
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

    /// Asserts that this violation is found. Others may follow from it.
    #[track_caller]
    fn fails_with(self, how: &str) -> Verdict {
        let verdict = judge(&self.0);
        let is_found = verdict.violations.iter().any(|violation| violation.contains(how));
        assert!(is_found, "nothing is said of {how:?}: {:#?}", verdict.violations);
        verdict
    }

    /// Asserts that one occurrence started nowhere, for this reason.
    #[track_caller]
    fn loses(self, why: Why) {
        let verdict = self.passes();
        assert_eq!(lost(&verdict), [why]);
    }
}

/// Returns the overlaps without an explanation, those past a term, and those whose lease was taken away.
fn overlaps(verdict: &Verdict) -> [usize; 3] {
    [Overlap::Unexplained, Overlap::PastItsTerm, Overlap::TakenAway].map(|why| verdict.of(Count::Overlapped(why)))
}

/// Returns the double starts without an explanation, those after a loss of data, and those whose claim a failover
/// lost.
fn doubles(verdict: &Verdict) -> [usize; 3] {
    [Double::Unexplained, Double::Emptied, Double::FailedOver].map(|why| verdict.of(Count::StartedTwice(why)))
}

/// Returns the reasons why occurrences did not start.
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
    let reasons = [
        "overlapping",
        "ran_elsewhere",
        "store_unavailable",
        "lease_lost",
        "queued",
        "queue_full",
        "queued_too_long",
        "replaced",
        "paused",
    ];
    Some(Line {
        at: at(when.parse().expect("milliseconds")),
        event: after("of").unwrap_or("report").into(),
        what: (*what).into(),
        occurrence: written(minute.parse().expect("a minute")),
        token: after("token").map(|token| token.parse().expect("a number")),
        slot: after("slot").map(|slot| slot.parse().expect("a number")),
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

/// Returns `FINE` with one line replaced.
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
    assert_eq!((overlaps(&verdict), doubles(&verdict), lost(&verdict)), ([0, 0, 0], [0, 0, 0], vec![]));
    assert!(verdict.recoveries.is_empty());
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

/// Makes a history: the first minute starts nowhere.
fn nowhere(first: &str, second: &str) -> Doctored {
    let text = with_line("1     0 start   0 token 1", "").replace("1   100 end     0", "");
    let text = text.replace("2     5 skipped 0 ran_elsewhere by 1", &format!("{first}\n{second}"));
    Doctored::of(Protection::Both, &text)
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

/// Makes a history: the first worker is killed in its task, and the second runs the next minute.
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
