//! Writes notices as events of `tracing`. Without a subscriber, some of them become lines on standard error. This file
//! also has the spans of ticks and runs. No other file uses `tracing`.

use std::fmt;
use std::io;
use std::sync::Once;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tracing::Dispatch;
pub(crate) use tracing::Span;
use tracing::dispatcher::get_default;
use tracing::field::display;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::NoSubscriber;

use crate::base::error::MutexError;
use crate::base::escape::{Chain, Named, OneLine};
use crate::base::{catch_panic::contain, standard_error::print_line};
use crate::lease::label::{this_host, this_instance};
use crate::lease::{holder::Holder, name::MutexName, token::FencingToken};
use crate::observe::notice::{About, Step};
use crate::outcome::fault::{Fault, HookFailure};
use crate::outcome::run_outcome::{Ended, RunOutcome};
use crate::outcome::{cancel::CancelReason, no_retry::NoRetry, release::Release, skip_reason::SkipReason};
use crate::time::clock::shown::{HumanDuration, Rfc3339, for_people};

/// Makes the span of a tick.
pub(crate) fn tick_span(now: DateTime<Utc>, due: usize) -> Span {
    tracing::info_span!(target: "soloist", "tick", now = %Rfc3339(now), due)
}

/// Makes the span of a run. Only the span has the name of the event; the messages inside of the span do not repeat it.
/// So the level of the span is `error`: even a filter that keeps only errors keeps the span.
pub(crate) fn run_span(about: About<'_>, instance: Option<&str>) -> Span {
    tracing::error_span!(
        target: "soloist",
        "run",
        event = about.event,
        occurrence = about.occurrence.map(|occurrence| display(Rfc3339(occurrence))),
        backfill = about.is_backfill.then_some(true),
        host = &*this_host(),
        pid = std::process::id(),
        instance,
    )
}

/// Emits an event of `tracing`, which has a level, fields and a message.
macro_rules! event {
    ($level:ident, $($fields:tt)*) => { tracing::$level!(target: "soloist", $($fields)*) };
}

/// Prints a line on standard error if there is no subscriber. This is for facts that are in no report.
macro_rules! line {
    ($($text:tt)*) => { print_unless_logged(format_args!($($text)*)) };
}

/// Returns whether there may be a subscriber.
pub(super) fn is_subscribed() -> bool {
    LevelFilter::current() != LevelFilter::OFF
}

