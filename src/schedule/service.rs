//! The loop of a service, and the loop of `run_minute`. A loop ticks when an event is due, and sleeps between ticks.
//!
//! Each tick has its own thread, so that a slow event delays no other tick. (Under cron, each tick has its own
//! process.) The loop follows the wall clock, which may be set at any time. So the loop remembers the times through
//! which it has ticked, and wakes up at least once a minute to read the clock.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::report::Report;
use super::run_due::TickPlan;
use super::run_due::missed_check::write_markers;
use super::run_due::planned_run::{StartedBy, TickContext};
use super::schedule::{Schedule, live_events::EventsUntil, registry::Registry};
use super::shutdown::Shutdown;
use crate::base::lock::lock;
use crate::base::{catch_panic::contain, threads};
use crate::observe::notice::{About, Step};
use crate::outcome::skip_reason::SkipReason;
use crate::task::{event_task::Work, runtime};
use crate::time::clock::{moment::Moment, wall_plus};
use crate::time::{tick::Tick, zone::Zone};

#[cfg(feature = "tokio")]
pub(crate) mod as_futures;
mod clock_steps;
mod loop_notices;

use clock_steps::TickProgress;
use loop_notices::LoopNotices;

/// The longest sleep of the loop. After each sleep, the loop notices whether the clock was set or the machine was
/// suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// The smallest lateness of a tick that is reported to observers.
const LATE: Duration = Duration::from_secs(5);

impl Schedule {
    /// Ticks until `shutdown` begins, and returns when all runs have ended: this is the loop of a service. When the
    /// drain of the shutdown is over, running runs are cancelled, as with [`with_shutdown`](Self::with_shutdown).
    ///
    /// The loop ticks at the start of each minute with a due event, and at the exact second for events that are due
    /// more often. Between ticks the loop sleeps. If nothing is due, it wakes up once a minute. Most events first run
    /// for their next occurrence after the start of the loop. Otherwise a service that is restarted within a minute
    /// would run the events of that minute twice. Only events with [`on_one_server`](crate::Event::on_one_server) or
    /// [`once_per`](crate::Event::once_per) run at the start, too, if they were due in the minute before it: their
    /// claims prevent a second run. (Claims in a [`MemoryMutex`](crate::MemoryMutex) end with their process, so events
    /// in such a store do not run at the start.)
    ///
    /// Each tick has its own thread, so that an event that takes five minutes does not delay later ticks. If the system
    /// has no thread for a tick, its events are skipped as [`NoThread`](crate::SkipReason::NoThread). Without
    /// [`without_overlapping`](crate::Event::without_overlapping), a slow event that is due every minute overlaps
    /// itself, as under cron. Within a tick, events run one after another, and wait for a slow event before them,
    /// unless they are [`in_background`](crate::Event::in_background).
    ///
    /// **No occurrence runs twice** if the clock is set back by up to three hours: the loop does not tick again at
    /// times through which it has ticked. After a larger step, the loop starts again from the new time. If the clock is
    /// set forward, or if the machine is suspended, the occurrences in between are missed;
    /// [`catch_up`](crate::Event::catch_up) makes up for them. The loop notices such a step within a minute, and
    /// reports it to subscribers of `tracing`.
    ///
    /// **Events can change** while the loop runs: they may be [added](Self::add), [replaced](Self::replace) and
    /// [removed](Self::remove). An occurrence belongs to the event that the schedule had at the time of the occurrence.
    /// So an added event runs from its next occurrence on, and a removed event still runs the occurrences before its
    /// removal.
    ///
    /// The results go to subscribers of `tracing` and to [`on_report`](Self::on_report). If there is neither, each
    /// failure is printed on standard error when its run ends, in a line that begins with `soloist: `. This `shutdown`
    /// replaces a shutdown that the schedule already has.
    ///
    /// ```no_run
    /// use soloist::{Event, FileMutex, Schedule, Shutdown};
    ///
    /// # #[cfg(feature = "signals")]
    /// fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     let shutdown = Shutdown::on_signals()?;
    ///     let schedule = Schedule::new(FileMutex::in_dir("/var/lib/myapp/locks")?);
    ///     schedule.add(Event::call("reports", |_| println!("reporting")).every_minute().without_overlapping())?;
    ///     schedule.work(&shutdown);
    ///     shutdown.finish(); // ends the process as the signal would have
    ///     Ok(())
    /// }
    /// # #[cfg(not(feature = "signals"))]
    /// # fn main() {}
    /// ```
    pub fn work(&self, shutdown: &Shutdown) {
        self.block_here(|schedule| schedule.run_loop(shutdown));
    }

