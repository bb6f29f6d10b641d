//! Records with the numbers that their store assigned. A log is sorted and trimmed by these numbers, and not by times,
//! because the clocks of hosts differ.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{MOST_KEPT, RunRecord};

/// A record with the number of its run. A store assigns the number when it first writes a record of the run. So later
/// runs have higher numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NumberedRecord {
    pub(crate) number: u64,
    pub(crate) record: RunRecord,
}

impl NumberedRecord {
    /// Returns the line of the record, without the event and the id.
    pub(crate) fn to_line(&self) -> String {
        format!("number={} {}", self.number, self.record.to_line())
    }

    /// Returns the record in `line`. `None`: the line is damaged.
    pub(crate) fn of_line(event: &str, id: &str, line: &str) -> Option<Self> {
        let (number, line) = line.strip_prefix("number=")?.split_once(' ')?;
        Some(Self { number: number.parse().ok()?, record: RunRecord::of_line(event, id.parse().ok()?, line)? })
    }
}

/// Groups the records by event. The records of one event keep their order.
pub(crate) fn by_event(records: &[RunRecord]) -> BTreeMap<&str, Vec<&RunRecord>> {
    let mut events: BTreeMap<&str, Vec<&RunRecord>> = BTreeMap::new();
    for record in records {
        events.entry(&record.event).or_default().push(record);
    }
    events
}

/// Adds `new` records to the `found` records of an event, and returns the records that [`split_surplus`] keeps.
///
/// A record with an end replaces the earlier record of its run, and the run keeps its number. A record without an end
/// replaces nothing.
pub(crate) fn add(found: Vec<NumberedRecord>, new: &[&RunRecord], keep: usize) -> Vec<NumberedRecord> {
    let mut runs = found;
    let mut last = runs.iter().map(|run| run.number).max().unwrap_or_default();
    for &record in new {
        match runs.iter_mut().find(|run| run.record.id == record.id) {
            None => {
                last += 1;
                runs.push(NumberedRecord { number: last, record: record.clone() });
            }
            Some(run) if record.end.is_some() => run.record = record.clone(),
            Some(_) => {}
        }
    }
    split_surplus(&mut runs, keep);
    runs
}

/// Keeps the newest `keep` runs, and returns the others. If `keep` is two or more, and none of the kept runs is a
/// success, the newest success is kept in place of the oldest kept run. So such a log always has the last success.
pub(crate) fn split_surplus(runs: &mut Vec<NumberedRecord>, keep: usize) -> Vec<NumberedRecord> {
    let keep = keep.clamp(1, MOST_KEPT);
    runs.sort_unstable_by_key(|run| Reverse(run.number));
    let last_success = runs.iter().position(|run| run.record.is_success());
    if let Some(last_success) = last_success.filter(|at| *at >= keep && keep >= 2) {
        runs.swap(keep - 1, last_success);
    }
    runs.split_off(keep.min(runs.len()))
}

/// Returns the records without their numbers, the newest first.
pub(crate) fn newest_first(mut runs: Vec<NumberedRecord>) -> Vec<RunRecord> {
    runs.sort_unstable_by_key(|run| Reverse(run.number));
    runs.into_iter().map(|run| run.record).collect()
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, TimeDelta};

    use super::*;
    use crate::lease::owner::Owner;
    use crate::outcome::run_record::outcome_kind::OutcomeKind;

    /// Returns the record of a run on a host whose clock is fast by `ahead` minutes. If `result` is `None`, the run has
    /// not ended.
    fn run(ahead: i64, result: Option<OutcomeKind>) -> RunRecord {
        let at = DateTime::UNIX_EPOCH + TimeDelta::minutes(ahead);
        let record = RunRecord::started("reports", Owner::unique(), at, None, at);
        match result {
            None => record,
            Some(result) => record.ended(at, result, None),
        }
    }

    /// Writes `records` one after another, and returns the numbers of the runs that are kept.
    fn numbers(records: &[RunRecord], keep: usize) -> Vec<u64> {
        let one_by_one = |found, record| add(found, &[record], MOST_KEPT);
        let mut runs = records.iter().fold(Vec::new(), one_by_one);
        split_surplus(&mut runs, keep);
        runs.iter().map(|run| run.number).collect()
    }

    #[test]
    fn the_newest_stay_and_the_last_success_among_them_whatever_the_clocks_say() {
        let (success, failure) = (Some(OutcomeKind::Succeeded), Some(OutcomeKind::Failed));
        let runs = [run(9, success), run(3, success), run(7, failure), run(1, failure), run(5, None)];
        assert_eq!(numbers(&runs, 6), [5, 4, 3, 2, 1]);
        assert_eq!(numbers(&runs, 5), [5, 4, 3, 2, 1]);
        assert_eq!(numbers(&runs, 4), [5, 4, 3, 2]);
        assert_eq!(numbers(&runs, 3), [5, 4, 2]);
        assert_eq!(numbers(&runs, 2), [5, 2]);
        assert_eq!(numbers(&runs, 1), [5]);
        assert_eq!(numbers(&runs, 0), [5], "one stays in any case");
        let failures = [run(3, failure), run(2, None), run(1, Some(OutcomeKind::TimedOut))];
        assert_eq!(numbers(&failures, 2), [3, 2]);
        let many: Vec<RunRecord> = (0..1001).map(|_| run(0, None)).collect();
        let mut all = add(Vec::new(), &many.iter().collect::<Vec<_>>(), usize::MAX);
        assert_eq!((all.len(), all.pop().map(|run| run.number)), (1000, Some(2)));
    }

    #[test]
    fn an_end_takes_the_place_of_its_start_and_a_late_start_does_not_undo_it() {
        let (start, other) = (run(0, None), run(0, None));
        let end = start.clone().ended(start.started, OutcomeKind::Failed, Some("it broke"));
        let number = |number, record: &RunRecord| NumberedRecord { number, record: record.clone() };
        for new in [&[&start, &end, &other][..], &[&end, &start, &other], &[&start, &other, &end]] {
            assert_eq!(add(Vec::new(), new, 5), [number(2, &other), number(1, &end)]);
        }
        let found = vec![number(7, &start), number(9, &other)];
        assert_eq!(add(found, &[&end], 5), [number(9, &other), number(7, &end)]);
        let found = vec![number(7, &end)];
        assert_eq!(add(found, &[&start, &end], 5), [number(7, &end)]);
        assert_eq!(add(vec![number(7, &start)], &[&other], 1), [number(8, &other)]);
        assert_eq!(newest_first(vec![number(7, &start), number(9, &other)]), [other, start]);
    }

    #[test]
    fn the_records_of_a_batch_are_told_apart_by_their_events() {
        let other = RunRecord { event: "Reports".into(), ..run(1, None) };
        let records = [run(1, None), other, run(2, None)];
        let events = by_event(&records);
        assert_eq!(events["reports"], [&records[0], &records[2]]);
        assert_eq!(events["Reports"], [&records[1]]);
    }

    #[test]
    fn a_numbered_record_is_read_back_from_its_line() {
        let numbered = NumberedRecord { number: u64::MAX, record: run(1, Some(OutcomeKind::Failed)) };
        let (line, id) = (numbered.to_line(), numbered.record.id.to_string());
        assert_eq!(NumberedRecord::of_line("reports", &id, &line).as_ref(), Some(&numbered));
        for wrong in [&line[1..], &line.replace("number=", "number=-"), &numbered.record.to_line()] {
            assert_eq!(NumberedRecord::of_line("reports", &id, wrong), None, "{wrong}");
        }
    }
}