/// Logs a step. [The book](https://docs.rs/crate/soloist/latest/source/docs/guide/logs.md) lists the fields. A message
/// without the field `event` is inside the span of its run, and the span has the field.
pub(super) fn trace(step: &Step<'_>, about: &About<'_>) {
    let event = about.event;
    let occurrence = about.occurrence.map(|occurrence| display(Rfc3339(occurrence)));
    match *step {
        // These steps are only for observers. A failed release is already logged, as `lease lost` or `lease not released`.
        Step::Begins { .. } | Step::Removed | Step::Released(Release::Lost | Release::Failed(_)) => {}
        Step::Due { late, missed } => event!(debug, event, occurrence, late_ms = millis(late), missed, "due"),
        Step::Admitted { token, took } => {
            event!(debug, token = token.map(FencingToken::get), took_us = micros(took), "admitted");
        }
        Step::Started { token } => event!(info, token = token.map(FencingToken::get), "started"),
        Step::Ended(outcome) => trace_run(outcome),
        Step::Released(Release::Released) => event!(debug, "released"),
        Step::Released(Release::HeldFor(left)) => {
            event!(debug, held_for_ms = millis(left.get()), "released later");
        }
        Step::Skipped(reason) => trace_skip(reason),
        Step::AttemptFailed { attempt, fault, retry_in } => {
            event!(warn, attempt, error = %OneLine(fault), retry_in_ms = millis(retry_in), "attempt failed");
        }
        Step::AttemptStarted { attempt } => event!(info, attempt, "attempt started"),
        Step::Queued { place } => event!(info, place, "queued"),
        Step::CatchesUp(late) => event!(info, late_ms = millis(late), "catching up a missed occurrence"),
        Step::Unprotected(error) => event!(warn, error = %OneLine(Chain(error)), "running unprotected"),
        Step::HookFailed(HookFailure { hook, number, fault }) => {
            event!(error, %hook, number, error = %OneLine(fault), "hook failed");
        }
        Step::Cancelled(reason) => {
            event!(info, event, occurrence, reason = reason.keyword(), "the run is asked to stop");
        }
        Step::DoesNotStop => {
            event!(warn, event, occurrence, "timed out and does not stop");
            if let (Some(event), Some(occurrence)) = (about.event, about.occurrence) {
                let (name, occurrence) = (Named(event), for_people(occurrence));
                line!("{name}: the run of {occurrence} timed out and does not stop");
            }
        }
        Step::LeaseLost { mutex, token } => {
            let mutex = mutex.map(|name| display(OneLine(name)));
            let token = token.map(FencingToken::get);
            event!(error, mutex, token, "lease lost");
        }
        Step::LeftBehind => event!(warn, event, occurrence, "left behind"),
        Step::Renewed { leases, late: 0, lowest } => event!(debug, leases, lowest_ms = millis(lowest), "renewed"),
        Step::Renewed { leases, late, lowest } => {
            event!(warn, leases, late, lowest_ms = millis(lowest), "renewed late");
        }
        Step::NotRenewed { leases, lowest, error } => {
            event!(warn, leases, lowest_ms = millis(lowest), error = %OneLine(Chain(error)), "not renewed yet");
            // Only a store whose `describe` is wrong gets here with this error: leases of other stores are not renewed.
            if error.is_unsupported() {
                static PRINTED: Once = Once::new();
                PRINTED.call_once(|| {
                    line!("a lease is not renewed, because {error}, but its `EventMutex::describe` says that it can");
                });
            }
        }
        Step::StoreUnavailable(error) => event!(error, error = %OneLine(Chain(error)), "store is unavailable"),
        Step::StoreAvailable => event!(info, "store is available again"),
        Step::Paused { schedule, until, why, scope } => {
            event!(info, schedule, event, until = %Rfc3339(until), why, ?scope, "paused");
        }
        Step::Resumed { schedule } => event!(info, schedule, event, "resumed"),
        Step::TickLate(late) => event!(warn, late_ms = millis(late), "tick is late"),
        Step::LoopAlive => event!(trace, "alive"),
    }
}

/// Calls `trace`, and catches a panic: a subscriber may panic, and so may the `Display` of an error.
pub(super) fn log(trace: impl FnOnce()) {
    if let Err(message) = contain(trace) {
        let _ = contain(|| event!(error, error = &*message, "error that can't be shown"));
    }
}

/// Logs that a lease could not be released.
pub(crate) fn not_released(mutex: &MutexName, error: &MutexError) {
    log(|| event!(error, mutex = %OneLine(mutex), error = %OneLine(Chain(error)), "lease not released"));
}

/// Logs that records of runs could not be written to the store. The write is retried.
pub(crate) fn runs_not_logged(error: &MutexError) {
    log(|| event!(warn, error = %OneLine(Chain(error)), "runs not logged yet"));
}

