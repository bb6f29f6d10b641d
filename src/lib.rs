//! Scheduled tasks that never run over themselves.
//!
//! A report that runs every minute takes ninety seconds one day, and a second copy starts on top of the first; then
//! the service moves to several servers, and every task runs on each of them. `soloist` ends that: a [`Schedule`]
//! registers [`Event`]s, and an [`EventMutex`] gates every run.
//!
//! ```
//! use chrono::Utc;
//! use soloist::{Event, Schedule};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # fn in_maintenance() -> bool { false }
//! let mut schedule = Schedule::in_process();
//! schedule.add(
//!     Event::call("reports:generate", |run| println!("the report of {}", run.occurrence()))
//!         .every_five_minutes()
//!         .skip(|_| in_maintenance())
//!         .without_overlapping()
//!         .then(|run, outcome| println!("{}: {outcome}", run.name())),
//! )?;
//! let report = schedule.run_due(Utc::now());
//! println!("{report}");
//! # assert!(!report.is_failure());
//! # Ok(())
//! # }
//! ```
//!
//! # One tick
//!
//! ```text
//! run_due(now)
//!   tick ─▶ due? ─▶ filters ─▶ gate ─────────▶ before ─▶ task ─▶ then ─▶ release ─▶ report
//!        timetable  when/skip  lease + claim       │ renewed by the keeper   owner-checked
//!         (no I/O)   (no I/O)   1 round trip       └ cancelled when lost
//! ```
//!
//! - [`Event::without_overlapping`] takes a **lease** that is called after the event: while it is held, no second run
//!   of the event is admitted, on any thread, process or host that shares the store.
//! - [`Event::on_one_server`] takes a **claim** that is called after the event *and* the scheduled instant: each
//!   occurrence starts at most once, as long as the servers' ticks are less than five minutes apart. Lease and claim are taken together or
//!   not at all, so that a lost race never consumes an occurrence. The page [`scenarios`] draws what a fleet does with
//!   either, and with both.
//! - [`Event::once_per`] takes its claim on a civil period instead, a **permit**: of all occurrences in an hour, a day, a
//!   week or a month one starts, on whichever server asks first.
//! - The lease has a short term, and a keeper renews it while the task runs. One that is lost is told to the task, at its
//!   deadline at the latest: [`Run::is_cancelled`], [`Run::check`], [`Run::cancelled`].
//! - A task is a callback, or a [command](Event::exec), which is ended with all that it has started before its lease is.
//! - Every way out gives the lease back: a return, an error, a panic, [a signal](Shutdown),
//!   [`process::exit`](std::process::exit). After `SIGKILL` the file store frees it at once, other stores when its term
//!   is over: within a minute. The page [`ways_out`] has a row for each.
//! - A store that does not answer is never taken for a free mutex: the event is skipped, and the report says why. The
//!   tick waits for it once; whoever else needs it is skipped at once, and the others run.
//! - Events [`in_background`](Event::in_background) that are due in one tick are gated together, a hundred in one round
//!   trip, and released together.
//!
//! # In a service
//!
//! [`Schedule::run_due`] is one tick, for a binary that cron starts every minute. [`Schedule::run_minute`] stays for the
//! minute, where events are due every few seconds. [`Schedule::work`] is the loop of a service: it ticks when something is
//! due, each tick on a thread of its own, and sleeps otherwise.
//!
//! An event with [`catch_up`](Event::catch_up) makes up for an occurrence that was missed, because no server ticked then:
//! the latest one, once, in the next tick within its window.
//!
//! # Which store
//!
//! | store | reaches | whose clock | after `SIGKILL` |
//! | --- | --- | --- | --- |
//! | [`MemoryMutex`] | this process | monotonic | gone with the process |
//! | [`FileMutex`] | this host | the kernel's lock for life, the wall clock for terms | freed at once |
#![cfg_attr(feature = "redis", doc = "| [`RedisMutex`] | the fleet | the server's | when the term is over |")]
#![cfg_attr(
    not(feature = "redis"),
    doc = "| `RedisMutex`, with the feature `redis` | the fleet | the server's | when the term is over |"
)]
#![cfg_attr(feature = "mysql", doc = "| [`MysqlMutex`] | the fleet | the server's | when the term is over |")]
#![cfg_attr(
    not(feature = "mysql"),
    doc = "| `MysqlMutex`, with the feature `mysql` | the fleet | the server's | when the term is over |"
)]
#![cfg_attr(feature = "postgres", doc = "| [`PostgresMutex`] | the fleet | the server's | when the term is over |")]
#![cfg_attr(
    not(feature = "postgres"),
    doc = "| `PostgresMutex`, with the feature `postgres` | the fleet | the server's | when the term is over |"
)]
//! | your own [`EventMutex`] | as far as it does | its own | when the term is over |
//!
//! For one host take files. For several take the server that is there already: Redis costs the least for each event, and a
//! failover of it can lose what was granted last; a database costs a commit, and keeps what it has committed as it keeps
//! everything else. In each of them the second holder has a higher [`FencingToken`].
//!
//! [`connect`] opens the one that a URL names. A store around another, that counts or logs, is a decorator:
//! [`EventMutex::inner`]. [`LeaseGuard`] is the protection alone, for a task under some other
//! scheduler.
//!
//! # When a store or a process stops
//!
//! With a lease that is renewed:
//!
//! | what happens while a task runs | the run | the event |
//! | --- | --- | --- |
//! | the store is out for less than two thirds of the term | goes on; its renewal is retried | stays protected |
//! | it is out for longer | is cancelled at the lease's deadline | may run elsewhere from then on |
//! | it comes back without its data | is cancelled at the next renewal | other processes may run it; this one does not |
//! | somebody breaks the lease | is cancelled at the next renewal | may run at once; in this process at the second tick |
//! | the process is suspended past the term | is cancelled before it does anything else with its lease | may run elsewhere meanwhile, under a higher token |
//! | its own thread calls [`exit`](std::process::exit) | is gone | runs at the next tick |
//! | another thread calls it, or `main` returns | is gone | on file it runs at the next tick, elsewhere within five seconds |
//! | the process is killed | is gone; a command keeps its lease on file, and is ended elsewhere | on file it runs at the next tick, elsewhere when the rest of the term is over |
//! | the task hangs | is cancelled, if the event has a [`timeout`](Event::timeout) | stays protected until the task stops |
//!
//! A process that exits lets go of leases for a fixed term as well. It waits for its stores, three seconds at most; what
//! could not be given back ends with its term. On other systems than Unix, and after [`abort`](std::process::abort), it is
//! as if it were killed. Each way in which a run can end, by itself or not, has its row in [`ways_out`].
//!
//! # When an event is due
//!
//! Words such as [`every_ten_seconds`](Event::every_ten_seconds), [`hourly_at`](Event::hourly_at),
//! [`weekdays`](Event::weekdays) and [`last_day_of_month`](Event::last_day_of_month) combine in any order, and
//! [`cron`](Event::cron) takes the five fields of a crontab line. The page [`frequencies`] has a table of all words, with the
//! expressions that they stand for and their next five times.
//!
//! # Pause
//!
//! A schedule that is [pausable](Schedule::pausable_as) under a name starts nothing that is due from
//! [`pause(until)`](Schedule::pause) to [`resume()`](Schedule::resume), on every server that shares the name and the store,
//! whoever of them said so; what is at work goes on. It ends by itself, and not with the process that paused. What an
//! operator needs for that is a store and a name, and no events:
//!
//! ```no_run
//! use chrono::{TimeDelta, Utc};
//! use soloist::Schedule;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let schedule = Schedule::new(soloist::connect("file:/var/lib/myapp/locks")?).pausable_as("shop")?;
//! schedule.pause(Utc::now() + TimeDelta::hours(2))?; // the migration takes less
//! # Ok(())
//! # }
//! ```
//!
//! [`Event::even_when_paused`] is for what a pause does not mean. A store that does not answer may keep a pause: nothing
//! else that is due runs then, protected or not.
//!
//! # Daylight saving
//!
//! An event is due when the clocks of its zone show what its timetable says. A [`Zone`] is UTC unless it is set with
//! [`timezone`](Event::timezone); its page says whose rules a zone has, and how to move on to newer ones. When clocks are
//! set forward or back by up to three hours, times are kept, as cronie keeps them:
//!
//! - An event at **times of the day**, such as `30 2 * * *`, keeps each of them: one that the change leaves out comes right
//!   after it, and several come as one; of one that the change back shows twice the first comes.
//! - An event that **follows real time**, whose minutes or hours begin with `*`, such as `*/10 * * * *` or hourly, goes on as
//!   clocks show it: every hour of real time.
//!
//! [`Event::on_clock_change`] chooses another rule for an event; [`ClockChange`] has the table of two nights in Berlin. A zone
//! that skips more than three hours has not lost them: Samoa went from the 29th of December 2011 to the 31st, and a daily
//! event has no run for the 30th.
//!
//! An occurrence is an instant, and not what clocks show: two servers agree on it whatever their own clocks show, and an
//! hour that comes twice is two occurrences of an hourly event, each claimed on its own. It is two [periods](Period), too,
//! and a day of 25 hours is one. [`Event::next`] and [`Crontab::next`] say when.
//!
//! # Tracing
//!
//! Every decision is told to subscribers of `tracing`, with the target `soloist`. The events of a run lie within its
//! span, which names the event and the occurrence.
//!
//! | name or message | level | fields |
//! | --- | --- | --- |
//! | `span tick` | info | `now`, `due` |
//! | `span run` | info | `event`, `occurrence` |
//! | `making up for what was missed` | info | `late_ms` |
//! | `started` | debug | `token` |
//! | `succeeded` | info | `token`, `took_ms` |
//! | `failed` | error | `token`, `took_ms`, `error` |
//! | `timed out` | error | `token`, `took_ms`, `limit_ms`, `error` |
//! | `timed out and does not stop` | warn | `event`, `occurrence` |
//! | `not started` | error | `token` |
//! | `hook failed` | error | `hook`, `number`, `error` |
//! | `skipped` | info | `reason`, `holder` |
//! | `skipped: the store's clock was set back` | warn | `reason`, `holder`, `by_s` |
//! | `no decision` | error | `reason`, `error` |
//! | `running unprotected` | warn | `error` |
//! | `not renewed yet` | warn | `leases`, `error` |
//! | `lease lost` | error | `mutex`, `token` |
//! | `shutting down` | info | `signal`, `runs`, `grace_ms` |
//! | `paused` | info | `schedule`, `until`, `scope` |
//! | `resumed` | info | `schedule` |
//! | `left behind` | warn | `event`, `occurrence` |
//! | `error that can't be shown` | error | `error` |
//! | `lease not given back` | error | `mutex`, `error` |
//! | `clock set back: beginning anew` | warn | `by_s` |
//! | `clock set back` | warn | `by_s` |
//! | `minutes missed` | warn | `after`, `until` |
//! | `report not told` | error | `error` |
//! | `protection reaches further than its store` | warn | `event`, `scope` |
//! | `no thread for a tick: the next ones wait for it` | warn | `error` |
//! | `no thread for background events: they run on fewer` | warn | `error` |
//! | `no thread for renewals: leases end with their terms` | warn | `error` |
#![cfg_attr(docsrs, feature(doc_cfg))]

