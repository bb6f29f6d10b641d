//! The trait `EventMutex`: the contract of a store, in words and as methods.

use std::fmt;
use std::slice;
use std::sync::Arc;

use crate::base::catch_panic::contain;
use crate::base::error::{MutexError, ask_store};
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::{holder::Holder, name::MutexName, term::Term, token::FencingToken};
use crate::observe::tell::trace::print_unless_logged;
use crate::outcome::release::Release;
use crate::time::clock::Clock;

pub(crate) mod admission;
pub(crate) mod batch;
pub(crate) mod delegate;
pub(crate) mod description;
pub(crate) mod held;
pub(crate) mod lifeline;
pub(crate) mod run_log;
pub(crate) mod warning;

use admission::{Admission, Admitted, Grant};
use batch::{Batch, LeaseRelease, Slot, answer_each, attempted_release, fill_each, no_answer, released};
use delegate::delegate;
use description::Description;
use held::{Held, Names};
use lifeline::Lifeline;
use run_log::RunLog;
use warning::StoreWarning;

/// A store of mutexes. Its methods `create`, `exists` and `forget` are atomic, and decide which runs start.
///
/// Built in are [`MemoryMutex`](crate::MemoryMutex) and [`FileMutex`](crate::FileMutex) and, with the features `redis`,
/// `mysql` and `postgres`, `RedisMutex`, `MysqlMutex` and `PostgresMutex`. A store of your own needs three methods. The
/// other methods have defaults: a default calls the three methods, or answers that the store can't do this. A decorator
/// wraps another store, for example to count the calls, and returns the wrapped store as its [`inner`](Self::inner).
/// `&M`, `Box<M>` and `Arc<M>` are stores if `M` is a store.
///
/// # Contract
///
/// 1. **One wins.** If several calls of [`create`](Self::create) ask for a free name at the same time, exactly one of
///    them is granted. The name is granted again only after the granted lease was forgotten or broken, or has expired.
///    This holds for all threads, processes and hosts within the store's [scope](Description::scope).
/// 2. **Names are bytes.** Names are compared byte by byte, without trimming, padding, folding or truncating. A lease,
///    a claim, a permit and a marker never have equal names.
/// 3. **Reading changes nothing.** [`exists`](Self::exists) and [`held`](Self::held) never make a concurrent
///    `create` fail, and never prolong or end a lease.
/// 4. **Only the owner** releases and extends. If the owner of a lease does not hold the name any more,
///    [`forget`](Self::forget) and [`extend`](Self::extend) return `Ok(false)`, and change nothing for the new holder.
///    For such a lease, [`lifeline`](Self::lifeline) changes nothing, either, and never returns `Ok(Some(_))`.
/// 5. **Everything expires**, on the store's own clock, when its term is over. Only a lease with a
///    [`lifeline`](Self::lifeline) outlasts its term: it ends with the last process that has the lifeline open. A
///    released name is free at once, and stays free if the store's clock is set back. So the store must record that the
///    name was released. If a release only moved the deadline to an earlier time, a clock that is set back could make
///    the name held again. If the clock of a store can be set back, the store calls
///    [`Holder::seen_at`](crate::store::Holder::seen_at) on every holder that it returns.
/// 6. **Tokens rise** strictly with every grant of a name, also after an earlier grant expired, was forgotten or
///    broken. Tokens also rise over all leases and claims of one [`MutexName::mutex`]. There is one exception: a claim
///    or a marker that is requested without the lease of its mutex, such as a place in a queue or a further slot of
///    `at_most`. Its token may be equal to the token of a concurrent grant, or lower.
/// 7. **`Err` means "not known".** If another owner holds the name, a method returns `Ok(None)`, `Ok(true)` or
///    `Ok(false)`, never `Err`; only [`lifeline`](Self::lifeline) returns `Err` then. If the store did not answer, a
///    method returns `Err`, never `Ok`. No call blocks for longer than its time limit: a few seconds, unless the user
///    sets another limit. The other events of a tick depend on the kind of the error:
///    - The store did not answer ([`MutexError::unavailable`]) or refused the request ([`MutexError::refused`]): the
///      tick skips the other events without a request.
///    - Only one name can't be used ([`MutexError::unusable`]): the tick still sends the requests for the other events.
/// 8. **An admission is all or nothing.** If a lease and a claim are requested together, both are granted, or neither
///    of them is. A refused admission does not claim its occurrence.
///
/// The feature `contract-tests` has this contract as a test suite, for a store of your own.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Mutex;
/// use soloist::store::{Lease, LeaseRequest, Owner};
/// use soloist::time::{Clock, Moment};
/// use soloist::{EventMutex, FencingToken, MutexError, MutexName};
///
/// /// A store within one process: the owner and the end of each name's lease, and how many were granted.
/// #[derive(Debug, Default)]
/// struct Table(Mutex<(HashMap<MutexName, (Owner, Moment)>, u64)>);
///
/// fn holder(held: &HashMap<MutexName, (Owner, Moment)>, name: &MutexName) -> Option<Owner> {
///     held.get(name).filter(|(_, until)| Clock::system().moment() < *until).map(|(owner, _)| *owner)
/// }
///
/// impl EventMutex for Table {
///     fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
///         let (held, granted) = &mut *self.0.lock().unwrap();
///         if holder(held, request.name()).is_some() {
///             return Ok(None);
///         }
///         let until = Clock::system().moment().plus(request.term().get());
///         held.insert(request.name().clone(), (request.owner(), until));
///         *granted += 1;
///         Ok(Some(request.granted(FencingToken::new(*granted))))
///     }
///
///     fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
///         Ok(holder(&self.0.lock().unwrap().0, name).is_some())
///     }
///
///     fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
///         let (held, _) = &mut *self.0.lock().unwrap();
///         let ours = holder(held, lease.name()) == Some(lease.owner());
///         if ours {
///             held.remove(lease.name());
///         }
///         Ok(ours)
///     }
/// }
///
/// let schedule = soloist::Schedule::new(Table::default());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no store",
    note = "`soloist::connect(..)` and `FileMutex::in_dir(..)` return a `Result`: add `?` to get the store; for a url, \
            write `soloist::connect(url)?`",
    note = "a builder becomes a store by `.build()?`"
)]
pub trait EventMutex: fmt::Debug + Send + Sync {
    /// Acquires the requested name for the requested term if the name is free, in one atomic step. `Ok(None)` means
    /// that another owner holds the name.
    ///
    /// # Errors
    ///
    /// It is not known whether the name was acquired. The store may still release the name later, if this owner holds
    /// it. So never send a request twice: this release could come after the second attempt, and end its lease. To try
    /// again, make a new request, which has a new owner.
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError>;