/// Logs that an event keeps failing, but could not be paused.
pub(crate) fn failing_not_paused(event: &str, error: &(dyn std::error::Error + 'static)) {
    log(|| event!(error, event, error = %OneLine(Chain(error)), "keeps failing, and was not paused"));
}

/// Logs that a callback of `on_report` panicked.
pub(crate) fn report_not_delivered(message: &str) {
    log(|| {
        event!(error, error = message, "report not delivered");
        line!("a report was not delivered, because on_report(..) panicked: {}", OneLine(message));
    });
}

/// Logs that an observer panicked.
pub(super) fn observer_panicked(message: &str) {
    log(|| {
        event!(error, error = message, "observer panicked");
        line!("an observer panicked: {}", OneLine(message));
    });
}

/// Logs that `on_one_server`, `once_per` or `on_overlap` protects an event in this process only, because no other process
/// shares its store.
pub(crate) fn store_is_not_shared(event: &str, scope: &dyn fmt::Debug) {
    static PRINTED: Once = Once::new();
    log(|| {
        event!(warn, event, ?scope, "event is protected in this process only");
        // Events with `on_one_server` mostly share one store, so the line is printed for the first event only.
        PRINTED.call_once(|| {
            line!(
                "event {}: on_one_server(), once_per(..) or on_overlap(..) protects it in this process only, because its store, that of its \
                 `mutex(..)` or of the schedule, is in memory: use file:/… for one host, or a server for several hosts \
                 (printed once, for the first such event)",
                Named(event)
            );
        });
    });
}

/// Logs that a call of `run_due` runs this event again for an occurrence that the call before it has run.
pub(crate) fn runs_again(event: &str) {
    log(|| {
        event!(warn, event, "run_due called twice in a minute");
        line!(
            "run_due(..) was called twice in a minute, so {} and all events without on_one_server() or once_per(..) run \
             twice: call it once a minute, or let work(..) of the schedule wait for the due times (printed once)",
            Named(event)
        );
    });
}

/// Logs that the timetable of an event is `own` on this server, but has been `other` on `server` for an hour or longer.
pub(crate) fn timetables_differ(event: &str, own: &str, other: &str, server: &str) {
    log(|| {
        event!(warn, event, timetable = own, other_timetable = other, server, "timetables differ");
        line!(
            "event {}: its timetable is {} here, and has been {} on {server} for more than an hour: change one of them, so \
             that all servers have one timetable",
            Named(event),
            Named(own),
            Named(other)
        );
    });
}

/// Logs that the `catch_up` marker of an event has a time in the future, by the clock of the store. The marker is
/// ignored.
pub(crate) fn marker_from_the_future(event: &str, by: Duration) {
    log(|| {
        event!(warn, event, by_s = by.as_secs(), "catch-up marker from the future ignored");
        line!(
            "event {}: its `catch_up` marker is {} in the future, because a clock was set back: the marker is ignored, and \
             `catch_up` runs the occurrences that no server has run",
            Named(event),
            HumanDuration(by)
        );
    });
}

/// Logs that the wall clock was set back by `by_s` seconds. `begins_anew`: the step was so large that the loop starts
/// again from the new time.
pub(crate) fn clock_set_back(by_s: i64, begins_anew: bool) {
    log(|| {
        if begins_anew {
            event!(warn, by_s, "clock set back: beginning anew");
            line!("the clock was set back by {by_s} s: the schedule starts again from the new time");
        } else {
            event!(warn, by_s, "clock set back");
            line!("the clock was set back by {by_s} s: occurrences that have run do not run again");
        }
    });
}

/// The largest number of missed occurrences that is logged. Counting stops at this number.
pub(crate) const MOST_COUNTED: usize = 1_000_000;

/// Logs that there was no tick between `after` and `until`. The reason is that the clock was set, or that the loop or
/// the machine stood still. `occurrences` is the number of occurrences in between; [`MOST_COUNTED`] means that number
/// or more.
pub(crate) fn minutes_missed(after: DateTime<Utc>, until: DateTime<Utc>, occurrences: usize) {
    log(|| {
        let at_least = if occurrences < MOST_COUNTED { "" } else { "at least " };
        event!(warn, after = %Rfc3339(after), until = %Rfc3339(until), occurrences, "minutes missed");
        line!(
            "no tick after {}, until {}: {at_least}{occurrences} occurrences were missed, because the clock was set, or the \
             machine was suspended",
            for_people(after),
            for_people(until)
        );
    });
}

/// Logs that the shutdown begins while `runs` runs are running. No run is cancelled yet.
pub(crate) fn shuts_down(signal: Option<i32>, runs: usize, drain: Duration, grace: Duration) {
    log(|| {
        let (drain_ms, grace_ms) = (millis(drain), millis(grace));
        let host = this_host();
        let pid = std::process::id();
        let instance = this_instance();
        event!(
            info,
            signal,
            runs,
            drain_ms,
            grace_ms,
            host = &*host,
            pid,
            instance = instance.as_deref(),
            "shutting down"
        );
    });
}

/// Logs that the drain of the shutdown is over. The `runs` runs that are still running are cancelled now.
pub(crate) fn drain_is_over(runs: usize, grace: Duration) {
    log(|| event!(warn, runs, grace_ms = millis(grace), "drain is over: runs are cancelled"));
}

/// Logs that this process, the child of a `fork`, can't handle the signals that should shut it down.
#[cfg(all(unix, feature = "signals"))]
pub(crate) fn signals_not_handled(error: &io::Error) {
    log(|| {
        event!(warn, %error, "signals do not shut this process down");
        line!("signals do not shut down process {}, which was forked: {error}", std::process::id());
    });
}

/// Logs that no thread could be started for `what`. `so` is the consequence.
pub(crate) fn no_thread(what: &str, so: &str, error: &io::Error) {
    log(|| {
        event!(warn, %error, "no thread for {what}: {so}");
        line!("no thread for {what}, so {so}: {error}");
    });
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn trace_skip(reason: &SkipReason) {
    let (keyword, holder) = (reason.keyword(), reason.holder());
    macro_rules! skip {
        ($level:ident, $($more:tt)*) => {
            event!(
                $level,
                reason = keyword,
                holder_host = holder.map(Holder::host),
                holder_pid = holder.map(Holder::pid),
                holder_instance = holder.and_then(Holder::instance),
                holder_application = holder.and_then(Holder::application),
                holder_since = holder.map(|holder| display(Rfc3339(holder.since()))),
                holder_until = holder.map(|holder| display(Rfc3339(holder.until()))),
                $($more)*
            )
        };
    }
    match reason {
        SkipReason::StoreUnavailable(error) => {
            event!(error, reason = keyword, error = %OneLine(Chain(error)), "no decision");
        }
        SkipReason::NoThread(error) | SkipReason::FilterPanicked(error) => {
            event!(error, reason = keyword, error = %OneLine(error), "no decision");
        }
        SkipReason::Overlapping(Some(ahead)) if reason.is_failure() => {
            let by_s = ahead.clock_set_back_by().map(|by| by.as_secs());
            skip!(warn, by_s, "skipped: the store's clock was set back");
        }
        SkipReason::Stuck { running_for, .. } => {
            skip!(error, running_ms = millis(*running_for), "skipped: the run is stuck");
        }
        _ if reason.other_application().is_some() => skip!(warn, "skipped: another application has this name"),
        _ => skip!(info, "skipped"),
    }
}

fn trace_run(outcome: &RunOutcome) {
    let (token, took_ms) = (outcome.token.map(FencingToken::get), millis(outcome.took));
    // The number of attempts is logged only after a retry.
    let attempts = Some(outcome.attempts()).filter(|attempts| *attempts > 1);
    let no_retry = outcome.no_retry().map(NoRetry::keyword);
    match &outcome.ended {
        Ended::Succeeded => event!(info, token, took_ms, attempts, "succeeded"),
        // An error of a task that was asked to stop is logged as `cancelled`. A panic is logged as `failed`.
        Ended::Faulted(fault @ (Fault::Failed(_) | Fault::Exited(_)))
            if outcome.cancelled.is_some_and(CancelReason::is_request) =>
        {
            let reason = outcome.cancelled.map(CancelReason::keyword);
            let error = fault.cancellation().is_none().then(|| display(OneLine(fault)));
            event!(warn, token, took_ms, reason, error, "cancelled");
        }
        Ended::Faulted(fault) => event!(error, token, took_ms, attempts, no_retry, error = %OneLine(fault), "failed"),
        Ended::TimedOut { limit, fault } => {
            let error = fault.as_ref().map(|fault| display(OneLine(fault)));
            event!(error, token, took_ms, limit_ms = millis(*limit), error, "timed out");
        }
        Ended::NotStarted => event!(error, token, "not started"),
    }
}

/// Prints the line on standard error, unless there is a subscriber.
pub(crate) fn print_unless_logged(line: impl fmt::Display) {
    if get_default(Dispatch::is::<NoSubscriber>) {
        let _ = contain(|| print_line(format_args!("soloist: {line}")));
    }
}
