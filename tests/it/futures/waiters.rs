//! Tasks that wait for a run or a shutdown: each is woken for itself, and leaves nothing behind when it stops waiting.

use std::task::{Context, Wake, Waker};

use soloist::CancelReason;
use tokio::time::timeout;

use super::*;

#[derive(Default)]
struct CountsWakes(AtomicUsize);

impl CountsWakes {
    fn wakes(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for CountsWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls a wait that is not over yet.
#[track_caller]
fn poll(waits: &mut (impl Future + Unpin), count: &Arc<CountsWakes>) {
    let waker = Waker::from(Arc::clone(count));
    assert!(std::pin::Pin::new(waits).poll(&mut Context::from_waker(&waker)).is_pending());
}

#[test]
fn a_wait_for_the_shutdown_that_is_dropped_is_not_woken_and_others_are() {
    let shutdown = Shutdown::new();
    let [dropped, waits] = [(); 2].map(|()| Arc::new(CountsWakes::default()));
    let [mut first, mut second] = [(); 2].map(|()| shutdown.triggered());
    poll(&mut first, &dropped);
    poll(&mut second, &waits);
    drop(first);
    shutdown.trigger();
    assert_eq!([dropped.wakes(), waits.wakes()], [0, 1]);
}

#[test]
fn two_waits_for_the_shutdown_in_one_task_are_two() {
    let (shutdown, task) = (Shutdown::new(), Arc::new(CountsWakes::default()));
    let [mut first, mut second] = [(); 2].map(|()| shutdown.triggered());
    poll(&mut first, &task);
    poll(&mut second, &task);
    drop(second);
    shutdown.trigger();
    assert_eq!(task.wakes(), 1, "the wait that was dropped took the wake-up of the other");
}

/// Lets a run wait in many tasks that end: none of them is kept.
#[test]
fn a_wait_for_the_cancellation_that_is_dropped_keeps_no_task() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let count = Arc::clone(&kept);
    let task = move |run: &Run| {
        let [dropped, waits] = [(); 2].map(|()| Arc::new(CountsWakes::default()));
        let mut other = run.cancelled();
        poll(&mut other, &waits);
        poll(&mut run.cancelled(), &dropped);
        // Two waits in one task: each is one of its own.
        poll(&mut run.cancelled(), &waits);
        count.lock().unwrap().extend([&dropped, &waits].map(Arc::strong_count));
        drop(other);
        count.lock().unwrap().push(Arc::strong_count(&waits));
    };
    let schedule = Schedule::in_process();
    schedule.add(Event::call("import", task).every_minute().without_overlapping()).unwrap();
    assert!(!schedule.run_due(noon()).is_failure());
    assert_eq!(*kept.lock().unwrap(), [1, 2, 1]);
}

#[test]
fn a_clone_that_outlives_its_run_is_woken_when_the_run_is_over() {
    let runtime = many_threads();
    for protect in [Event::without_overlapping as fn(Event) -> Event, |event| event] {
        let waits = Arc::new(Mutex::new(Vec::new()));
        let outlives = Arc::clone(&waits);
        let task = move |run: Run| {
            let outlives = Arc::clone(&outlives);
            async move {
                let mut cancellation = run.cancelled();
                poll(&mut cancellation, &Arc::default());
                let thread = {
                    let run = run.clone();
                    thread::spawn(move || run.wait_cancelled(Duration::MAX))
                };
                outlives.lock().unwrap().push((tokio::spawn(cancellation), thread));
            }
        };
        let report = schedule(MemoryMutex::new(), &runtime, [protect(Event::spawn("import", task))]).run_due(noon());
        assert!(!report.is_failure(), "{report}");
        let (task, thread) = waits.lock().unwrap().pop().expect("it ran");
        let reason = runtime.block_on(async { timeout(PATIENCE, task).await });
        assert_eq!(reason.expect("it is woken").expect("no panic"), CancelReason::LeaseLost);
        until(|| thread.is_finished()).expect("a thread that waits is woken, too");
        assert_eq!(thread.join().expect("no panic"), Some(CancelReason::LeaseLost));
    }
}
