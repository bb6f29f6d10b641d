//! A shutdown that a `CancellationToken` triggers.

use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};

use tokio_util::sync::CancellationToken;

use super::Shutdown;
use super::shutdown_state::ShutdownState;
use crate::base::lock::lock;

/// A shutdown that begins when the token is cancelled. This needs no runtime.
///
/// ```
/// use soloist::Shutdown;
/// use tokio_util::sync::CancellationToken;
///
/// let token = CancellationToken::new();
/// let shutdown = Shutdown::from(token.child_token());
/// assert!(!shutdown.is_triggered());
/// token.cancel();
/// assert!(shutdown.is_triggered());
/// ```
impl From<CancellationToken> for Shutdown {
    fn from(token: CancellationToken) -> Self {
        let shutdown = Self::new();
        *lock(&shutdown.state.cancelled) = Some(Box::pin(token.cancelled_owned()));
        Arc::new(Watch(Arc::downgrade(&shutdown.state))).wake();
        shutdown
    }
}

/// A waker that triggers the shutdown when the token is cancelled. The token owns the waker until the future is dropped,
/// and the shutdown owns the future. So the waker does not own the shutdown.
struct Watch(Weak<ShutdownState>);

impl Wake for Watch {
    fn wake(self: Arc<Self>) {
        let Some(state) = self.0.upgrade() else { return };
        let waker = Waker::from(self);
        let mut cancelled = lock(&state.cancelled);
        let is_cancelled =
            cancelled.as_mut().is_some_and(|it| it.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        if is_cancelled {
            *cancelled = None;
            drop(cancelled);
            Shutdown { state, future_ended: Arc::default() }.trigger();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_is_never_cancelled_keeps_nothing_of_a_shutdown() {
        let token = CancellationToken::new();
        let state = Arc::clone(&Shutdown::from(token.clone()).state);
        assert_eq!((Arc::strong_count(&state), Arc::weak_count(&state)), (1, 1), "only the waker has a weak handle");
        drop(lock(&state.cancelled).take());
        assert_eq!(Arc::weak_count(&state), 0, "the waker was dropped with the future");
        assert!(!token.is_cancelled());
    }
}
