//! A shutdown that a `CancellationToken` triggers.

use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Wake, Waker};

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

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
        let cancelled = Mutex::new(Some(Box::pin(token.cancelled_owned())));
        Arc::new(Watch { shutdown: Arc::downgrade(&shutdown.state), cancelled }).wake();
        shutdown
    }
}

/// A waker that triggers the shutdown when the token is cancelled. The waker lives as long as the token, even after the
/// last handle of the shutdown was dropped.
struct Watch {
    shutdown: Weak<ShutdownState>,
    /// `None` after the token was cancelled.
    cancelled: Mutex<Option<Pin<Box<WaitForCancellationFutureOwned>>>>,
}

impl Wake for Watch {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut cancelled = lock(&self.cancelled);
        let is_cancelled =
            cancelled.as_mut().is_some_and(|it| it.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        if is_cancelled {
            *cancelled = None;
            drop(cancelled);
            self.shutdown
                .upgrade()
                .into_iter()
                .for_each(|state| Shutdown { state, future_ended: Arc::default() }.trigger());
        }
    }
}
