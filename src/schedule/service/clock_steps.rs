//! Steps of the wall clock. If the clock is set back, no tick is repeated. If the clock is set forward, or if the
//! machine is suspended, the missed minutes are logged.

use chrono::{DateTime, TimeDelta, Utc};

use crate::observe::tell::trace;
use crate::time::{tick::Tick, zone::Zone};

/// If the clock is set back by more than this, the loop starts again from the new time, as cronie does. After a smaller
/// step, the loop waits until the clock again shows the time that it showed before the step.
const LARGEST_STEP: TimeDelta = TimeDelta::hours(3);

/// The times through which the loop has ticked.
#[derive(Clone, Debug)]
pub(super) struct TickProgress {
    /// The intervals through which the loop has ticked. Intervals are dropped when they are [`LARGEST_STEP`] old.
    ticked: Vec<TickedInterval>,
    /// The last reading of the clock.
    last: DateTime<Utc>,
}

/// The times after `from`, up to `until`.
#[derive(Clone, Copy, Debug)]
struct TickedInterval {
    from: DateTime<Utc>,
    until: DateTime<Utc>,
}

impl TickProgress {
    /// Returns the progress of a loop that begins with the occurrences after `now`.
    pub(super) fn begin(now: DateTime<Utc>) -> Self {
        Self { ticked: vec![TickedInterval { from: now - TimeDelta::nanoseconds(1), until: now }], last: now }
    }

    /// Returns the instant after which the tick at `now` begins: the tick runs the later occurrences, up to `now`.
    /// `None`: there is no tick at `now`, because the loop has already ticked through `now`, or because the clock was
    /// set back so far that the loop starts again from `now`. If the loop has left out minutes before this tick, calls
    /// `missed` with the beginning and the end of this gap.
    pub(super) fn tick(
        &mut self,
        now: DateTime<Utc>,
        missed: impl FnOnce(DateTime<Utc>, DateTime<Utc>),
    ) -> Option<DateTime<Utc>> {
        let back = std::mem::replace(&mut self.last, now) - now;
        if back > LARGEST_STEP {
            trace::clock_set_back(back.num_seconds(), true);
            *self = Self::begin(now);
            return None;
        }
        if back >= TimeDelta::seconds(1) {
            trace::clock_set_back(back.num_seconds(), false);
        }
        if self.interval_around(now).is_some() {
            return None;
        }
        let minute = Tick::at(now, &Zone::UTC).occurrence();
        let before_it = minute - TimeDelta::seconds(1);
        let earlier = self.ticked.iter_mut().filter(|interval| interval.until < now);
        match earlier.max_by_key(|interval| interval.until) {
            // The loop has already ticked in the minute of this tick, or in the minute before. So no minute was left
            // out.
            Some(interval) if interval.until >= minute - TimeDelta::minutes(1) => {
                Some(std::mem::replace(&mut interval.until, now))
            }
            earlier => {
                if let Some(TickedInterval { until, .. }) = earlier {
                    missed(*until, minute);
                }
                self.ticked.retain(|interval| now - interval.until <= LARGEST_STEP);
                self.ticked.push(TickedInterval { from: before_it, until: now });
                Some(before_it)
            }
        }
    }

    fn interval_around(&self, now: DateTime<Utc>) -> Option<&TickedInterval> {
        self.ticked.iter().find(|interval| interval.from < now && now <= interval.until)
    }

    /// Returns the end of the ticked interval that includes `now`. If no ticked interval includes `now`, returns `now`.
    pub(super) fn ticked_until(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        self.interval_around(now).map_or(now, |interval| interval.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_ticked_is_not_ticked_again_after_two_steps_back() {
        let at = |minute: i64| DateTime::UNIX_EPOCH + TimeDelta::minutes(minute);
        let mut progress = TickProgress::begin(at(775));
        let mut ticks = |minutes: std::ops::RangeInclusive<i64>| -> Vec<i64> {
            minutes.filter(|minute| progress.tick(at(*minute), |_, _| ()).is_some()).collect()
        };
        assert_eq!(ticks(776..=780), [776, 777, 778, 779, 780]);
        assert_eq!(ticks(660..=662), [660, 661, 662], "two hours back");
        assert_eq!(ticks(544..=545), [544, 545], "two hours back again");
        assert_eq!(ticks(659..=663), [659, 663]);
        assert_eq!(ticks(774..=782), [774, 781, 782]);
    }

    #[test]
    fn a_step_forward_is_missed_time_however_far_it_is() {
        let at = |hour: i64| DateTime::UNIX_EPOCH + TimeDelta::hours(hour);
        for hours in [1, 3, 4, 1000] {
            let (mut progress, mut missed) = (TickProgress::begin(at(0)), None);
            progress.tick(at(hours), |after, until| missed = Some((after, until)));
            assert_eq!(missed, Some((at(0), at(hours))));
        }
    }
}
