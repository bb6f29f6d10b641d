//! The plan of a round: all its faults follow from the round's seed, before the round begins.

use std::fmt;
use std::iter;
use std::time::{Duration, Instant};

use fastrand::Rng;

/// How many workers are ticking at a time.
pub(crate) const WORKERS: usize = 8;
/// How long the workers of a round tick, except a long round.
const ROUND: Duration = Duration::from_secs(12);
/// How long the workers of a long round tick: a pause that ends with another's does so within a minute and some
/// seconds.
const LONG_ROUND: Duration = Duration::from_secs(75);
/// The remainders of the seeds of long rounds.
const LONG_ROUNDS: (u64, u64) = (24, 11);
/// How far apart the beats of a command are.
pub(crate) const BEAT: Duration = Duration::from_millis(40);
/// A queue with a place for each worker's occurrence of each of two events.
const PLACES_FOR_ALL: usize = 20;
/// How long before the end of a round no further fault begins.
const QUIET: Duration = Duration::from_millis(2500);
/// No event has as many in a round.
pub(crate) const ALL_RUNS: usize = 1000;
/// The term of the leases.
pub(crate) const TERM: Duration = Duration::from_secs(3);

/// The shortest time limit of a call.
pub(crate) const LIMIT_OF_A_CALL: Duration = Duration::from_secs(2);

/// A round: the workers of a fleet, their task, and the faults of both workers and store.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Round {
    pub(crate) seed: u64,
    /// For how long the workers tick.
    pub(crate) lasts: Duration,
    pub(crate) protection: Protection,
    pub(crate) on_overlap: OnOverlap,
    /// How many runs of an event there may be at a time, under a lease.
    pub(crate) slots: usize,
    /// Whether its events share one mutex: their lease, its slots, and its queue.
    pub(crate) shares_mutex: bool,
    pub(crate) task: Task,
    /// Whether its tasks fail at first, and are started again.
    pub(crate) retries: Option<Retries>,
    /// How long a minute of the schedule takes. Longer with a long task, because a late worker catches up on every
    /// minute.
    pub(crate) minute: Duration,
    /// How many events are due in each minute.
    pub(crate) events: u32,
    /// How long each reply of a server is under way: most of the time not at all. Requests for one name wait for
    /// each other's replies, so that a twentieth of a second is enough for eight workers with four requests a
    /// second.
    pub(crate) latency: Duration,
    pub(crate) start: Start,
    /// By how many minutes the clock of each worker is off when it is started first.
    pub(crate) skews: [i32; WORKERS],
    /// The faults of workers, one after another.
    pub(crate) assaults: Vec<Assault>,
    /// The faults of the store and of the connections to it, one after another.
    pub(crate) outages: Vec<Trouble>,
    /// The pauses of the first two events, one pair after another. Without any the schedules have no name.
    pub(crate) pauses: Vec<Pauses>,
    /// Whether each event makes up for all that it missed.
    pub(crate) makes_up: bool,
    /// Whether each event has a filter. The store does not refuse such an event during a pause: the tick reads the
    /// pauses.
    pub(crate) is_filtered: bool,
    /// How many runs of each event the log of the store keeps: few, or all.
    pub(crate) logged_runs: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// `on_one_server` and `without_overlapping`.
    Both,
    /// `without_overlapping`
    Lease,
    /// `on_one_server`
    Claim,
}

/// The answer to an overlap with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnOverlap {
    Skip,
    /// So many wait.
    Queue(usize),
    /// The run is asked to stop.
    Replace,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Task {
    Callback(Duration),
    /// A line of the shell, which shows that it is alive so often, and of every second event several times as often.
    Command(u32),
}

/// The retries of each run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Retries {
    /// How many attempts of each run fail, from the first on.
    pub(crate) fails: u32,
    /// How often a failed task is started again.
    pub(crate) times: u32,
    pub(crate) after: Duration,
}

/// The start of the workers: over the same few milliseconds, or over one minute of the schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Start {
    Together,
    Staggered,
}

