//! Scope: this process. Clock: the one that never steps. A crash takes the leases with it.
//!
//! The reference implementation: one map behind one lock, each decision a single critical section.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};

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

/// So many names are no burden, and those of events that come again are found in their place.
const PURGE_NEVER_BELOW: usize = 1024;

#[derive(Default)]
struct State {
    /// Also what has expired or was given back, until it is looked for: a name is mostly asked for again.
    names: HashMap<MutexName, Held, BuildHasherDefault<Prehashed>>,
    last_token: Option<FencingToken>,
    /// How many names there may be before the free ones are looked for.
    purge_above: usize,
}

/// A name brings a hash of its own, keyed at random; it is good enough as it is.
#[derive(Default)]
struct Prehashed(u64);

impl Hasher for Prehashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

struct Held {
    holder: Holder,
    /// `None`: it was given back.
    until: Option<Moment>,
}

impl Held {
    fn is_live(&self, now: Now) -> bool {
        self.until.is_some_and(|until| now.moment < until)
    }
}

/// Both clocks, read once for one decision.
#[derive(Clone, Copy)]
struct Now {
    moment: Moment,
    wall: DateTime<Utc>,
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

    /// One decision: the state, for nobody else meanwhile, and the time.
    fn decide<T>(&self, decide: impl FnOnce(&mut State, Now) -> T) -> T {
        // No code that can panic runs while the state is half-changed, so a poisoned one is whole.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        decide(&mut state, Now { moment: self.clock.moment(), wall: self.clock.now() })
    }
}

impl State {
    fn holder(&self, name: &MutexName, now: Now) -> Option<&Holder> {
        self.names.get(name).filter(|held| held.is_live(now)).map(|held| &held.holder)
    }

    /// What `lease` still holds.
    fn held_by(&mut self, lease: &Lease, now: Now) -> Option<&mut Held> {
        let ours = |held: &&mut Held| held.is_live(now) && held.holder.owner() == lease.owner();
        self.names.get_mut(lease.name()).filter(ours)
    }

    fn next_token(&mut self, now: Now) -> FencingToken {
        let token = FencingToken::after(self.last_token, now.wall);
        self.last_token = Some(token);
        token
    }

    fn keep(&mut self, lease: &Lease, now: Now) {
        let until = Some(now.moment.plus(lease.term().get()));
        let held = Held { holder: Holder::of(lease, now.wall), until };
        if let Some(before) = self.names.get_mut(lease.name()) {
            *before = held;
            return;
        }
        if self.names.len() >= self.purge_above {
            self.names.retain(|_, held| held.is_live(now));
            self.purge_above = (self.names.len() * 2).max(PURGE_NEVER_BELOW);
        }
        self.names.insert(lease.name().clone(), held);
    }

    fn admit(&mut self, admission: &Admission, now: Now) -> Admitted {
        if let Some(claim) = admission.claim()
            && let Some(holder) = self.holder(claim.name(), now)
        {
            return Admitted::ClaimTaken(Some(holder.clone()));
        }
        if let Some(lease) = admission.lease()
            && let Some(holder) = self.holder(lease.name(), now)
        {
            return Admitted::LeaseTaken(Some(holder.clone()));
        }
        let grant = admission.granted(self.next_token(now));
        for lease in [grant.lease(), grant.claim()].into_iter().flatten() {
            self.keep(lease, now);
        }
        Admitted::Granted(grant)
    }
}

impl EventMutex for MemoryMutex {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        self.decide(|state, now| {
            if state.holder(request.name(), now).is_some() {
                return Ok(None);
            }
            let lease = request.granted(state.next_token(now));
            state.keep(&lease, now);
            Ok(Some(lease))
        })
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.decide(|state, now| Ok(state.holder(name, now).is_some()))
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.decide(|state, now| Ok(state.held_by(lease, now).map(|held| held.until = None).is_some()))
    }

    fn scope(&self) -> Scope {
        Scope::Process
    }

    fn admit(&self, admissions: &[Admission]) -> Vec<Result<Admitted, MutexError>> {
        self.decide(|state, now| admissions.iter().map(|admission| Ok(state.admit(admission, now))).collect())
    }

    fn extend(&self, leases: &[Lease], term: Term) -> Vec<Result<bool, MutexError>> {
        let extend = |held: &mut Held, now: Now| {
            held.until = Some(now.moment.plus(term.get()));
            held.holder = held.holder.clone().held_until(wall_plus(now.wall, term.get()));
        };
        self.decide(|state, now| {
            let answer = |lease| Ok(state.held_by(lease, now).map(|held| extend(held, now)).is_some());
            leases.iter().map(answer).collect()
        })
    }

    fn holder(&self, name: &MutexName) -> Result<Option<Holder>, MutexError> {
        self.decide(|state, now| Ok(state.holder(name, now).cloned()))
    }

    fn break_lease(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.decide(|state, now| Ok(state.names.remove(name).is_some_and(|held| held.is_live(now))))
    }
}

impl fmt::Debug for MemoryMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let live = |state: &mut State, now| {
            let held = state.names.iter().filter(|(_, held)| held.is_live(now));
            held.map(|(name, _)| name.to_string()).collect::<Vec<_>>()
        };
        f.debug_struct("MemoryMutex").field("held", &self.decide(live)).finish_non_exhaustive()
    }
}
