//! One tick, `run_due`: makes the plan, performs the runs of the plan, and reports.

use std::ptr;
use std::sync::{Arc, atomic::Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::execute::{run_planned, skip_planned};
use super::history::run_logger::RunLogger;
use super::report::{Entry, Report};
use super::schedule::Schedule;
use super::schedule::registry::Registry;
use super::shutdown::{Shutdown, shutdown_state::TickGuard};
use crate::base::catch_panic::contain;
use crate::base::lock::lock;
use crate::event::definition::Definition;
use crate::event::protection::claim::CLAIM_MARGIN;
use crate::observe::notice::{About, Step};
use crate::observe::tell::trace;
use crate::outcome::skip_reason::SkipReason;
use crate::store::event_mutex::description::Scope;
use crate::time::{clock::moment::Moment, tick::Tick, timetable::jitter::Jitter, zone::Zone};

pub(crate) mod backfill;
pub(crate) mod missed_check;
pub(crate) mod next_due;
pub(crate) mod planned_run;
mod run_event;

use missed_check::{check_missed, write_markers};
use planned_run::{PlannedRun, StartedBy, TickContext};

impl Schedule {
    /// Runs one tick: every event that is due in the minute of `now`. Returns when all runs have ended.
    ///
    /// Call this once a minute, for example from cron. In a service, call [`work`](Self::work) instead. The schedule
    /// does not remember which events have run: if you call this twice in one minute, events without
    /// [`on_one_server`](crate::Event::on_one_server) or [`once_per`](crate::Event::once_per) run twice, and a warning
    /// is logged once. If an event is due more often than once a minute, only its latest occurrence up to `now` runs;
    /// see [`run_minute`](Self::run_minute). Events run one after another, in the order in which they were added.
    /// Events that are [`in_background`](crate::Event::in_background) run at the same time as the other events of the
    /// tick. All events of the tick use this `now`, even if the tick takes long.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| println!("reporting")).every_minute())?;
    /// let report = schedule.run_due(chrono::Utc::now());
    /// assert!(!report.is_failure());
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_due(&self, now: DateTime<Utc>) -> Report {
        let _call = self.begin_call();
        let plan = self.events.registry().plan_tick(now, DateTime::<Utc>::MIN_UTC);
        self.warn_of_repetition(&plan);
        self.tick(&plan, None, None)
    }

    /// Logs a warning if the last call of `run_due` was less than a minute earlier, and so has run an event of this plan
    /// already. The warning is logged once for a schedule.
    fn warn_of_repetition(&self, plan: &TickPlan) {
        if plan.due.is_empty() {
            return;
        }
        let mut last_tick = lock(&self.last_tick);
        let Some(last) = *last_tick else { return };
        *last_tick = Some(plan.now);
        let is_soon = last < plan.now && plan.now - last < TimeDelta::minutes(1);
        if is_soon && let Some(event) = plan.repeated_since(last) {
            *last_tick = None;
            drop(last_tick);
            trace::runs_again(event);
        }
    }

    /// Runs the events that were due after `last`, up to `now`. Use this call in a loop of your own if the ticks of the
    /// loop may be late. Pass the `now` of one call as the `last` of the next call, so that no minute is left out or
    /// repeated.
    ///
    /// Only the occurrences of the last five minutes before `now` run. Other servers may have run earlier occurrences,
    /// and their claims may have expired. So the earlier occurrences count as missed: their number is logged, and
    /// [`catch_up`](crate::Event::catch_up) and [`catch_up_all`](crate::Event::catch_up_all) make up for them. The
    /// report has all entries, minute by minute. If `now` is not later than `last`, for example because the clock was
    /// set back, nothing is due.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| {}).every_minute())?;
    /// let (last, now) = ("2026-03-01T12:00:59Z".parse()?, "2026-03-01T12:02:01Z".parse()?);
    /// assert_eq!(schedule.run_due_since(last, now).entries().len(), 2); // 12:01 and 12:02
    /// # Ok(())
    /// # }
    /// ```
    pub fn run_due_since(&self, last: DateTime<Utc>, now: DateTime<Utc>) -> Report {
        // All minutes have one beginning: if the events of a minute take long, the later minutes are late.
        let (_call, began) = (self.begin_call(), self.clock.moment());
        let instant = TimeDelta::nanoseconds(1);
        let longest = TimeDelta::from_std(CLAIM_MARGIN).unwrap_or_default() + instant;
        let earliest = now.checked_sub_signed(longest).unwrap_or(DateTime::<Utc>::MIN_UTC);
        if last < earliest {
            self.log_missed_minutes(last, earliest + instant);
        }
        let registry = self.events.registry();
        let mut since = last.max(earliest);
        let mut entries = Vec::new();
        while since < now {
            let next = since + instant;
            let until = now.min(Tick::at(next, &Zone::UTC).next_minute() - instant).max(next);
            let plan = registry.plan_tick(until, since).carried_out_at(now);
            entries.extend(self.tick(&plan, Some(began), None).entries);
            since = until;
        }
        self.report(now, entries)
    }

    /// Logs that there was no tick between `after` and `until`, and how many occurrences were due in between.
    pub(super) fn log_missed_minutes(&self, after: DateTime<Utc>, until: DateTime<Utc>) {
        let occurrences = self.due_between(after + TimeDelta::nanoseconds(1)..until).take(trace::MOST_COUNTED).count();
        trace::minutes_missed(after, until, occurrences);
    }
}

/// The events to run in a tick, by their index in the registry, in ascending order.
pub(super) struct TickPlan {
    pub(super) registry: Arc<Registry>,
    pub(super) now: DateTime<Utc>,
    pub(super) due: Vec<(usize, Tick)>,
    /// The occurrences that were missed, unless another server ran them. The occurrences of one event follow one
    /// another, oldest first.
    pub(super) maybe_missed: Vec<(usize, Tick)>,
}

impl Registry {
    /// Plans the tick at `now`, for starts later than `since`. Calls no filters, and asks no store.
    pub(super) fn plan_tick(self: &Arc<Self>, now: DateTime<Utc>, since: DateTime<Utc>) -> TickPlan {
        let due = self.due_index.due(now, since);
        let mut maybe_missed = Vec::new();
        for at in &self.catch_up_events {
            let Definition { timetable, catch_up: Some(catch_up), .. } = &*self.events[*at] else { continue };
            let first = due.partition_point(|(event, _)| event < at);
            let its_own = due[first..].iter().take_while(|(event, _)| event == at).map(|(_, tick)| tick.occurrence());
            for due in its_own.clone() {
                catch_up.begin(due);
            }
            let minute = Tick::at(now, &timetable.zone).occurrence();
            // Only the first tick of a minute looks for missed occurrences.
            if since < minute {
                let missed = catch_up.begin_candidates(timetable, minute, its_own.min()).into_iter();
                maybe_missed.extend(missed.map(|missed| (*at, timetable.tick(now, missed))));
            }
        }
        TickPlan { registry: Arc::clone(self), now, due, maybe_missed }
    }
}

impl TickPlan {
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty() && self.maybe_missed.is_empty()
    }

    /// Returns the smallest lateness in the plan: that of the most recent occurrence.
    pub(super) fn lateness(&self) -> Duration {
        self.due.iter().map(|(_, tick)| tick.lateness()).min().unwrap_or_default()
    }

    /// Returns the plan with only the due events whose claims outlast this process. For these, a claim shows whether an
    /// earlier process has run the occurrence.
    pub(super) fn only_claimed(mut self) -> Self {
        self.due.retain(|(event, tick)| {
            let Definition { protection, store, catch_up, .. } = &*self.registry.events[*event];
            let is_kept = protection.claim.is_some() && store.scope != Scope::Process;
            // A later tick may make up for an occurrence that is left out.
            if !is_kept && let Some(catch_up) = catch_up {
                catch_up.end(tick.occurrence());
            }
            is_kept
        });
        self
    }

    /// Returns an event of the plan that makes no claims, and whose occurrence was due at `last` already. An event with a
    /// jitter starts later than its occurrence, so it does not count.
    pub(super) fn repeated_since(&self, last: DateTime<Utc>) -> Option<&str> {
        let events = self.due.iter().map(|(event, tick)| (&self.registry.events[*event], tick.occurrence()));
        let starts_at_once = |event: &Definition| event.timetable.jitter == Jitter::NONE;
        let mut repeated = events.filter(|(event, occurrence)| starts_at_once(event) && *occurrence <= last);
        repeated.find(|(event, _)| event.protection.claim.is_none()).map(|(event, _)| &*event.name)
    }

    /// Returns this plan for a tick at `now`, which may be later than planned. The plan keeps its occurrences.
    pub(super) fn carried_out_at(mut self, now: DateTime<Utc>) -> Self {
        self.now = now;
        for (event, tick) in self.due.iter_mut().chain(&mut self.maybe_missed) {
            *tick = self.registry.events[*event].timetable.tick(now, tick.occurrence());
        }
        self
    }
}

