//! The loop of a service, and a tick, as futures: they end with their shutdown, and may be dropped.

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::*;

/// Counts its runs, one a second.
fn counting(runtime: &Runtime) -> (Schedule, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let task = move |_| {
        let count = Arc::clone(&counted);
        async move { _ = count.fetch_add(1, Ordering::SeqCst) }
    };
    let schedule = Schedule::in_process().with_runtime(runtime.handle().clone());
    schedule.add(Event::spawn("count", task).every_second().without_overlapping()).unwrap();
    (schedule, count)
}

#[test]
fn the_loop_ticks_until_its_shutdown_begins() {
    for runtime in [one_thread(), many_threads()] {
        let ((schedule, count), token) = (counting(&runtime), CancellationToken::new());
        let shutdown = Shutdown::from(token.clone());
        runtime.block_on(async {
            let work = tokio::spawn(schedule.work_async(&shutdown));
            while count.load(Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            token.cancel();
            timeout(PATIENCE, shutdown.triggered()).await.expect("the token triggers it");
            timeout(PATIENCE, work).await.expect("it ends").expect("no panic");
        });
    }
}

#[test]
fn a_loop_that_is_dropped_cancels_its_runs_and_no_others() {
    let runtime = many_threads();
    let (begun, diary, shutdown) = (Arc::new(AtomicUsize::new(0)), Diary::default(), Shutdown::new());
    let (counted, noted) = (Arc::clone(&begun), diary.clone());
    let task = move |run: Run| {
        counted.fetch_add(1, Ordering::SeqCst);
        let diary = noted.clone();
        async move { diary.note(run.cancelled().await.to_string()) }
    };
    let schedule = Schedule::in_process().with_runtime(runtime.handle().clone());
    schedule.add(Event::spawn("slow", task).every_second().without_overlapping()).unwrap();
    let begins = || until(|| begun.load(Ordering::SeqCst) > 0).expect("it ticks");
    let work = runtime.spawn(schedule.work_async(&shutdown));
    begins();
    work.abort();
    until(|| diary.lines() == ["the process is shutting down"]).expect("its run is told");
    assert!(!shutdown.is_triggered(), "that is the application's");
    thread::sleep(Duration::from_millis(1_100)); // in which a loop would tick again
    assert_eq!(begun.load(Ordering::SeqCst), 1, "nothing is started any more");
}

#[test]
fn what_is_dropped_in_a_runtime_that_nobody_drives_any_more_keeps_its_lease_until_its_term_ends() {
    for place in [(|event| event) as fn(Event) -> Event, Event::in_background] {
        let (runtime, clock, diary) = (one_thread(), ManualClock::at(noon()), Diary::default());
        let store = MemoryMutex::with_clock(&clock);
        let (polls, noted) = (Arc::new(AtomicUsize::new(0)), diary.clone());
        let counted = Arc::clone(&polls);
        let task = move |_| {
            let dropped = noted.clone();
            let on_drop = OnDrop(move || dropped.note("dropped"));
            let polls = Arc::clone(&counted);
            async move {
                let _on_drop = on_drop;
                poll_fn::<(), _>(|context| {
                    polls.fetch_add(1, Ordering::SeqCst);
                    context.waker().wake_by_ref();
                    Poll::Pending
                })
                .await;
            }
        };
        let event = Event::spawn("slow", task).without_overlapping().grace(Duration::ZERO);
        let beside = Event::spawn("beside", |_| async {}).in_background();
        let schedule = schedule(store.clone(), &runtime, [event.apply(place), beside]);
        let name = MutexName::lease("slow").unwrap();
        runtime.block_on(async {
            let mut tick = Box::pin(schedule.run_due_async(noon()));
            while polls.load(Ordering::SeqCst) == 0 {
                let _ = timeout(Duration::from_millis(10), &mut tick).await;
            }
        });
        let count = polls.load(Ordering::SeqCst);
        assert!(store.exists(&name).unwrap(), "it is not given back by the drop");
        let ended = || {
            clock.advance(10 * SECOND);
            !store.exists(&name).unwrap()
        };
        until(ended).expect("its term ends");
        assert_eq!((polls.load(Ordering::SeqCst), diary.lines().len()), (count, 0), "nobody drives it");
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(10)).await });
        assert_eq!((polls.load(Ordering::SeqCst), diary.lines()), (count, vec!["dropped".to_owned()]));
    }
}
