//! The trait `EventMutex`: what a store must do, in words and as methods.

use std::fmt;
use std::slice;
use std::sync::Arc;

use crate::base::{catch_panic::contain, error::MutexError};
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::{holder::Holder, name::MutexName, term::Term, token::FencingToken};
use crate::observe::{release::Release, tell::trace::print_unless_logged};
use crate::time::clock::Clock;

pub(crate) mod admission;
#[cfg(feature = "tokio")]
pub(crate) mod async_mutex;
pub(crate) mod batch;
pub(crate) mod broken_lease;
pub(crate) mod delegate;
pub(crate) mod description;
pub(crate) mod held;
pub(crate) mod lifeline;
pub(crate) mod run_log;
pub(crate) mod slot;
pub(crate) mod warning;

use admission::{Admission, Admitted, Grant};
use batch::{Batch, LeaseReturn, attempted_release, no_answer, released};
use broken_lease::Broken;
use delegate::delegate;
use description::Description;
use held::{Held, Names};
use lifeline::Lifeline;
use run_log::RunLog;
use slot::{Slot, answer_each};
use warning::StoreWarning;

/// A store of mutexes: it gates every run with atomic create, exists and forget.
///
/// Built in are [`MemoryMutex`](crate::MemoryMutex) and [`FileMutex`](crate::FileMutex) and, with the features that are
/// called so, `RedisMutex`, `MysqlMutex` and `PostgresMutex`. A store of your own needs
/// three methods; the others have defaults that are honest about what they can't do. One that is put around another, to
/// count or to log, names that as its [`inner`](Self::inner). Handles are shared between
/// threads: `&M`, `Box<M>` and `Arc<M>` are stores where `M` is one.
///
/// # Contract
///
/// 1. **One wins.** Of any number of concurrent [`create`](Self::create)s of a name, over all threads, processes and
///    hosts within the store's [scope](Description::scope), at most one is granted until it is forgotten, broken or
///    expired; and if the name is free, one of them is granted.
/// 2. **Names are bytes.** Two names are the same only if they are equal: no trimming, padding, folding or truncating.
///    A lease, a claim on an occurrence, one on a period and a mark are never the same name.
/// 3. **Looking changes nothing.** [`exists`](Self::exists) and [`held`](Self::held) never make a concurrent
///    `create` fail, and never prolong or end what they look at.
/// 4. **Only the owner** releases and extends: [`forget`](Self::forget) and [`extend`](Self::extend) with a lease
///    whose owner is not the holder answer `Ok(false)` and leave the holder alone.
///    [`lifeline`](Self::lifeline) leaves it alone too, and never answers `Ok(Some(_))` then.
/// 5. **Everything expires**, on the store's own clock, when its term is over; only a lease with a
///    [`lifeline`](Self::lifeline) outlasts its term, and ends with those who have that. What was given back is free at
///    once, and stays free if that clock is set back: store the release itself, not only a date. A store whose clock
///    can be set back calls [`Holder::seen_at`](crate::Holder::seen_at) on every holder that it returns.
/// 6. **Tokens rise** strictly with every grant of a name, also after it expired, was forgotten or broken. That holds
///    over all leases and claims of one [`MutexName::mutex`].
/// 7. **`Err` means "not known".** A name held by another is `Ok(None)`, `Ok(true)` or `Ok(false)`, never `Err`, unless
///    its lifeline is asked for; a store that did not answer is `Err`, never `Ok`. Nothing blocks for longer than a few
///    seconds. Where the store as a whole gave no answer, that is [`MutexError::unavailable`], and where it answered that it
///    will not, [`MutexError::refused`]; whoever is due in the same tick is told so without another wait. Where one name
///    is the trouble, it is [`MutexError::unusable`], and the others are asked for.
/// 8. **An admission is all or nothing**: of a lease and a claim that are asked for together, both are granted or
///    neither; a refusal consumes no occurrence.
///
/// The feature `contract-tests` has these words as a test suite, for a store of your own.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Mutex;
/// use soloist::{Clock, EventMutex, FencingToken, Lease, LeaseRequest, Moment, MutexError, MutexName, Owner};
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
/// let mut schedule = soloist::Schedule::new(Table::default());
/// ```
pub trait EventMutex: fmt::Debug + Send + Sync {
    /// Takes the name for its term if it is free, in one atomic step. `Ok(None)`: somebody else holds it.
    ///
    /// # Errors
    ///
    /// Whether it was taken is not known: the store may have taken it, and may give it back at any later time. So
    /// whoever tries again makes a new request, and never sends the same one twice.
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError>;

