//! Measures due events on the file store, compared with the least cost of a lock on files.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use soloist::{Event, FileMutex};
use tempfile::TempDir;

use crate::alternate::{BOTH, LEASE, Unit, Work};
use crate::race::Race;
use crate::ticks::{Ticks, callback, each, lease, lease_and_claim, timed};

const EVENTS: usize = 100;
const TICKS: usize = 15;

pub(crate) fn race(race: &mut Race) {
    let directory = || tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on a real disk");
    let of_the_floor = directory();
    let files = ["one", "two"].map(|name| of_the_floor.path().join(name));
    for path in &files {
        File::create(path).expect("the directory is ours");
    }
    let floor = || {
        let work = || {
            for _ in 0..TICKS * EVENTS {
                for path in &files {
                    open_lock_close(path);
                }
                callback();
            }
        };
        each(timed(TICKS * EVENTS, work), TICKS * EVENTS)
    };
    // Each turn uses a new directory. The first tick creates the files, and is not measured.
    let soloist = |attributes: fn(Event) -> Event| {
        move || {
            let store: TempDir = directory();
            let mutex = FileMutex::in_dir(store.path()).expect("the directory is ours");
            let mut ticks = Ticks::new(mutex, EVENTS, attributes);
            ticks.run();
            each((0..TICKS).map(|_| ticks.run()).sum::<Duration>(), TICKS * EVENTS)
        }
    };
    let work = Work::new("in order on files, each of 100 events", Unit::Seconds)
        .by("two files opened, locked and closed", "a lease on this host", floor)
        .by("soloist", LEASE, soloist(lease))
        .by("soloist", BOTH, soloist(lease_and_claim));
    race.run(8, work);
}

fn open_lock_close(path: &Path) {
    let file = File::options().read(true).write(true).open(path).expect("the file is there");
    file.try_lock().expect("no other process locks this file");
}
