//! Scope: this process. Clock: the one that never steps. A crash takes the leases with it.
//!
//! The reference implementation: maps behind one lock, each decision a single critical section.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};

mod kept_claims;
mod live_holding;
mod logged_runs;

use kept_claims::{KeptClaims, PURGE_NEVER_BELOW};
use live_holding::Holding;
use logged_runs::LoggedRuns;

use super::event_mutex::EventMutex;
use crate::base::error::MutexError;
use crate::lease::name::{MutexName, NameMap};
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::{owner::Owner, term::Term, token::FencingToken};
use crate::observe::run_record::{RunRecord, skip_count::SkipCount};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::description::{Description, Scope};
use crate::store::event_mutex::held::{Held, Names};
use crate::store::event_mutex::{batch::Batch, broken_lease::Broken, run_log::RunLog, slot::Slot};
use crate::time::clock::{Clock, moment::Moment};

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
    state: Arc<Mutex<MemoryState>>,
    runs: Arc<LoggedRuns>,
}

#[derive(Default)]
struct MemoryState {
    /// Also what has expired or was given back, until it is looked for: a name is mostly asked for again.
    names: NameMap<MemoryEntry>,
    claims: KeptClaims,
    last_token: Option<FencingToken>,
    /// How many names there may be before the free ones are looked for.
    purge_above: usize,
}

/// Who holds a name: somebody in this process.
struct MemoryEntry {
    owner: Owner,
    token: FencingToken,
    since: Moment,
    /// `None`: it was given back.
    until: Option<Moment>,
    occurrence: Option<DateTime<Utc>>,
    reason: Option<Box<str>>,
}

impl MemoryEntry {
    fn is_live(&self, now: Moment) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    fn live(&self, now: Moment) -> Option<Holding<'_>> {
        let Self { owner, token, since, occurrence, .. } = *self;
        let until = self.until.filter(|until| now < *until)?;
        Some(Holding { owner, token, since, until, occurrence, reason: self.reason.as_deref() })
    }
}

impl MemoryMutex {
    /// An empty store on the machine's clock.
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
        Self { clock: clock.into(), ..Self::default() }
    }

    /// Loses all leases and claims, as a server does that is restarted without its data.
    #[cfg(feature = "testing")]
    pub(crate) fn lose_all(&self) {
        self.decide(|state, _| (state.names, state.claims) = Default::default());
    }

    /// One decision: the state, for nobody else meanwhile, and the time.
    fn decide<T>(&self, decide: impl FnOnce(&mut MemoryState, Moment) -> T) -> T {
        // No code that can panic runs while the state is half-changed, so a poisoned one is whole.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        decide(&mut state, self.clock.moment())
    }

    #[inline]
    fn decide_on(&self, state: &mut MemoryState, admission: &Admission, now: Moment) -> Admitted {
        for name in admission.excluded_by() {
            if let Some(held) = state.live(name, now) {
                return Admitted::Excluded(Held::new(name.clone(), Some(held.holder(&self.clock, now))));
            }
        }
        if let Some(claim) = admission.claim()
            && let Some(held) = state.live(claim.name(), now)
        {
            return Admitted::ClaimTaken(Some(held.holder(&self.clock, now)));
        }
        if let Some(lease) = admission.lease()
            && let Some(held) = state.live(lease.name(), now)
        {
            return Admitted::LeaseTaken(Some(held.holder(&self.clock, now)));
        }
        let grant = admission.granted(state.next_token(&self.clock));
        let asked = [admission.lease(), admission.claim()].into_iter().flatten();
        for (lease, asked) in [grant.lease(), grant.claim()].into_iter().flatten().zip(asked) {
            state.keep(lease, asked.reason(), now);
        }
        Admitted::Granted(grant)
    }
}

impl MemoryState {
    fn live(&self, name: &MutexName, now: Moment) -> Option<Holding<'_>> {
        self.claims.live(name, now).or_else(|| self.names.get(name)?.live(now))
    }

    /// Lets what `lease` still holds last until then; `None`: it is given back. `false`: it holds nothing any more.
    fn end_at(&mut self, lease: &Lease, until: Option<Moment>, now: Moment) -> bool {
        if let Some(claim) = self.claims.live(lease.name(), now) {
            let ours = claim.owner == lease.owner();
            if ours {
                self.claims.remove(lease.name());
                let Holding { owner, token, since, occurrence, .. } = claim;
                self.put(lease.name(), MemoryEntry { owner, token, since, until, occurrence, reason: None }, now);
            }
            return ours;
        }
        let ours = |held: &&mut MemoryEntry| held.is_live(now) && held.owner == lease.owner();
        self.names.get_mut(lease.name()).filter(ours).map(|held| held.until = until).is_some()
    }

    /// The first says when it was, so that the tokens of a process are higher than those of the one before it.
    fn next_token(&mut self, clock: &Clock) -> FencingToken {
        let now = if self.last_token.is_none() { clock.now() } else { DateTime::UNIX_EPOCH };
        let token = FencingToken::after(self.last_token, now);
        self.last_token = Some(token);
        token
    }

    fn keep(&mut self, lease: &Lease, reason: Option<&str>, now: Moment) {
        if reason.is_none() && self.claims.keep(lease, now) {
            return;
        }
        let until = Some(now.plus(lease.term().get()));
        let held = MemoryEntry {
            owner: lease.owner(),
            token: lease.token(),
            since: now,
            until,
            occurrence: lease.occurrence(),
            reason: reason.map(Box::from),
        };
        self.put(lease.name(), held, now);
    }

    fn put(&mut self, name: &MutexName, held: MemoryEntry, now: Moment) {
        if let Some(before) = self.names.get_mut(name) {
            *before = held;
            return;
        }
        if self.names.len() >= self.purge_above {
            self.names.retain(|_, held| held.is_live(now));
            self.purge_above = (self.names.len() * 2).max(PURGE_NEVER_BELOW);
        }
        self.names.insert(name.clone(), held);
    }
}

