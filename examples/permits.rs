//! Shows permits: three copies of a service have two events. In the whole fleet, one event runs once a day, the other
//! once an hour.
//!
//! ```text
//! cargo run --example permits
//! cargo run --example permits --features redis -- redis://127.0.0.1
//! cargo run --example permits --features mysql -- mysql://app:secret@127.0.0.1/app
//! cargo run --example permits --features postgres -- postgres://app:secret@127.0.0.1/app
//! ```
//!
//! The copies tick at different times: one at 15:01, the next at 15:02. The first copy that asks gets the permit of the
//! day or hour, and runs the event. The other copies skip the event. No copy has to run at midnight, or on the hour.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::{Arc, mpsc};
use std::thread;

use chrono::{DateTime, TimeDelta, Timelike, Utc};
use soloist::store::Scope;
use soloist::{Event, EventMutex, Period, Run, Schedule};

const SERVERS: [&str; 3] = ["web-1", "web-2", "web-3"];

/// Four rounds of ticks, each with the day, hour and minute at which each server ticks.
const TICKS: [[(i64, i64, i64); SERVERS.len()]; 4] = [
    [(0, 15, 1), (0, 15, 2), (0, 15, 3)], // one hour: one reminder, and the clean-up of the day
    [(0, 15, 58), (0, 15, 30), (0, 15, 59)], // still this hour: no event runs
    [(0, 16, 59), (0, 17, 0), (0, 17, 1)], // two hours: two reminders
    [(1, 0, 0), (1, 0, 1), (1, 0, 0)],    // the next day: a clean-up and a reminder
];

/// The server, the event and the minute of a run.
type Ran = (&'static str, String, DateTime<Utc>);

/// Makes the schedule of one copy of the service. Both events are due every minute.
fn schedule(
    server: &'static str,
    store: Arc<dyn EventMutex>,
    ran: &mpsc::Sender<Ran>,
) -> Result<Schedule, Box<dyn Error>> {
    let job =
        |ran: mpsc::Sender<Ran>| move |run: &Run| Ok(ran.send((server, run.name().to_owned(), run.occurrence()))?);
    let schedule = Schedule::new(store);
    schedule.add(Event::call("carts:clean-up", job(ran.clone())).every_minute().once_per(Period::Day))?;
    schedule.add(Event::call("carts:remind", job(ran.clone())).every_minute().once_per(Period::Hour))?;
    Ok(schedule)
}

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let first = soloist::connect(&url)?;
    let (tell, told) = mpsc::channel();
    let mut servers = Vec::new();
    for server in SERVERS {
        // Each copy opens its own connection, as on separate hosts. A store in memory must be shared instead.
        let store =
            if first.describe().scope() == Scope::Process { Arc::clone(&first) } else { soloist::connect(&url)? };
        servers.push(schedule(server, store, &tell)?);
    }
    // Each start of this program uses other days, because a server still has the permits of earlier starts.
    let day = DateTime::UNIX_EPOCH + TimeDelta::days(fastrand::i64(0..100_000));
    let mut permits = BTreeSet::new();
    for ticks in TICKS {
        // The copies tick on threads at the same time. Each copy passes a time of its own to `run_due`.
        thread::scope(|scope| -> Result<(), Box<dyn Error>> {
            let tick = |(schedule, (days, hours, minutes))| {
                let now = day + TimeDelta::minutes((days * 24 + hours) * 60 + minutes);
                scope.spawn(move || Schedule::run_due(schedule, now))
            };
            for tick in servers.iter().zip(ticks).map(tick).collect::<Vec<_>>() {
                let report = tick.join().map_err(|_| "a tick panicked")?;
                if report.is_failure() {
                    return Err(report.to_string().into()); // for example, the store did not answer
                }
            }
            Ok(())
        })?;
        for (server, event, minute) in told.try_iter() {
            println!("{}  {event:14}  ran on {server}", minute.format("%F %H:%M"));
            let hour = (event == "carts:remind").then(|| minute.hour());
            if !permits.insert((event, minute.date_naive(), hour)) {
                return Err("an event ran twice in one period".into());
            }
        }
    }
    println!("{} of {} due occurrences have run", permits.len(), 2 * SERVERS.len() * TICKS.len());
    if permits.len() == 6 { Ok(()) } else { Err("expected 6 runs, for 2 days and 4 hours".into()) }
}
