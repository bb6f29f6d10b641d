//! The trait `EventMutex`: what a store must do, in words and as methods.

use std::fmt;
use std::slice;
use std::sync::Arc;

use crate::base::{catch_panic::contain, error::MutexError};
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::{holder::Holder, name::MutexName, store_id::StoreId, term::Term, token::FencingToken};
use crate::observe::{log::print_unless_logged, release::Release};
use crate::time::clock::Clock;

pub(crate) mod admission;
pub(crate) mod ask_each;
pub(crate) mod broken_lease;
pub(crate) mod delegate;
pub(crate) mod lifeline;
pub(crate) mod warning;

use admission::{Admission, Admitted, Grant};
use ask_each::{ask_each, outage_in};
use broken_lease::Broken;
use delegate::delegate;
use lifeline::Lifeline;
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
///    hosts within the store's [`scope`](Self::scope), at most one is granted until it is forgotten, broken or
///    expired; and if the name is free, one of them is granted.
/// 2. **Names are bytes.** Two names are the same only if they are equal: no trimming, padding, folding or truncating.
///    A lease, a claim on an occurrence, one on a period and a mark are never the same name.
/// 3. **Looking changes nothing.** [`exists`](Self::exists) and [`holder`](Self::holder) never make a concurrent
///    `create` fail, and never prolong or end what they look at.
/// 4. **Only the owner** releases and extends: [`forget`](Self::forget) and [`extend`](Self::extend) with a lease
///    whose owner is not the holder answer `Ok(false)` and leave the holder alone.
///    [`lifeline`](Self::lifeline) leaves it alone too, and never answers `Ok(Some(_))` then.
/// 5. **Everything expires**, on the store's own clock, when its term is over; only a lease with a
///    [`lifeline`](Self::lifeline) outlasts its term, and ends with those who have that. What was given back is free at
///    once, and stays free if that clock is set back: store the release itself, not only a date. A store whose clock
///    can be set back calls [`Holder::seen_at`] on every holder that it returns.
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

    /// The store that this one is put around. Whatever it does not override is asked of that one, now and when stores learn
    /// more: a decorator without it can't extend, has no lifeline and takes its admissions in steps, whatever the other can.
    ///
    /// Two methods are made of others, and lead there: [`admit_one`](Self::admit_one) to [`admit`](Self::admit), and
    /// [`release_then_admit`](Self::release_then_admit) to [`release`](Self::release) and `admit`. So all that the gate of a
    /// tick asks for is seen in `admit`, and what a [`LeaseGuard`](crate::LeaseGuard) asks for in `create`. Override
    /// `release_then_admit` too where the other store is a server: there it is one round trip.
    ///
    /// A decorated handle is the same store to a schedule as the bare one, by its [`identity`](Self::identity): give the
    /// events of one schedule the same of the two.
    ///
    /// The default is that there is none.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    /// use soloist::{
    ///     Admission, Admitted, Answers, Event, EventMutex, Lease, LeaseRequest, MemoryMutex, MutexError, MutexName, Schedule,
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
    ///     fn admit(&self, admissions: &[Admission]) -> Answers<Admitted> {
    ///         let answers = self.0.admit(admissions);
    ///         let refused = answers.iter().flatten().filter(|answer| !matches!(answer, Admitted::Granted(_)));
    ///         self.1.fetch_add(refused.count(), Relaxed);
    ///         answers
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

    /// Which store this is, whatever handle it is asked through: the events of a tick whose stores are the same are gated
    /// together, and an outage of one is the other's.
    ///
    /// The default is the place of this value in memory, so that what is shared in an `Arc` is one store, and clones
    /// are different ones. Handles that share their store say so with [`StoreId::of`] what they share.
    fn identity(&self) -> StoreId {
        self.inner().map_or_else(|| StoreId::of(self), EventMutex::identity)
    }

    /// How far the store's word reaches. The default is [`Scope::Unknown`], which is never warned of.
    fn scope(&self) -> Scope {
        self.inner().map_or(Scope::Unknown, EventMutex::scope)
    }

    /// The clock by which it lets leases end, which a [`LeaseGuard`](crate::LeaseGuard) goes by, and a
    /// [`Schedule`](crate::Schedule) that is given no other: the machine's, unless a test has put in one that it moves.
    fn clock(&self) -> Clock {
        self.inner().map_or_else(Clock::system, EventMutex::clock)
    }

    /// Decides on each admission, one answer for each, in their order. They are independent of one another, and are
    /// granted in their order where they ask for the same name. A tick asks for up to a hundred at once.
    ///
    /// The default asks step by step: it looks at the claim, takes the lease, takes the claim, and gives the lease
    /// back if the claim was taken. No race consumes an occurrence, and a late server does not disturb the one that
    /// runs. A process that is killed between two steps blocks the event for one term at most. Once the store
    /// [is out](MutexError::is_outage) it asks for none of the rest. Override it where the store can decide in
    /// one step.
    fn admit(&self, admissions: &[Admission]) -> Answers<Admitted> {
        match self.inner() {
            Some(inner) => inner.admit(admissions),
            None => admit_each(self, admissions),
        }
    }

    /// Decides on one admission: what a tick asks for where no other event is gated with this one.
    ///
    /// The default asks [`admit`](Self::admit) for it alone. Override it where one decision costs less than a list of one.
    ///
    /// # Errors
    ///
    /// Whether it was granted is not known.
    fn admit_one(&self, admission: &Admission) -> Result<Admitted, MutexError> {
        admit_alone(self, admission)
    }

    /// Gives back several names, one answer for each, in their order. A tick gives back up to a hundred at once.
    ///
    /// The default forgets one after another, up to the first error that says that the store
    /// [is out](MutexError::is_outage).
    fn release(&self, leases: &[Lease]) -> Answers<bool> {
        match self.inner() {
            Some(inner) => inner.release(leases),
            None => ask_each(leases, attempted_release, |lease| self.forget(lease)),
        }
    }

    /// Gives back what ended, and then decides on what is asked for: [`release`](Self::release) and
    /// [`admit`](Self::admit), in this order.
    ///
    /// A tick asks this of a store whose [`scope`](Self::scope) is a fleet, when one event has ended and the next is due.
    /// The default does one after the other; override it where both are one round trip.
    fn release_then_admit(&self, ended: &[Lease], admissions: &[Admission]) -> (Answers<bool>, Answers<Admitted>) {
        release_before_admit(self, ended, admissions)
    }

    /// Whether it can [`extend`](Self::extend), which renewal needs. A store that has an `extend` says `true` here.
    ///
    /// The default is `false`: an event asks for a fixed term then, with
    /// [`without_overlapping_for`](crate::Event::without_overlapping_for).
    fn can_extend(&self) -> bool {
        self.inner().is_some_and(EventMutex::can_extend)
    }

    /// Lets each lease end one `term` from now, be that later or earlier than before. `Ok(false)`: it was not ours any
    /// more, and was left alone. What is in hand is renewed so, all leases of one term at once, by a thread that no gate
    /// waits for; and shortened so when the process exits.
    ///
    /// The default is [`MutexError::unsupported`].
    fn extend(&self, leases: &[Lease], term: Term) -> Answers<bool> {
        match self.inner() {
            Some(inner) => inner.extend(leases, term),
            None => leases.iter().map(|_| Err(MutexError::unsupported("extend a lease"))).collect(),
        }
    }

    /// Gives each lease back, not now but `rest` from now, whether or not this process is there then: what
    /// [`hold_at_least`](crate::Event::hold_at_least) asks for. `Ok(false)`: it was not ours any more, and was left alone.
    ///
    /// The default is [`extend`](Self::extend). Override it where a lease ends with the process that holds it.
    fn release_after(&self, leases: &[Lease], rest: Term) -> Answers<bool> {
        match self.inner() {
            Some(inner) => inner.release_after(leases, rest),
            None => self.extend(leases, rest),
        }
    }

    /// What a process inherits that is to work under this lease, so that the lease lasts as long as that process, even if
    /// this one is killed and nobody renews it any more. A scheduler asks for it once the lease is granted, and before it
    /// starts a command.
    ///
    /// `Ok(Some(_))`: from now on the lease lasts, whatever its term, for as long as this process holds it and, if this
    /// process goes without giving it back, for as long as anybody has the lifeline open. [`forget`](Self::forget),
    /// [`release_after`](Self::release_after) and [`break_lease`](Self::break_lease) end it as ever, whoever has the
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

    /// Who holds the name. `Ok(None)`: nobody does, or the store does not keep it. The default keeps nothing.
    ///
    /// # Errors
    ///
    /// Who holds it is not known.
    fn holder(&self, name: &MutexName) -> Result<Option<Holder>, MutexError> {
        self.inner().map_or(Ok(None), |inner| inner.holder(name))
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
    /// deployment or a page about the service's health; no gate asks for it. The default knows nothing to warn of.
    ///
    /// # Errors
    ///
    /// The store did not answer.
    fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        self.inner().map_or_else(|| Ok(Vec::new()), EventMutex::check)
    }
}