impl Schedule {
    /// Performs the planned runs, or skips them because of `refusal`. Passes the report to `on_report`. `began` is the
    /// moment at which the clock showed the time of the plan. `None`: now.
    pub(super) fn tick(&self, plan: &TickPlan, began: Option<Moment>, refusal: Option<&SkipReason>) -> Report {
        if plan.is_empty() {
            return self.report(plan.now, Vec::new());
        }
        let report = self.run_plan(plan, began, refusal);
        if let Some(call) = self.on_report.as_ref().filter(|_| !report.entries().is_empty())
            && let Err(message) = contain(|| call(&report))
        {
            trace::report_not_delivered(&message);
        }
        report
    }

    fn run_plan(&self, plan: &TickPlan, began: Option<Moment>, refusal: Option<&SkipReason>) -> Report {
        let TickPlan { registry, now, due, maybe_missed } = plan;
        let began = began.unwrap_or_else(|| self.clock.moment());
        let span = trace::tick_span(*now, due.len());
        let _in_span = span.enter();
        let context = TickContext { now: *now, began, ..TickContext::new(self, registry, StartedBy::Timetable) };
        let mut planned_runs = context.plan(due);
        let is_one_event = |run: &PlannedRun<'_>, next: &PlannedRun<'_>| ptr::eq(run.event, next.event);
        if refusal.is_some() {
            for (event, tick) in maybe_missed {
                if let Some(catch_up) = &registry.events[*event].catch_up {
                    catch_up.end(tick.occurrence());
                }
            }
        } else if !registry.catch_up_events.is_empty() {
            planned_runs = Self::with_missed(plan, planned_runs, &context);
        }
        for of_event in planned_runs.chunk_by_mut(is_one_event).filter(|runs| runs.len() > 1) {
            for planned in of_event {
                planned.is_backlog = true;
            }
        }
        if let Some(pauses) = &context.pauses {
            pauses.watch(planned_runs.iter().filter_map(PlannedRun::own_pause_to_read).cloned().collect());
        }
        self.tell_begin();
        for planned in &planned_runs {
            let due = Step::Due { late: planned.lateness, missed: planned.missed.is_some() };
            self.observers.tell(About::from(&planned.id), &due);
        }
        let entries = match refusal {
            None => run_planned(planned_runs),
            Some(reason) => skip_planned(planned_runs, reason),
        };
        self.report(*now, entries)
    }

