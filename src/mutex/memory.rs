//! Scope: this process. Clock: the one that never steps. A crash takes the leases with it.
//!
//! The reference implementation: one map behind one lock, each decision a single critical section.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::{Clock, Moment, wall_plus};
use crate::error::MutexError;
use crate::lease::{FencingToken, Holder, Lease, LeaseRequest, MutexName, Term};
use crate::mutex::{Admission, Admitted, EventMutex, Scope};

/// Mutexes within one process; the store of [`Schedule::in_process`](crate::Schedule::in_process).
///
/// A cheap handle: clones see the same mutexes. It can do all that an [`EventMutex`] can.
///
/// ```
/// use soloist::{EventMutex, MemoryMutex, MutexName};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mutex = MemoryMutex::new();
/// assert!(!mutex.exists(&MutexName::lease("reports")?)?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct MemoryMutex {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    held: HashMap<MutexName, Held>,
    last_token: Option<FencingToken>,
    /// How many entries there may be before the expired ones are looked for.
    purge_above: usize,
}

struct Held {
    holder: Holder,
    until: Moment,
}

impl MemoryMutex {
    /// An empty store on the machine's clock.
    ///
    /// ```
    /// let mut schedule = soloist::Schedule::new(soloist::MemoryMutex::new());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store on a clock of your own, so that a test can let leases expire.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::{Clock, EventMutex, LeaseRequest, ManualClock, MemoryMutex, MutexName, Term};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = ManualClock::at(chrono::DateTime::UNIX_EPOCH);
    /// let mutex = MemoryMutex::with_clock(&clock);
    /// let name = MutexName::lease("reports")?;
    /// mutex.create(&LeaseRequest::new(name.clone(), Term::new(Duration::from_secs(60))?, &Clock::from(&clock)))?;
    /// clock.advance(Duration::from_secs(60));
    /// assert!(!mutex.exists(&name)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_clock(clock: impl Into<Clock>) -> Self {
        Self { clock: clock.into(), state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs while the state is half-changed, so a poisoned one is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn live(&self, name: &MutexName, now: Moment) -> Option<&Held> {
        self.held.get(name).filter(|held| now < held.until)
    }

    fn holder(&self, name: &MutexName, now: Moment) -> Option<Holder> {
        self.live(name, now).map(|held| held.holder.clone())
    }

    fn owned_by(&self, lease: &Lease, now: Moment) -> bool {
        self.live(lease.name(), now).is_some_and(|held| held.holder.owner() == lease.owner())
    }

    fn next_token(&mut self, clock: &Clock) -> FencingToken {
        let token = FencingToken::after(self.last_token, clock.now());
        self.last_token = Some(token);
        token
    }

    fn keep(&mut self, lease: &Lease, clock: &Clock, now: Moment) {
        if self.held.len() >= self.purge_above {
            self.held.retain(|_, held| now < held.until);
            self.purge_above = (self.held.len() * 2).max(64);
        }
        let held = Held { holder: Holder::of(lease, clock.now()), until: now.plus(lease.term().get()) };
        self.held.insert(lease.name().clone(), held);
    }

    fn admit(&mut self, admission: &Admission, clock: &Clock) -> Admitted {
        let now = clock.moment();
        if let Some(claim) = admission.claim()
            && let Some(holder) = self.holder(claim.name(), now)
        {
            return Admitted::ClaimTaken(Some(holder));
        }
        if let Some(lease) = admission.lease()
            && let Some(holder) = self.holder(lease.name(), now)
        {
            return Admitted::LeaseTaken(Some(holder));
        }
        let grant = admission.granted(self.next_token(clock));
        for lease in [grant.lease(), grant.claim()].into_iter().flatten() {
            self.keep(lease, clock, now);
        }
        Admitted::Granted(grant)
    }
}

impl EventMutex for MemoryMutex {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        let mut state = self.state();
        let now = self.clock.moment();
        if state.live(request.name(), now).is_some() {
            return Ok(None);
        }
        let lease = request.granted(state.next_token(&self.clock));
        state.keep(&lease, &self.clock, now);
        Ok(Some(lease))
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        Ok(self.state().live(name, self.clock.moment()).is_some())
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        let mut state = self.state();
        let ours = state.owned_by(lease, self.clock.moment());
        if ours {
            state.held.remove(lease.name());
        }
        Ok(ours)
    }

    fn scope(&self) -> Scope {
        Scope::Process
    }

    fn admit(&self, admissions: &[Admission]) -> Vec<Result<Admitted, MutexError>> {
        let mut state = self.state();
        admissions.iter().map(|admission| Ok(state.admit(admission, &self.clock))).collect()
    }

    fn extend(&self, leases: &[Lease], term: Term) -> Vec<Result<bool, MutexError>> {
        let mut state = self.state();
        let now = self.clock.moment();
        let until = wall_plus(self.clock.now(), term.get());
        let extend = |lease: &Lease| {
            let ours = state.owned_by(lease, now);
            if ours && let Some(held) = state.held.get_mut(lease.name()) {
                held.until = now.plus(term.get());
                held.holder = held.holder.clone().held_until(until);
            }
            Ok(ours)
        };
        leases.iter().map(extend).collect()
    }

    fn holder(&self, name: &MutexName) -> Result<Option<Holder>, MutexError> {
        Ok(self.state().holder(name, self.clock.moment()))
    }

    fn break_lease(&self, name: &MutexName) -> Result<bool, MutexError> {
        let mut state = self.state();
        let now = self.clock.moment();
        Ok(state.held.remove(name).is_some_and(|held| now < held.until))
    }
}

impl fmt::Debug for MemoryMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.state().held.keys().map(MutexName::to_string).collect();
        f.debug_struct("MemoryMutex").field("names", &names).finish_non_exhaustive()
    }
}
