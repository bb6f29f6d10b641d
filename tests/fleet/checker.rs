//! Reads a history and decides whether the promises were kept. The checker knows nothing of the library: it reads
//! the workers' logs and the list of faults.
//!
//! A busy machine is allowed a second, and more where it was measured to be later. An exception needs a fault that
//! explains it, to this process and at this time:
//!
//! - runs overlap if a process was stopped or cut off past its term: its lease had ended before the second run
//!   began, the second token is higher, and the first run was cancelled;
//! - runs overlap if a lease was broken or the store lost its data; then the first run is cancelled later;
//! - a poll of a future is under way when the lease ends, but none begins then;
//! - an occurrence starts twice if the store lost its data in between, or if a failover lost one of the two
//!   claims; runs whose grants such a failover lost overlap, too;
//! - tokens fall if a replica whose clock was behind became the primary;
//! - a call is not answered, or a lease not released, if the machine was later than the time limit of a call;
//! - an occurrence starts nowhere if every reply named a live lease, if its holder was killed, stopped or cut off
//!   before the start, if the event was paused, or if the store replied to no request;
//! - a paused event starts if the store lost its data meanwhile, or if its run was admitted before the pause was
//!   confirmed;
//! - an attempt after the first begins under the token of its run, and before any other run, unless the store lost the
//!   lease meanwhile; the report and the log have the number of attempts;
//! - a queue is full with fewer waiters than may wait if a waiter was killed, stopped or cut off: for a term.

mod accounts;
mod answers;
mod attempts;
mod logged;
mod occurrences;
mod overlaps;
mod pauses;
mod places;
mod queues;
mod recovery;
mod tests;
mod verdict;

use std::time::Duration;

use crate::history::{At, End, Fault, History, Life, nanoseconds};
use crate::plan::{Kind, Protection};

use verdict::Why;
pub(crate) use verdict::{Count, Double, Overlap, Verdict};

/// How much later than it should an event may happen, or be logged, on a machine that is busy with a fleet.
const SLACK: Duration = Duration::from_secs(1);

/// How often one thread or process after another waits for the machine until something has happened, at most.
const STEPS: u32 = 10;

pub(crate) fn judge(history: &History) -> Verdict {
    let case = Case::of(history);
    let mut verdict = Verdict::default();
    if case.runs.is_empty() {
        verdict.violation("nothing ran at all".into());
    }
    accounts::every_process_accounts_for_every_tick(&case, &mut verdict);
    answers::every_answer_has_its_cause(&case, &mut verdict);
    overlaps::one_at_a_time(&case, &mut verdict);
    attempts::each_is_a_part_of_its_run(&case, &mut verdict);
    occurrences::each_starts_once(&case, &mut verdict);
    occurrences::none_is_lost(&case, &mut verdict);
    queues::what_waited_starts_soon(&case, &mut verdict);
    queues::who_gave_way_says_to_whom(&case, &mut verdict);
    places::a_queue_is_full_when_all_places_are_held(&case, &mut verdict);
    pauses::no_paused_event_starts(&case, &mut verdict);
    logged::the_log_tells_what_ran(&case, &mut verdict);
    for late in &case.late_polls {
        verdict.count(Count::LatePolls);
        verdict.violation(format!("a poll began when the lease was over: {late}"));
    }
    (0..case.polls_in_flight).for_each(|_| verdict.count(Count::PollsInFlight));
    (0..case.futures).for_each(|_| verdict.count(Count::Futures));
    recovery::how_soon_the_events_of_killed_processes_ran_again(&case, &mut verdict);
    verdict
}

/// A history, as the questions are asked of it.
struct Case<'a> {
    history: &'a History,
    /// By their start.
    runs: Vec<Run<'a>>,
    skips: Vec<Skip<'a>>,
    /// Whose future was polled when its lease was over; and how many were being polled when it ended.
    late_polls: Vec<String>,
    polls_in_flight: usize,
    /// How many runs had futures as their tasks.
    futures: usize,
}

/// A run of an event.
#[derive(Debug)]
struct Run<'a> {
    life: &'a Life,
    event: &'a str,
    occurrence: &'a str,
    token: Option<u64>,
    slot: Option<usize>,
    /// The run was granted later than this.
    since: At,
    start: At,
    /// The last time when the run is known to go on.
    last: At,
    /// When the process began its next tick, before which it had released all leases of this one.
    next: Option<At>,
    /// Whether the run was cancelled because its lease was lost, or its report says that the lease was lost.
    was_cancelled: bool,
    /// When the run was cancelled for a later occurrence.
    replaced_at: Option<At>,
    gave_way_to: Option<u32>,
    /// Since when, as its report says.
    lost_at: Option<At>,
    /// The attempts after the first: when each began, and its token.
    retries: Vec<(At, Option<u64>)>,
    /// The text of the report, where it has one.
    told: Option<&'a str>,
    /// Whether the run has ended, and not with its process.
    ended: bool,
    /// Whether its last attempt has failed. Only the report is still to come.
    has_failed: bool,
    /// The time and the text of the report's failure.
    failed: Option<(At, &'a str)>,
}

