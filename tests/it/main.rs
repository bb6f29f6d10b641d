//! The promises of `soloist`, tested from outside, on real stores and real processes.

mod support;

mod allocations;
mod applications;
mod auto_traits;
mod backfill;
mod background;
mod catch_up;
mod changed;
#[cfg(feature = "tzdata")]
mod claim_window;
#[cfg(all(unix, feature = "cli", feature = "redis"))]
mod cli;
mod clock_change;
#[cfg(unix)]
mod command;
mod connect;
mod contract;
#[cfg(all(unix, feature = "redis", feature = "mysql", feature = "postgres"))]
mod crowd;
mod cron_schedule;
mod crontab;
mod decorator;
mod differing_timetables;
mod drain;
#[cfg(unix)]
mod exit;
mod faults;
mod file;
mod fleet;
#[cfg(unix)]
mod fleet_example;
#[cfg(unix)]
mod fork;
mod frequency;
#[cfg(feature = "tokio")]
mod futures;
mod fuzz;
mod guard;
mod healing;
#[cfg(unix)]
mod hostile;
mod idle;
#[cfg(feature = "chrono-tz")]
mod interval;
#[cfg(all(unix, feature = "cli", feature = "redis"))]
mod lateness;
mod links;
mod jitter;
#[cfg(unix)]
mod local_zone;
mod moved_clock;
#[cfg(feature = "metrics")]
mod metrics;
mod observers;
mod one_after_another;
mod outage;
mod pause;
mod period;
#[cfg(target_os = "linux")]
mod process_budget;
mod queue;
mod readme;
mod recovery;
#[cfg(feature = "redis")]
mod redis;
mod report;
mod retry;
mod run_log;
mod scenarios;
mod schedule;
mod scripted;
#[cfg(all(feature = "redis", feature = "mysql", feature = "postgres"))]
mod server_clock;
mod servers;
#[cfg(unix)]
mod service_example;
#[cfg(all(feature = "mysql", feature = "postgres"))]
mod sql;
mod testing_kit;
mod tidy;
mod shutdown;
mod slots;
mod status;
#[cfg(unix)]
mod told;
mod tracing_events;
mod unlock;
#[cfg(all(unix, feature = "signals", feature = "tokio"))]
mod web_service_example;
mod ways_out;
mod work;
mod worker;
mod worker_log;
mod zone_rules;
