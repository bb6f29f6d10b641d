//! Cases of the log of runs, for stores that keep such a log.

use chrono::{DateTime, TimeDelta, Utc};

use super::naming::ODD;
use crate::base::error::MutexError;
use crate::contract::harness::Harness;
use crate::contract::race::exactly;
use crate::contract::subject::{CaseResult, DoesNotApply, Subject, answered, must, occurrence};
use crate::lease::{name::MutexName, owner::Owner, token::FencingToken};
use crate::outcome::{run_record::RunRecord, run_record::outcome_kind::OutcomeKind, run_record::skip_count::SkipCount};
use crate::store::event_mutex::{EventMutex, run_log::RunLog};

const MANY: usize = 100;

/// The log of runs of the store under test.
struct Log<'a>(&'a dyn RunLog);

impl Log<'_> {
    #[track_caller]
    fn write(&self, records: &[RunRecord], keep: usize) {
        answered("write", &records[0].event(), self.0.write(records, keep));
    }

    #[track_caller]
    fn is(&self, event: &str, expected: &[&RunRecord], promise: &str) {
        let found = answered("runs", &event, self.0.runs(event));
        let same = found.iter().eq(expected.iter().copied());
        must(same, promise, &event, format_args!("{found:?} came instead of {expected:?}"));
    }
}

fn log_of<H: Harness>(subject: &Subject<H>) -> Result<Log<'_>, DoesNotApply> {
    subject.mutex.run_log().map(Log).ok_or(DoesNotApply("the store keeps no log of runs, and says so"))
}

/// Returns the start time of the run with this number.
fn start(number: usize) -> DateTime<Utc> {
    occurrence(number) + TimeDelta::microseconds(123_456)
}

fn started(event: &str, number: usize) -> RunRecord {
    RunRecord::started(event, Owner::unique(), occurrence(number), Some(FencingToken::new(7)), start(number))
}

fn ended(record: &RunRecord, result: OutcomeKind, error: Option<&str>) -> RunRecord {
    record.clone().ended(record.started_at() + TimeDelta::milliseconds(1_234), result, error)
}

pub(super) fn a_record_is_read_back_as_it_was_written<H: Harness>(subject: &Subject<H>) -> CaseResult {
    let log = log_of(subject)?;
    let event = subject.name("odd").mutex().to_owned();
    let unprotected = RunRecord::started(&*event, Owner::unique(), occurrence(0), None, start(0))
        .on("web 1 é'\\%2520 instance=b%20ü%2541", 17);
    let mut records = vec![unprotected, started(&event, 1)];
    let results = OutcomeKind::ALL.into_iter().cycle();
    for (number, (text, result)) in ODD.iter().zip(results).enumerate() {
        records.push(ended(&started(&event, 2 + number).on(text, u32::MAX), result, Some(text)));
    }
    records.push(ended(&started(&event, 1_000), OutcomeKind::Failed, Some(&"\u{1f600} ".repeat(300))));
    let longest = format!("{} instance={}", "é".repeat(300), "\u{1f600}".repeat(300));
    records.push(ended(&started(&event, 1_001).on(&longest, 0), OutcomeKind::Succeeded, None));
    let retried = ended(&started(&event, 1_002), OutcomeKind::Failed, None);
    records.extend([
        retried.with_attempts(1_001),
        ended(&started(&event, 1_003), OutcomeKind::NotStarted, None).with_attempts(0),
    ]);
    log.write(&records, 1_000);
    log.is(
        &event,
        &records.iter().rev().collect::<Vec<_>>(),
        "records are read back as they were written, and the newest record comes first",
    );
    Ok(())
}

