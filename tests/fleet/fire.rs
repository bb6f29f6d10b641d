//! Rounds in which workers share a store while both suffer faults.

use std::collections::BTreeSet;
use std::env;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use soloist::Schedule;

use crate::checker::{Verdict, beginning, judge};
use crate::crew::{Crew, events, schedule_name};
use crate::history::{Fault, History, logged, now};
use crate::lateness::Watch;
use crate::operators::pause_events;
use crate::plan::{Assault, Deed, Kind, OnOverlap, Protection, Round, Start, TERM, TO_A_SERVER, Task, WORKERS};
use crate::site::Site;
use crate::table::{Campaign, publish};

#[test]
fn a_file_store_keeps_its_promises_under_fire() {
    under_fire("file", Site::file);
}

#[test]
fn redis_keeps_its_promises_under_fire() {
    under_fire("redis", Site::redis);
}

#[test]
fn sentinel_keeps_its_promises_under_fire() {
    under_fire("sentinel", || Site::sentinel("?wait=1"));
}

#[test]
fn cluster_keeps_its_promises_under_fire() {
    under_fire("cluster", || Site::cluster("?wait=1"));
}

#[test]
fn mariadb_keeps_its_promises_under_fire() {
    under_fire("mariadb", Site::mariadb);
}

#[test]
fn postgres_keeps_its_promises_under_fire() {
    under_fire("postgres", Site::postgres);
}

/// The seed of the one round that each store has as a part of all tests. A file store has no server.
const SEEDS: [(&str, u64); 7] =
    [("memory", 1), ("file", 732), ("redis", 21), ("sentinel", 4), ("cluster", 5), ("mariadb", 601), ("postgres", 23)];

#[test]
fn as_a_part_of_all_tests_everything_is_done_to_a_server() {
    let rounds = SEEDS.into_iter().skip(2).map(|(_, seed)| Round::of(seed));
    let done: BTreeSet<Kind> = rounds.flat_map(|round| round.outages).map(|trouble| trouble.kind).collect();
    assert_eq!(done, TO_A_SERVER.into());
}

#[test]
fn as_a_part_of_all_tests_each_kind_of_round_is_played() {
    let rounds = SEEDS.map(|(_, seed)| Round::of(seed));
    let any = |is: &dyn Fn(&Round) -> bool| assert!(rounds.iter().any(is), "{rounds:#?}");
    for protection in [Protection::Both, Protection::Lease, Protection::Claim] {
        any(&|round| round.protection == protection);
    }
    any(&|round| round.on_overlap == OnOverlap::Skip && round.shares_mutex);
    any(&|round| round.on_overlap == OnOverlap::Replace);
    any(&|round| matches!(round.on_overlap, OnOverlap::Queue(2..)) && round.shares_mutex);
    any(&|round| matches!(round.task, Task::Command(_)));
    any(&|round| round.retries.is_some() && matches!(round.task, Task::Command(_)));
    any(&|round| round.retries.is_some() && matches!(round.task, Task::Callback(_)));
    for is_filtered in [false, true] {
        any(&|round| !round.pauses.is_empty() && round.is_filtered == is_filtered);
    }
}

/// Plays as many rounds as fit into the time, and one at the least, with the requested seeds.
fn under_fire(store: &'static str, site: impl FnOnce() -> Site) {
    let site = site();
    campaign(store, |round| perform(round, &site));
}

/// Judges one round after another; fails when it is over, if a promise was broken.
pub(crate) fn campaign(store: &'static str, mut perform: impl FnMut(&Round) -> History) {
    let [seed, seconds] = ["SOLOIST_FIRE_SEED", "SOLOIST_FIRE_SECONDS"].map(asked_for);
    let (_, usual) = SEEDS.into_iter().find(|(name, _)| *name == store).expect("each store has one");
    let first = seed.unwrap_or(usual);
    let began = Instant::now();
    let mut campaign = Campaign::of(store, first);
    for seed in first.. {
        let round = Round::of(seed);
        let history = perform(&round);
        let verdict = judge(&history);
        if !verdict.violations.is_empty() {
            print_facts(store, &round, &history, &verdict);
        }
        campaign.add(&history, verdict);
        if began.elapsed() >= Duration::from_secs(seconds.unwrap_or(0)) {
            break;
        }
    }
    campaign.took = began.elapsed();
    campaign.expect_futures();
    if seconds.is_some() {
        publish(&campaign);
    }
    let violations = &campaign.verdict.violations;
    assert!(violations.is_empty(), "{store}: {} promises broken:\n{}", violations.len(), violations.join("\n"));
}

pub(crate) fn asked_for(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{variable} is {text:?}: {error}")))
}