mod schedule;
mod event;
mod frequency;
#[doc = include_str!("frequencies.md")]
#[doc = include_str!("frequency/table.md")]
pub mod frequencies {}
mod crontab;
mod zone;
mod timetable;
mod agenda;
mod tick;
mod turn;
mod foreground;
mod background;
mod run;
mod catch_up;
mod owed;
mod gate;
mod keeper;
mod tenure;
mod cancel;
mod outage;
mod period;
mod protection;
#[doc = include_str!("scenarios.md")]
pub mod scenarios {}
mod mutex;
mod lease;
mod guard;
mod task;
mod fault;
mod outcome;
mod report;
mod pause;
mod shutdown;
#[doc = include_str!("ways_out.md")]
pub mod ways_out {}
mod clock;
mod sync;
mod process;
#[cfg(unix)]
mod system;
mod error;
mod escape;

pub use cancel::{CancelReason, Cancelled};
pub use clock::{Clock, ManualClock, Moment};
pub use crontab::{Crontab, CrontabError};
pub use error::{BoxError, InvalidOptions, MutexError, MutexErrorKind};
pub use event::{AddError, AddErrorKind, Event};
pub use fault::Fault;
pub use frequency::{FrequencyError, OneOrMore};
pub use guard::LeaseGuard;
pub use lease::{
    FencingToken, Holder, InvalidName, InvalidOwner, InvalidTerm, Lease, LeaseRequest, MutexName, Owner, Term,
};
pub use mutex::connect::{ConnectError, connect};
#[cfg(feature = "contract-tests")]
#[cfg_attr(docsrs, doc(cfg(feature = "contract-tests")))]
pub use mutex::contract;
pub use mutex::file::{FileMutex, FileMutexBuilder, NetworkFilesystem, Sharing};
pub use mutex::memory::MemoryMutex;
#[cfg(feature = "mysql")]
#[cfg_attr(docsrs, doc(cfg(feature = "mysql")))]
pub use mutex::mysql::{MysqlMutex, MysqlMutexBuilder};
#[cfg(feature = "postgres")]
#[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
pub use mutex::postgres::{PostgresMutex, PostgresMutexBuilder};
#[cfg(feature = "redis")]
#[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
pub use mutex::redis::{RedisMutex, RedisMutexBuilder};
pub use mutex::{Admission, Admitted, Answers, Broken, EventMutex, Grant, Lifeline, Scope, StoreId, StoreWarning};
pub use outcome::{Ended, Hook, HookFailure, Release, RunOutcome, SkipReason};
pub use pause::{Pause, PauseError};
pub use period::{InvalidPeriod, Period};
pub use protection::Outage;
pub use report::{Entry, Report, Verdict};
pub use schedule::{Schedule, UnknownEvent};
pub use shutdown::Shutdown;
pub use task::{InvalidCommand, KeptOutput, Output, Run, TaskOutcome, TaskResult};
pub use tick::Tick;
pub use timetable::ClockChange;
pub use zone::{UnknownZone, Zone};

/// The README's code, tested as documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod interleavings;