/// A fault of one worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Assault {
    /// How long after the one before.
    pub(crate) pause: Duration,
    pub(crate) victim: Victim,
    pub(crate) deed: Deed,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Victim {
    /// A worker with a running task, if there is one; else the worker with this number.
    AtWork(usize),
    Number(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Deed {
    /// SIGKILL. Another process starts after this time, with a clock that is off by so many minutes.
    Kill(Duration, i32),
    /// SIGSTOP, and SIGCONT after this time, which is longer than a term.
    Stop(Duration),
}

/// Two operators each pause one event, at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pauses {
    /// How long after the pauses before them have ended.
    pub(crate) after: Duration,
    pub(crate) ends: [PauseEnd; 2],
}

/// The end of the pause of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PauseEnd {
    /// By itself, after this time.
    Expires(Duration),
    /// An operator resumes the event after this time.
    Resumed(Duration),
}

/// A fault of the store, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trouble {
    /// How long after the one before.
    pub(crate) pause: Duration,
    pub(crate) kind: Kind,
    /// Which of several ways.
    pub(crate) way: usize,
    pub(crate) lasts: Duration,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Killed,
    Stopped,
    Skewed,
    StartedTogether,
    Staggered,
    ServerRestarted,
    ServerEmptied,
    ServerStopped,
    ConnectionsKilled,
    Delayed,
    Cut,
    HalfClosed,
    ReplyDropped,
    PrimaryKilled,
    PrimaryStopped,
    PrimaryCutOff,
    /// The primary is cut off, and the clock of the replica that takes its place is behind.
    PrimaryBehind,
    /// An operator breaks a lease; where there is no process that could be stopped.
    Broken,
    /// A task panics; where there is no process that could be killed.
    Panicked,
}

/// The faults of a server, and of the connections to it.
pub(crate) const TO_A_SERVER: [Kind; 8] = [
    Kind::ServerRestarted,
    Kind::ServerEmptied,
    Kind::ServerStopped,
    Kind::ConnectionsKilled,
    Kind::Delayed,
    Kind::Cut,
    Kind::HalfClosed,
    Kind::ReplyDropped,
];

/// The faults that make a replica the primary.
pub(crate) const FAILOVERS: [Kind; 4] =
    [Kind::PrimaryKilled, Kind::PrimaryStopped, Kind::PrimaryCutOff, Kind::PrimaryBehind];

impl Kind {
    pub(crate) fn is_of_the_store(self) -> bool {
        TO_A_SERVER.contains(&self) || self.is_failover()
    }

    pub(crate) fn is_failover(self) -> bool {
        FAILOVERS.contains(&self)
    }

    /// Returns whether this is only a way to start a worker.
    pub(crate) fn is_of_the_start(self) -> bool {
        matches!(self, Self::Skewed | Self::StartedTogether | Self::Staggered)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Killed => "worker killed",
            Self::Stopped => "worker stopped for longer than its term",
            Self::Skewed => "a worker's clock one to three minutes off",
            Self::StartedTogether => "all workers at a minute's boundary",
            Self::Staggered => "workers spread over a minute",
            Self::ServerRestarted => "server killed and restarted",
            Self::ServerEmptied => "server restarted without its data",
            Self::ServerStopped => "server stopped, and continued",
            Self::ConnectionsKilled => "connections killed by the server",
            Self::Delayed => "requests or replies delayed",
            Self::Cut => "connections cut, and refused",
            Self::HalfClosed => "connections half closed",
            Self::ReplyDropped => "requests carried out, replies lost",
            Self::PrimaryKilled => "failover: primary killed",
            Self::PrimaryStopped => "failover: primary stopped, and continued",
            Self::PrimaryCutOff => "failover: primary cut off from its replicas",
            Self::PrimaryBehind => "failover: primary cut off, and its successor's clock five seconds behind",
            Self::Broken => "lease broken by an operator",
            Self::Panicked => "task panicked",
        })
    }
}

impl Round {
    /// Returns how many minutes each worker ticks.
    pub(crate) fn minutes(&self) -> u32 {
        u32::try_from(self.lasts.as_nanos() / self.minute.as_nanos()).expect("they are few")
    }

    /// Returns whether the round is so close to its end that no further fault begins.
    pub(crate) fn is_over(&self, began: Instant) -> bool {
        began.elapsed() > self.lasts.saturating_sub(QUIET)
    }