    /// Whether the name is held. Advisory: it looks, changes nothing, and never admits a run.
    ///
    /// # Errors
    ///
    /// Whether it is held is not known.
    fn exists(&self, name: &MutexName) -> Result<bool, MutexError>;

    /// Gives the name back. `Ok(false)`: it was not ours any more, and was left alone.
    ///
    /// # Errors
    ///
    /// Whether it was given back is not known; it expires with its term.
    fn forget(&self, lease: &Lease) -> Result<bool, MutexError>;

    /// The wrapped store of a decorator. Methods that you do not override are forwarded to it, also those that later
    /// versions add.
    ///
    /// A tick and a [`LeaseGuard`](crate::LeaseGuard) take and give back through [`carry_out`](Self::carry_out): override that
    /// to see it. The decorator is the same store to a schedule as the wrapped
    /// one, unless it [describes](Self::describe) itself.
    ///
    /// The default: nothing is wrapped.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    /// use soloist::{
    ///     Admitted, Batch, Event, EventMutex, Lease, LeaseRequest, MemoryMutex, MutexError, MutexName, Schedule,
    /// };
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
    /// let mut schedule = Schedule::new(Refusals::<MemoryMutex>::default());
    /// schedule.add(Event::call("reports", |_| {}).hourly().without_overlapping())?; // renewed: a MemoryMutex can extend
    /// # Ok(())
    /// # }
    /// ```
    fn inner(&self) -> Option<&dyn EventMutex> {
        None
    }

    /// Which store this is, who sees what it holds, and whether it can [`extend`](Self::extend). A schedule asks when
    /// it is given the store.
    ///
    /// The default is [`Description::of`] this value: what is shared in an `Arc` is one store, clones are different ones,
    /// and nothing is extended. If the clones of your store share their state, describe that with `Description::of(&*state)`.
    fn describe(&self) -> Description {
        self.inner().map_or_else(|| Description::of(self), EventMutex::describe)
    }

    /// The clock on which leases end. A [`LeaseGuard`](crate::LeaseGuard) uses it, and a [`Schedule`](crate::Schedule) that
    /// is given no other. The default is the machine's clock; a test can give a store one that it moves.
    fn clock(&self) -> Clock {
        self.inner().map_or_else(Clock::system, EventMutex::clock)
    }

    /// Gives back leases, then decides on admissions, and fills the slot of each. A tick asks for up to a hundred of each at
    /// once. They are independent of one another, and are carried out in their order where they name the same mutex.
    ///
    /// An admission is all or nothing. If it has a name that [excludes](crate::Admission::unless) it and that is held, it is
    /// refused; then if its claim is taken; then if its lease is. A release that names a [rest](crate::LeaseReturn::rest) leaves
    /// the name held for that time, whether or not this process lives. `Ok(false)`: the lease was not its owner's any more,
    /// and the holder was left alone.
    ///
    /// All slots come empty. One that stays empty means "not known": the lease or the claim is given back.
    ///
    /// The default goes step by step, with `forget`, `exists` and `create`: it looks at the excluding name and at the claim,
    /// takes the lease, takes the claim, and gives the lease back if the claim was taken. No race consumes an occurrence,
    /// and a late server does not disturb the one that runs. A process that is killed between two steps blocks the event
    /// for one term at most. A rest is an [`extend`](Self::extend). After an [outage](MutexError::is_outage) nothing more is
    /// asked. Override it where the store can do this in one step.
    fn carry_out(&self, batch: &mut Batch) {
        match self.inner() {
            Some(inner) => inner.carry_out(batch),
            None => carry_out_in_steps(self, batch),
        }
    }

    /// Lets each lease end one `term` from now, be that later or earlier than before. `Ok(false)`: it was not ours any
    /// more, and was left alone. What is in hand is renewed so, all leases of one term at once, by a thread that no gate
    /// waits for; and shortened so when the process exits. A store that overrides this [describes](Self::describe) itself
    /// [with extension](Description::with_extension).
    ///
    /// The default is [`MutexError::unsupported`].
    fn extend(&self, leases: &mut [Slot<Lease, bool>], term: Term) {
        match self.inner() {
            Some(inner) => inner.extend(leases, term),
            None => leases.iter_mut().for_each(|slot| slot.fill(Err(MutexError::unsupported("extend a lease")))),
        }
    }

