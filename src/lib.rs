//! Scheduled tasks that never run over themselves.
//!
//! A task that runs every minute takes ninety seconds one day, and a second copy starts on top of the first. Then the
//! service moves to several servers, and every task runs on each of them. `soloist` prevents both: you add [`Event`]s to a
//! [`Schedule`], and before a protected event runs, the schedule takes a lease from an [`EventMutex`], the store that all
//! processes share.
//!
//! ```
//! use chrono::Utc;
//! use soloist::{Event, Schedule};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # fn rows_until(_: chrono::DateTime<Utc>) -> std::io::Result<u32> { Ok(12) }
//! # fn in_maintenance() -> bool { false }
//! let mut schedule = Schedule::in_process();
//! schedule.add(
//!     Event::call("reports:generate", |run| {
//!         let rows = rows_until(run.occurrence())?;
//!         println!("a report of {rows} rows");
//!         Ok(())
//!     })
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
//! The [`guide`] has a page for each question: which words say when an event is due, what each protection does, how a
//! fleet shares its events, which store to choose, when a lease is free.
//!
//! # One tick
//!
//! ```text
//! run_due(now)
//!   tick ─▶ due? ─▶ filters ─▶ gate ─────────▶ before ─▶ task ─▶ then ─▶ release ─▶ report
//!        timetable  when/skip  lease + claim       │ renewed meanwhile       owner-checked
//!         (no I/O)   (no I/O)   1 round trip       └ cancelled when lost
//! ```
//!
//! - [`Event::without_overlapping`] takes a **lease** named after the event. While it is held, no second run of the event
//!   is admitted, on any thread, process or host that shares the store.
//! - [`Event::on_one_server`] takes a **claim** named after the event *and* the scheduled instant: each occurrence starts
//!   at most once, as long as the servers' ticks are less than five minutes apart. Lease and claim are taken together or
//!   not at all, so that a lost race never uses up an occurrence.
//! - [`Event::once_per`] takes a **permit**: the first server that asks in an hour, day, week or month runs the event; the others
//!   skip it.
//!
//! # Ways to tick
//!
//! | call | for |
//! | --- | --- |
//! | [`Schedule::run_due`] | a binary that cron starts every minute |
//! | [`Schedule::run_minute`] | the same, with sub-minute events: it lives for the whole minute |
//! | [`Schedule::work`] | a service: it ticks when something is due, and sleeps otherwise |
//! | [`Schedule::run_event`] | one event by hand, through the same gate |
//! | `cli::run(schedule)`, with the feature `cli` | a program that is the command line of its schedule |
//! | `Schedule::work_async`, `run_due_async`, with the feature `tokio` | the same as futures, and tasks that are futures |
//!
//! [`LeaseGuard`] is the protection alone, for a task under another scheduler.
//!
//! # Stores
//!
//! | store | protects | whose clock decides | after `SIGKILL` an event is free |
//! | --- | --- | --- | --- |
//! | [`MemoryMutex`] | this process | a monotonic one | with the process |
//! | [`FileMutex`] | this host | the kernel tells who lives; the wall clock ends terms | at once |
#![cfg_attr(feature = "redis", doc = "| [`RedisMutex`] | a fleet | the server's | when its term ends |")]
#![cfg_attr(
    not(feature = "redis"),
    doc = "| `RedisMutex`, with the feature `redis` | a fleet | the server's | when its term ends |"
)]
#![cfg_attr(feature = "mysql", doc = "| [`MysqlMutex`] | a fleet | the server's | when its term ends |")]
#![cfg_attr(
    not(feature = "mysql"),
    doc = "| `MysqlMutex`, with the feature `mysql` | a fleet | the server's | when its term ends |"
)]
#![cfg_attr(feature = "postgres", doc = "| [`PostgresMutex`] | a fleet | the server's | when its term ends |")]
#![cfg_attr(
    not(feature = "postgres"),
    doc = "| `PostgresMutex`, with the feature `postgres` | a fleet | the server's | when its term ends |"
)]
//! | your own [`EventMutex`] | the processes that share it | its own | when its term ends |
//!
//! [`connect`] opens the store that a URL names. For one host take files; for several, the server that you run already.
//!
//! # Features
//!
//! | feature | default | brings |
//! | --- | --- | --- |
//! | `tzdata` | yes | zones by name, with their rules compiled in |
//! | `signals` | yes | `Shutdown::on_signals`, on Unix |
//! | `chrono-tz` | no | zones by the types of `chrono-tz` |
//! | `redis`, `redis-tls` | no | `RedisMutex`; over TLS: `rediss://`, `rediss+sentinel://`, `rediss+cluster://` |
//! | `mysql`, `mysql-tls` | no | `MysqlMutex`; over TLS: `?ssl-mode=REQUIRED` |
//! | `postgres`, `postgres-tls` | no | `PostgresMutex`; over TLS: `?sslmode=require` |
//! | `tokio` | no | tasks that are futures: `Event::spawn`; the loop as one: `Schedule::work_async`; async stores of your own |
//! | `cli` | no | `soloist::cli`, the command line of a schedule; the program `soloist`, which protects commands without Rust |
//! | `serde` | no | `Schedule::status` in a form for machines, such as JSON |
//! | `metrics` | no | `Metrics`: counters, gauges and histograms, for Prometheus and others |
//! | `contract-tests` | no | the behaviour suite for stores of your own |
//! | `testing` | no | `soloist::testing`: when events are due, and a store that is told what goes wrong |
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod guide;
#[cfg(feature = "cli")]
#[cfg_attr(docsrs, doc(cfg(feature = "cli")))]
pub mod cli;
mod schedule;
mod event;
mod task;
mod hold;
mod store;
mod observe;
mod lease;
mod time;
mod base;
#[cfg(feature = "contract-tests")]
#[cfg_attr(docsrs, doc(cfg(feature = "contract-tests")))]
pub mod contract;
#[cfg(feature = "testing")]
#[cfg_attr(docsrs, doc(cfg(feature = "testing")))]
pub mod testing;

