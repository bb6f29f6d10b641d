//! A page for each question.
//!
//! | question | page |
//! | --- | --- |
//! | When is an event due? Which words are there? What do time zones and daylight saving do to it? | [`frequencies`] |
//! | What does each protection do? How does a task learn that its lease is lost? | [`protections`] |
//! | What becomes of an occurrence that meets a run? How does it wait, or replace the run? How do several run at a time? | [`queues`] |
//! | Which server runs what, minute by minute? | [`scenarios`] |
//! | How do I tick from cron or in a service? How do I catch up missed occurrences, or pause? | [`service`] |
//! | How do I use it beside axum, with async tasks? | `async_service`, with the feature `tokio` |
//! | How do I run commands? What do signals do to a run? | [`commands`] |
//! | Which store do I choose? How do I inspect a lease, or free it by hand? | [`stores`] |
//! | When is a lease free: after a return, a signal, a crash, a kill, a fork? | [`ways_out`] |
//! | What is running, what ran, who holds it, what is next? How do I alert on it? | [`observing`] |
//! | How do operators list, run, pause and free it on the command line? How is it deployed? | `operators`, with the feature `cli` |
//! | How do I protect a command of crontab, without Rust? | `from_flock`, with the feature `cli` |
//! | What does it log, and what does it print? | [`logs`] |
//! | How do I test a schedule? | [`testing`] |
//! | What is promised, and what is not? | [`promises`] |
//! | How were the promises tested under faults? | [`under_fire`] |
//! | What does it cost? | [`costs`] |

#[doc = include_str!("guide/frequencies.md")]
#[doc = include_str!("event/event_builder/frequencies/table.md")]
pub mod frequencies {}

#[doc = include_str!("guide/protections.md")]
pub mod protections {}

#[doc = include_str!("guide/protections/queues.md")]
pub mod queues {}

#[doc = include_str!("guide/scenarios.md")]
pub mod scenarios {}

#[doc = include_str!("guide/service.md")]
pub mod service {}

#[cfg(feature = "tokio")]
#[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
#[doc = include_str!("guide/service/async_service.md")]
pub mod async_service {}

#[doc = include_str!("guide/commands.md")]
pub mod commands {}

#[doc = include_str!("guide/stores.md")]
pub mod stores {}

#[doc = include_str!("guide/ways_out.md")]
pub mod ways_out {}

#[doc = include_str!("guide/logs/observing.md")]
pub mod observing {}

#[cfg(feature = "cli")]
#[cfg_attr(docsrs, doc(cfg(feature = "cli")))]
#[doc = include_str!("guide/operators.md")]
pub mod operators {}

#[cfg(feature = "cli")]
#[cfg_attr(docsrs, doc(cfg(feature = "cli")))]
#[doc = include_str!("guide/operators/from_flock.md")]
pub mod from_flock {}

#[doc = include_str!("guide/logs.md")]
pub mod logs {}

#[doc = include_str!("guide/testing.md")]
pub mod testing {}

#[doc = include_str!("guide/promises.md")]
pub mod promises {}

#[doc = include_str!("guide/under_fire.md")]
pub mod under_fire {}

#[doc = include_str!("guide/promises/costs.md")]
#[doc = include_str!("guide/promises/measured.md")]
#[doc = ""]
#[doc = include_str!("guide/promises/measured.svg")]
pub mod costs {}
