//! The fleet on the store in memory: the threads of one process.
//!
//! Every second thread performs futures, on one runtime.
//!
//! A thread can be neither killed nor stopped. Instead of a kill its task panics; instead of a stop an operator
//! breaks the lease under it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{panic, thread};

use chrono::{DateTime, SecondsFormat, Utc};
use soloist::{
    CancelReason, Event, EventMutex, MemoryMutex, MutexName, Overlap, Retry, Run, Schedule, TaskResult, Verdict,
};
use tokio::runtime::Runtime;

use crate::crew::{events, first_minute, mutex as shared, schedule_name};
use crate::fire::campaign;
use crate::history::{End, Fault, History, Life, logged, now, occurrence};
use crate::lateness::Watch;
use crate::operators::pause_events;
use crate::plan::{Deed, Kind, LIMIT_OF_A_CALL, OnOverlap, Protection, Retries, Round, Start, TERM, Victim, WORKERS};
use crate::watched::Watched;
use crate::worker_log::Line;

#[test]
fn the_store_in_memory_keeps_its_promises_under_fire() {
    campaign("memory", perform);
}

/// The lines of a thread, in the words of the example `worker`.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Line>>>);

impl Log {
    fn write(&self, line: Line) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn lines(&self) -> Vec<Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn line(event: &str, occurrence: DateTime<Utc>, what: &str) -> Line {
    Line {
        at: now(),
        event: event.into(),
        what: what.into(),
        occurrence: occurrence.to_rfc3339_opts(SecondsFormat::AutoSi, true),
        token: None,
        slot: None,
        late_ms: None,
        reason: None,
        holder: None,
        text: None,
        lost_at: None,
    }
}

/// A thread in the place of a process of the fleet.
struct Member {
    number: usize,
    schedule: Schedule,
    log: Log,
    /// How many of its next tasks panic.
    panics: Arc<AtomicUsize>,
}

/// How long a future may take to stop.
const GRACE: Duration = Duration::from_millis(300);

/// How long it waits between two polls.
const SLICE: Duration = Duration::from_millis(10);

impl Member {
    fn new(number: usize, round: &Round, mutex: &MemoryMutex, runtime: &Runtime) -> Self {
        let job = Job::of(round);
        let schedule = Schedule::new(mutex.clone()).with_runtime(runtime.handle().clone());
        let schedule = if round.pauses.is_empty() { Ok(schedule) } else { schedule.named(schedule_name(round)) };
        let schedule = schedule.expect("it is a name").with_run_log(round.logged_runs);
        let schedule = schedule.expect("the store keeps one");
        for name in events(round) {
            let task = job.clone();
            // Alternates by round, because the first thread makes most admissions.
            let event = if (round.seed + number as u64).is_multiple_of(2) {
                Event::spawn(name, move |run| task.watched(run)).grace(GRACE)
            } else {
                Event::call(name, move |run| task.perform(run))
            };
            let event = event.every_minute().in_background();
            let leased = |event: Event| {
                let event = if round.slots > 1 { event.at_most(round.slots) } else { event.without_overlapping() };
                event.lease_term(TERM)
            };
            let event = match round.protection {
                Protection::Both => leased(event).on_one_server(),
                Protection::Lease => leased(event),
                Protection::Claim => event.on_one_server(),
            };
            let event = if round.shares_mutex { event.mutex_name(shared(round)) } else { event };
            let event = if round.is_filtered { event.when(|_| true) } else { event };
            let event = match round.on_overlap {
                OnOverlap::Skip => event,
                OnOverlap::Queue(places) => event.on_overlap(Overlap::QueueAll(places)),
                OnOverlap::Replace => event.on_overlap(Overlap::Replace),
            };
            let event = match round.retries {
                Some(Retries { times, after, .. }) => event.retry(Retry::times(times).after(after)),
                None => event,
            };
            schedule.add(event).expect("the store can do all of this");
        }
        Self { number, schedule, log: job.log, panics: job.panics }
    }

    /// Ticks all minutes from the first on, each at its time.
    fn tick(&self, round: &Round, clock: Instant, skew: i32) -> Life {
        let last = round.minutes();
        let (began, first) = (now(), first_minute(round, clock, skew).unwrap_or(last));
        let real = Instant::now();
        for minute in first..last {
            thread::sleep((round.minute * (minute - first)).saturating_sub(real.elapsed()));
            for entry in self.schedule.run_due(occurrence(minute)).entries() {
                let of = |what| line(entry.event(), entry.occurrence(), what);
                match entry.verdict() {
                    Verdict::Skipped(reason) => self.log.write(Line {
                        reason: Some(reason.keyword().into()),
                        holder: reason.holder().map(ToString::to_string),
                        ..of("skipped")
                    }),
                    Verdict::Ran(outcome) if outcome.is_failure() => {
                        let lost_at = outcome.lease_lost_at().and_then(|at| at.timestamp_nanos_opt());
                        let lost_at = lost_at.and_then(|at| u64::try_from(at).ok());
                        self.log.write(Line { text: Some(outcome.to_string()), lost_at, ..of("failed") });
                    }
                    Verdict::Ran(outcome) => {
                        if let Some(by) = outcome.asked_to_stop_by() {
                            self.log.write(Line { holder: Some(by.to_string()), ..of("gave_way") });
                        } else if outcome.attempts() > 1 {
                            self.log.write(Line { text: Some(outcome.to_string()), ..of("ran") });
                        }
                    }
                }
            }
        }
        let name = format!("thread-{}", self.number);
        let pid = std::process::id();
        Life { name, pid, began, minutes: first..last, lines: self.log.lines(), end: End::Done }
    }
}

/// The task of an event, as a callback and as a future.
#[derive(Clone)]
struct Job {
    log: Log,
    takes: Duration,
    /// How many attempts of each run fail.
    fails: u32,
    panics: Arc<AtomicUsize>,
}

impl Job {
    fn of(round: &Round) -> Self {
        let fails = round.retries.map_or(0, |retries| retries.fails);
        Self { log: Log::default(), takes: round.task.lasts(), fails, panics: Arc::default() }
    }