    /// Returns whether the name is held. The call changes nothing. A free name may be acquired by another owner a
    /// moment later, so the answer never admits a run.
    ///
    /// # Errors
    ///
    /// It is not known whether the name is held.
    fn exists(&self, name: &MutexName) -> Result<bool, MutexError>;

    /// Releases the name. `Ok(false)` means that this owner does not hold the name any more, and that nothing has
    /// changed.
    ///
    /// # Errors
    ///
    /// It is not known whether the name was released. A name that was not released expires with its term.
    fn forget(&self, lease: &Lease) -> Result<bool, MutexError>;

    /// Returns the store that a decorator wraps. Methods that you do not override are forwarded to the wrapped store.
    /// Methods that later versions of this trait add are forwarded, too.
    ///
    /// A tick and a [`LeaseGuard`](crate::LeaseGuard) acquire and release leases by [`carry_out`](Self::carry_out). So
    /// override `carry_out` to see these requests. A schedule treats the decorator and the wrapped store as one store,
    /// unless the decorator overrides [`describe`](Self::describe).
    ///
    /// The default is `None`.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    /// use soloist::store::{Admitted, Batch, Lease, LeaseRequest};
    /// use soloist::{Event, EventMutex, MemoryMutex, MutexError, MutexName, Schedule};
    ///
    /// /// Counts how often a store said no.
    /// #[derive(Debug, Default)]
    /// struct Refusals<M>(M, AtomicUsize);
    ///
    /// impl<M: EventMutex> EventMutex for Refusals<M> {
    ///     fn inner(&self) -> Option<&dyn EventMutex> {
    ///         Some(&self.0)
    ///     }
    ///
    ///     fn carry_out(&self, batch: &mut Batch) {
    ///         self.0.carry_out(batch);
    ///         let answers = batch.admissions().iter().filter_map(|slot| slot.answer()?.as_ref().ok());
    ///         self.1.fetch_add(answers.filter(|answer| !matches!(answer, Admitted::Granted(_))).count(), Relaxed);
    ///     }
    ///
    ///     fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
    ///         self.0.create(request)
    ///     }
    ///
    ///     fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
    ///         self.0.exists(name)
    ///     }
    ///
    ///     fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
    ///         self.0.forget(lease)
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::new(Refusals::<MemoryMutex>::default());
    /// schedule.add(Event::call("reports", |_| {}).hourly().without_overlapping())?; // renewed: a MemoryMutex can extend
    /// # Ok(())
    /// # }
    /// ```
    fn inner(&self) -> Option<&dyn EventMutex> {
        None
    }

