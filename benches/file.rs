//! Gate and release on the file store, beside what any protection by files costs: two files opened, locked, closed.

use std::fs::File;
use std::path::Path;

use chrono::{DateTime, TimeDelta};
use criterion::{Criterion, criterion_group, criterion_main};
use soloist::{Admission, Admitted, Clock, EventMutex, FileMutex, Lease, LeaseRequest, MutexName, Term};

fn open_lock_close(path: &Path) {
    let file = File::options().read(true).write(true).open(path).expect("the file is there");
    file.try_lock().expect("nobody else locks it");
}

fn file(criterion: &mut Criterion) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on a real disk");
    let mut group = criterion.benchmark_group("file");

    let files = ["one", "two"].map(|name| directory.path().join(name));
    for path in &files {
        File::create(path).expect("the directory is ours");
    }
    group.bench_function("floor", |bencher| bencher.iter(|| files.each_ref().map(|path| open_lock_close(path))));

    let mutex = FileMutex::in_dir(directory.path().join("store")).expect("the directory is ours");
    let clock = Clock::system();
    let name = MutexName::lease("reports:generate").expect("it is a name");
    let term = Term::MAX;
    let give_back = |lease: &Lease| assert!(mutex.forget(lease).expect("the store answers"));
    group.bench_function("gate and release", |bencher| {
        bencher.iter(|| {
            let request = LeaseRequest::new(name.clone(), term, &clock);
            let lease = mutex.create(&request).expect("the store answers").expect("nobody else asks");
            give_back(&lease);
        });
    });

    let mut occurrence = DateTime::UNIX_EPOCH;
    // Shorter than the time between two runs of 64 iterations, so that there are live and expired claims.
    let claimed = Term::new(std::time::Duration::from_millis(1)).expect("it is the shortest term");
    group.bench_function("gate and release, with a claim", |bencher| {
        bencher.iter(|| {
            occurrence += TimeDelta::minutes(1);
            let lease = LeaseRequest::new(name.clone(), term, &clock);
            let claim = lease.with(name.claim("reports:generate", occurrence), claimed);
            match Admission::both(lease, claim).ask(&mutex).expect("the store answers") {
                Admitted::Granted(grant) => give_back(grant.lease().expect("it was asked for")),
                refused => panic!("nobody else asks: {refused:?}"),
            }
        });
    });
    group.finish();
}

criterion_group!(benches, file);
criterion_main!(benches);