/// What a store answers to several questions: one answer for each, in their order.
///
/// ```
/// use soloist::{Answers, EventMutex, MemoryMutex};
///
/// let answers: Answers<bool> = MemoryMutex::new().release(&[]);
/// assert!(answers.is_empty());
/// ```
pub type Answers<T> = Vec<Result<T, MutexError>>;

/// How far a store's word reaches.
///
/// ```
/// use soloist::{EventMutex, MemoryMutex, Scope};
///
/// assert_eq!(MemoryMutex::new().scope(), Scope::Process);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// Only this process sees it.
    Process,
    /// Every process on this host sees it.
    Host,
    /// Every host that is connected to it sees it.
    Fleet,
    /// The store does not say.
    Unknown,
}

delegate!(impl<M> EventMutex for &M, |this| **this);
delegate!(impl<M> EventMutex for Box<M>, |this| **this);
delegate!(impl<M> EventMutex for Arc<M>, |this| **this);

/// The default of [`EventMutex::release_then_admit`], in two steps.
pub(crate) fn release_before_admit<M: EventMutex + ?Sized>(
    mutex: &M,
    ended: &[Lease],
    admissions: &[Admission],
) -> (Answers<bool>, Answers<Admitted>) {
    let released = mutex.release(ended);
    let admitted = match outage_in(&released) {
        None => mutex.admit(admissions),
        // A store that is out at the first is not waited for at the second.
        Some(first) => {
            let not_asked = |asked: &Admission| Err(MutexError::not_asked_again(asked.attempted(), first));
            admissions.iter().map(not_asked).collect()
        }
    };
    (released, admitted)
}

