//! Scheduled tasks that never run over themselves.
//!
//! A task that runs every minute takes ninety seconds one day, and a second copy starts on top of the first. Then the
//! service moves to several servers, and every task runs on each of them. `soloist` prevents both. You add [`Event`]s
//! to a [`Schedule`]. Before a protected event runs, the schedule takes a lease from an [`EventMutex`], the store that
//! all processes share.
//!
//! ```
//! use chrono::Utc;
//! use soloist::{Event, Schedule};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # fn rows_until(_: chrono::DateTime<Utc>) -> std::io::Result<u32> { Ok(12) }
//! # fn in_maintenance() -> bool { false }
//! let schedule = Schedule::in_process();
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
//! [The book](https://docs.rs/crate/soloist/latest/source/docs/guide/README.md) has a page for each question: when an
//! event is due, what each protection does, how a fleet shares its events, which store to choose, and when a lease
//! ends.
//!
//! # One tick
//!
//! ```text
//! run_due(now)
//!   tick ─▶ due? ─▶ filters ─▶ admission ────▶ before ─▶ task ─▶ then ─▶ release ─▶ report
//!        timetable  when/skip  lease + claim       │ renewed meanwhile       owner-checked
//!         (no I/O)   (no I/O)   1 round trip       └ cancelled when lost
//! ```
//!
//! - [`Event::without_overlapping`] takes a **lease** named after the event. While the lease is held, no second run of
//!   the event is admitted, on any thread, process or host that shares the store.
//! - [`Event::on_one_server`] takes a **claim** named after the event *and* the scheduled instant. Each occurrence
//!   starts at most once, if the clocks and the ticks of the servers differ by less than five minutes. Lease and claim
//!   are taken together or not at all, so that a process that loses the race does not use up an occurrence.
//! - [`Event::once_per`] takes a **permit** for an hour, day, week or month. The first server that asks in this period
//!   runs the event; the others skip it.
//!
//! # Names
//!
//! | for | names |
//! | --- | --- |
//! | a schedule | [`Schedule`], [`Event`], [`Period`], [`Zone`], [`Overlap`], [`Retry`], [`OutagePolicy`], [`Output`], [`Shutdown`], [`AddError`], [`AddErrorKind`] |
//! | a task | [`Run`], [`CancelReason`], [`TaskResult`], [`IntoTaskResult`], [`BoxError`] |
//! | a report | [`Report`], [`Entry`], [`Verdict`], [`RunOutcome`], [`SkipReason`] |
//! | a store | [`EventMutex`], [`connect`], [`MemoryMutex`], [`FileMutex`], `RedisMutex`, `MysqlMutex`, `PostgresMutex`, [`MutexError`] |
//! | a lease alone | [`LeaseGuard`], [`MutexName`], [`Term`], [`FencingToken`] |
//! | a store of your own, options of a store | [`store`](mod@store) |
//! | status, pauses, the log of runs, observers, metrics | [`observe`](mod@observe) |
//! | clocks, crontabs | [`time`](mod@time) |
//! | tests of a schedule, tests of a store, a command line | `testing`, `contract`, `cli`: each has a feature |
//!
//! # Ways to tick
//!
//! | call | for |
//! | --- | --- |
//! | [`Schedule::run_due`] | a binary that cron starts every minute |
//! | [`Schedule::run_minute`] | such a binary with sub-minute events: the call lasts for the whole minute |
//! | [`Schedule::work`] | a service: it ticks when an event is due, and sleeps otherwise |
//! | [`Schedule::run_event`] | one event by hand, with its filters and its protections |
//! | [`Schedule::backfill`] | past occurrences of one event, which run again |
//! | `cli::run(schedule)`, with the feature `cli` | a program that is the command line of its schedule |
//! | `Schedule::work_async`, `run_due_async`, with the feature `tokio` | an asynchronous program, and tasks that are futures |
//!
//! [`LeaseGuard`] is the protection alone, for a task under another scheduler.
//!
//! # Stores
//!
//! | store | protects | clock | after `SIGKILL`, an event is free |
//! | --- | --- | --- | --- |
//! | [`MemoryMutex`] | this process | a monotonic clock | at once, because its leases end with the process |
//! | [`FileMutex`] | this host | the wall clock for terms; the kernel's file locks show which holders live | at once |
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
//! | your own [`EventMutex`] | the processes that share it | the store's own | when its term ends |
//!
//! [`connect`] opens the store that a URL names. For one host, use files. For several hosts, use a server that you run
//! already.
//!
//! # Features
//!
//! | feature | default | brings |
//! | --- | --- | --- |
//! | `cron` | yes | timetables with seconds and years, by the types of the crate `cron`: `Event::on` |
//! | `tzdata` | yes | time zones by name; their rules are compiled into the program |
//! | `signals` | yes | `Shutdown::on_signals`, on Unix |
//! | `chrono-tz` | no | zones by the types of `chrono-tz` |
//! | `redis`, `redis-tls` | no | `RedisMutex`; over TLS: `rediss://`, `rediss+sentinel://`, `rediss+cluster://` |
//! | `mysql`, `mysql-tls` | no | `MysqlMutex`; over TLS: `?ssl-mode=REQUIRED` |
//! | `postgres`, `postgres-tls` | no | `PostgresMutex`; over TLS: `?sslmode=require` |
//! | `tokio` | no | tasks that are futures: `Event::spawn`; the loop as a future: `Schedule::work_async`; async stores of your own |
//! | `cli` | no | `soloist::cli`, the command line of a schedule; the program `soloist`, which protects commands without Rust |
//! | `serde` | no | `Schedule::status` as data for programs, such as JSON |
//! | `metrics` | no | `observe::Metrics`: counters, gauges and histograms, for Prometheus and others |
//! | `contract-tests` | no | the behaviour suite for stores of your own |
//! | `testing` | no | `soloist::testing`: a list of the times when events are due, and a store that a test can make unavailable or slow |
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "cli")]
pub mod cli;
mod schedule;
mod event;
mod task;
mod hold;
pub mod store;
pub mod observe;
mod outcome;
mod lease;
pub mod time;
mod base;
#[cfg(feature = "contract-tests")]
pub mod contract;
#[cfg(feature = "testing")]
pub mod testing;