    /// Runs one minute, for a binary that cron starts every minute. First, this runs the events that are due from the
    /// beginning of the minute up to `now`, as [`run_due`](Self::run_due) does. If events are due more often than once a
    /// minute, the call then also ticks at each of their due times until the end of the minute. The report has all due
    /// events, in the order of the ticks.
    ///
    /// Each tick has its own thread, so that a task that takes longer than its interval delays no later tick. Of the
    /// occurrences of an event up to `now`, only the latest runs, as in `run_due`. Between its ticks, the call waits in
    /// real time, even if `now` is in another minute. If no event is due more often than once a minute, this does only
    /// what `run_due` does.
    ///
    /// ```no_run
    /// use soloist::{Event, FileMutex, Report, Schedule};
    ///
    /// fn main() -> Result<Report, Box<dyn std::error::Error>> {
    ///     let schedule = Schedule::new(FileMutex::in_dir("/var/lib/myapp/locks")?);
    ///     schedule.add(Event::call("poll", |_| println!("anything new?")).every_ten_seconds().without_overlapping())?;
    ///     Ok(schedule.run_minute(chrono::Utc::now()))
    /// }
    /// ```
    pub fn run_minute(&self, now: DateTime<Utc>) -> Report {
        let end = Tick::at(now, &Zone::UTC).next_minute();
        let last_second = end - TimeDelta::seconds(1);
        let registry = self.events.registry();
        // The call for the previous minute has run the occurrences before this minute.
        let before_it = Tick::at(now, &Zone::UTC).occurrence().checked_sub_signed(TimeDelta::seconds(1));
        let before_it = before_it.unwrap_or(DateTime::<Utc>::MIN_UTC);
        let next_after = |now| registry.due_index.next_look(now).filter(|next| *next < end);
        let first = now;
        let began = self.clock.moment();
        let _call = self.begin_call();
        if next_after(now).is_none() {
            return self.tick(&registry.plan_tick(now, before_it), Some(began), None);
        }
        let shutdown = self.shutdown.clone().unwrap_or_default();
        let reports = Mutex::new(Vec::new());
        let report = |report| lock(&reports).push(report);
        let tick_to_the_end = |schedule: &Self| {
            thread::scope(|scope| {
                let waiting = shutdown.waiting(&self.clock);
                let threads = TickThreads { scope, schedule, report: &report, notices: LoopNotices::default() };
                let mut now = first;
                let mut since = before_it;
                let mut moment = began;
                loop {
                    threads.tick(registry.plan_tick(now, since), moment, Duration::ZERO);
                    let Some(next) = next_after(now) else { break };
                    if shutdown.sleep_until(began.plus((next - first).to_std().unwrap_or_default()), &waiting) {
                        break;
                    }
                    (since, moment) = (now, self.clock.moment());
                    // If the thread wakes up after the minute, its last occurrences run nevertheless.
                    now = wall_plus(first, moment.since(began)).min(last_second);
                }
            });
        };
        self.block_here(tick_to_the_end);
        let mut reports = reports.into_inner().unwrap_or_else(PoisonError::into_inner);
        reports.sort_by_key(Report::at);
        let entries = reports.into_iter().flat_map(|report| report.entries).collect();
        self.report(first, entries)
    }