    /// Describes the store: its identity, which processes share the store, and whether it can [`extend`](Self::extend)
    /// leases. A schedule calls this method once, when it gets the store.
    ///
    /// The default is [`Description::of`] this value: the clones of an `Arc` are one store, other clones are different
    /// stores, and leases can't be extended. If the clones of your store share their state, return
    /// `Description::of(&*state)`.
    fn describe(&self) -> Description {
        self.inner().map_or_else(|| Description::of(self), EventMutex::describe)
    }

    /// Returns the clock that measures the terms. A [`LeaseGuard`](crate::LeaseGuard) uses this clock. A
    /// [`Schedule`](crate::Schedule) uses it, too, unless the schedule gets another clock. The default is the machine's
    /// clock. A test can give a store a clock that the test moves.
    fn clock(&self) -> Clock {
        self.inner().map_or_else(Clock::system, EventMutex::clock)
    }

    /// Releases the leases of a batch, then decides on its admissions. Writes each answer into the slot of its release
    /// or admission. A tick asks for up to two hundred releases, two for each ended run, and for up to a hundred
    /// admissions in one batch. Requests for different mutexes are independent of one another. Requests for one mutex
    /// are carried out in their order.
    ///
    /// An admission is all or nothing. The store checks three reasons for a refusal, in this order: a name that
    /// [excludes](crate::store::Admission::unless) the admission is held; the claim is taken; the lease is held.
    ///
    /// After a release with a [minimum hold](crate::store::LeaseRelease::minimum_hold), the name stays held for that
    /// time, even if this process ends. The answer `Ok(false)` to a release means that the owner does not hold the
    /// lease any more, and that nothing has changed.
    ///
    /// All slots are empty at first. If a slot stays empty, the result is not known: the caller releases the lease and
    /// the claim.
    ///
    /// The default works step by step, with `forget`, `exists` and `create`. It reads the excluding names and the
    /// claim, then acquires the lease, and then the claim. Because the claim is read first, a late server normally
    /// acquires no lease that would block the run of another server. Because the claim is acquired last, a server that
    /// does not get the lease claims no occurrence. If the claim was taken, the default releases the lease. If a
    /// process is killed between two steps, its lease blocks the event for at most one term. For a release with a
    /// minimum hold, the default calls [`extend`](Self::extend). After an [outage](MutexError::is_outage), the other
    /// slots get an error without a request. But if `create` fails or panics, the default calls `forget` for the name,
    /// because the store may have granted it. So an outage can cost a second timeout, or a third if a lease was granted
    /// and the claim failed. Override this method if the store can carry out a batch, or at least each admission, in one
    /// step.
    fn carry_out(&self, batch: &mut Batch) {
        match self.inner() {
            Some(inner) => inner.carry_out(batch),
            None => carry_out_in_steps(self, batch),
        }
    }

    /// Moves the deadline of each lease to one `term` from now. The new deadline can be later or earlier than the old
    /// deadline, and [`held`](Self::held) then returns it as the end of the [holder](crate::store::Holder::until).
    /// `Ok(false)` means that the owner does not hold the lease any more, and that nothing has changed. The renewal
    /// thread renews all leases that have equal terms with one call. When a process exits, it calls this method to
    /// shorten its leases. If you override this method, [`describe`](Self::describe) the store [with
    /// extension](Description::with_extension).
    ///
    /// The default is [`MutexError::unsupported`].
    fn extend(&self, leases: &mut [Slot<Lease, bool>], term: Term) {
        match self.inner() {
            Some(inner) => inner.extend(leases, term),
            None => fill_each(leases, |_| Err(MutexError::unsupported("extend a lease"))),
        }
    }

