//! The store in the memory of one process, with a monotonic clock. The leases end with the process.
//!
//! This store is the reference for the other stores: one map behind one lock. Each call locks the map and reads the
//! clock once, so all decisions of the call are made as of one moment.

use std::fmt;
use std::sync::{Arc, Mutex};

use chrono::{DateTime, Utc};

mod memory_run_log;

use memory_run_log::MemoryRunLog;

use super::event_mutex::{EventMutex, create_by_admission};
use crate::base::error::MutexError;
use crate::base::lock::lock;
use crate::lease::holder::Holder;
use crate::lease::label::Label;
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::{name::MutexName, name::NameMap, owner::Owner, term::Term, token::FencingToken};
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::batch::{Batch, Slot, fill_each};
use crate::store::event_mutex::description::{Description, Scope};
use crate::store::event_mutex::held::{Held, Names};
use crate::store::event_mutex::run_log::RunLog;
use crate::time::clock::{Clock, moment::Moment, wall_plus};

/// A store in the memory of one process; [`Schedule::in_process`](crate::Schedule::in_process) uses this store.
///
/// Clones are cheap, and share their leases. This store supports all methods of [`EventMutex`] except
/// [`lifeline`](EventMutex::lifeline).
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
    pub(crate) runs: Arc<MemoryRunLog>,
}

#[derive(Default)]
struct MemoryState {
    /// Leases, claims and markers. An entry that was released or has expired stays until the map is full, or until its
    /// name is granted again.
    entries: NameMap<MemoryEntry>,
    last_token: Option<FencingToken>,
}

struct MemoryEntry {
    owner: Owner,
    token: FencingToken,
    since: Moment,
    until: Moment,
    occurrence: Option<DateTime<Utc>>,
    label: Option<Arc<Label>>,
}

impl MemoryMutex {
    /// Creates an empty store that uses the machine's clock.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty store that uses `clock`, so that a test can let leases expire.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::store::LeaseRequest;
    /// use soloist::time::{Clock, ManualClock};
    /// use soloist::{EventMutex, MemoryMutex, MutexName, Term};
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

    /// Deletes all leases, claims and markers, as if a server was restarted without its data.
    #[cfg(feature = "testing")]
    pub(crate) fn lose_all(&self) {
        self.decide(|state, _| state.entries.clear());
    }

    /// Locks the state, and calls `decide` with the state and the current moment.
    fn decide<T>(&self, decide: impl FnOnce(&mut MemoryState, Moment) -> T) -> T {
        let mut state = lock(&self.state);
        decide(&mut state, self.clock.moment())
    }
}

impl MemoryState {
    /// Returns the entry of this name, if the name is held.
    fn live(&self, name: &MutexName, now: Moment) -> Option<&MemoryEntry> {
        self.entries.get(name).filter(|entry| entry.is_live(now))
    }

    /// Grants all that the admission requests, or nothing.
    fn admit(&mut self, admission: &Admission, clock: &Clock, now: Moment) -> Admitted {
        for name in admission.excluded_by() {
            if let Some(entry) = self.live(name, now) {
                return Admitted::Excluded(entry.held(name, clock, now));
            }
        }
        let holder = |name: &MutexName| Some(self.live(name, now)?.holder(clock, now));
        if let Some(holder) = admission.claim().and_then(|claim| holder(claim.name())) {
            return Admitted::ClaimTaken(Some(holder));
        }
        if let Some(holder) = admission.lease().and_then(|lease| holder(lease.name())) {
            return Admitted::LeaseTaken(Some(holder));
        }
        let token = self.next_token(clock);
        for request in admission.requests() {
            self.hold(request, token, now);
        }
        Admitted::Granted(admission.granted(token))
    }

    /// Returns a token that is higher than all earlier tokens. The first token is made from the current time, so that
    /// it is higher than the tokens of an earlier process.
    fn next_token(&mut self, clock: &Clock) -> FencingToken {
        let now = if self.last_token.is_none() { clock.now() } else { DateTime::UNIX_EPOCH };
        let token = FencingToken::after(self.last_token, now);
        self.last_token = Some(token);
        token
    }

    /// Records the holder of a free name.
    fn hold(&mut self, request: &LeaseRequest, token: FencingToken, now: Moment) {
        if self.entries.len() == self.entries.capacity() {
            self.make_room(now);
        }
        let owner = request.owner();
        let until = now.plus(request.term().get());
        let label = request.label().cloned();
        let entry = MemoryEntry { owner, token, since: now, until, occurrence: request.occurrence(), label };
        self.entries.insert(request.name().clone(), entry);
    }