    /// Runs the loop of [`work`](Self::work).
    fn run_loop(&self, shutdown: &Shutdown) {
        let schedule = Self { drops_reports: self.on_report.is_none(), ..self.clone().with_shutdown(shutdown) };
        let _call = schedule.begin_call();
        schedule.tell_begin();
        thread::scope(|scope| {
            let waiting = Arc::new(shutdown.waiting(&schedule.clock));
            let moment = schedule.clock.moment();
            let watch = schedule.events.watch(&schedule.clock, shutdown.waker(&waiting));
            let (_, EventsUntil { until: begin, registry }) = schedule.events.see(&watch);
            let mut progress = TickProgress::begin(begin);
            // `Schedule::tick` passes each report to `on_report`. So the threads can drop the reports.
            let notices = LoopNotices::start(scope);
            let threads = TickThreads { scope, schedule: &schedule, report: &drop, notices };
            let plan = registry.plan_tick(begin, begin - TimeDelta::minutes(1)).only_claimed();
            threads.write_markers(registry);
            threads.tick(plan, moment, Duration::ZERO);
            while !shutdown.is_triggered() {
                // The monotonic clock is read before the wall clock. So a delay between the two reads makes the loop
                // wake up early, and not late.
                let moment = schedule.clock.moment();
                let (past, present) = schedule.events.see(&watch);
                let now = present.until;
                threads.notices.tell_alive(&schedule.observers);
                if !past.is_empty() {
                    threads.write_markers(Arc::clone(&present.registry));
                }
                if let Some(since) = progress.tick(now, |after, until| schedule.log_missed_minutes(after, until)) {
                    for plan in plan_ticks(&past, &present, since) {
                        let late = plan.lateness();
                        threads.tick(plan, moment, late);
                    }
                }
                let rest = Self::rest(&present.registry, &progress, now);
                drop((past, present));
                shutdown.sleep_unless(|| watch.has_changes(), moment.plus(rest), &waiting);
            }
            // When this call returns, the application notices the shutdown. So it gets the rest of the drain, and then
            // the grace, for its own work.
            shutdown.mark_seen();
        });
    }

    /// Calls `body`, which blocks this thread. If the thread belongs to a runtime with other threads, these drive the
    /// tasks meanwhile. If the runtime has no other thread, `body` gets a schedule that knows the blocked runtime, and
    /// starts no task of that runtime.
    fn block_here<T>(&self, body: impl FnOnce(&Self) -> T) -> T {
        let has_future_on = |here| {
            let is_driven = |work: &Work| matches!(work, Work::Future(task) if task.is_driven_by(here));
            self.events.registry().events.iter().any(|event| is_driven(&event.work))
        };
        // On a runtime of one thread, the attempt to block prints a panic. So it is made only if an event needs it.
        if !runtime::here().is_some_and(|here| runtime::has_workers() || has_future_on(here)) {
            return body(self);
        }
        runtime::block(|blocked| match blocked {
            None => body(self),
            Some(_) => body(&Self { blocked, ..self.clone() }),
        })
    }

    /// Returns how long the loop sleeps at `now`: until the next tick, but not longer than a minute.
    fn rest(registry: &Registry, progress: &TickProgress, now: DateTime<Utc>) -> Duration {
        let next = registry.due_index.next_look(progress.ticked_until(now));
        let rest = next.and_then(|next| (next - now).to_std().ok());
        rest.map_or(LONGEST_SLEEP, |rest| rest.min(LONGEST_SLEEP))
    }
}

/// The threads of a loop, one for each tick.
struct TickThreads<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    schedule: &'env Schedule,
    report: &'env (dyn Fn(Report) + Sync),
    notices: LoopNotices<'env>,
}

/// Plans the ticks that are due now, for occurrences after `since`. If the schedule's events were changed in this time,
/// there is one plan for the time before each change, and one for the time after the last change.
fn plan_ticks(past: &[EventsUntil], present: &EventsUntil, mut since: DateTime<Utc>) -> Vec<TickPlan> {
    let now = present.until;
    let mut plans = Vec::new();
    for EventsUntil { until, registry } in past.iter().chain([present]) {
        let until = now.min(*until); // The clock may have been set back.
        if since < until {
            plans.push(registry.plan_tick(until, since).carried_out_at(now));
            since = until;
        }
    }
    plans
}

impl TickThreads<'_, '_> {
    /// Writes the markers of the events in `registry`. A marker shows since when the store knows the event. The thread
    /// of the notices writes them, so that the loop does not wait for the stores.
    fn write_markers(&self, registry: Arc<Registry>) {
        let schedule = self.schedule;
        self.notices.tell(move || {
            let context = TickContext::new(schedule, &registry, StartedBy::Timetable);
            write_markers(registry.catch_up_events.iter().map(|event| &*registry.events[*event]), &context);
        });
    }

