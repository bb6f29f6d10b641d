//! A call that blocks, as a future: it is made on a thread of its own, so that it blocks no runtime.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::base::threads;
use crate::observe::notice::incident::Incident;
use crate::observe::tell::log;

/// Makes a call on a thread of its own, or here if the system has none. The call goes on if this is dropped.
pub(crate) async fn on_a_thread<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let (answer, answered) = oneshot::channel();
    let call = Arc::new(Mutex::new(Some(call)));
    let take = |call: &Mutex<Option<_>>| call.lock().unwrap_or_else(PoisonError::into_inner).take();
    let on_thread = {
        let call = Arc::clone(&call);
        // The answer to a dropped call has no receiver.
        move || drop(answer.send(catch_unwind(AssertUnwindSafe(|| take(&call).map(|call| call())))))
    };
    if let Err(error) = threads::start("soloist-call", on_thread) {
        log(&Incident::NoThread { what: "a call", so: "the runtime waits for it", error: &error });
        let call = take(&call).expect("no thread has taken it");
        return call();
    }
    match answered.await {
        Ok(Ok(Some(answer))) => answer,
        Ok(Err(panic)) => resume_unwind(panic),
        Ok(Ok(None)) | Err(_) => unreachable!("the thread makes the call, and answers"),
    }
}
