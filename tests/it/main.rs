//! The promises of `soloist`, tested from outside, on real stores and real processes.

mod support;

mod auto_traits;
mod background;
mod catch_up;
#[cfg(feature = "chrono-tz")]
mod clock_change;
#[cfg(unix)]
mod command;
mod connect;
mod contract;
#[cfg(all(unix, feature = "redis", feature = "mysql", feature = "postgres"))]
mod crowd;
mod crontab;
mod decorator;
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
mod fuzz;
mod healing;
mod idle;
mod moved_clock;
mod outage;
mod pause;
mod period;
mod recovery;
#[cfg(feature = "redis")]
mod redis;
mod report;
mod scenarios;
mod schedule;
#[cfg(all(feature = "redis", feature = "mysql", feature = "postgres"))]
mod server_clock;
mod servers;
#[cfg(all(feature = "mysql", feature = "postgres"))]
mod sql;
mod tidy;
mod shutdown;
mod tracing_events;
mod ways_out;
mod work;
mod worker;
mod worker_log;