    /// Returns a lifeline, which a command inherits: the lease then lasts as long as the command, even if this process
    /// is killed and nothing renews the lease. A scheduler calls this method after the grant, and before it starts the
    /// command.
    ///
    /// `Ok(Some(_))`: from now on, the lease does not end with its term. It lasts until this process releases it. If
    /// this process ends without a release, the lease lasts as long as a process has the lifeline open.
    /// [`forget`](Self::forget), [`carry_out`](Self::carry_out) and [`break_lease`](Self::break_lease) still end the
    /// lease, and [`extend`](Self::extend) returns `Ok(true)`.
    ///
    /// `Ok(None)`, the default: the store can't see whether a process lives. The lease is unchanged, and the caller
    /// must ensure that the command ends with this process.
    ///
    /// # Errors
    ///
    /// This process does not hold the lease any more, or it is not known whether the lease will last as long as the
    /// command. Start no command under this lease.
    ///
    /// ```
    /// # #[cfg(unix)]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use soloist::store::{LeaseRequest, Lifeline};
    /// use soloist::time::{Clock, ManualClock};
    /// use soloist::{EventMutex, FileMutex, MutexName, Term};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let dir = dir.path();
    /// let clock = ManualClock::at(chrono::DateTime::UNIX_EPOCH);
    /// let mutex = FileMutex::builder(dir).clock(&clock).open()?;
    /// let request = LeaseRequest::new(MutexName::lease("backup")?, Term::DEFAULT, &Clock::from(&clock));
    /// let lease = mutex.create(&request)?.expect("it is free");
    /// let inherited: Option<Lifeline> = mutex.lifeline(&lease)?;
    /// clock.advance(Duration::from_secs(3600));
    /// assert!(mutex.exists(lease.name())?, "the lease outlasts its term of a minute");
    /// assert!(mutex.forget(&lease)?);
    /// assert!(mutex.lifeline(&lease).is_err(), "no command may start under a released lease");
    /// # drop(inherited);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))]
    /// # fn main() {}
    /// ```
    fn lifeline(&self, lease: &Lease) -> Result<Option<Lifeline>, MutexError> {
        self.inner().map_or(Ok(None), |inner| inner.lifeline(lease))
    }

    /// Returns the names that are held, with their holders and times. A lease may have ended when the answer arrives.
    ///
    /// The default reads [each](Names::Each) name by [`exists`](Self::exists), and returns no holders. Override this
    /// method if the store can read several names at once: one call reads all places of a queue, or the claims of
    /// several occurrences. Make a holder by [`Holder::new`](crate::store::Holder::new), with the text that
    /// [`LeaseRequest::holder_text`](crate::store::LeaseRequest::holder_text) returned at the grant: this text has the
    /// host, the instance, the application, the reason and the timetable.
    ///
    /// # Errors
    ///
    /// It is not known which names are held. For a list of leases or markers, the default returns
    /// [`MutexError::unsupported`].
    fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
        match (self.inner(), names) {
            (Some(inner), _) => inner.held(names),
            (None, Names::Each(names)) => held_in_steps(self, names),
            (None, _) => Err(MutexError::unsupported("list leases or markers")),
        }
    }

    /// Frees a name, whichever owner holds it: an operator's tool. Returns the old holder, or `None` if the name was
    /// not held. Other processes can acquire the name at once. The old run may still be running: it is cancelled when
    /// its next renewal finds that the lease is lost. Before that renewal, the process of the old run may acquire the
    /// name again. The process then learns from the new grant that the old lease was lost. It releases the new lease,
    /// cancels the old run, and can acquire the name at its next attempt.
    ///
    /// If the holder's process [has ended](Holder::has_ended), only a command of that process has kept the lease. This
    /// command still runs, and nothing stops it. End its [process group](Holder::process_group) now; otherwise the next
    /// run overlaps with the command.
    ///
    /// ```
    /// use soloist::{EventMutex, MemoryMutex, MutexName};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// match MemoryMutex::new().break_lease(&MutexName::lease("reports")?)? {
    ///     Some(held) => println!("it is free now: {:?}", held.holder()),
    ///     None => println!("it was not held"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The default is [`MutexError::unsupported`].
    fn break_lease(&self, name: &MutexName) -> Result<Option<Held>, MutexError> {
        match self.inner() {
            Some(inner) => inner.break_lease(name),
            None => Err(MutexError::unsupported("break a lease")),
        }
    }

    /// Checks the store, and warns of settings under which the store can't keep all its promises. Call this method in a
    /// deployment, or for a page about the service's health; no admission calls it. The default returns no warnings.
    ///
    /// The check changes no entry of an event. The check of a store on a server carries out a trial: it acquires, renews
    /// and releases a marker of its own. If the server refuses the trial, for example because the user lacks a right, a
    /// warning has the server's reason. The check of a file store writes a small file.
    ///
    /// # Errors
    ///
    /// The store did not answer, refused a read, or too few replicas confirmed the trial. A check on a server makes up to
    /// six calls, one after another.
    fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        self.inner().map_or_else(|| Ok(Vec::new()), EventMutex::check)
    }

    /// Returns the store's log of the last runs of each event in the whole fleet, or `None` if the store has no log.
    /// The log decides no admission and delays none. All built-in stores have a log.
    ///
    /// The default is the log of the [`inner`](Self::inner) store.
    ///
    /// ```
    /// use soloist::observe::RunRecord;
    /// use soloist::store::Owner;
    /// use soloist::{EventMutex, MemoryMutex};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mutex = MemoryMutex::new();
    /// let log = mutex.run_log().expect("a store in memory has one");
    /// let now = chrono::Utc::now();
    /// log.write(&[RunRecord::started("reports", Owner::unique(), now, None, now)], 20)?;
    /// assert_eq!(log.runs("reports")?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    fn run_log(&self) -> Option<&dyn RunLog> {
        self.inner()?.run_log()
    }
}