/// What [`EventMutex::admit`] does for a store that can't decide on an admission in one step.
pub(crate) fn admit_each<M: EventMutex + ?Sized>(mutex: &M, admissions: &[Admission]) -> Answers<Admitted> {
    ask_each(admissions, Admission::attempted, |admission| admit_in_steps(mutex, admission))
}

/// Looks at the claim, takes the lease, and takes the claim. If the claim is not granted, the lease is given back.
pub(crate) fn admit_in_steps<M: EventMutex + ?Sized>(mutex: &M, admission: &Admission) -> Result<Admitted, MutexError> {
    // That it is taken is certain; who has it is for people.
    let holder = |request: &LeaseRequest| mutex.holder(request.name()).unwrap_or(None);
    if let Some(claim) = admission.claim()
        && mutex.exists(claim.name())?
    {
        return Ok(Admitted::ClaimTaken(holder(claim)));
    }
    let mut grant = Grant { lease: None, claim: None, token: FencingToken::new(0) };
    if let Some(request) = admission.lease() {
        let Some(lease) = create_or_give_back(mutex, request)? else {
            return Ok(Admitted::LeaseTaken(holder(request)));
        };
        grant = Grant::of(lease);
    }
    if let Some(request) = admission.claim() {
        let answer = contain(|| create_or_give_back(mutex, request));
        let answer = answer.unwrap_or_else(|message| Err(MutexError::panicked(admission.attempted(), &message)));
        let Ok(Some(claim)) = answer else {
            grant.lease.iter().for_each(|lease| give_back(mutex, lease));
            return answer.map(|_| Admitted::ClaimTaken(holder(request)));
        };
        grant.token = grant.lease.as_ref().map_or(claim.token(), Lease::token);
        grant.claim = Some(claim);
    }
    Ok(Admitted::Granted(grant))
}

/// Takes the name. After an error the store may have granted it all the same; nothing has started under it, so the store
/// is asked to take it back.
fn create_or_give_back<M: EventMutex + ?Sized>(mutex: &M, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
    mutex.create(request).inspect_err(|_| take_back_unheard(mutex, request))
}

/// Gives back what an answer may have granted that was lost or makes no sense.
fn take_back_unheard<M: EventMutex + ?Sized>(mutex: &M, request: &LeaseRequest) {
    // The answer changes nothing: the name is ours or nobody's, and expires by itself.
    let _ = mutex.forget(&request.granted(FencingToken::new(0)));
}

/// Gives back a lease under which nothing has started, and reports it if that fails.
fn give_back<M: EventMutex + ?Sized>(mutex: &M, lease: &Lease) {
    let answer = contain(|| mutex.forget(lease));
    let answer = answer.unwrap_or_else(|message| Err(MutexError::panicked(attempted_release(lease), &message)));
    if let failed @ Release::Failed(_) = Release::of(lease, None, answer) {
        print_unless_logged(failed);
    }
}

pub(crate) fn attempted_release(lease: &Lease) -> String {
    format!("forget {}", lease.name())
}

/// What [`EventMutex::admit_one`] does by default. A store that gives no answer to one question, or several, may have
/// granted it all the same.
fn admit_alone<M: EventMutex + ?Sized>(mutex: &M, admission: &Admission) -> Result<Admitted, MutexError> {
    let mut answers = mutex.admit(slice::from_ref(admission));
    if answers.len() == 1 {
        return answers.remove(0);
    }
    let count = answers.len();
    let granted =
        |answer: &Result<Admitted, _>| matches!(answer, Ok(Admitted::Granted(grant)) if grant.is_for(admission));
    if let Some(granted) = answers.into_iter().find(granted) {
        return granted;
    }
    for request in [admission.lease(), admission.claim()].into_iter().flatten() {
        take_back_unheard(mutex, request);
    }
    let why =
        if count == 0 { "the store gave no answer".into() } else { format!("the store gave {count} answers to one") };
    Err(MutexError::unusable(admission.attempted(), why))
}