    /// Makes the report of a tick, or of several ticks together.
    pub(super) fn report(&self, at: DateTime<Utc>, entries: Vec<Entry>) -> Report {
        Report { at, entries, shutdown: self.shutdown.clone() }
    }

    /// Returns the due and the missed runs, in the order in which their events were added.
    fn with_missed<'a>(plan: &TickPlan, due: Vec<PlannedRun<'a>>, context: &'a TickContext<'a>) -> Vec<PlannedRun<'a>> {
        if !context.schedule.is_shutting_down() {
            write_markers(due.iter().map(|run| run.event), context);
        }
        let mut planned_runs: Vec<(usize, PlannedRun<'a>)> =
            plan.due.iter().map(|(event, _)| *event).zip(due).collect();
        for candidates in plan.maybe_missed.chunk_by(|(event, _), (next, _)| event == next) {
            let missed = check_missed(context.plan(candidates));
            planned_runs.extend(missed.into_iter().map(|missed| (candidates[0].0, missed)));
        }
        planned_runs.sort_by_key(|(event, planned)| (*event, planned.id.occurrence));
        planned_runs.into_iter().map(|(_, planned)| planned).collect()
    }

    /// Reports the names of the present events to the observers, once after each change.
    pub(super) fn tell_begin(&self) {
        if !self.observers.is_any() {
            return;
        }
        let registry = self.events.registry();
        if self.told_of.fetch_max(registry.version + 1, Ordering::Relaxed) <= registry.version {
            let events: Vec<&str> = registry.names().collect();
            self.observers.tell(About::default(), &Step::Begins { events: &events });
        }
    }

    /// Begins a call that runs events.
    pub(super) fn begin_call(&self) -> CallGuard<'_> {
        CallGuard { run_logger: self.run_logger.as_ref(), _tick: self.shutdown.as_ref().map(Shutdown::tick) }
    }
}

/// A call that runs events. The process may end after the call, so the drop of this value writes the last records of
/// runs and numbers of skips, and waits for these writes. A shutdown waits until this value is dropped.
pub(super) struct CallGuard<'a> {
    run_logger: Option<&'a Arc<RunLogger>>,
    _tick: Option<TickGuard<'a>>,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        if let Some(logger) = self.run_logger {
            logger.finish();
        }
    }
}