// A schedule and its events.
pub use event::add_error::{AddError, AddErrorKind};
pub use event::event_builder::Event;
pub use event::protection::OutagePolicy;
pub use event::protection::overlap::Overlap;
pub use event::retry::Retry;
pub use schedule::schedule::Schedule;
pub use schedule::shutdown::Shutdown;
pub use task::output::Output;
pub use time::period::Period;
pub use time::zone::Zone;

// A task and its run.
pub use base::error::BoxError;
pub use outcome::cancel::CancelReason;
pub use task::event_task::{IntoTaskResult, TaskResult};
pub use task::run::Run;

// A report.
pub use outcome::run_outcome::RunOutcome;
pub use outcome::skip_reason::SkipReason;
pub use schedule::report::{Entry, Report, Verdict};

// A store, and a lease that needs no schedule.
pub use base::error::MutexError;
pub use hold::guard::LeaseGuard;
pub use lease::name::MutexName;
pub use lease::term::Term;
pub use lease::token::FencingToken;
pub use store::connect::connect;
pub use store::event_mutex::EventMutex;
pub use store::file::FileMutex;
pub use store::memory::MemoryMutex;
#[cfg(feature = "mysql")]
pub use store::mysql::MysqlMutex;
#[cfg(feature = "postgres")]
pub use store::postgres::PostgresMutex;
#[cfg(feature = "redis")]
pub use store::redis::RedisMutex;

/// The README's code, tested as documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The code of the book's pages, tested as documentation. The pages together use all of these features.
#[cfg(all(
    doctest,
    feature = "cli",
    feature = "metrics",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "tokio"
))]
mod book {
    macro_rules! pages {
        ($($page:ident)+) => {
            $(#[doc = include_str!(concat!("../docs/guide/", stringify!($page), ".md"))] mod $page {})+
        };
    }

    pages! {
        README alerts another_scheduler async_service backfill changes_while_running choosing_a_store commands comparison costs five_minutes frequencies
        from_flock glossary jitter laravel logs measured migration observing operators promises protections queues retries scenarios service stores testing
        timetables troubleshooting under_fire ways_out
    }
}