    /// Removes the expired entries of a full map. Then reserves room, so that the number of entries can double. The map
    /// is cleaned again only when this room is used up. So the average cost of a new entry does not depend on the size
    /// of the map.
    #[cold]
    fn make_room(&mut self, now: Moment) {
        self.entries.retain(|_, entry| entry.is_live(now));
        self.entries.reserve(self.entries.len());
    }

    /// Moves the end of a lease to `until`. Returns whether its owner still held the name.
    fn move_end(&mut self, lease: &Lease, until: Moment, now: Moment) -> bool {
        let entry = self.entries.get_mut(lease.name());
        let own = entry.filter(|entry| entry.is_live(now) && entry.owner == lease.owner());
        own.map(|entry| entry.until = until).is_some()
    }
}

impl MemoryEntry {
    fn is_live(&self, now: Moment) -> bool {
        now < self.until
    }

    /// Returns the holder. The entry has monotonic times; they are converted to the wall clock, by its present setting.
    fn holder(&self, clock: &Clock, now: Moment) -> Holder {
        let since = clock.wall_at(self.since);
        let until = wall_plus(clock.now(), self.until.since(now));
        let holder = Holder::of_this_process(self.owner, self.token, self.label.as_deref(), since, until);
        holder.with_occurrence(self.occurrence)
    }

    fn held(&self, name: &MutexName, clock: &Clock, now: Moment) -> Held {
        Held::new(name.clone(), Some(self.holder(clock, now)))
    }
}

impl EventMutex for MemoryMutex {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        create_by_admission(self, request)
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        self.decide(|state, now| Ok(state.live(name, now).is_some()))
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        self.decide(|state, now| Ok(state.move_end(lease, now, now)))
    }

    fn describe(&self) -> Description {
        Description::of(&*self.state).with_scope(Scope::Process).with_extension()
    }

    fn clock(&self) -> Clock {
        self.clock.clone()
    }

    fn carry_out(&self, batch: &mut Batch) {
        let (releases, admissions) = batch.slots_mut();
        self.decide(|state, now| {
            fill_each(releases, |asked| {
                let until = asked.minimum_hold().map_or(now, |term| now.plus(term.get()));
                Ok(state.move_end(asked.lease(), until, now))
            });
            fill_each(admissions, |asked| Ok(state.admit(asked, &self.clock, now)));
        });
    }

    fn extend(&self, leases: &mut [Slot<Lease, bool>], term: Term) {
        self.decide(|state, now| fill_each(leases, |lease| Ok(state.move_end(lease, now.plus(term.get()), now))));
    }

    fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
        self.decide(|state, now| {
            let held = |name: &MutexName| Some(state.live(name, now)?.held(name, &self.clock, now));
            Ok(match names {
                Names::Each(names) => names.iter().filter_map(held).collect(),
                Names::LeasesWithPrefix(_) | Names::MarksOf(_) => {
                    state.entries.keys().filter(|name| names.contain(name)).filter_map(held).collect()
                }
            })
        })
    }

    fn break_lease(&self, name: &MutexName) -> Result<Option<Held>, MutexError> {
        self.decide(|state, now| {
            let entry = state.entries.remove(name).filter(|entry| entry.is_live(now));
            Ok(entry.map(|entry| entry.held(name, &self.clock, now)))
        })
    }

    fn run_log(&self) -> Option<&dyn RunLog> {
        Some(&*self.runs)
    }
}

impl fmt::Debug for MemoryMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held: Vec<String> = self.decide(|state, now| {
            let held = state.entries.iter().filter(|(_, entry)| entry.is_live(now));
            held.map(|(name, _)| name.to_string()).collect()
        });
        f.debug_struct("MemoryMutex").field("held", &held).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use chrono::TimeDelta;

    use super::*;
    use crate::time::clock::manual::ManualClock;

    #[test]
    fn claims_that_have_expired_make_room_for_new_ones() {
        let clock = ManualClock::at(DateTime::UNIX_EPOCH);
        let mutex = MemoryMutex::with_clock(&clock);
        let (name, term) = (MutexName::lease("reports").unwrap(), Term::new(Duration::from_secs(15 * 60)).unwrap());
        for minute in 0..10_000 {
            let claim = name.claim("reports", DateTime::UNIX_EPOCH + TimeDelta::minutes(minute));
            mutex.create(&LeaseRequest::new(claim, term, &mutex.clock())).unwrap().expect("it is free");
            clock.advance(Duration::from_secs(60));
        }
        let entries = mutex.decide(|state, _| state.entries.len());
        assert!(entries <= 60, "{entries} entries, and 15 claims are live at a time");
    }
}