delegate!(impl<M> EventMutex for &M, |this| &**this);
delegate!(impl<M> EventMutex for Box<M>, |this| &**this);
delegate!(impl<M> EventMutex for Arc<M>, |this| &**this);
delegate!(impl EventMutex for &dyn EventMutex, |this| &**this);
delegate!(impl EventMutex for Box<dyn EventMutex>, |this| &**this);
delegate!(impl EventMutex for Arc<dyn EventMutex>, |this| &**this);

impl Admission {
    /// Asks `mutex` for this admission, without other requests.
    ///
    /// # Errors
    ///
    /// It is not known whether the store granted the admission. Start no run: the lease and the claim are released, or
    /// they expire.
    pub fn ask<M: EventMutex + ?Sized>(&self, mutex: &M) -> Result<Admitted, MutexError> {
        let mut batch = Batch::new();
        batch.admit(self.clone());
        batch.ask(mutex);
        batch.take_admission(0)
    }
}

impl Batch {
    /// Asks `mutex` to carry out the batch. Fills the slots that the store leaves empty. Returns the first error that
    /// concerns the store as a whole.
    pub(crate) fn ask<M: EventMutex + ?Sized>(&mut self, mutex: &M) -> Option<&MutexError> {
        let panic = contain(|| mutex.carry_out(self)).err();
        if !self.is_answered() {
            self.settle_unanswered(mutex, panic.as_ref());
        }
        self.outage()
    }

    #[cold]
    fn settle_unanswered<M: EventMutex + ?Sized>(&mut self, mutex: &M, panic: Option<&Arc<str>>) {
        let mut outage = self.outage().cloned();
        let (releases, admissions) = self.slots_mut();
        // If a release has no minimum hold, `forget` tries it once more. `forget` returns `false` if this owner does
        // not hold the lease now. But the first call may have released the lease, so `Ok(false)` could be wrong, and
        // the answer is an error.
        answer_each(releases, &mut outage, LeaseRelease::attempted, |asked| match asked.minimum_hold() {
            None if mutex.forget(asked.lease())? => Ok(true),
            _ => Err(no_answer(asked.attempted(), panic)),
        });
        let mut perhaps_ours = Self::new();
        for slot in admissions.iter_mut().filter(|slot| slot.answer().is_none()) {
            let asked = [slot.asked().lease(), slot.asked().claim()].into_iter().flatten();
            asked.for_each(|request| perhaps_ours.release(request.granted(FencingToken::new(0))));
            slot.fill(Err(no_answer(slot.asked().attempted(), panic)));
        }
        if !perhaps_ours.is_empty() {
            perhaps_ours.ask(mutex);
            perhaps_ours.log_releases();
        }
    }
}