    fn perform(&self, run: &Run) -> TaskResult {
        self.say(run, begin(run), None);
        let cancelled = run.wait_cancelled(self.takes);
        self.end(run, cancelled)
    }

    fn watched(&self, run: Run) -> Watched<impl Future<Output = TaskResult> + Send + use<>> {
        let (job, watched) = (self.clone(), self.clone());
        let future = {
            let run = run.clone();
            async move {
                job.say(&run, begin(&run), Some("future"));
                let until = Instant::now() + job.takes;
                let mut cancelled = None;
                while let (None, Some(left)) = (cancelled, until.checked_duration_since(Instant::now())) {
                    cancelled = tokio::time::timeout(left.min(SLICE), run.cancelled()).await.ok();
                }
                job.end(&run, cancelled)
            }
        };
        Watched::new(run, GRACE, future, move |run, what| watched.say(run, what, None))
    }

    fn end(&self, run: &Run, cancelled: Option<CancelReason>) -> TaskResult {
        let one_less = |left: usize| left.checked_sub(1);
        let panics = self.panics.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok();
        if panics {
            self.say(run, "beat", None);
            // Without the panic hook, which would take long if it prints a stack trace.
            panic::resume_unwind(Box::new("it was told to"));
        }
        if let Some(reason) = cancelled {
            self.say(run, "cancelled", Some(reason.keyword()));
            run.check()?;
        }
        if run.attempt() <= self.fails {
            self.say(run, "fails", None);
            return Err("it was told to fail".into());
        }
        self.say(run, "end", None);
        Ok(())
    }

    fn say(&self, run: &Run, what: &str, reason: Option<&str>) {
        let token = run.fencing_token().map(soloist::FencingToken::get);
        self.log.write(Line {
            token,
            slot: run.slot(),
            reason: reason.map(str::to_owned),
            ..line(run.name(), run.occurrence(), what)
        });
    }
}

/// Returns the word for the begin of an attempt.
fn begin(run: &Run) -> &'static str {
    if run.attempt() == 1 { "start" } else { "attempt" }
}

fn perform(round: &Round) -> History {
    let watch = Watch::start();
    let mutex = MemoryMutex::new();
    let runtime = Runtime::new().expect("the machine has threads for it");
    let members: Vec<Member> = (0..WORKERS).map(|number| Member::new(number, round, &mutex, &runtime)).collect();
    let clock = Instant::now();
    let start = if round.start == Start::Together { Kind::StartedTogether } else { Kind::Staggered };
    let mut faults = vec![Fault::since(now(), start, None)];
    for _ in round.skews.iter().filter(|skew| **skew != 0) {
        faults.push(Fault::since(now(), Kind::Skewed, None));
    }
    let operator = || Schedule::new(mutex.clone()).named(schedule_name(round)).expect("it is a name");
    let (lives, pauses) = thread::scope(|scope| {
        let operators = scope.spawn(|| pause_events(round, clock, operator));
        let threads: Vec<_> = members
            .iter()
            .zip(round.skews)
            .map(|(member, skew)| {
                if round.start == Start::Staggered {
                    thread::sleep(round.minute / u32::try_from(WORKERS).expect("they are few"));
                }
                scope.spawn(move || member.tick(round, clock, skew))
            })
            .collect();
        for assault in &round.assaults {
            thread::sleep(assault.pause);
            faults.extend(attack(assault.victim, assault.deed, &members, &mutex, round));
        }
        let lives = threads.into_iter().map(|thread| thread.join().expect("a panic of a task stays in its run"));
        (lives.collect(), operators.join().expect("the store in memory answers"))
    });
    History {
        protection: round.protection,
        on_overlap: round.on_overlap,
        slots: round.slots,
        shares_mutex: round.shares_mutex,
        is_filtered: round.is_filtered,
        events: events(round),
        minutes: round.minutes(),
        minute: round.minute,
        term: TERM,
        frees_at_once: true,
        outlives: false,
        retries: round.retries,
        is_slow: false,
        lingers: Duration::ZERO,
        limit: LIMIT_OF_A_CALL,
        late: watch.end(),
        lives,
        faults,
        pauses,
        log: (round.logged_runs, logged(&mutex, &events(round))),
    }
}

fn attack(victim: Victim, deed: Deed, members: &[Member], mutex: &MemoryMutex, round: &Round) -> Option<Fault> {
    let (Victim::AtWork(number) | Victim::Number(number)) = victim;
    let from = now();
    let fault = |kind, event| Fault { event, ..Fault::since(from, kind, Some(std::process::id())) };
    match deed {
        Deed::Kill(..) => {
            members[number].panics.fetch_add(1, Ordering::SeqCst);
            Some(fault(Kind::Panicked, None))
        }
        Deed::Stop(patience) => {
            let names = events(round);
            let lease = |name: &String| {
                let name = if round.shares_mutex { shared(round) } else { name.clone() };
                MutexName::lease(name).expect("it is a name")
            };
            let a_run = || names.iter().find(|name| mutex.break_lease(&lease(name)).expect("memory answers").is_some());
            let began = Instant::now();
            let mut broken = a_run();
            while broken.is_none() && began.elapsed() < patience {
                thread::sleep(Duration::from_millis(1)); // between two checks of other threads
                broken = a_run();
            }
            broken.map(|event| fault(Kind::Broken, Some(event.clone())))
        }
    }
}
