//! The loop of a service, and of a minute with sub-minute events: ticks when something is due, and sleeps otherwise.
//!
//! Each tick has a thread of its own, as it has a process of its own under cron, so that a slow event delays no other tick.
//! The loop follows the wall clock, which may step. So it remembers which times it has ticked through, and wakes up once a
//! minute to read the clock.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::report::Report;
use super::schedule::Schedule;
use super::shutdown::Shutdown;
use super::tick_context::{StartedBy, TickContext};
use super::tick_plan::TickPlan;
use super::tick_plan::catch_up_check::write_markers;
use super::tick_plan::planned_run::PlannedRun;
use crate::base::{catch_panic::contain, threads};
use crate::observe::notice::{About, Step};
use crate::outcome::skip_reason::SkipReason;
use crate::time::clock::wall_plus;
use crate::time::{tick::Tick, zone::Zone};

#[cfg(feature = "tokio")]
pub(crate) mod as_futures;
mod clock_steps;
mod loop_notices;

use clock_steps::TickProgress;
use loop_notices::LoopNotices;

/// The longest sleep of the loop, so that it soon notices that the clock was set or the machine was suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// The least lateness of a tick that observers are notified of.
const LATE: Duration = Duration::from_secs(5);

impl Schedule {
    /// Ticks until `shutdown` begins, and returns when all of its runs have ended: the loop of a service. The shutdown
    /// cancels its runs when its drain is over, as if the schedule had been [given](Self::with_shutdown) it.
    ///
    /// It ticks at the start of each minute with a due event, and at the second for events that are due more
    /// often. It sleeps in between, and wakes up once a minute at the most if nothing is due. It begins with the next
    /// minute, so that a service that is started again within a minute does not run that minute's events twice; it
    /// starts at once with events whose claims prevent that, by [`on_one_server`](crate::Event::on_one_server) or
    /// [`once_per`](crate::Event::once_per).
    ///
    /// Each tick runs on a thread of its own, so that an event that takes five minutes delays none of the ticks after it. If the
    /// system has no thread for one, its events are skipped as [`NoThread`](crate::SkipReason::NoThread).
    /// Without [`without_overlapping`](crate::Event::without_overlapping) such an event that is due every minute runs
    /// beside itself, as it would under cron. Within a tick, events run one after another, and those behind a slow one
    /// wait for it, unless they are [`in_background`](crate::Event::in_background).
    ///
    /// **No occurrence runs twice** because the clock was set back by up to three hours: of the times that the clock
    /// shows again, those that the loop ticked through are not ticked again. After a larger step it begins anew.
    /// Occurrences that a clock set forward skips, or that are due while the machine is suspended, are missed; events
    /// that [`catch_up`](crate::Event::catch_up) make up for them. The loop notices such a step within a minute, and
    /// tells subscribers of `tracing`.
    ///
    /// Its reports go to subscribers of `tracing` and to [`on_report`](Self::on_report). If there is neither, each
    /// failure is written to standard error when its run ends, in a line that begins with `soloist: `. The `shutdown`
    /// replaces an earlier one of the schedule.
    ///
    /// ```no_run
    /// use soloist::{Event, FileMutex, Schedule, Shutdown};
    ///
    /// # #[cfg(feature = "signals")]
    /// fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     let shutdown = Shutdown::on_signals()?;
    ///     let mut schedule = Schedule::new(FileMutex::in_dir("/var/lib/myapp/locks")?);
    ///     schedule.add(Event::call("reports", |_| println!("reporting")).every_minute().without_overlapping())?;
    ///     schedule.work(&shutdown);
    ///     shutdown.finish(); // ends the process as the signal would have
    ///     Ok(())
    /// }
    /// # #[cfg(not(feature = "signals"))]
    /// # fn main() {}
    /// ```
    pub fn work(&self, shutdown: &Shutdown) {
        let schedule = Self { drops_reports: self.on_report.is_none(), ..self.clone().with_shutdown(shutdown) };
        // The process waits for the loop, not only for its ticks.
        let _working = shutdown.tick();
        schedule.tell_begin();
        let now = schedule.clock.now();
        let mut progress = TickProgress::begin(now);
        thread::scope(|scope| {
            let waiting = shutdown.waiting(&schedule.clock);
            // `tick` has passed each report to `on_report` already.
            let notices = LoopNotices::start(scope);
            let threads = TickThreads { scope, schedule: &schedule, report: &drop, notices };
            threads.notices.tell(|| schedule.write_all_markers());
            let plan = schedule.plan_tick(now, now - TimeDelta::minutes(1)).only_claimed(&schedule);
            threads.tick(plan, Duration::ZERO);
            while !shutdown.is_triggered() {
                // In this order, so that a delay between the two readings makes the loop wake up early, and not late.
                let moment = schedule.clock.moment();
                let now = schedule.clock.now();
                threads.notices.tell_alive(&schedule.observers);
                if let Some(since) = progress.tick(now, |after, until| schedule.log_missed_minutes(after, until)) {
                    let plan = schedule.plan_tick(now, since);
                    let late = plan.lateness();
                    threads.tick(plan, late);
                }
                shutdown.sleep_until(moment.plus(schedule.rest(&progress, now)), &waiting);
            }
            // Marks the shutdown as seen by the application, so that the caller gets the rest of drain and grace.
            shutdown.mark_seen();
        });
        self.finish_run_log_of_loop();
    }