    pub(crate) fn of(seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed);
        let protection = match rng.u32(..10) {
            0..6 => Protection::Both,
            6..8 => Protection::Lease,
            _ => Protection::Claim,
        };
        let task = match rng.u32(..10) {
            // A command shows its survival of its scheduler.
            0 | 1 => Task::Command(rng.u32(2..12)),
            2 | 3 => Task::Callback(milliseconds(rng, 1..30)),
            4 | 5 => Task::Callback(milliseconds(rng, 30..400)),
            6 | 7 => Task::Callback(milliseconds(rng, 400..1500)),
            // The lease of such a run is renewed several times.
            _ => Task::Callback(milliseconds(rng, 1500..5000)),
        };
        // Under a lease alone each worker runs each minute, one after another.
        let task = match task {
            Task::Callback(takes) if protection == Protection::Lease => Task::Callback(takes.min(ROUND / 48)),
            Task::Command(beats) if protection == Protection::Lease => Task::Command(beats.min(3)),
            task => task,
        };
        // Where little is done, little is excused.
        let pause = if rng.u32(..3) == 0 { 2000..4000 } else { 150..900 };
        let pause = |rng: &mut Rng| milliseconds(rng, pause.clone());
        let mut skews = [0; WORKERS];
        for _ in 0..3 {
            skews[rng.usize(..WORKERS)] = skew(rng);
        }
        let round = Self {
            seed,
            lasts: ROUND,
            protection,
            on_overlap: OnOverlap::Skip,
            slots: 1,
            task,
            retries: None,
            minute: if is_long(task) { ROUND / 12 } else { ROUND / 48 },
            events: rng.u32(1..5),
            latency: if rng.u32(..4) == 0 { milliseconds(rng, 10..50) } else { Duration::ZERO },
            start: if rng.bool() { Start::Together } else { Start::Staggered },
            skews,
            assaults: until_the_end(rng, |rng| Assault::any(rng, pause), Assault::lasts),
            outages: until_the_end(rng, |rng| Trouble::any(rng, pause), |trouble| trouble.pause + trouble.lasts),
            shares_mutex: false,
            pauses: Vec::new(),
            makes_up: false,
            is_filtered: false,
            logged_runs: if seed % 3 == 2 { 10 } else { ALL_RUNS },
        };
        let kind = rng.u32(..10);
        let round = if protection == Protection::Both { round.with_overlaps(kind, rng) } else { round };
        let round = round.with_a_shared_mutex(rng).with_pauses(rng).with_retries();
        let (every, rest) = LONG_ROUNDS;
        if seed % every == rest { round.with_a_long_pause() } else { round }
    }

    /// Replaces the answer to overlaps, in seven of ten kinds.
    fn with_overlaps(self, kind: u32, rng: &mut Rng) -> Self {
        let events = self.events.min(2);
        let places = [1, 3, PLACES_FOR_ALL][rng.usize(..3)];
        // A queued occurrence runs late, and others meet its run: not for ever.
        let short = match self.task {
            Task::Callback(takes) => Task::Callback(takes.min(Duration::from_millis(1200))),
            Task::Command(beats) => Task::Command(beats.min(4)),
        };
        let long = match self.task {
            Task::Callback(takes) => Task::Callback(takes + milliseconds(rng, 1500..4000)),
            Task::Command(beats) => Task::Command(beats + 8),
        };
        let slots = rng.usize(2..=3);
        let queued = |slots| {
            let queued = Self { slots, on_overlap: OnOverlap::Queue(places), task: short, events, ..self.clone() };
            if places < PLACES_FOR_ALL {
                return queued;
            }
            // All of them run, one after another, about one a second.
            let task = Task::Callback(short.lasts().min(Duration::from_millis(300)));
            Self { task, minute: ROUND / 12, events: 2, ..queued }
        };
        match kind {
            0..3 => self,
            4 => Self { slots, events, ..self },
            5 => queued(slots),
            3 | 6 | 7 => queued(1),
            _ => Self { on_overlap: OnOverlap::Replace, task: long, minute: ROUND / 12, events, ..self },
        }
    }

    fn with_a_shared_mutex(self, rng: &mut Rng) -> Self {
        let may_share =
            self.events > 1 && self.protection != Protection::Claim && self.on_overlap != OnOverlap::Replace;
        // With this policy, the events exclude each other.
        let often = if self.on_overlap == OnOverlap::Skip { 1 } else { 2 };
        Self { shares_mutex: may_share && rng.u32(..3) < often, ..self }
    }

    /// Lets the tasks of two rounds in three fail at first, of one of these for good. The other dice of the round stay as they are.
    fn with_retries(self) -> Self {
        let rng = &mut Rng::with_seed(!self.seed);
        if self.on_overlap == OnOverlap::Queue(PLACES_FOR_ALL) || rng.u32(..3) == 0 {
            return self; // Where all of them run, there is no time for more.
        }
        let times = rng.u32(1..3);
        let fails = if rng.u32(..4) == 0 { times + 1 } else { rng.u32(1..=times) };
        // Under a lease alone each worker runs each minute, one after another.
        let longest = if self.protection == Protection::Lease { 40 } else { 600 };
        Self { retries: Some(Retries { fails, times, after: milliseconds(rng, 5..longest) }), ..self }
    }

    fn with_pauses(self, rng: &mut Rng) -> Self {
        if self.events < 2 || rng.u32(..2) == 0 {
            return self;
        }
        Self { pauses: until_the_end(rng, Pauses::any, Pauses::last), is_filtered: rng.bool(), ..self }
    }
}