    /// Runs a tick on a separate thread, if anything is planned. If the system has no thread, the events of the tick
    /// are skipped, because a task that hangs on this thread would stop the loop. Panics of tasks and hooks are caught
    /// elsewhere. If a subscriber of `tracing` panics, the loop continues.
    fn tick(&self, plan: TickPlan, began: Moment, late: Duration) {
        if plan.is_empty() {
            return;
        }
        let schedule = self.schedule;
        let report = self.report;
        let plan = Arc::new(plan);
        let ticked = Arc::clone(&plan);
        let tick = move || {
            if late >= LATE {
                schedule.observers.tell(About::default(), &Step::TickLate(late));
            }
            report(schedule.tick(&ticked, Some(began), None));
        };
        if let Err(error) = threads::start_in(self.scope, "soloist-tick", move || _ = contain(tick)) {
            let reason = SkipReason::NoThread(error.to_string().into());
            self.notices.tell(move || report(schedule.tick(&plan, Some(began), Some(&reason))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::event_builder::Event;
    use crate::time::clock::manual::ManualClock;

    #[test]
    fn an_hour_in_which_none_of_ten_thousand_events_is_due_has_sixty_wake_ups() {
        let schedule = Schedule::in_process();
        for number in 0..10_000 {
            let event = Event::call(format!("event {number}"), |_| {});
            // Events with an even number are due in each second of the first minute of the year, the others on 29
            // February. The hour of this test is in March.
            let event = if number % 2 == 0 { event.every_second().yearly() } else { event.cron("0 0 29 2 *") };
            schedule.add(event).unwrap();
        }
        let start: DateTime<Utc> = "2026-03-01T12:00:30Z".parse().unwrap();
        let (registry, mut now, mut wakes) = (schedule.events.registry(), start, 0);
        let mut progress = TickProgress::begin(now);
        while now < start + TimeDelta::hours(1) {
            let since = progress.tick(now, |_, _| {});
            assert!(since.is_none_or(|since| registry.plan_tick(now, since).is_empty()));
            now = wall_plus(now, Schedule::rest(&registry, &progress, now));
            wakes += 1;
        }
        // The first wake-up is the start.
        assert_eq!(wakes - 1, 60);
    }

    #[test]
    fn a_loop_that_is_late_ticks_through_the_events_of_each_time() {
        let at = |time: &str| format!("2026-03-01T{time}Z").parse::<DateTime<Utc>>().unwrap();
        let clock = ManualClock::at(at("12:00:30"));
        let schedule = Schedule::in_process().with_clock(&clock);
        let minute = |name: &str| Event::call(name, |_| {}).every_minute();
        schedule.add(minute("old")).unwrap().add(minute("gone")).unwrap();
        let watch = schedule.events.watch(&schedule.clock, || {});
        clock.advance(Duration::from_secs(85));
        schedule.remove("gone");
        schedule.replace(minute("old").every_fifteen_minutes()).unwrap_err();
        schedule.add(minute("new")).unwrap();
        clock.advance(Duration::from_secs(10));
        let (past, present) = schedule.events.see(&watch);
        assert_eq!(present.until, at("12:02:05"));
        let due = |plan: &TickPlan| {
            let name =
                |(event, tick): &(usize, Tick)| (plan.registry.events[*event].name().to_owned(), tick.occurrence());
            plan.due.iter().map(name).collect::<Vec<_>>()
        };
        let plans: Vec<_> = plan_ticks(&past, &present, at("12:00:30")).iter().flat_map(due).collect();
        let expected = [("old", "12:01:00"), ("gone", "12:01:00"), ("old", "12:02:00"), ("new", "12:02:00")];
        assert_eq!(plans, expected.map(|(name, time)| (name.to_owned(), at(time))));
        assert!(schedule.events.see(&watch).0.is_empty(), "each change is seen once");
        // The clock was set back after the change, so that 12:03 is still to come.
        clock.advance(Duration::from_secs(60));
        schedule.remove("new");
        clock.set(at("12:02:30"));
        let (past, present) = schedule.events.see(&watch);
        assert!(plan_ticks(&past, &present, at("12:02:05")).iter().all(TickPlan::is_empty));
    }
}