    /// What a process inherits that is to work under this lease, so that the lease lasts as long as that process, even if
    /// this one is killed and nobody renews it any more. A scheduler asks for it once the lease is granted, and before it
    /// starts a command.
    ///
    /// `Ok(Some(_))`: from now on the lease lasts, whatever its term, for as long as this process holds it and, if this
    /// process goes without giving it back, for as long as anybody has the lifeline open. [`forget`](Self::forget),
    /// [`carry_out`](Self::carry_out) and [`break_lease`](Self::break_lease) end it as ever, whoever has the
    /// lifeline, and [`extend`](Self::extend) answers `Ok(true)`, whatever that changes.
    ///
    /// `Ok(None)`, the default: the store can't tell whether a process lives, and nothing about the lease has changed.
    /// Whoever starts a command then has to see to it that the command ends when this process does.
    ///
    /// # Errors
    ///
    /// The lease is not this process's any more, or it is not known whether it lasts as long as a command. Nothing is to
    /// be started under it.
    ///
    /// ```
    /// # #[cfg(unix)]
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use soloist::{Clock, EventMutex, FileMutex, LeaseRequest, Lifeline, ManualClock, MutexName, Term};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let dir = dir.path();
    /// let clock = ManualClock::at(chrono::DateTime::UNIX_EPOCH);
    /// let mutex = FileMutex::builder(dir).clock(&clock).open()?;
    /// let request = LeaseRequest::new(MutexName::lease("backup")?, Term::DEFAULT, &Clock::from(&clock));
    /// let lease = mutex.create(&request)?.expect("it is free");
    /// let inherited: Option<Lifeline> = mutex.lifeline(&lease)?;
    /// clock.advance(Duration::from_secs(3600));
    /// assert!(mutex.exists(lease.name())?, "its term of a minute does not count any more");
    /// assert!(mutex.forget(&lease)?);
    /// assert!(mutex.lifeline(&lease).is_err(), "nothing is to be started under it any more");
    /// # drop(inherited);
    /// # Ok(())
    /// # }
    /// # #[cfg(not(unix))]
    /// # fn main() {}
    /// ```
    fn lifeline(&self, lease: &Lease) -> Result<Option<Lifeline>, MutexError> {
        self.inner().map_or(Ok(None), |inner| inner.lifeline(lease))
    }

    /// Reads which of these names are held, by whom, since when and until when. A lease may end while the answer is read.
    ///
    /// The default reads [each](Names::Each) of several names by [`exists`](Self::exists), and does not know the holders.
    /// Override it where the store can read all of them at once: a queue asks so for its places.
    ///
    /// # Errors
    ///
    /// Whether the names are held is not known. The default is [`MutexError::unsupported`] for the other questions.
    fn held(&self, names: Names<'_>) -> Result<Vec<Held>, MutexError> {
        match (self.inner(), names) {
            (Some(inner), _) => inner.held(names),
            (None, Names::Each(names)) => held_in_steps(self, names),
            (None, _) => Err(MutexError::unsupported("tell who holds a name")),
        }
    }

    /// Frees the name, whoever holds it: an operator's tool. The old holder may still be at work; it is told at its next
    /// renewal or release. A command whose process has ended is told nothing and runs on; the answer names it. Other processes are admitted at once. The one in which the old
    /// holder renews its lease takes the next grant for a sign that the store has forgotten it: it gives that back, tells
    /// the holder, and is admitted the time after.
    ///
    /// # Errors
    ///
    /// The default is [`MutexError::unsupported`].
    fn break_lease(&self, name: &MutexName) -> Result<Broken, MutexError> {
        match self.inner() {
            Some(inner) => inner.break_lease(name),
            None => Err(MutexError::unsupported("break a lease")),
        }
    }