/// As the reason of a skip: it was admitted, and its lease was lost before it could start.
const NOT_STARTED: &str = "not_started";

/// A due event that did not run.
#[derive(Debug)]
struct Skip<'a> {
    life: &'a Life,
    event: &'a str,
    occurrence: &'a str,
    reason: &'a str,
    /// Which process the report names.
    holder: Option<u32>,
    /// The admission was requested later than this.
    since: At,
    at: At,
}

impl<'a> Case<'a> {
    fn of(history: &'a History) -> Self {
        let (runs, skips, late_polls) = (Vec::new(), Vec::new(), Vec::new());
        let mut case = Self { history, runs, skips, late_polls, polls_in_flight: 0, futures: 0 };
        for life in &history.lives {
            case.read(life);
        }
        case.runs.sort_by_key(|run| run.start);
        case
    }

    fn read(&mut self, life: &'a Life) {
        let first = self.runs.len();
        let (mut ticking, mut since, mut latest) = ("", life.began, life.began);
        for line in &life.lines {
            let (event, occurrence) = (&*line.event, &*line.occurrence);
            // A tick begins in its time, when all of the one before has ended and is written down.
            if ticking != occurrence {
                (ticking, since) = (occurrence, latest.max(life.ticks_after(occurrence, self.history.minute)));
                self.runs[first..].iter_mut().for_each(|run| run.next = run.next.or(Some(line.at)));
            }
            latest = latest.max(line.at);
            let of_this = |run: &&mut Run<'_>| (run.event, run.occurrence) == (event, occurrence);
            self.futures += usize::from(line.what == "start" && line.reason.as_deref() == Some("future"));
            match &*line.what {
                "start" => self.runs.push(Run {
                    life,
                    event,
                    occurrence,
                    token: line.token,
                    slot: line.slot,
                    since,
                    start: line.at,
                    last: line.at,
                    next: None,
                    was_cancelled: false,
                    replaced_at: None,
                    gave_way_to: None,
                    lost_at: None,
                    retries: Vec::new(),
                    told: None,
                    ended: false,
                    has_failed: false,
                    failed: None,
                }),
                "skipped" => self.skips.push(Skip {
                    life,
                    event,
                    occurrence,
                    reason: line.reason.as_deref().unwrap_or_default(),
                    holder: line.holder.as_deref().and_then(pid),
                    since,
                    at: line.at,
                }),
                "late_poll" => self.late_polls.push(format!("{} of {occurrence}, by {}", event, life.name)),
                "poll_in_flight" => self.polls_in_flight += 1,
                what => {
                    let Some(run) = self.runs[first..].iter_mut().rev().find(of_this) else {
                        let (reason, holder) = (NOT_STARTED, None);
                        self.skips.push(Skip { life, event, occurrence, reason, holder, since, at: line.at });
                        continue;
                    };
                    if ["end", "cancelled", "beat", "fails", "attempt"].contains(&what) {
                        run.last = line.at;
                    }
                    run.ended |= !["beat", "fails", "attempt"].contains(&what);
                    let most = self.history.retries.map_or(0, |retries| retries.times as usize);
                    run.has_failed |= what == "fails" && run.retries.len() >= most;
                    if what == "attempt" {
                        run.retries.push((line.at, line.token));
                    }
                    if ["ran", "failed"].contains(&what) {
                        run.told = line.text.as_deref();
                    }
                    if line.reason.as_deref() == Some("replaced") {
                        run.replaced_at = Some(line.at);
                    }
                    if what == "gave_way" {
                        run.gave_way_to = line.holder.as_deref().and_then(pid);
                    }
                    if what == "failed" {
                        run.failed = Some((line.at, line.text.as_deref().unwrap_or_default()));
                    }
                    run.lost_at = run.lost_at.or(line.lost_at);
                    // The reply to its release may be the only news of the loss.
                    let says_so = |text: &String| text.contains("the lease was lost");
                    run.was_cancelled |=
                        line.reason.as_deref() == Some("lease_lost") || line.text.as_ref().is_some_and(says_so);
                }
            }
        }
        if let End::Killed(at) = life.end {
            // A command writes its own lines, also after its worker was killed.
            let goes_on = |run: &&mut Run<'_>| !run.ended && !run.has_failed;
            for run in self.runs[first..].iter_mut().filter(goes_on).filter(|_| !self.history.outlives) {
                run.last = run.last.max(at);
            }
        }
    }