pub use base::error::{BoxError, InvalidOptions, MutexError, MutexErrorKind};
pub use event::add_error::{AddError, AddErrorKind};
pub use event::definition::{Definition, Event};
pub use event::outage_policy::OutagePolicy;
pub use event::protection::overlap::Overlap;
pub use hold::guard::LeaseGuard;
pub use lease::holder::Holder;
pub use lease::name::{InvalidName, MutexName};
pub use lease::owner::{InvalidOwner, Owner};
pub use lease::request::{Lease, LeaseRequest};
pub use lease::store_id::StoreId;
pub use lease::term::{InvalidTerm, Term};
pub use lease::token::FencingToken;
pub use observe::cancel::{CancelReason, Cancelled};
pub use observe::fault::Fault;
#[cfg(feature = "metrics")]
#[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
pub use observe::metrics::Metrics;
pub use observe::notice::{Notice, Step};
pub use observe::outcome::hook_failure::{Hook, HookFailure};
pub use observe::outcome::kept_output::KeptOutput;
pub use observe::outcome::{Ended, RunOutcome};
pub use observe::paused::Pause;
pub use observe::release::Release;
pub use observe::run_record::outcome_kind::OutcomeKind;
pub use observe::run_record::skip_count::SkipCount;
pub use observe::run_record::{RunEnd, RunRecord};
pub use observe::skip_reason::SkipReason;
pub use observe::tell::observers::Observer;
pub use schedule::pause::pause_error::PauseError;
pub use schedule::registry::Schedule;
pub use schedule::registry::logged_run::{LoggedRun, RunState, RunsError};
pub use schedule::registry::status::{EventStatus, LastRun, LastSkip, RunningNow, Status};
pub use schedule::registry::unknown_event::UnknownEvent;
pub use schedule::report::{Entry, Report, Verdict};
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub use schedule::service::as_futures::operator::Operator;
pub use schedule::shutdown::Shutdown;
pub use store::connect::{ConnectError, connect};
pub use store::event_mutex::EventMutex;
pub use store::event_mutex::admission::{Admission, Admitted, Grant};
#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
pub use store::event_mutex::async_mutex::{AsyncEventMutex, AsyncMutex};
pub use store::event_mutex::batch::{Batch, LeaseRelease};
pub use store::event_mutex::broken_lease::Broken;
pub use store::event_mutex::description::{Description, Scope};
pub use store::event_mutex::held::{Held, Names};
pub use store::event_mutex::lifeline::Lifeline;
pub use store::event_mutex::run_log::RunLog;
pub use store::event_mutex::slot::Slot;
pub use store::event_mutex::warning::StoreWarning;
pub use store::file::FileMutex;
pub use store::file::builder::FileMutexBuilder;
pub use store::file::filesystem::NetworkFilesystem;
pub use store::file::sharing::Sharing;
pub use store::memory::MemoryMutex;
#[cfg(feature = "mysql")]
#[cfg_attr(docsrs, doc(cfg(feature = "mysql")))]
pub use store::mysql::MysqlMutex;
#[cfg(feature = "mysql")]
#[cfg_attr(docsrs, doc(cfg(feature = "mysql")))]
pub use store::mysql::MysqlMutexBuilder;
#[cfg(feature = "postgres")]
#[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
pub use store::postgres::PostgresMutex;
#[cfg(feature = "postgres")]
#[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
pub use store::postgres::PostgresMutexBuilder;
#[cfg(feature = "redis")]
#[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
pub use store::redis::RedisMutex;
#[cfg(feature = "redis")]
#[cfg_attr(docsrs, doc(cfg(feature = "redis")))]
pub use store::redis::RedisMutexBuilder;
pub use task::output::Output;
pub use task::run::Run;
pub use task::task_result::{IntoTaskResult, TaskResult};
pub use time::clock::Clock;
pub use time::clock::manual::ManualClock;
pub use time::clock::moment::Moment;
pub use time::crontab::Crontab;
pub use time::crontab::error::CrontabError;
pub use time::frequency::one_or_more::OneOrMore;
pub use time::period::Period;
pub use time::tick::Tick;
pub use time::timetable::clock_change::ClockChange;
pub use time::zone::{UnknownZone, Zone};

/// The README's code, tested as documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