impl EventMutex for MemoryMutex {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        self.decide(|state, now| {
            if state.live(request.name(), now).is_some() {
                return Ok(None);
            }
            let lease = request.granted(state.next_token(&self.clock));
            state.keep(&lease, request.reason(), now);
            Ok(Some(lease))
        })
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.decide(|state, now| Ok(state.live(name, now).is_some()))
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.decide(|state, now| Ok(state.end_at(lease, None, now)))
    }

    fn describe(&self) -> Description {
        Description::of(&*self.state).with_scope(Scope::Process).with_extension()
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn carry_out(&self, batch: &mut Batch) {
        let stops_at_first_grant = batch.stops_at_first_grant();
        let (releases, admissions) = batch.slots_mut();
        self.decide(|state, now| {
            for slot in releases {
                let until = slot.asked().rest().map(|rest| now.plus(rest.get()));
                let ours = state.end_at(slot.asked().lease(), until, now);
                slot.fill(Ok(ours));
            }
            let mut is_decided = false;
            for slot in admissions {
                let decided = if is_decided { Admitted::NotDecided } else { self.decide_on(state, slot.asked(), now) };
                is_decided |= stops_at_first_grant && matches!(decided, Admitted::Granted(_));
                slot.fill(Ok(decided));
            }
        });
    }

    fn extend(&self, leases: &mut [Slot<Lease, bool>], term: Term) {
        self.decide(|state, now| {
            for slot in leases {
                let ours = state.end_at(slot.asked(), Some(now.plus(term.get())), now);
                slot.fill(Ok(ours));
            }
        });
    }

    fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
        self.decide(|state, now| {
            let held =
                |name: &MutexName, held: Holding<'_>| Held::new(name.clone(), Some(held.holder(&self.clock, now)));
            Ok(match names {
                Names::Exactly(name) => state.live(name, now).map(|live| held(name, live)).into_iter().collect(),
                Names::Each(names) => {
                    names.iter().filter_map(|name| Some(held(name, state.live(name, now)?))).collect()
                }
                Names::LeasesWithPrefix(_) => {
                    let asked = state.names.iter().filter(|(name, _)| names.contain(name));
                    asked.filter_map(|(name, entry)| Some(held(name, entry.live(now)?))).collect()
                }
            })
        })
    }

    fn break_lease(&self, name: &MutexName) -> Result<Broken, MutexError> {
        self.decide(|state, now| {
            let is_held = state.live(name, now).is_some();
            state.claims.remove(name);
            state.names.remove(name);
            Ok(Broken::if_held(is_held))
        })
    }

    fn run_log(&self) -> Option<&dyn RunLog> {
        Some(self)
    }
}

impl RunLog for MemoryMutex {
    fn write(&self, records: &[RunRecord], keep: usize) -> Result<(), MutexError> {
        self.runs.write(records, keep);
        Ok(())
    }

    fn runs(&self, event: &str) -> Result<Vec<RunRecord>, MutexError> {
        Ok(self.runs.runs(event))
    }

    fn count_skips(&self, event: &str, skips: &[SkipCount]) -> Result<(), MutexError> {
        self.runs.count_skips(event, skips);
        Ok(())
    }

    fn skips(&self, event: &str) -> Result<Vec<SkipCount>, MutexError> {
        Ok(self.runs.skips(event))
    }
}

impl fmt::Debug for MemoryMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let live = |state: &mut MemoryState, now| {
            let held = state.names.iter().filter(|(_, held)| held.is_live(now)).map(|(name, _)| name.clone());
            held.chain(state.claims.names(now)).map(|name| name.to_string()).collect::<Vec<_>>()
        };
        f.debug_struct("MemoryMutex").field("held", &self.decide(live)).finish_non_exhaustive()
    }
}