    /// Runs one minute: [`run_due`](Self::run_due) at `now`, and, if events are due more often than every minute, at each of
    /// their times up to the end of the minute of `now`. For a binary that cron starts every minute. The report has all
    /// that was due, in the order of the ticks.
    ///
    /// The ticks run on threads of their own, so that a task that takes longer than its interval delays no later tick.
    /// Occurrences earlier in the minute than `now` are not made up for. It waits in real time, also if `now` is in
    /// another minute. Without sub-minute events it does what `run_due` does.
    ///
    /// ```no_run
    /// use soloist::{Event, FileMutex, Report, Schedule};
    ///
    /// fn main() -> Result<Report, Box<dyn std::error::Error>> {
    ///     let mut schedule = Schedule::new(FileMutex::in_dir("/var/lib/myapp/locks")?);
    ///     schedule.add(Event::call("poll", |_| println!("anything new?")).every_ten_seconds().without_overlapping())?;
    ///     Ok(schedule.run_minute(chrono::Utc::now()))
    /// }
    /// ```
    pub fn run_minute(&self, now: DateTime<Utc>) -> Report {
        let end = Tick::at(now, &Zone::UTC).next_minute();
        // The call in the minute before has run the occurrences of that minute.
        let before_it = Tick::at(now, &Zone::UTC).occurrence() - TimeDelta::seconds(1);
        let next_after = |now| self.due_index.next_look(now).filter(|next| *next < end);
        if next_after(now).is_none() {
            let report = self.tick(&self.plan_tick(now, before_it));
            self.finish_run_log();
            return report;
        }
        let (first, began) = (now, self.clock.moment());
        let shutdown = self.shutdown.clone().unwrap_or_default();
        let _working = shutdown.tick();
        let reports = Mutex::new(Vec::new());
        let report = |report| reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
        thread::scope(|scope| {
            let waiting = shutdown.waiting(&self.clock);
            let threads = TickThreads { scope, schedule: self, report: &report, notices: LoopNotices::default() };
            let (mut now, mut since) = (first, before_it);
            while now < end {
                threads.tick(self.plan_tick(now, since), Duration::ZERO);
                let Some(next) = next_after(now) else { break };
                let moment = began.plus((next - first).to_std().unwrap_or_default());
                if shutdown.sleep_until(moment, &waiting) {
                    break;
                }
                since = now;
                now = wall_plus(first, self.clock.moment().since(began));
            }
        });
        self.finish_run_log_of_loop();
        let mut reports = reports.into_inner().unwrap_or_else(PoisonError::into_inner);
        reports.sort_by_key(Report::at);
        let entries = reports.into_iter().flat_map(Report::into_entries).collect();
        Report::new(first, entries, self.shutdown.as_ref())
    }

    /// Returns how long the loop sleeps at `now`: until the next tick, a minute at most.
    fn rest(&self, progress: &TickProgress, now: DateTime<Utc>) -> Duration {
        let next = self.due_index.next_look(progress.ticked_until(now));
        let rest = next.and_then(|next| (next - now).to_std().ok());
        rest.map_or(LONGEST_SLEEP, |rest| rest.min(LONGEST_SLEEP))
    }

    /// Tells the stores since when they know the events that make up for missed occurrences.
    fn write_all_markers(&self) {
        let (context, now) = (TickContext::new(self, StartedBy::Timetable), self.clock.now());
        let tick = |event: usize| Tick::at(now, &self.events[event].timetable.zone);
        let planned_runs: Vec<_> =
            self.catch_up_events.iter().map(|event| PlannedRun::new(*event, tick(*event), &context)).collect();
        write_markers(&planned_runs);
    }
}

/// The threads of a loop, one for each tick.
struct TickThreads<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    schedule: &'env Schedule,
    report: &'env (dyn Fn(Report) + Sync),
    notices: LoopNotices<'env>,
}

impl TickThreads<'_, '_> {
    /// Runs a tick on a thread of its own, if anything is planned. If the system has no thread, nothing of the tick runs: a task
    /// that hangs would stop the loop. Tasks and hooks contain their panics, so a panic here is of a subscriber of `tracing`: the
    /// loop goes on.
    fn tick(&self, plan: TickPlan, late: Duration) {
        if plan.is_empty() {
            return;
        }
        let (schedule, report, plan) = (self.schedule, self.report, Arc::new(plan));
        let ticked = Arc::clone(&plan);
        let tick = move || {
            if late >= LATE {
                schedule.observers.tell(About::default(), &Step::TickLate(late));
            }
            report(schedule.tick(&ticked));
        };
        if let Err(error) = threads::start_in(self.scope, "soloist-tick", move || _ = contain(tick)) {
            let reason = SkipReason::NoThread(error.to_string().into());
            self.notices.tell(move || report(schedule.refuse(&plan, &reason)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::event_builder::Event;

    #[test]
    fn an_hour_in_which_none_of_ten_thousand_events_is_due_has_sixty_wake_ups() {
        let mut schedule = Schedule::in_process();
        for number in 0..10_000 {
            let event = Event::call(format!("event {number}"), |_| {});
            // Half of them would need every second, at a time that is not in this hour.
            let event = if number % 2 == 0 { event.every_second().yearly() } else { event.cron("0 0 29 2 *") };
            schedule.add(event).unwrap();
        }
        let start: DateTime<Utc> = "2026-03-01T12:00:30Z".parse().unwrap();
        let (mut now, mut wakes) = (start, 0);
        let mut progress = TickProgress::begin(now);
        while now < start + TimeDelta::hours(1) {
            let since = progress.tick(now, |_, _| {});
            assert!(since.is_none_or(|since| schedule.plan_tick(now, since).is_empty()));
            now = wall_plus(now, schedule.rest(&progress, now));
            wakes += 1;
        }
        // The first wake-up is the start.
        assert_eq!(wakes - 1, 60);
    }
}