    fn runs_of(&self, event: &str) -> impl Iterator<Item = &Run<'a>> {
        self.runs.iter().filter(move |run| run.event == event)
    }

    /// Returns how late the machine may have made something that a fleet does.
    fn late(&self) -> u64 {
        nanoseconds(self.history.late * STEPS)
    }

    /// Returns how much later than it should something may happen, or be written down.
    fn slack(&self) -> u64 {
        nanoseconds(SLACK) + self.late()
    }

    /// Returns whether two events have one mutex.
    fn share(&self, one: &str, other: &str) -> bool {
        self.history.shares_mutex || one == other
    }

    /// Returns one event for each mutex.
    fn mutexes(&self) -> &'a [String] {
        let events = &self.history.events;
        if self.history.shares_mutex { &events[..1] } else { events }
    }

    /// Returns the runs of this event, and of those that share its mutex.
    fn runs_under_its_mutex(&self, event: &str) -> impl Iterator<Item = &Run<'a>> {
        self.runs.iter().filter(move |run| self.share(run.event, event))
    }

    /// Returns the faults of the store between these moments.
    fn outages(&self, from: At, until: At) -> impl Iterator<Item = &'a Fault> {
        let faults = self.history.faults.iter();
        faults.filter(move |fault| fault.kind.is_of_the_store() && fault.touches(from, until))
    }

    /// Returns the faults of this process between these moments.
    fn assaults(&self, pid: u32, from: At, until: At) -> impl Iterator<Item = &'a Fault> {
        let faults = self.history.faults.iter();
        faults.filter(move |fault| fault.pid == Some(pid) && fault.touches(from, until))
    }

    /// Returns whether the store lost data between these moments: all of it, or in a failover the part without a
    /// copy.
    fn was_emptied(&self, from: At, until: At) -> bool {
        self.outages(from, until).any(|fault| fault.kind == Kind::ServerEmptied || fault.kind.is_failover())
    }

    /// Returns whether a replica whose clock is behind became the primary between these moments, so that tokens may have fallen.
    fn was_set_back(&self, from: At, until: At) -> bool {
        self.outages(from, until).any(|fault| fault.kind == Kind::PrimaryBehind)
    }

    /// Returns whether a failover that touched both runs has lost the grant of one of them: two servers were the primary.
    fn was_granted_by_two(&self, first: &Run<'_>, second: &Run<'_>) -> bool {
        let tokens = [first, second].map(|run| run.token);
        let has_lost = |fault: &Fault| fault.lost.iter().any(|lost| tokens.contains(&Some(*lost)));
        self.outages(first.since, second.start.max(first.start)).any(has_lost)
    }

    fn has_lease(&self) -> bool {
        self.history.protection != Protection::Claim
    }

    fn has_claim(&self) -> bool {
        self.history.protection != Protection::Lease
    }

    /// Returns the latest time at which a run's event may be seen to be held.
    fn held_until(&self, run: &Run<'_>) -> At {
        // A dropped future logs no end, but its report has the time of the loss.
        let last = run.last.max(run.lost_at.unwrap_or_default());
        let released = last + self.slack();
        let at_the_latest = released + self.term_of_the_dead();
        // A failover may have lost the release.
        let has_failed_over = self.outages(run.last, released).any(|fault| fault.kind.is_failover());
        if !run.ended || run.failed.is_some() || has_failed_over {
            return at_the_latest;
        }
        // A late release is over when its process goes on.
        let is_undisturbed = !self.history.is_slow
            && self.outages(run.last, released).next().is_none()
            && self.assaults(run.life.pid, run.last, released).next().is_none();
        let until = if is_undisturbed { released } else { at_the_latest };
        run.next.map_or(until, |next| until.min(next))
    }

    /// Returns how long a killed process still holds its leases.
    fn term_of_the_dead(&self) -> u64 {
        // On files the life file frees the lease; a slot has none.
        if self.history.frees_at_once && self.history.slots == 1 { 0 } else { nanoseconds(self.history.term) }
    }

    /// Returns how long a killed process still holds its place in a queue.
    fn term_of_the_waiting(&self) -> u64 {
        nanoseconds(self.history.term)
    }

    /// Returns whether an operator broke the lease of this event between these moments.
    fn was_broken(&self, event: &str, from: At, until: At) -> bool {
        let is_of_this = |broken: &str| self.share(broken, event);
        let of_this = |fault: &Fault| fault.kind == Kind::Broken && fault.event.as_deref().is_some_and(is_of_this);
        self.history.faults.iter().any(|fault| of_this(fault) && fault.touches(from, until))
    }
}

/// Returns the process in `web-1, pid 4242, since …`.
fn pid(holder: &str) -> Option<u32> {
    holder.split(", pid ").nth(1)?.split(',').next()?.parse().ok()
}

/// Describes a run for a violation.
fn describe(run: &Run<'_>, began: At) -> String {
    let Run { life, token, was_cancelled, ended, .. } = run;
    let [start, last] = [run.start, run.last].map(|at| seconds(at, began));
    let lost_at = run.lost_at.map_or_else(|| "none".into(), |at| seconds(at, began));
    let token = token.map_or_else(|| "none".into(), |token| token.to_string());
    format!(
        "{} ({} of {}, token {token}, {start} to {last} s, cancelled {was_cancelled}, lost at {lost_at}, ended {ended})",
        life.name, run.event, run.occurrence
    )
}

fn seconds(at: At, began: At) -> String {
    let nanoseconds = i128::from(at) - i128::from(began);
    format!("{}.{:03}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000 / 1_000_000)
}

/// Returns when the first process began.
pub(crate) fn beginning(history: &History) -> At {
    history.lives.iter().map(|life| life.began).min().unwrap_or_default()
}
