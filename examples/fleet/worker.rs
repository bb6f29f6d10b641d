//! A server of the fleet: a process that ticks the schedule, and reports on standard output.

use std::error::Error;
use std::io::{Write, stdin, stdout};
use std::thread;

use soloist::{Entry, Run, TaskResult, Verdict};

use crate::jobs;
use crate::pace::{At, Pace};

/// Ticks once a minute, from the next minute on, until `minutes` are over.
pub(crate) fn work(store: &str, pace: Pace, minutes: u32) -> Result<(), Box<dyn Error>> {
    thread::spawn(end_with_the_leader);
    let tell_of_runs = move |run: &Run, what: &str| tell(pace, pace.minute(run.occurrence()), run.name(), what);
    let schedule = jobs::schedule(store, tell_of_runs)?;
    let next = pace.now().0.div_ceil(At::MINUTE);
    thread::scope(|scope| {
        for minute in next..minutes {
            let schedule = &schedule;
            pace.wait_for(At::minute(minute));
            // Each tick has a thread of its own, as in `schedule.work()`, so that a slow tick does not delay the next
            // tick.
            scope.spawn(move || {
                // The servers of a real fleet do not tick at the same moment, either.
                pace.wait_for(At(At::minute(minute).0 + fastrand::u32(..100)));
                let report = schedule.run_due(pace.instant(minute));
                report.entries().iter().try_for_each(|entry| tell_of_skips(pace, entry))
            });
        }
    });
    Ok(())
}

/// Waits until standard input is closed, which means that the leader has ended. Then exits.
fn end_with_the_leader() {
    let _ = std::io::copy(&mut stdin(), &mut std::io::sink());
    std::process::exit(1);
}

/// Reports a skip to the leader. A worker calls this at the end of a tick. So if a worker is killed during a tick, the
/// skips of that tick are not known.
fn tell_of_skips(pace: Pace, entry: &Entry) -> TaskResult {
    let Verdict::Skipped(reason) = entry.verdict() else { return Ok(()) };
    let holder = reason.holder().map_or_else(String::new, |holder| holder.pid().to_string());
    let what = format!("skipped\t{}\t{holder}\t{reason}", reason.keyword());
    tell(pace, pace.minute(entry.occurrence()), entry.event(), &what)
}

/// Writes one line to standard output in a single write, so that the lines of several threads do not mix.
fn tell(pace: Pace, minute: u32, event: &str, what: &str) -> TaskResult {
    let line = format!("{}\t{minute}\t{event}\t{}\n", pace.now().0, what.replace('\n', " "));
    let mut out = stdout().lock();
    out.write_all(line.as_bytes())?;
    Ok(out.flush()?)
}