    /// Looks at the store, before it is trusted, for what lets it promise less than its documentation says. For a
    /// deployment or a page about the service's health; no gate asks for it. It changes nothing that is held; it may write
    /// something of its own, to see whether the store takes writes. The default knows nothing to warn of.
    ///
    /// # Errors
    ///
    /// The store did not answer.
    fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        self.inner().map_or_else(|| Ok(Vec::new()), EventMutex::check)
    }

    /// The log in which the store keeps the last runs of each event, of the whole fleet; `None` if it keeps none. It decides
    /// no gate and delays none. The stores that are built in have one.
    ///
    /// The default is that of the [`inner`](Self::inner) store.
    ///
    /// ```
    /// use soloist::{EventMutex, MemoryMutex, Owner, RunRecord};
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

delegate!(impl<M> EventMutex for &M, |this| **this);
delegate!(impl<M> EventMutex for Box<M>, |this| **this);
delegate!(impl<M> EventMutex for Arc<M>, |this| **this);

/// The default of [`EventMutex::carry_out`].
fn carry_out_in_steps<M: EventMutex + ?Sized>(mutex: &M, batch: &mut Batch) {
    let (releases, _) = batch.slots_mut();
    let mut outage = None;
    answer_each(releases, &mut outage, LeaseReturn::attempted, |asked| match asked.rest() {
        None => mutex.forget(asked.lease()),
        Some(rest) => extend_one(mutex, asked.lease(), rest),
    });
    batch.admit_each(&mut outage, |admission| admit_in_steps(mutex, admission));
}

/// Lets one lease end one `term` from now.
pub(crate) fn extend_one<M: EventMutex + ?Sized>(mutex: &M, lease: &Lease, term: Term) -> Result<bool, MutexError> {
    let mut slot = Slot::new(lease.clone());
    mutex.extend(slice::from_mut(&mut slot), term);
    slot.take_answer(|lease| no_answer(format!("extend {}", lease.name()), None))
}

/// Looks at the names that exclude the admission, and at the claim; takes the lease, and then the claim. If the claim is not
/// granted, the lease is given back.
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
    let mut grant = Grant { lease: None, claim: None, token: FencingToken::new(0) };
    if let Some(request) = admission.lease() {
        let Some(lease) = create_or_give_back(mutex, request)? else {
            return Ok(Admitted::LeaseTaken(holder(mutex, request.name())));
        };
        grant = Grant::of(lease);
    }
    if let Some(request) = admission.claim() {
        let answer = contain(|| create_or_give_back(mutex, request));
        let answer = answer.unwrap_or_else(|message| Err(MutexError::panicked(admission.attempted(), &message)));
        let Ok(Some(claim)) = answer else {
            grant.lease.iter().for_each(|lease| give_back(mutex, lease));
            return answer.map(|_| Admitted::ClaimTaken(holder(mutex, request.name())));
        };
        grant.token = grant.lease.as_ref().map_or(claim.token(), Lease::token);
        grant.claim = Some(claim);
    }
    Ok(Admitted::Granted(grant))
}

/// Reads the names one by one.
fn held_in_steps<M: EventMutex + ?Sized>(mutex: &M, names: &[MutexName]) -> Result<Vec<Held>, MutexError> {
    let mut held = Vec::new();
    for name in names {
        if mutex.exists(name)? {
            held.push(Held::new(name.clone(), holder(mutex, name)));
        }
    }
    Ok(held)
}

/// Who holds a name that is taken, for people; `None` if that is not known.
fn holder<M: EventMutex + ?Sized>(mutex: &M, name: &MutexName) -> Option<Holder> {
    mutex.held(Names::Exactly(name)).ok()?.pop()?.into_holder()
}

/// Takes the name. After an error the store may have granted it all the same; nothing has started under it, so the store
/// is asked to take it back.
fn create_or_give_back<M: EventMutex + ?Sized>(mutex: &M, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
    mutex.create(request).inspect_err(|_| {
        // The answer changes nothing: the name is ours or nobody's, and expires by itself.
        let _ = mutex.forget(&request.granted(FencingToken::new(0)));
    })
}

/// Gives back a lease under which nothing has started, and reports it if that fails.
fn give_back<M: EventMutex + ?Sized>(mutex: &M, lease: &Lease) {
    let answer = contain(|| mutex.forget(lease));
    let answer = answer.unwrap_or_else(|message| Err(MutexError::panicked(attempted_release(lease), &message)));
    if let failed @ Release::Failed(_) = released(lease, None, answer) {
        print_unless_logged(failed);
    }
}
