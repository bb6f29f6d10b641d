//! The calls of a service's handlers: they block no worker, and a hanging store costs the limit.

use std::sync::Condvar;

use soloist::MutexError;
use soloist::store::{Batch, Lease, LeaseRequest, StoreWarning};
use tokio::time::timeout;

use super::*;

/// A store that hangs until it is released.
#[derive(Debug, Default)]
struct Hangs(Mutex<bool>, Condvar);

impl Hangs {
    fn wait(&self) -> MutexError {
        let mut goes_on = self.0.lock().unwrap();
        while !*goes_on {
            goes_on = self.1.wait_timeout(goes_on, PATIENCE).unwrap().0;
        }
        MutexError::unavailable("answer", "it hung")
    }

    fn let_go(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }
}

impl EventMutex for Hangs {
    fn create(&self, _: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        Err(self.wait())
    }

    fn exists(&self, _: &MutexName) -> Result<bool, MutexError> {
        Err(self.wait())
    }

    fn forget(&self, _: &Lease) -> Result<bool, MutexError> {
        Err(self.wait())
    }

    fn carry_out(&self, _: &mut Batch) {
        self.wait();
    }

    fn held(&self, _: Names<'_>) -> Result<Vec<soloist::store::Held>, MutexError> {
        Err(self.wait())
    }

    fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        Err(self.wait())
    }
}

#[test]
#[cfg(feature = "redis")]
fn an_answer_that_comes_too_late_names_the_server_and_its_last_failure() {
    use crate::servers::proxy::REFUSING;

    let schedule = Schedule::new(soloist::connect(&format!("{REFUSING}?timeout=1m")).unwrap());
    let operator = schedule.operator().within(5 * SECOND);
    one_thread().block_on(async {
        let said = format!("no answer within 5s from {REFUSING}/0; its last attempt failed: Connection refused");
        let error = timeout(PATIENCE, operator.ask(Schedule::check)).await.expect("it has a limit").unwrap_err();
        assert!(error.to_string().contains(&said), "{error}");
        let status = timeout(PATIENCE, operator.status()).await.expect("it has a limit");
        assert!(status.store_errors.iter().all(|error| error.to_string().contains(&said)), "{:?}", status.store_errors);
    });
}

#[test]
fn a_store_that_hangs_costs_a_handler_its_limit_and_stalls_no_worker() {
    let (runtime, store) = (one_thread(), Arc::new(Hangs::default()));
    let schedule = Schedule::new(Arc::clone(&store)).named("shop").unwrap();
    let operator = schedule.operator().within(Duration::from_millis(200));
    runtime.block_on(async {
        let error = timeout(PATIENCE, operator.ask(Schedule::check)).await.expect("it has a limit").unwrap_err();
        assert!(error.is_unavailable());
        assert_eq!(error.to_string(), "could not get an answer: no answer within 200ms");
        assert!(
            timeout(PATIENCE, operator.ask(Schedule::paused))
                .await
                .expect("it has a limit")
                .unwrap_err()
                .is_unavailable()
        );
        let shared = Arc::clone(&store);
        let held = operator.ask(move |_| shared.held(Names::LeasesWithPrefix("")));
        assert!(timeout(PATIENCE, held).await.expect("it has a limit").unwrap_err().is_unavailable());
        // The store answers only when the only thread has had other turns.
        let beside = async {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            store.let_go();
        };
        let patient = operator.within(PATIENCE);
        let (check, ()) = tokio::join!(patient.ask(Schedule::check), beside);
        let error = check.unwrap_err().to_string();
        assert!(error.ends_with("it hung"), "the only thread did not go on: {error}");
    });
}

#[test]
fn calls_that_hang_are_not_without_number() {
    let (runtime, store) = (many_threads(), Arc::new(Hangs::default()));
    let operator = Schedule::new(Arc::clone(&store)).operator().within(Duration::from_millis(1));
    let errors: Vec<String> =
        (0..20).map(|_| runtime.block_on(operator.ask(Schedule::check)).unwrap_err().to_string()).collect();
    assert_eq!(errors.iter().filter(|error| error.ends_with("no answer within 1ms")).count(), 16, "{errors:?}");
    assert_eq!(errors[19], "could not get an answer: 16 earlier calls are still running");
    store.let_go();
    let patient = operator.within(PATIENCE);
    until(|| runtime.block_on(patient.ask(Schedule::check)).unwrap_err().to_string().ends_with("it hung"))
        .expect("they end");
}

#[test]
fn an_operator_pauses_and_frees() {
    let (runtime, store) = (many_threads(), MemoryMutex::new());
    let schedule = Schedule::new(store.clone()).named("shop").unwrap();
    let operator = schedule.operator().within(PATIENCE);
    let name = MutexName::lease("import").unwrap();
    let _guard =
        soloist::LeaseGuard::acquire(&store, name.clone(), soloist::Term::DEFAULT).unwrap().expect("it is free");
    runtime.block_on(async {
        let until = chrono::Utc::now() + chrono::TimeDelta::hours(1);
        operator.ask(move |schedule| schedule.pause(until, "")).await.unwrap();
        assert!(operator.ask(Schedule::paused).await.unwrap().is_some());
        assert!(operator.ask(Schedule::resume).await.unwrap());
        assert!(operator.ask(Schedule::paused).await.unwrap().is_none());
        operator.ask(move |schedule| schedule.pause_event("any", until, "why not")).await.unwrap();
        let pause = operator.ask(|schedule| schedule.paused_event("any")).await.unwrap();
        assert_eq!(pause.and_then(|pause| Some(pause.why()?.to_owned())).unwrap(), "why not");
        assert!(operator.ask(|schedule| schedule.resume_event("any")).await.unwrap());
        let broken = operator.ask(move |_| store.break_lease(&name)).await.unwrap();
        assert!(broken.is_some());
    });
}
