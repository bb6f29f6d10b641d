//! What writing some records changes in the log of an event: which are written, and which are dropped.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ptr;

use super::{MOST_KEPT, RunRecord};

/// What becomes of the log of one event.
pub(crate) struct LogChange<'a> {
    #[cfg_attr(not(any(feature = "redis", feature = "mysql", feature = "postgres")), expect(dead_code))]
    pub(crate) event: &'a str,
    /// The records to write, each in place of an earlier one of the same run.
    pub(crate) written: Vec<&'a RunRecord>,
    /// The records to drop, as they were found. One without an end is dropped only if it still has none: its end makes it the
    /// last success, perhaps, and whoever wrote that end will not look again.
    pub(crate) dropped: Vec<&'a RunRecord>,
}

impl<'a> LogChange<'a> {
    /// What `new` records change in those that were found, if `keep` of them are kept.
    pub(crate) fn new(event: &'a str, found: &[&'a RunRecord], new: &[&'a RunRecord], keep: usize) -> Self {
        let keep = keep.clamp(1, MOST_KEPT);
        let mut runs: Vec<KnownRun> = found.iter().map(|record| KnownRun { record, found: Some(record) }).collect();
        for &record in new {
            match runs.iter_mut().find(|run| run.record.id == record.id) {
                None => runs.push(KnownRun { record, found: None }),
                Some(run) if record.end.is_some() && run.record != record => run.record = record,
                Some(_) => {}
            }
        }
        let surplus = split_surplus(&mut runs, keep);
        let written = runs.iter().filter(|run| run.is_changed()).map(|run| run.record).collect();
        let dropped = surplus.iter().filter_map(|run| run.found).collect();
        Self { event, written, dropped }
    }

    /// The records after the change of those that were found.
    pub(crate) fn applied_to<'r>(&'r self, found: &'r [RunRecord]) -> impl Iterator<Item = &'r RunRecord> {
        let is_left = |record: &&RunRecord| {
            !self.dropped.contains(record) && !self.written.iter().any(|written| written.id == record.id)
        };
        found.iter().filter(is_left).chain(self.written.iter().copied())
    }

    /// The runs to drop, by whether their records have an end.
    #[cfg(any(feature = "redis", feature = "mysql", feature = "postgres"))]
    pub(crate) fn dropped_ids(&self, with_an_end: bool) -> Vec<String> {
        let dropped = self.dropped.iter().filter(|record| record.end.is_some() == with_an_end);
        dropped.map(|record| record.id.to_string()).collect()
    }

    #[cfg(any(feature = "redis", feature = "mysql", feature = "postgres", test))]
    pub(crate) fn is_empty(&self) -> bool {
        self.written.is_empty() && self.dropped.is_empty()
    }
}

/// A run on record, or that is to be.
struct KnownRun<'a> {
    /// The newer one of its records.
    record: &'a RunRecord,
    /// The one that was found.
    found: Option<&'a RunRecord>,
}

impl KnownRun<'_> {
    fn is_changed(&self) -> bool {
        self.found.is_none_or(|found| !ptr::eq(found, self.record))
    }
}

/// The records of each event, in their order.
pub(crate) fn by_event(records: &[RunRecord]) -> BTreeMap<&str, Vec<&RunRecord>> {
    let mut events: BTreeMap<&str, Vec<&RunRecord>> = BTreeMap::new();
    for record in records {
        events.entry(&record.event).or_default().push(record);
    }
    events
}

/// Puts the newest first.
pub(crate) fn newest_first(mut records: Vec<RunRecord>) -> Vec<RunRecord> {
    records.sort_unstable_by_key(|record| Reverse((record.started, record.id)));
    records
}

