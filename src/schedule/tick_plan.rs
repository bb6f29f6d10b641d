//! One tick: plans which events run, runs them, and reports.

use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::execute::{run_planned, skip_planned};
use super::missed::write_marks;
use super::planned_run::PlannedRun;
use super::registry::Schedule;
use super::report::Report;
use super::shutdown::Shutdown;
use super::tick_context::{StartedBy, TickContext};
use crate::base::catch_panic::contain;
use crate::event::definition::Definition;
use crate::observe::notice::{About, Step, incident::Incident};
use crate::observe::skip_reason::SkipReason;
use crate::observe::tell::{log, trace::TraceSpan};
use crate::time::tick::Tick;

/// The events to run in a tick, by their index, in ascending order.
pub(super) struct TickPlan {
    now: DateTime<Utc>,
    due: Vec<(usize, Tick)>,
    /// Occurrences that were missed, unless another server ran them.
    maybe_missed: Vec<(usize, Tick)>,
}

impl TickPlan {
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty() && self.maybe_missed.is_empty()
    }

    /// How late it is for the last of what is due in it.
    pub(super) fn lateness(&self) -> Duration {
        let late = self.due.iter().map(|(_, tick)| self.now - tick.occurrence()).min();
        late.and_then(|late| late.to_std().ok()).unwrap_or_default()
    }

    /// The plan with this event only.
    #[cfg(feature = "cli")]
    pub(super) fn only(mut self, event: usize) -> Self {
        self.due.retain(|(due, _)| *due == event);
        self.maybe_missed.clear();
        self
    }

    /// The plan with the due events that make claims only: a claim tells whether an occurrence ran already.
    pub(super) fn only_claimed(mut self, schedule: &Schedule) -> Self {
        self.due.retain(|(event, _)| schedule.events[*event].protection.claim.is_some());
        self
    }
}

impl Schedule {
    /// Plans the tick at `now`, for occurrences later than `since`. No I/O.
    pub(super) fn plan_tick(&self, now: DateTime<Utc>, since: DateTime<Utc>) -> TickPlan {
        let due = self.due_index.due(now, since);
        let mut maybe_missed = Vec::new();
        for at in &self.catch_up_events {
            let Definition { timetable, catch_up: Some(catch_up), .. } = &*self.events[*at] else { continue };
            if let Ok(found) = due.binary_search_by_key(at, |(event, _)| *event) {
                // The due occurrence replaces those that were missed before it.
                catch_up.begin(due[found].1.occurrence());
                continue;
            }
            let tick = Tick::at(now, &timetable.zone);
            let minute = tick.occurrence();
            // Check once a minute only.
            if since < minute
                && let Some(missed) = catch_up.begin_candidate(timetable, minute)
            {
                maybe_missed.push((*at, tick.for_missed(missed, &timetable.zone)));
            }
        }
        TickPlan { now, due, maybe_missed }
    }

    /// Tells the observers which events there are, once.
    pub(super) fn tell_begin(&self) {
        if self.observers.is_any() && !self.has_begun.swap(true, Ordering::Relaxed) {
            let events: Vec<&str> = self.names().collect();
            self.observers.tell(About::default(), &Step::Begins { events: &events });
        }
    }

    /// Runs all that is planned, and hands the report to `on_report`.
    pub(super) fn tick(&self, plan: &TickPlan) -> Report {
        self.carry_out(plan, None)
    }

    /// Skips all that is due for one reason, and hands the report to `on_report`.
    pub(super) fn refuse(&self, plan: &TickPlan, reason: &SkipReason) -> Report {
        self.carry_out(plan, Some(reason))
    }

    fn carry_out(&self, plan: &TickPlan, refusal: Option<&SkipReason>) -> Report {
        if plan.is_empty() {
            return Report::new(plan.now, Vec::new(), self.shutdown.as_ref());
        }
        let report = self.run_plan(plan, refusal);
        if let Some(told) = self.on_report.as_ref().filter(|_| !report.entries().is_empty())
            && let Err(message) = contain(|| told(&report))
        {
            log(&Incident::ReportNotTold(&message));
        }
        report
    }

    fn run_plan(&self, plan: &TickPlan, refusal: Option<&SkipReason>) -> Report {
        let TickPlan { now, due, maybe_missed } = plan;
        let _ticking = self.shutdown.as_ref().map(Shutdown::tick);
        let span = TraceSpan::of_tick(*now, due.len());
        let _in_span = span.enter();
        let planned = || due.iter().chain(maybe_missed).map(|(event, _)| &self.events[*event]);
        let is_alone = due.len() + maybe_missed.len() == 1;
        let beside = refusal.is_none()
            && planned().any(|event| event.protection.queue.is_some() || (event.background && !is_alone));
        let context = self.tick_context(StartedBy::Timetable, beside);
        let planned_runs = due.iter().map(|(event, tick)| self.planned_run(*event, *tick, &context));
        let mut planned_runs: Vec<_> = planned_runs.collect();
        if refusal.is_some() {
            for (event, tick) in maybe_missed {
                self.events[*event].catch_up.iter().for_each(|catch_up| catch_up.end(tick.occurrence()));
            }
        } else if !self.catch_up_events.is_empty() {
            planned_runs = self.with_missed(plan, planned_runs, &context);
        }
        if let Some(pauses) = &context.pauses {
            pauses.watch(planned_runs.iter().filter_map(PlannedRun::own_pause_to_read).cloned().collect());
        }
        self.tell_begin();
        for planned in planned_runs.iter().filter(|_| self.observers.hear()) {
            planned.tell(&Step::Due { late: planned.lateness(), missed: planned.missed.is_some() });
        }
        let entries = match refusal {
            None => run_planned(&planned_runs, beside),
            Some(reason) => skip_planned(&planned_runs, reason),
        };
        Report::new(*now, entries, self.shutdown.as_ref())
    }

    /// The due and the missed runs, in the order in which their events were added.
    fn with_missed<'a>(
        &'a self,
        plan: &TickPlan,
        due: Vec<PlannedRun<'a>>,
        context: &'a TickContext<'a>,
    ) -> Vec<PlannedRun<'a>> {
        if !context.is_shutting_down() {
            write_marks(&due);
        }
        let mut planned_runs: Vec<(usize, PlannedRun<'a>)> =
            plan.due.iter().map(|(event, _)| *event).zip(due).collect();
        for (event, tick) in &plan.maybe_missed {
            let planned = self.planned_run(*event, *tick, context);
            if let Some(missed) = planned.check_missed() {
                planned_runs.push((*event, PlannedRun { missed: Some(missed), ..planned }));
            }
        }
        planned_runs.sort_by_key(|(event, _)| *event);
        planned_runs.into_iter().map(|(_, planned)| planned).collect()
    }
}
