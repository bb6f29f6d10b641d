//! A loop with nothing to do sleeps.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::fleet::Fleet;
use crate::worker::Worker;

/// Returns how often the threads of a process went to sleep.
fn sleeps(pid: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it is alive").flatten();
    let switches = |thread: &Path| -> Option<u64> {
        let status = std::fs::read_to_string(thread.join("status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?.trim().parse().ok()
    };
    threads.filter_map(|thread| switches(&thread.path())).sum()
}

/// Waits for a minute: its module's name lets it begin early.
#[test]
fn an_idle_loop_over_a_thousand_events_wakes_up_once_a_minute() {
    let fleet = Fleet::new();
    let options = ["--cron", "0 0 29 2 *", "--timezone", "+03:00", "--in-background", "1000", "--work"];
    let it = Worker::with(&fleet, "idle", &options);
    // The loop sleeps when the count is stable for a while, and no thread of the start is left.
    let (mut last, mut quiet) = (sleeps(it.pid()), Instant::now());
    let patience = Instant::now();
    while quiet.elapsed() < Duration::from_secs(3) {
        thread::sleep(Duration::from_millis(50));
        let now = sleeps(it.pid());
        if now != last {
            (last, quiet) = (now, Instant::now());
        }
        assert!(patience.elapsed() < Duration::from_secs(120), "it does not come to rest");
    }
    let wakes = || {
        let before = sleeps(it.pid());
        thread::sleep(Duration::from_secs(65));
        sleeps(it.pid()).saturating_sub(before)
    };
    // A machine that is short of memory makes a process wait for its pages, which counts as sleep: so there are more tries.
    let is_once_a_minute = |wakes: &u64| (1..=2).contains(wakes);
    let tries: Vec<u64> = std::iter::repeat_with(wakes).take(3).take_while(|wakes| !is_once_a_minute(wakes)).collect();
    assert!(tries.len() < 3, "it woke up {tries:?} times in 65 seconds each, in which one or two minutes began");
    it.signal("-TERM");
    let (lines, _) = it.ended_by(15);
    assert!(lines.is_empty(), "{lines:#?}");
}