/// Keeps the newest `keep`, and returns the others. If none of them is a success, the newest success stays in place of the
/// oldest of them, so that the last success is always known; unless only one is kept.
fn split_surplus<'a>(runs: &mut Vec<KnownRun<'a>>, keep: usize) -> Vec<KnownRun<'a>> {
    runs.sort_unstable_by_key(|run| Reverse((run.record.started, run.record.id)));
    let last_success = runs.iter().position(|run| run.record.is_success());
    if let Some(last_success) = last_success.filter(|at| *at >= keep && keep >= 2) {
        runs.swap(keep - 1, last_success);
    }
    runs.split_off(keep.min(runs.len()))
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, TimeDelta};

    use super::*;
    use crate::lease::owner::Owner;
    use crate::observe::run_record::run_result::RunResult;

    /// A run that started so many seconds after the first; `None`: it has not ended.
    fn run(second: i64, result: Option<RunResult>) -> RunRecord {
        let at = DateTime::UNIX_EPOCH + TimeDelta::seconds(second);
        let record = RunRecord::started("reports", Owner::unique(), at, None, at);
        match result {
            None => record,
            Some(result) => record.ended(at, result, None),
        }
    }

    fn seconds(records: &[RunRecord], keep: usize) -> Vec<i64> {
        let mut kept: Vec<KnownRun> = records.iter().map(|record| KnownRun { record, found: None }).collect();
        split_surplus(&mut kept, keep);
        kept.iter().map(|run| run.record.started.timestamp()).collect()
    }

    fn change<'a>(found: &'a [RunRecord], new: &[&'a RunRecord], keep: usize) -> LogChange<'a> {
        LogChange::new("reports", &found.iter().collect::<Vec<_>>(), new, keep)
    }

    fn ids(records: &[&RunRecord]) -> Vec<Owner> {
        records.iter().map(|record| record.id).collect()
    }

    #[test]
    fn the_newest_stay_and_the_last_success_among_them() {
        let (success, failure) = (Some(RunResult::Succeeded), Some(RunResult::Failed));
        let runs = [run(2, success), run(1, success), run(5, None), run(3, failure), run(4, failure)];
        assert_eq!(seconds(&runs, 6), [5, 4, 3, 2, 1]);
        assert_eq!(seconds(&runs, 5), [5, 4, 3, 2, 1]);
        assert_eq!(seconds(&runs, 4), [5, 4, 3, 2]);
        assert_eq!(seconds(&runs, 3), [5, 4, 2]);
        assert_eq!(seconds(&runs, 2), [5, 2]);
        assert_eq!(seconds(&runs, 1), [5]);
        let failures = [run(1, failure), run(2, None), run(3, Some(RunResult::TimedOut))];
        assert_eq!(seconds(&failures, 2), [3, 2]);
        assert_eq!(seconds(&[], 1), [0; 0]);
    }

    #[test]
    fn runs_that_started_at_the_same_time_are_ordered_by_their_ids() {
        let runs = [run(0, None), run(0, None), run(0, None)];
        let ordered = newest_first(vec![runs[1].clone(), runs[2].clone(), runs[0].clone()]);
        assert_eq!(ordered, [&runs[2], &runs[1], &runs[0]].map(Clone::clone));
        let all = runs.each_ref();
        assert_eq!(ids(&change(&[], &all, 2).written), [runs[2].id, runs[1].id]);
    }

    #[test]
    fn an_end_replaces_the_start_and_a_late_start_does_not_undo_it() {
        let start = run(0, None);
        let end = start.clone().ended(start.started, RunResult::Failed, Some("it broke"));
        let written = |found: &[RunRecord], new: &[&RunRecord]| {
            let change = change(found, new, 5);
            assert_eq!(change.dropped, Vec::<&RunRecord>::new());
            change.written.into_iter().cloned().collect::<Vec<_>>()
        };
        assert_eq!(written(&[], &[&start, &end]), std::slice::from_ref(&end));
        assert_eq!(written(&[], &[&end, &start]), std::slice::from_ref(&end));
        assert_eq!(written(std::slice::from_ref(&start), &[&end]), std::slice::from_ref(&end));
        assert_eq!(written(std::slice::from_ref(&start), &[&start]), []);
        assert_eq!(written(std::slice::from_ref(&end), &[&start]), []);
        assert_eq!(written(std::slice::from_ref(&end), &[&end]), [], "what is on record is not written again");
    }

    #[test]
    fn what_is_dropped_is_not_written() {
        let runs = [run(1, None), run(2, None), run(3, None)];
        let late = run(0, None);
        assert!(change(&runs, &[&late], 3).is_empty());
        let next = run(4, None);
        let LogChange { written, dropped, .. } = change(&runs, &[&next], 3);
        assert_eq!((ids(&written), dropped), (vec![next.id], vec![&runs[0]]));
        assert_eq!(change(&runs, &[], 0).dropped, [&runs[1], &runs[0]], "one stays in any case");
        let many: Vec<RunRecord> = (0..1001).map(|second| run(second, None)).collect();
        assert_eq!(change(&many, &[], usize::MAX).dropped, [&many[0]]);
    }

    #[test]
    fn the_records_of_a_batch_are_told_apart_by_their_events() {
        let other = RunRecord { event: "Reports".into(), ..run(1, None) };
        let records = [run(1, None), other, run(2, None)];
        let events = by_event(&records);
        assert_eq!(events["reports"], [&records[0], &records[2]]);
        assert_eq!(events["Reports"], [&records[1]]);
    }
}