pub(super) fn an_end_takes_the_place_of_its_start_and_no_start_that_of_an_end<H: Harness>(
    subject: &Subject<H>,
) -> CaseResult {
    let log = log_of(subject)?;
    let name = subject.name("once");
    let event = name.mutex();
    let start = started(event, 0);
    let end = ended(&start, OutcomeKind::Succeeded, None).with_attempts(3);
    log.is(event, &[], "an event without records has no runs");
    log.write(std::slice::from_ref(&start), 5);
    log.is(event, &[&start], "a start is recorded");
    log.write(std::slice::from_ref(&end), 5);
    log.is(event, &[&end], "the end of a run replaces its start");
    log.write(&[start.clone(), end.clone()], 5);
    log.is(event, &[&end], "a record that is written twice is kept once");
    log.write(&[start], 5);
    log.is(event, &[&end], "a late start does not replace the end of its run");
    Ok(())
}

pub(super) fn the_newest_runs_stay_and_the_last_success<H: Harness>(subject: &Subject<H>) -> CaseResult {
    let log = log_of(subject)?;
    let name = subject.name("many");
    let event = name.mutex();
    let runs: Vec<RunRecord> = (0..MANY)
        .map(|number| {
            let run = started(event, number);
            if number == 3 {
                ended(&run, OutcomeKind::Succeeded, None)
            } else {
                ended(&run, OutcomeKind::Failed, Some("it broke"))
            }
        })
        .collect();
    for runs in runs.chunks(9) {
        log.write(runs, 5);
    }
    let newest: Vec<&RunRecord> = runs.iter().rev().take(4).chain([&runs[3]]).collect();
    log.is(event, &newest, "the newest runs and the last success stay");
    log.write(&[started(event, MANY)], 1);
    let left = answered("runs", &event, log.0.runs(event));
    must(left.len() == 1, "the log keeps no more runs than it should", &event, left.len());
    Ok(())
}

pub(super) fn runs_are_in_the_order_in_which_the_store_was_told_of_them<H: Harness>(
    subject: &Subject<H>,
) -> CaseResult {
    let log = log_of(subject)?;
    let name = subject.name("ahead");
    let event = name.mutex();
    // The clock of one host is ahead, the clock of another host is behind, and a third clock is set back again and
    // again.
    let starts: Vec<RunRecord> = [90, 91, 50, 51, 7, 6, 5].iter().map(|number| started(event, *number)).collect();
    let fails = |record: &RunRecord| ended(record, OutcomeKind::Failed, Some("it broke"));
    let newest_first = |records: &[RunRecord]| records.iter().rev().cloned().collect::<Vec<_>>();
    starts[..2].iter().for_each(|start| log.write(std::slice::from_ref(start), 4));
    log.write(&starts[2..4], 4);
    let is = |expected: &[RunRecord], promise| log.is(event, &expected.iter().collect::<Vec<_>>(), promise);
    is(&newest_first(&starts[..4]), "the last written run is the newest");
    let mut records = [&starts[0], &starts[1], &starts[2], &starts[3]].map(fails);
    records[1] = ended(&starts[1], OutcomeKind::Succeeded, None);
    for at in [3, 0, 2, 1] {
        log.write(std::slice::from_ref(&records[at]), 4);
    }
    is(&newest_first(&records), "the end of a run keeps the place of its start");
    log.write(&starts[4..6], 4);
    let kept = [&starts[5], &starts[4], &records[3], &records[1]].map(Clone::clone);
    is(&kept, "the runs that were written first are dropped first, except for the last success");
    log.write(&starts[6..], 4);
    let kept = [&starts[6], &starts[5], &starts[4], &records[1]].map(Clone::clone);
    is(&kept, "the runs that were written first are dropped first");
    Ok(())
}