/// Acquires a name by an admission of this name alone. For a store that decides on whole admissions: such a store has a
/// [`carry_out`](EventMutex::carry_out) of its own, because the default of that method calls `create`.
pub(crate) fn create_by_admission<M: EventMutex + ?Sized>(
    mutex: &M,
    request: &LeaseRequest,
) -> Result<Option<Lease>, MutexError> {
    match Admission::of(request.clone()).ask(mutex)? {
        Admitted::Granted(grant) => Ok(Some(request.granted(grant.token()))),
        _ => Ok(None),
    }
}

fn carry_out_in_steps<M: EventMutex + ?Sized>(mutex: &M, batch: &mut Batch) {
    let (releases, admissions) = batch.slots_mut();
    let mut outage = None;
    answer_each(releases, &mut outage, LeaseRelease::attempted, |asked| match asked.minimum_hold() {
        None => mutex.forget(asked.lease()),
        Some(minimum_hold) => extend_one(mutex, asked.lease(), minimum_hold),
    });
    answer_each(admissions, &mut outage, Admission::attempted, |admission| admit_in_steps(mutex, admission));
}

pub(crate) fn extend_one<M: EventMutex + ?Sized>(mutex: &M, lease: &Lease, term: Term) -> Result<bool, MutexError> {
    let mut slot = Slot::new(lease.clone());
    mutex.extend(slice::from_mut(&mut slot), term);
    slot.take_answer(attempted_extension, None)
}

pub(crate) fn attempted_extension(lease: &Lease) -> String {
    format!("extend {}", lease.name().in_words())
}

/// Reads the excluding names and the claim, then acquires the lease, and then the claim. If the claim is not granted,
/// this function releases the lease.
pub(crate) fn admit_in_steps<M: EventMutex + ?Sized>(mutex: &M, admission: &Admission) -> Result<Admitted, MutexError> {
    for name in admission.excluded_by() {
        if mutex.exists(name)? {
            return Ok(Admitted::Excluded(Held::new(name.clone(), holder(mutex, name))));
        }
    }
    if let Some(claim) = admission.claim()
        && mutex.exists(claim.name())?
    {
        return Ok(Admitted::ClaimTaken(holder(mutex, claim.name())));
    }
    let mut grant = Grant { lease: None, claim: None };
    if let Some(request) = admission.lease() {
        grant.lease = create_or_release(mutex, request, admission)?;
        if grant.lease.is_none() {
            return Ok(Admitted::LeaseTaken(holder(mutex, request.name())));
        }
    }
    if let Some(request) = admission.claim() {
        let answer = create_or_release(mutex, request, admission);
        let Ok(Some(claim)) = answer else {
            if let Some(lease) = &grant.lease {
                release_unused(mutex, lease);
            }
            return answer.map(|_| Admitted::ClaimTaken(holder(mutex, request.name())));
        };
        grant.claim = Some(claim);
    }
    Ok(Admitted::Granted(grant))
}

fn held_in_steps<M: EventMutex + ?Sized>(mutex: &M, names: &[MutexName]) -> Result<Vec<Held>, MutexError> {
    let mut held = Vec::new();
    for name in names {
        if mutex.exists(name)? {
            held.push(Held::new(name.clone(), None));
        }
    }
    Ok(held)
}

/// Returns the holder of a held name, or `None` if the holder is not known.
fn holder<M: EventMutex + ?Sized>(mutex: &M, name: &MutexName) -> Option<Holder> {
    mutex.held(Names::of(name)).ok()?.pop()?.into_holder()
}

/// Acquires the name for an admission. After an error or a panic, this function releases the name, because the store may
/// have granted it and no run starts under that grant.
fn create_or_release<M: EventMutex + ?Sized>(
    mutex: &M,
    request: &LeaseRequest,
    admission: &Admission,
) -> Result<Option<Lease>, MutexError> {
    ask_store(|| admission.attempted(), || mutex.create(request)).inspect_err(|_| {
        // The answer is ignored: a name that was not released expires by itself.
        let _ = contain(|| mutex.forget(&request.granted(FencingToken::new(0))));
    })
}

/// Releases a lease under which no run has started. A failed release is reported.
fn release_unused<M: EventMutex + ?Sized>(mutex: &M, lease: &Lease) {
    let answer = ask_store(|| attempted_release(lease), || mutex.forget(lease));
    if let failed @ Release::Failed(_) = released(lease, None, answer) {
        print_unless_logged(failed);
    }
}
