//! Cancelled futures: they are notified, dropped when their grace is over, and polled no more.

use super::*;

/// The polls that began, each with the remaining time of its run.
#[derive(Clone, Default)]
struct Polls(Arc<Mutex<Vec<Option<Duration>>>>);

impl Polls {
    /// Wakes itself all the time, and never ends. Notes the remaining time at each poll.
    async fn spin(self, run: Run) {
        poll_fn::<(), _>(|context| {
            self.0.lock().unwrap().push(run.remaining());
            thread::sleep(Duration::from_millis(1)); // so that it is not called a million times
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// Checks a run in the foreground, and one in the background.
fn both(check: impl Fn(fn(Event) -> Event)) {
    check(|event| event);
    check(Event::in_background);
}

/// Returns another background event on the store, so that the two share a loop.
fn bystander() -> Event {
    Event::spawn("beside", |_| async {}).without_overlapping().in_background()
}

#[test]
fn a_future_that_takes_too_long_is_told_and_dropped_when_its_grace_is_over() {
    both(|place| {
        let (runtime, polls, diary) = (many_threads(), Polls::default(), Diary::default());
        let (spins, noted) = (polls.clone(), diary.clone());
        let task = move |run: Run| {
            let (spins, diary) = (spins.clone(), noted.clone());
            async move {
                let dropped = diary.clone();
                let _on_drop = OnDrop(move || dropped.note("dropped"));
                let told = async {
                    diary.note(run.cancelled().await.to_string());
                    pending::<()>().await;
                };
                tokio::join!(told, spins.spin(run.clone()));
            }
        };
        let event = Event::spawn("slow", task).without_overlapping().apply(place);
        let event = event.timeout(5 * SECOND).grace(5 * SECOND).then(diary.hook("then"));
        let clock = ManualClock::at(noon());
        let schedule = schedule(MemoryMutex::with_clock(&clock), &runtime, [event, bystander()]);
        let report = thread::scope(|scope| {
            let tick = scope.spawn(|| schedule.run_due(noon()));
            until(|| polls.count() > 0).expect("it is polled");
            clock.advance(5 * SECOND);
            until(|| diary.lines() == ["it took longer than its timeout"]).expect("it is told");
            let told = polls.count();
            until(|| polls.count() > told + 1).expect("it is polled during its grace");
            clock.advance(5 * SECOND);
            tick.join().expect("no panic")
        });
        assert!(matches!(ran(&report, "slow").ended(), Ended::TimedOut { .. }), "{report}");
        assert!(matches!(ran(&report, "slow").release(), Some(Release::Released)), "{report}");
        assert_eq!(diary.lines(), ["it took longer than its timeout", "dropped", "then"]);
        let count = polls.count();
        thread::sleep(Duration::from_millis(50)); // in which many polls would begin
        assert_eq!(polls.count(), count, "it is polled no more");
    });
}

#[test]
fn no_poll_begins_in_the_last_second_of_a_lease_and_the_task_is_told_before() {
    both(|place| {
        let (runtime, clock) = (many_threads(), ManualClock::at(noon()));
        let (polls, diary) = (Arc::new(Mutex::new(Vec::new())), Diary::default());
        let (noted, told, moved) = (Arc::clone(&polls), diary.clone(), Clock::from(&clock));
        let task = move |run: Run| {
            let (noted, told, clock) = (Arc::clone(&noted), told.clone(), moved.clone());
            async move {
                let deadline = run.lease().expect("it is protected").deadline();
                let tell = async { told.note(run.cancelled().await.to_string()) };
                let spin = poll_fn::<(), _>(|context| {
                    noted.lock().unwrap().push(deadline.since(clock.moment()));
                    thread::sleep(Duration::from_millis(1)); // so that it is not called a million times
                    context.waker().wake_by_ref();
                    Poll::Pending
                });
                tokio::join!(tell, spin);
            }
        };
        let event = Event::spawn("slow", task).without_overlapping_for(60 * SECOND).apply(place);
        let schedule = schedule(MemoryMutex::with_clock(&clock), &runtime, [event, bystander()]);
        let polled_at = |left: Duration| until(|| polls.lock().unwrap().last() == Some(&left)).expect("it is polled");
        thread::scope(|scope| {
            let tick = scope.spawn(|| schedule.run_due(noon()));
            polled_at(60 * SECOND);
            clock.advance(53 * SECOND);
            polled_at(7 * SECOND);
            assert_eq!(diary.lines(), [""; 0], "its grace and a second are still to come");
            clock.advance(SECOND);
            until(|| diary.lines() == ["its lease was lost"]).expect("it is told");
            clock.advance(4 * SECOND);
            polled_at(2 * SECOND);
            clock.advance(SECOND);
            let report = tick.join().expect("no panic");
            let said = format!(
                "cancelled after 59.0 s; the lease was lost at 2026-03-01 12:00:54 UTC{}",
                crate::support::FIXED_TERM
            );
            assert!(entry(&report, "slow").to_string().ends_with(&said), "{report}");
        });
        let polls = polls.lock().unwrap();
        // A poll that has begun before the clock moved may read it afterwards.
        assert!(polls[..polls.len() - 1].iter().all(|left| *left > SECOND), "{:?}", polls.last());
    });
}

#[test]
fn a_future_whose_process_was_suspended_is_not_polled_again() {
    both(|place| {
        let (runtime, clock, polls) = (many_threads(), ManualClock::at(noon()), Polls::default());
        let (go_on, wait) = mpsc::channel();
        let (wait, moved, noted) = (Mutex::new(Some(wait)), clock.clone(), polls.clone());
        let task = move |run: Run| {
            let wait: mpsc::Receiver<()> = wait.lock().unwrap().take().expect("it is called once");
            let (clock, polls) = (moved.clone(), noted.clone());
            async move {
                tokio::task::yield_now().await;
                wait.recv_timeout(PATIENCE).unwrap();
                // Everything stands still for longer than the term, in the middle of a poll.
                clock.jump(90 * SECOND);
                polls.spin(run).await;
            }
        };
        let event = Event::spawn("slow", task).without_overlapping().apply(place);
        let schedule = schedule(MemoryMutex::with_clock(&clock), &runtime, [event, bystander()]);
        let report = thread::scope(|scope| {
            let tick = scope.spawn(|| schedule.run_due(noon()));
            go_on.send(()).unwrap();
            tick.join().expect("no panic")
        });
        assert!(ran(&report, "slow").is_failure(), "{report}");
        assert_eq!(polls.count(), 1, "the poll in which it stood still, and no other");
    });
}

#[test]
fn a_future_whose_lease_was_broken_has_no_grace() {
    both(|place| {
        let (runtime, clock) = (many_threads(), ManualClock::at(noon()));
        let (store, polls, diary) = (MemoryMutex::with_clock(&clock), Polls::default(), Diary::default());
        let (spins, noted) = (polls.clone(), diary.clone());
        let task = move |run: Run| {
            let dropped = noted.clone();
            let on_drop = OnDrop(move || dropped.note("dropped"));
            let spins = spins.clone();
            async move {
                let _on_drop = on_drop;
                spins.spin(run).await;
            }
        };
        let event = Event::spawn("slow", task).without_overlapping().grace(10 * SECOND).apply(place);
        let schedule = schedule(store.clone(), &runtime, [event, bystander()]);
        let report = thread::scope(|scope| {
            let tick = scope.spawn(|| schedule.run_due(noon()));
            until(|| polls.count() > 0).expect("it is polled");
            assert!(store.break_lease(&MutexName::lease("slow").unwrap()).unwrap().is_some());
            clock.advance(20 * SECOND); // to the next renewal
            let ended = until(|| tick.is_finished());
            clock.advance(60 * SECOND); // or the run would not end
            ended.expect("it ends while the clock stands still");
            tick.join().expect("no panic")
        });
        assert!(matches!(ran(&report, "slow").release(), Some(Release::Lost)), "{report}");
        assert_eq!(diary.lines(), ["dropped"]);
    });
}

#[test]
fn a_shutdown_drops_what_does_not_stop_and_gives_its_lease_back() {
    both(|place| {
        let (runtime, polls, shutdown) = (many_threads(), Polls::default(), Shutdown::new());
        // On a clock that stands still, the second for dropping the future never ends.
        let store = MemoryMutex::with_clock(ManualClock::at(noon()));
        let shutdown = shutdown.with_drain(Duration::ZERO);
        let spins = polls.clone();
        let event = Event::spawn("slow", move |run| spins.clone().spin(run)).without_overlapping();
        let event = event.grace(Duration::ZERO).apply(place);
        let schedule = schedule(store.clone(), &runtime, [event, bystander()]).with_shutdown(&shutdown);
        let report = thread::scope(|scope| {
            let tick = scope.spawn(|| schedule.run_due(noon()));
            until(|| polls.count() > 0).expect("it is polled");
            shutdown.trigger();
            tick.join().expect("no panic")
        });
        assert!(entry(&report, "slow").to_string().contains("the process is shutting down"), "{report}");
        assert!(matches!(ran(&report, "slow").release(), Some(Release::Released)), "{report}");
    });
}

#[test]
fn a_future_that_waits_for_good_is_dropped_when_the_grace_of_a_shutdown_is_over() {
    both(|place| {
        let (runtime, diary, shutdown) = (many_threads(), Diary::default(), Shutdown::new());
        let clock = ManualClock::at(noon());
        let noted = diary.clone();
        let task = move |run: Run| {
            let diary = noted.clone();
            async move {
                let dropped = diary.clone();
                let _on_drop = OnDrop(move || dropped.note("dropped"));
                diary.note("begun");
                diary.note(run.cancelled().await.to_string());
                pending::<()>().await;
            }
        };
        let shutdown = shutdown.with_drain(Duration::ZERO).with_grace(60 * SECOND);
        let event = Event::spawn("slow", task).without_overlapping().grace(5 * SECOND).apply(place);
        let store = MemoryMutex::with_clock(&clock);
        let schedule = schedule(store, &runtime, [event, bystander()]).with_shutdown(&shutdown);
        let report = thread::scope(|scope| {
            let tick = scope.spawn(|| schedule.run_due(noon()));
            until(|| !diary.lines().is_empty()).expect("it begins");
            shutdown.trigger();
            until(|| diary.lines().len() == 2).expect("it is cancelled");
            clock.advance(5 * SECOND + SECOND / 2); // its runtime has a second from then on to drop it
            let ended = until(|| tick.is_finished());
            clock.advance(600 * SECOND); // or the run would not end
            ended.expect("nothing but its loop wakes it");
            tick.join().expect("no panic")
        });
        assert!(matches!(ran(&report, "slow").release(), Some(Release::Released)), "{report}");
        assert_eq!(diary.lines()[2..], ["dropped"]);
    });
}

#[test]
fn a_future_that_its_runtime_drops_fails_and_gives_its_lease_back() {
    both(|place| {
        let (runtime, store, polls) = (many_threads(), MemoryMutex::new(), Polls::default());
        let spins = polls.clone();
        let event = Event::spawn("slow", move |run| spins.clone().spin(run)).without_overlapping().apply(place);
        let schedule = schedule(store, &runtime, [event, bystander()]);
        let report = thread::scope(|scope| {
            let tick = scope.spawn(|| schedule.run_due(noon()));
            until(|| polls.count() > 0).expect("it is polled");
            runtime.shutdown_background();
            tick.join().expect("no panic")
        });
        assert!(entry(&report, "slow").to_string().contains("the runtime of the event ended"), "{report}");
        assert!(matches!(ran(&report, "slow").release(), Some(Release::Released)), "{report}");
    });
}

#[test]
fn a_poll_that_does_not_end_is_waited_for() {
    both(|place| {
        let (runtime, clock) = (many_threads(), ManualClock::at(noon()));
        let store = MemoryMutex::with_clock(&clock);
        let (entered, wait_for_entry) = mpsc::channel();
        let (go_on, wait) = mpsc::channel();
        let wait = Mutex::new(Some(wait));
        let task = move |_| {
            let wait: mpsc::Receiver<()> = wait.lock().unwrap().take().expect("it is called once");
            let entered = entered.clone();
            async move {
                entered.send(()).unwrap();
                wait.recv_timeout(PATIENCE).unwrap(); // it blocks its thread
                pending::<()>().await;
            }
        };
        let event = Event::spawn("slow", task).without_overlapping().timeout(SECOND);
        let event = event.grace(Duration::ZERO).apply(place);
        let schedule = schedule(store.clone(), &runtime, [event, bystander()]);
        thread::scope(|scope| {
            let tick = scope.spawn(|| schedule.run_due(noon()));
            wait_for_entry.recv_timeout(PATIENCE).unwrap();
            clock.advance(SECOND);
            clock.advance(2 * SECOND); // longer than a task that is not polled gets
            thread::sleep(Duration::from_millis(100)); // in which the run would end
            assert!(!tick.is_finished() && store.exists(&MutexName::lease("slow").unwrap()).unwrap());
            go_on.send(()).unwrap();
            let report = tick.join().expect("no panic");
            assert!(matches!(ran(&report, "slow").ended(), Ended::TimedOut { .. }), "{report}");
            assert!(matches!(ran(&report, "slow").release(), Some(Release::Released)), "{report}");
        });
    });
}

#[test]
fn a_callback_that_waits_in_a_runtime_is_woken_by_its_timeout_and_by_the_loss_of_its_lease() {
    let (clock, diary) = (ManualClock::at(noon()), Diary::default());
    let store = MemoryMutex::with_clock(&clock);
    let waits = |name: &str| {
        let (runtime, diary) = (one_thread(), diary.clone());
        Event::call(name, move |run| {
            diary.note("waits");
            let reason = runtime.block_on(async { tokio::time::timeout(PATIENCE, run.cancelled()).await });
            diary.note(reason.map_or("nobody woke it".to_owned(), |reason| reason.to_string()));
        })
    };
    let tick = |store: MemoryMutex, event: Event| {
        let schedule = Schedule::new(store);
        schedule.add(event.every_minute()).unwrap();
        let _ = schedule.run_due(noon());
    };
    tick(MemoryMutex::new(), waits("slow").timeout(Duration::from_millis(50)));
    assert_eq!(diary.lines(), ["waits", "it took longer than its timeout"]);
    thread::scope(|scope| {
        scope.spawn(|| tick(store.clone(), waits("lost").without_overlapping()));
        until(|| diary.lines().len() == 3).expect("it begins");
        assert!(store.break_lease(&MutexName::lease("lost").unwrap()).unwrap().is_some());
        clock.advance(20 * SECOND); // to the next renewal
    });
    assert_eq!(diary.lines()[2..], ["waits", "its lease was lost"]);
}