impl Round {
    /// Makes a round whose events make up for all that they missed. The store loses no data, and no run overlaps.
    pub(crate) fn that_makes_up(seed: u64) -> Self {
        let mut round = Self::of(seed);
        round.outages.retain(|trouble| trouble.kind != Kind::ServerEmptied);
        let task = Task::Callback(round.task.lasts().min(Duration::from_millis(100)));
        let (protection, on_overlap, slots, shares_mutex) = (Protection::Claim, OnOverlap::Skip, 1, false);
        let (lasts, minute) = (ROUND, ROUND / 48);
        Self { protection, on_overlap, slots, shares_mutex, task, lasts, minute, makes_up: true, ..round }
    }

    /// Makes a long round: two pauses begin together, and one is much longer than the other. The store loses no
    /// data.
    fn with_a_long_pause(mut self) -> Self {
        self.outages.retain(|trouble| trouble.kind != Kind::ServerEmptied);
        let until_the_end = LONG_ROUND.saturating_sub(2 * QUIET);
        let ends = [PauseEnd::Resumed(until_the_end), PauseEnd::Expires(Duration::from_secs(1))];
        let pauses = vec![Pauses { after: Duration::from_millis(200), ends }];
        let (events, minute) = (self.events.max(2), ROUND / 12);
        Self { lasts: LONG_ROUND, minute, events, pauses, is_filtered: true, ..self }
    }
}

impl Task {
    /// Returns about how long the task takes.
    pub(crate) fn lasts(self) -> Duration {
        match self {
            Self::Callback(takes) => takes,
            Self::Command(beats) => BEAT * beats,
        }
    }
}

fn is_long(task: Task) -> bool {
    !matches!(task, Task::Callback(takes) if takes < Duration::from_millis(400))
}

/// Returns the faults that begin in a round before its quiet end.
fn until_the_end<T>(rng: &mut Rng, mut any: impl FnMut(&mut Rng) -> T, lasts: impl Fn(&T) -> Duration) -> Vec<T> {
    let end = ROUND.saturating_sub(QUIET);
    let mut past = Duration::ZERO;
    let next = || {
        let next = any(rng);
        past += lasts(&next);
        (past < end).then_some(next)
    };
    iter::from_fn(next).collect()
}

impl Assault {
    fn any(rng: &mut Rng, pause: impl Fn(&mut Rng) -> Duration) -> Self {
        let pause = pause(rng);
        let number = rng.usize(..WORKERS);
        let victim = if rng.u32(..4) == 0 { Victim::Number(number) } else { Victim::AtWork(number) };
        let deed = match rng.u32(..4) {
            0 => Deed::Stop(TERM + milliseconds(rng, 100..1200)),
            other => Deed::Kill(milliseconds(rng, 0..600), if other == 1 { skew(rng) } else { 0 }),
        };
        Self { pause, victim, deed }
    }

    fn lasts(&self) -> Duration {
        let (Deed::Kill(lasts, _) | Deed::Stop(lasts)) = self.deed;
        self.pause + lasts
    }
}