/// Prints the facts that an investigation needs.
pub(crate) fn print_facts(store: &str, round: &Round, history: &History, verdict: &Verdict) {
    println!("{store}, seed {}: {}", round.seed, verdict.violations.join("\n  "));
    println!("the same round again: tests/under_fire --seconds 1 --seed {} {store}", round.seed);
    println!("{round:#?}");
    println!("the machine was late by {:?} at most", history.late);
    let began = beginning(history);
    let seconds = |at: u64| Duration::from_nanos(at.saturating_sub(began)).as_secs_f64();
    for fault in &history.faults {
        println!("{:8.3} to {:8.3}  {} {:?}", seconds(fault.from), seconds(fault.until), fault.kind, fault.pid);
    }
    for pause in &history.pauses {
        let confirmed = pause.confirmed.map(seconds);
        let [from, until, over] = [pause.from, pause.until, pause.over].map(seconds);
        println!("{from:8.3} to {until:8.3}  paused {}, confirmed {confirmed:?}, over {over:.3}", pause.event);
    }
    for life in &history.lives {
        println!(
            "{}, pid {}, {:?}, from {:.3}, {:?}",
            life.name,
            life.pid,
            life.minutes,
            seconds(life.began),
            life.end
        );
        for line in &life.lines {
            let details = (&line.token, &line.reason, &line.holder, &line.text);
            println!("{:8.3}  {} {} {} {details:?}", seconds(line.at), line.what, line.event, line.occurrence);
        }
    }
}

pub(crate) fn perform(round: &Round, site: &Site) -> History {
    let watch = Watch::start();
    let directory = tempfile::tempdir().expect("a temporary directory");
    site.create_table();
    site.delay_replies(round.latency);
    let mut crew = Crew::new(round, site, directory.path());
    let mut faults = begin(round, &mut crew);
    let began = Instant::now();
    let is_over = || round.is_over(began);
    let connect = || soloist::connect(&site.url()).expect("the workers use this URL");
    let operator = || Schedule::new(connect()).named(schedule_name(round)).expect("it is a name");
    let pauses = thread::scope(|scope| {
        let operators = scope.spawn(|| pause_events(round, began, operator));
        let outages = scope.spawn(|| {
            let mut faults = Vec::new();
            for trouble in &round.outages {
                thread::sleep(trouble.pause); // as the round has it
                if is_over() {
                    break;
                }
                faults.extend(site.suffer(trouble));
            }
            faults
        });
        // Workers end with the thread that started them.
        for assault in &round.assaults {
            thread::sleep(assault.pause); // as the round has it
            if is_over() {
                break;
            }
            faults.extend(attack(&mut crew, assault));
        }
        faults.extend(outages.join().expect("servers do as they are told"));
        operators.join().expect("operators wait for the store")
    });
    let lives = crew.come_home();
    let log = (round.logged_runs, logged(&connect(), &events(round)));
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
        frees_at_once: site.frees_at_once(),
        outlives: matches!(round.task, Task::Command(_)),
        retries: round.retries,
        is_slow: !round.latency.is_zero(),
        lingers: site.fault_lingers(),
        limit: site.shortest_limit(),
        late: watch.end(),
        lives,
        faults,
        pauses,
        log,
    }
}

/// Starts all workers, together or over a minute, right before or after a minute begins.
fn begin(round: &Round, crew: &mut Crew<'_>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let from = now();
    // The first tick right before a minute, the others after it.
    thread::sleep(crew.until_the_next_minute().saturating_sub(Duration::from_millis(5)));
    for (number, skew) in round.skews.into_iter().enumerate() {
        let before = now();
        let pid = crew.start(number, skew);
        if skew != 0 {
            faults.push(Fault::since(before, Kind::Skewed, pid));
        }
        if round.start == Start::Staggered {
            thread::sleep(round.minute / u32::try_from(WORKERS).expect("they are few"));
        }
    }
    let kind = match round.start {
        Start::Together => Kind::StartedTogether,
        Start::Staggered => Kind::Staggered,
    };
    faults.push(Fault::since(from, kind, None));
    faults
}

fn attack(crew: &mut Crew<'_>, assault: &Assault) -> Vec<Fault> {
    let number = crew.find(assault.victim);
    let mut faults = Vec::new();
    let mut note = |kind, from, pid: Option<u32>| {
        if pid.is_some() {
            faults.push(Fault::since(from, kind, pid));
        }
    };
    let from = now();
    match assault.deed {
        Deed::Kill(absence, skew) => {
            note(Kind::Killed, from, crew.kill(number));
            thread::sleep(absence);
            let back = now();
            let pid = crew.start(number, skew);
            if skew != 0 {
                note(Kind::Skewed, back, pid);
            }
        }
        Deed::Stop(absence) => {
            let pid = crew.signal(number, Signal::STOP);
            thread::sleep(absence);
            crew.signal(number, Signal::CONT);
            note(Kind::Stopped, from, pid);
        }
    }
    faults
}