pub(super) fn skipped_occurrences_are_counted_beside_the_runs<H: Harness>(subject: &Subject<H>) -> CaseResult {
    let log = log_of(subject)?;
    let (name, other) = (subject.name("skips"), subject.name("Skips"));
    let event = name.mutex();
    let skips = |reason, count, latest| {
        SkipCount::new(reason, count, occurrence(latest)).expect("the log can count these reasons")
    };
    let none = log.0.skips(event);
    if none.as_ref().is_err_and(MutexError::is_unsupported) {
        return Err(DoesNotApply("the log counts no skipped occurrences, and says so"));
    }
    let is = |name: &MutexName, expected: &[SkipCount], promise| {
        let mut found = answered("skips", name, log.0.skips(name.mutex()));
        found.sort_unstable_by_key(SkipCount::reason);
        must(found == expected, promise, name, format_args!("{found:?} came instead of {expected:?}"));
    };
    let count = |skips: &[SkipCount]| answered("count_skips", &name, log.0.count_skips(event, skips));
    is(&name, &[], "for an event without skipped occurrences, the log returns no counts");
    count(&[skips("paused", 1, 3), skips("overlapping", 2, 5)]);
    is(&name, &[skips("overlapping", 2, 5), skips("paused", 1, 3)], "skipped occurrences are counted by their reasons");
    let run = started(event, 0);
    log.write(std::slice::from_ref(&run), 1);
    count(&[skips("overlapping", 40, 4)]);
    count(&[skips("stuck", 1, 6)]);
    let all = [skips("overlapping", 42, 5), skips("paused", 1, 3), skips("stuck", 1, 6)];
    is(&name, &all, "counts add up, and the latest occurrence stays");
    log.write(&[started(event, 1)], 1);
    is(&name, &all, "dropped runs do not change the counts");
    let left = answered("runs", &event, log.0.runs(event));
    must(left.len() == 1, "a write of counts drops no runs", &event, left.len());
    is(&other, &[], "each event has its own counts");
    Ok(())
}

pub(super) fn the_log_of_one_event_has_nothing_to_do_with_anything_else<H: Harness>(
    subject: &Subject<H>,
) -> CaseResult {
    let log = log_of(subject)?;
    let names: Vec<_> = ODD.iter().map(|odd| subject.name(odd)).collect();
    let leases: Vec<_> = names.iter().step_by(2).map(|name| subject.create(name)).collect();
    let records: Vec<RunRecord> = (0..).zip(&names).map(|(number, name)| started(name.mutex(), number)).collect();
    log.write(&records, 1);
    for (name, record) in names.iter().zip(&records) {
        log.is(name.mutex(), &[record], "each event has its own runs");
    }
    match log.0.events() {
        Err(error) if error.is_unsupported() => {}
        listed => {
            let listed = answered("events", &subject.run, listed);
            for name in &names {
                let count = listed.iter().filter(|event| *event == name.mutex()).count();
                let promise = "the log lists each of its events once";
                must(count == 1, promise, name, format_args!("it was listed {count} times"));
            }
        }
    }
    names.iter().skip(1).step_by(2).for_each(|name| subject.is_free(name, "a write to the log acquires no name"));
    for lease in &leases {
        subject.is_held_by(lease, "a write to the log changes no lease");
        subject.releases(lease);
    }
    Ok(())
}

pub(super) fn no_run_is_lost_and_none_too_many_stays_where_many_write_at_once<H: Harness>(
    subject: &Subject<H>,
) -> CaseResult {
    const WRITERS: usize = 4;
    const ROUNDS: usize = 10;
    let log = log_of(subject)?;
    let all = subject.name("all");
    let few = |round| subject.name(format_args!("few {round}"));
    let stores: Vec<_> = (0..WRITERS).map(|_| subject.harness.mutex()).collect();
    let write = |writer: usize, round: usize| {
        let log = Log(stores[writer].run_log().expect("the store keeps a log"));
        for (event, keep) in [(all.clone(), WRITERS * ROUNDS), (few(round), 2)] {
            let start = started(event.mutex(), round);
            let end = ended(&start, OutcomeKind::Succeeded, None);
            for record in [start, end] {
                log.write(&[record], keep);
            }
        }
    };
    exactly(WRITERS, 0..ROUNDS, write, |()| {});
    let records = |name: &MutexName| answered("runs", name, log.0.runs(name.mutex()));
    let ended = records(&all).iter().filter(|record| record.end().is_some()).count();
    must(ended == WRITERS * ROUNDS, "no end of a run is lost", &all, format_args!("{ended} were found"));
    for name in (0..ROUNDS).map(few) {
        let kept = records(&name).len();
        must(kept == 2, "the log keeps no more runs than it should", &name, format_args!("{kept} were found"));
    }
    Ok(())
}
