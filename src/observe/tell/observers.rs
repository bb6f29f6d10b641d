//! The observers of a schedule and of its runs.

use std::sync::Arc;

use super::trace::{is_subscribed, log, observer_panicked, trace};
use crate::base::catch_panic::contain;
use crate::lease::owner::Owner;
use crate::observe::notice::{About, Notice, Step};
use crate::outcome::run_record::RunId;
use crate::time::clock::Clock;

/// An observer receives a notice of each [step](Step) of a schedule; see
/// [`Schedule::observe`](crate::Schedule::observe).
///
/// A closure or a function that takes a `&Notice<'_>` is an observer. Your own type can be an observer, too, for
/// example to keep counts:
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use soloist::observe::{Notice, Observer, Step};
/// use soloist::{Event, Schedule};
///
/// #[derive(Default)]
/// struct Failures(AtomicU64);
///
/// impl Observer for Failures {
///     fn observe(&self, notice: &Notice<'_>) {
///         if let Step::Ended(outcome) = notice.step() {
///             self.0.fetch_add(u64::from(outcome.is_failure()), Ordering::Relaxed);
///         }
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let failures = std::sync::Arc::new(Failures::default());
/// let schedule = Schedule::in_process().observe(failures.clone());
/// schedule.add(Event::call("reports", |_| Err("no paper".into())).every_minute())?;
/// assert!(schedule.run_due(chrono::Utc::now()).is_failure());
/// assert_eq!(failures.0.load(Ordering::Relaxed), 1);
/// # Ok(())
/// # }
/// ```
pub trait Observer: Send + Sync {
    /// Receives the notice of a step.
    fn observe(&self, notice: &Notice<'_>);
}

impl<F: Fn(&Notice<'_>) + Send + Sync> Observer for F {
    fn observe(&self, notice: &Notice<'_>) {
        self(notice);
    }
}

impl<O: Observer + ?Sized> Observer for Arc<O> {
    fn observe(&self, notice: &Notice<'_>) {
        (**self).observe(notice);
    }
}

/// The observers of a schedule, with its clock and its instance name.
#[derive(Clone, Default)]
pub(crate) struct Observers(Option<Arc<Observing>>);

struct Observing {
    observers: Vec<Arc<dyn Observer>>,
    clock: Clock,
    /// The instance name of the process.
    instance: Option<Arc<str>>,
}

impl Observers {
    pub(crate) const NONE: Self = Self(None);

    /// Returns these observers together with `observer`.
    pub(crate) fn and(&self, observer: Arc<dyn Observer>, clock: &Clock, instance: Option<Arc<str>>) -> Self {
        let observers = self.0.iter().flat_map(|known| known.observers.iter().cloned()).chain([observer]);
        Self(Some(Arc::new(Observing { observers: observers.collect(), clock: clock.clone(), instance })))
    }

    /// Returns these observers with this `clock` and the instance name `instance`, in place of their own.
    pub(crate) fn on(&self, clock: &Clock, instance: Option<Arc<str>>) -> Self {
        let observing = |Observing { observers, .. }: &Observing| {
            Arc::new(Observing { observers: observers.clone(), clock: clock.clone(), instance })
        };
        Self(self.0.as_deref().map(observing))
    }

    pub(crate) fn is_any(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the observers with the identity of a run. The id of the run is the `owner` of its lease, or a new id.
    /// `None`: there are no observers.
    pub(crate) fn of_run(&self, run: &RunId, owner: Option<Owner>) -> Option<Box<RunObservers>> {
        self.0.as_ref()?;
        let (run, owner) = (run.clone(), owner.unwrap_or_else(Owner::unique));
        Some(Box::new(RunObservers { observers: self.clone(), run, owner }))
    }

    /// Returns whether there is an observer, or there may be a subscriber of `tracing`.
    pub(crate) fn receive_all_steps(&self) -> bool {
        self.is_any() || is_subscribed()
    }

    /// Returns whether `others` are these observers.
    pub(crate) fn are(&self, others: &Self) -> bool {
        match (&self.0, &others.0) {
            (Some(these), Some(others)) => Arc::ptr_eq(these, others),
            (None, None) => true,
            _ => false,
        }
    }

    /// Reports a step.
    #[inline(never)]
    pub(crate) fn tell(&self, about: About<'_>, step: &Step<'_>) {
        log(|| trace(step, &about));
        let Some(Observing { observers, clock, instance }) = self.0.as_deref() else { return };
        let notice = Notice { step, about, clock, instance: instance.as_ref() };
        for observer in observers {
            if let Err(message) = contain(|| observer.observe(&notice)) {
                observer_panicked(&message);
            }
        }
    }
}

/// The observers of one run, and the identity of the run. A run of a schedule without observers has no `RunObservers`.
pub(crate) struct RunObservers {
    pub(crate) observers: Observers,
    pub(crate) run: RunId,
    /// The id of the run.
    pub(crate) owner: Owner,
}

impl RunObservers {
    pub(crate) fn about(&self) -> About<'_> {
        About { run: Some(self.owner), ..About::from(&self.run) }
    }
}