impl Pauses {
    fn any(rng: &mut Rng) -> Self {
        let after = milliseconds(rng, 200..1500);
        let mut end = || {
            let after = milliseconds(rng, 300..3500);
            if rng.bool() { PauseEnd::Expires(after) } else { PauseEnd::Resumed(after) }
        };
        Self { after, ends: [end(), end()] }
    }

    fn last(&self) -> Duration {
        let [one, other] = self.ends.map(|(PauseEnd::Expires(after) | PauseEnd::Resumed(after))| after);
        self.after + one.max(other)
    }
}

impl Trouble {
    fn any(rng: &mut Rng, pause: impl Fn(&mut Rng) -> Duration) -> Self {
        let kind = TO_A_SERVER[rng.usize(..TO_A_SERVER.len())];
        let lasts = match kind {
            Kind::ConnectionsKilled => Duration::ZERO,
            Kind::Delayed | Kind::ReplyDropped | Kind::HalfClosed => milliseconds(rng, 50..700),
            // Mostly shorter than the term allows, at times longer.
            _ if rng.u32(..3) > 0 => milliseconds(rng, 50..400),
            _ => milliseconds(rng, 400..3000),
        };
        Self { pause: pause(rng), kind, way: rng.usize(..64), lasts }
    }
}

/// Returns one to three minutes, ahead or behind.
fn skew(rng: &mut Rng) -> i32 {
    rng.i32(1..=3) * if rng.bool() { 1 } else { -1 }
}

fn milliseconds(rng: &mut Rng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(rng.u64(range))
}

#[test]
fn a_seed_makes_the_same_round_each_time_and_another_makes_another() {
    assert_eq!(Round::of(7), Round::of(7));
    assert_ne!(Round::of(7), Round { seed: 7, ..Round::of(8) });
}

#[test]
fn a_hundred_rounds_do_everything_to_a_fleet() {
    let rounds: Vec<Round> = (0..100).map(Round::of).collect();
    for kind in TO_A_SERVER {
        let often = rounds.iter().flat_map(|round| &round.outages).filter(|trouble| trouble.kind == kind).count();
        assert!(often >= 50, "{kind} happens {often} times");
    }
    for round in &rounds {
        assert!(!round.assaults.is_empty() && !round.outages.is_empty(), "{round:?}");
        let skewed = round.skews.iter().filter(|skew| **skew != 0).count();
        assert!((1..=3).contains(&skewed), "{round:?}");
    }
    let any = |is: fn(&Round) -> bool| assert!(rounds.iter().any(is));
    any(|round| round.slots > 1);
    let queues = [1, 3, PLACES_FOR_ALL].map(OnOverlap::Queue);
    for on_overlap in [OnOverlap::Skip, OnOverlap::Replace].into_iter().chain(queues) {
        assert!(rounds.iter().any(|round| round.on_overlap == on_overlap), "{on_overlap:?}");
    }
    for queue in queues {
        assert!(rounds.iter().any(|round| round.on_overlap == queue && round.shares_mutex), "{queue:?}");
    }
    any(|round| round.lasts == LONG_ROUND);
    let retry = |round: &Round, is: fn(&Retries) -> bool| round.retries.as_ref().is_some_and(is);
    assert!(rounds.iter().any(|round| retry(round, |retries| retries.fails > retries.times)));
    assert!(rounds.iter().any(|round| retry(round, |_| true) && matches!(round.task, Task::Command(_))));
    assert!(rounds.iter().any(|round| retry(round, |_| true) && round.on_overlap == OnOverlap::Replace));
    assert!(rounds.iter().any(|round| retry(round, |_| true) && !round.pauses.is_empty()));
    any(|round| round.shares_mutex && round.on_overlap == OnOverlap::Skip);
    any(|round| round.shares_mutex && round.slots > 1);
    for is_filtered in [false, true] {
        assert!(rounds.iter().any(|round| round.is_filtered == is_filtered && round.pauses.len() > 1), "{is_filtered}");
    }
    any(|round| round.protection == Protection::Lease);
    any(|round| round.protection == Protection::Claim);
    any(|round| matches!(round.task, Task::Command(_)));
    any(|round| round.start == Start::Staggered);
    any(|round| round.assaults.iter().any(|assault| matches!(assault.deed, Deed::Stop(_))));
}
