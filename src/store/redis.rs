//! Scope: the fleet that is connected to the server. Clock: the server's. A crash leaves a lease for the rest of its term
//! at most, and a claim until it expires.
//!
//! Each mutex has a key for its lease and one for each claim, on one slot of a cluster. A script decides on admissions in
//! one step: it sets the claim and then the lease, each if there is none, and takes the claim back if there was a lease.
//! Each call hands out the larger of the last token plus one and the server's time in microseconds, so that tokens rise
//! over an empty restart too. Releasing and extending compare the owner.
//!
//! An entry records its term. A gate that finds an entry with more time left than that knows that the server's clock
//! was set back, and shortens the entry to one term from now.
//!
//! An admission names a window of the server's time, in which somebody waits for its answer. Outside of it the script
//! changes nothing: a request that arrives late, or after the clock was set back, leaves nothing behind.
//! An answer that is lost on a connection is asked for once more on another by the same owner, who is known again; or,
//! at a release, by who has the name, and for how long. What may be ours after all is given back as soon as the server
//! answers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::cmd;

use super::event_mutex::{Answers, EventMutex, Scope};
use crate::base::error::{InvalidOptions, MutexError};
use crate::lease::holder::Holder;
use crate::lease::name::MutexName;
use crate::lease::request::{Lease, LeaseRequest};
use crate::lease::store_id::StoreId;
use crate::lease::term::Term;
use crate::store::event_mutex::admission::{Admission, Admitted};
use crate::store::event_mutex::admit_each;
use crate::store::event_mutex::broken_lease::Broken;
use crate::store::event_mutex::warning::StoreWarning;
use crate::store::remote::failure::Failure;
use crate::store::remote::held::Held;
use crate::store::remote::owed::Debt;
use crate::store::remote::server::Server;
use crate::store::remote::server_clock::ServerClock;
use crate::time::clock::Clock;
use crate::time::clock::moment::Moment;

mod address;
pub(crate) mod builder;
mod client;
mod connection;
mod entry;
mod failure;
mod health;
mod keys;
mod script;
mod stream;

use address::Target;
use builder::RedisMutexBuilder;
use client::{Client, Heard, Inquiry};
use keys::Prefix;
use script::{Decision, Released};

impl RedisMutexBuilder {
    /// The mutexes; nothing is connected yet.
    ///
    /// # Errors
    ///
    /// The URL, the prefix, the time-out, or a certificate is not what it should be.
    pub fn build(self) -> Result<RedisMutex, InvalidOptions> {
        let Self { options } = self;
        let (address, prefix, timeout) = (options.address?, Prefix::new(options.namespace)?, options.timeout);
        if !(Duration::from_millis(1)..=Duration::from_secs(600)).contains(&timeout) {
            let what = format!("a time-out of {timeout:?} for redis is outside of a millisecond to ten minutes");
            return Err(InvalidOptions::new(what));
        }
        let target = Target {
            address,
            #[cfg(feature = "redis-tls")]
            tls: options.tls.check()?,
        };
        Ok(RedisMutex { client: Arc::new(Client::new(Server::new(target, timeout), prefix)) })
    }
}

/// For how long a release that the server did not answer is tried again at most.
const RELEASE_OWED: Duration = Duration::from_secs(24 * 60 * 60);

/// Mutexes between all processes that reach one Redis server, 6.2 or newer, or Valkey. It can do all that an
/// [`EventMutex`] can.
///
/// A protected run costs two commands: one script at the gate, one at the release. Nothing is connected before the first
/// of them, so that a tick in which nothing is due opens no connection.
///
/// # Keys
///
/// In the URL's database, behind a prefix that is `soloist:` unless it is set:
///
/// | key | value | expires |
/// | --- | --- | --- |
/// | `soloist:lease:{reports}` | who holds the lease of `reports` | with the lease |
/// | `soloist:claim:{reports}:2026-03-01T02:30:00Z` | who ran this occurrence | with the claim |
/// | `soloist:claim:{reports}:weekly/2026-03-01T02:30:00Z` | the same for `weekly`, which shares this mutex | with the claim |
/// | `soloist:permit:{reports}:day@2026-03-01T00:00:00+01:00` | who ran in this period; `weekly/day@…` as above | with the claim |
/// | `soloist:mark:{reports}:seen…`, `soloist:mark:{shop}:paused` | since when an event is known that [catches up](crate::Event::catch_up); that a schedule is [paused](crate::Schedule::pause) | when it ends |
/// | `soloist:token` | the last fencing token; on a cluster one for each mutex, `soloist:token:{reports}` | 30 days after it |
///
/// A value reads `OWNER token=1772366400000000 term=60000 since=2026-03-01T02:30:00.000Z pid=4711 host=web-1`. Bytes of
/// a name that are not plain ASCII, and `/ % { } " ' \` and the space, are written as `%XX`. To free a name by hand,
/// delete its key, or call [`break_lease`](EventMutex::break_lease).
///
/// # What it promises, and what Redis does not
///
/// Terms are measured on the server's clock. A killed process leaves its lease until the term ends.
///
/// What was given back is gone, and stays free whatever the server's clock does. If the clock is set
///
/// - **back**, the lease of a killed process ends one term after the next gate that asks for it. So do a claim, and the
///   rest of [`hold_at_least`](crate::Event::hold_at_least). If such a lease refuses a gate, the report says that the
///   holder's `since` lies in the future, and [the process fails](crate::SkipReason::is_failure); a claim is reported
///   as usual. [`check`](EventMutex::check) warns, except on a cluster. A pause lasts until the server's clock shows its end.
/// - **forward**, leases and claims end early: a run is cancelled at its next renewal, and an occurrence may run twice,
///   the second time with a higher [fencing token](crate::FencingToken).
///
/// The entry of an earlier version of this crate does not say its term: its end alone decides.
///
/// Redis copies to its replicas after it has answered: a failover, or a restart without its data, can lose a lease or a
/// claim that was granted a moment before, and a second holder then gets a higher [fencing token](crate::FencingToken).
/// The server must not evict: [`check`](EventMutex::check) warns of that. A node of a cluster is served if all keys are
/// on it; others are not followed, and [`check`](EventMutex::check) warns of every cluster.
///
/// A call takes two seconds at most, or what [`timeout`](RedisMutexBuilder::timeout) says, the look-up of the host and the
/// handshake included; [`break_lease`](EventMutex::break_lease) is two. If an answer is lost, it is asked for once more on
/// a new connection. What this process may then hold without knowing it is given back as soon as the server answers, by a
/// thread that lives as long as there is a handle; the last handle tries once more when it goes. A process that ends
/// without an answer leaves the lease to its term, and the claim.
///
/// What has gone back leaves nothing behind. So a release that is asked for once more, because its answer was lost, and finds
/// the name free, takes it for released at the first asking, also where the server had lost the lease before. If somebody else
/// has had the name since before the call, the lease was lost, and that is said.
///
/// The server's user needs `+@connection +evalsha +script|load +time +get +mget +set +del +exists +pttl +pexpire` on the keys
/// `~soloist:*`, and `+info` for [`check`](EventMutex::check).
///
/// If the server has no room for another connection, is being started, or refuses connections, the call asks again after
/// short random pauses, until its time limit.
///
/// A cheap handle. Its clones keep up to four idle connections, each for half a second after its last use. Calls that
/// are made at the same time open as many more as they need. A child process that `fork` makes opens its own.
///
/// ```no_run
/// use soloist::{Event, RedisMutex, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut schedule = Schedule::new(RedisMutex::new("redis://user:secret@cache.internal:6379/0")?);
/// schedule.add(Event::call("reports", |_| println!("once in the whole fleet")).hourly().on_one_server())?;
/// schedule.run_due(chrono::Utc::now());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisMutex {
    client: Arc<Client>,
}

impl RedisMutex {
    /// The mutexes in the server and database of a URL. Nothing is connected yet.
    ///
    /// | URL | server |
    /// | --- | --- |
    /// | `redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]` | over TCP; port 6379, database 0 |
    /// | `rediss://…` | the same over TLS, with the feature `redis-tls` |
    /// | `redis+unix:///PATH[?db=DATABASE&user=USER&pass=PASSWORD]` | over a socket of this host |
    ///
    /// Without TLS the password goes over the network in plain text, as Redis knows no other way:
    /// [`check`](EventMutex::check) warns of a server without TLS that is not on this host.
    ///
    /// # Errors
    ///
    /// The URL is none of these. No message shows its user or its password.
    ///
    /// ```
    /// use soloist::RedisMutex;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mutex = RedisMutex::new("redis://127.0.0.1/2")?;
    /// assert_eq!(format!("{mutex:?}"), r#"RedisMutex { server: "redis://127.0.0.1:6379/2", prefix: "soloist:" }"#);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(url: &str) -> Result<Self, InvalidOptions> {
        Self::builder(url).build()
    }

    /// The same with options.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::RedisMutex;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mutex =
    ///     RedisMutex::builder("redis://127.0.0.1").prefix("billing:").timeout(Duration::from_millis(500)).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(url: &str) -> RedisMutexBuilder {
        RedisMutexBuilder::new(url)
    }

    /// Gives back, and then decides on admissions whose lease and claim are of one mutex and one owner, each in one step.
    fn release_and_admit_at_once(
        &self,
        leases: &[Lease],
        admissions: &[Admission],
    ) -> (Answers<bool>, Answers<Admitted>) {
        let began = Clock::system().moment();
        let Heard { first, second, again, second_again } =
            self.client.ask_in_turn(&self.release_of(leases), &self.admission_of(admissions));
        (self.released(leases, first, again, began), self.admitted(admissions, second, second_again))
    }

    fn release_of<'a>(&'a self, leases: &'a [Lease]) -> Inquiry<'a, Released> {
        let held: Vec<Held> = leases.iter().map(Held::of).collect();
        Inquiry {
            names: leases.iter().map(Lease::name).collect(),
            call: Box::new(move |chunk, _, _| script::release(chunk.iter().map(|at| &held[*at]), &self.client.prefix)),
            meaning: script::released,
        }
    }

    fn admission_of<'a>(&'a self, admissions: &'a [Admission]) -> Inquiry<'a, Decision> {
        let (client, prefix) = (&self.client, &self.client.prefix);
        let call = |chunk: &[usize], clock: ServerClock, until: Moment| {
            // On a cluster there is one name in each call.
            let of_first = || prefix.token_key_of(admissions[chunk[0]].name());
            let token = if client.is_cluster() { of_first() } else { prefix.token_key() };
            script::admit(chunk.iter().map(|at| &admissions[*at]), token, prefix, clock, until)
        };
        let names = admissions.iter().map(Admission::name).collect();
        Inquiry { names, call: Box::new(call), meaning: script::decisions }
    }

    fn released(
        &self,
        leases: &[Lease],
        answers: Vec<Result<Released, Failure>>,
        again: bool,
        began: Moment,
    ) -> Answers<bool> {
        let now = Clock::system().moment();
        self.owe_what_failed(leases, &answers, now);
        let answer = |(answer, lease): (Result<Released, Failure>, &Lease)| match answer {
            Ok(released) => Ok(released.went_back(again && now < lease.deadline(), now.since(began))),
            Err(failure) => Err(self.failed("forget", lease.name(), failure)),
        };
        answers.into_iter().zip(leases).map(answer).collect()
    }

    /// What could not be given back is, as soon as the server answers, but not before `from`.
    fn owe_what_failed<T>(&self, leases: &[Lease], answers: &[Result<T, Failure>], from: Moment) {
        let left = leases.iter().zip(answers).filter(|(_, answer)| answer.is_err());
        // It may have been extended, so that only the server knows when it ends.
        let until = from.plus(RELEASE_OWED);
        self.client.owe(left.map(|(lease, _)| Debt { held: Held::of(lease), from, until }).collect());
    }

    fn extend_all(&self, leases: &[Lease], term: Term) -> Vec<Result<bool, Failure>> {
        let held: Vec<Held> = leases.iter().map(Held::of).collect();
        let call = |chunk: &[usize], clock: ServerClock, until: Moment| {
            script::extend(chunk.iter().map(|at| &held[*at]), term, &self.client.prefix, clock, until)
        };
        let names = leases.iter().map(Lease::name).collect();
        self.client.ask_about(&Inquiry { names, call: Box::new(call), meaning: script::extended }).first
    }

    fn extended(&self, leases: &[Lease], answers: Vec<Result<bool, Failure>>) -> Answers<bool> {
        let answer = |(answer, lease): (Result<bool, Failure>, &Lease)| {
            answer.map_err(|failure| self.failed("extend", lease.name(), failure))
        };
        answers.into_iter().zip(leases).map(answer).collect()
    }

    fn admitted(
        &self,
        admissions: &[Admission],
        decisions: Vec<Result<Decision, Failure>>,
        again: bool,
    ) -> Answers<Admitted> {
        let checked = |(decision, admission): (Result<Decision, Failure>, &Admission)| match decision {
            Ok(Decision::GrantedBefore(holder)) if holder.owner() != admission.owner() => {
                Err(failure::not_understood(holder))
            }
            decision => decision,
        };
        let decisions: Vec<_> = decisions.into_iter().zip(admissions).map(checked).collect();
        let may_be_ours = |(_, decision): &(&Admission, &Result<Decision, Failure>)| match decision {
            // What was asked the first time may have been granted and be over but for its claim, or may still be granted.
            Ok(Decision::LeaseTaken(_) | Decision::ClaimTaken(_)) => again,
            Ok(_) => false,
            Err(failure) => failure.may_have_been_done(),
        };
        let perhaps_ours = admissions.iter().zip(&decisions).filter(may_be_ours);
        self.client.owe(perhaps_ours.flat_map(|(admission, _)| self.debts(admission)).collect());
        let answer = |(decision, admission): (Result<Decision, Failure>, &Admission)| match decision
            .map_err(|failure| self.failed("admit", admission.name(), failure))?
        {
            Decision::Granted(token) => Ok(Admitted::Granted(admission.granted(token))),
            Decision::LeaseTaken(holder) => Ok(Admitted::LeaseTaken(Some(holder))),
            Decision::ClaimTaken(holder) => Ok(Admitted::ClaimTaken(Some(holder))),
            Decision::GrantedBefore(holder) => Ok(Admitted::Granted(admission.granted(holder.token()))),
            Decision::Foreign(what) => Err(self.foreign("admit", admission.name(), what)),
        };
        decisions.into_iter().zip(admissions).map(answer).collect()
    }

    /// What may be ours of an admission of which an answer was lost, and until when at the latest.
    fn debts(&self, admission: &Admission) -> impl Iterator<Item = Debt> {
        let from = Clock::system().moment();
        let now = from.plus(self.client.server.timeout);
        [admission.claim(), admission.lease()].into_iter().flatten().map(move |request| Debt {
            held: Held { name: request.name().clone(), owner: request.owner() },
            from,
            until: now.plus(request.term().get()),
        })
    }

    fn failed(&self, verb: &str, name: &MutexName, failure: Failure) -> MutexError {
        let attempted = format!("{verb} {name} in {}", self.client.server);
        if failure::is_damaged(&failure) {
            MutexError::unusable(attempted, failure).of_the_store()
        } else if failure::is_of_one_name(&failure) {
            failure.while_trying_to(attempted).of_one_name()
        } else {
            failure.while_trying_to(attempted)
        }
    }

    fn foreign(&self, verb: &str, name: &MutexName, what: String) -> MutexError {
        MutexError::unusable(format!("{verb} {name} in {}", self.client.server), what)
    }
}

impl EventMutex for RedisMutex {
    fn create(&self, request: &LeaseRequest) -> Result<Option<Lease>, MutexError> {
        let admission = if request.name().is_claim() { Admission::claim_only } else { Admission::lease_only };
        let answer = self.admit(&[admission(request.clone())]).pop();
        match answer.unwrap_or_else(|| Err(self.foreign("create", request.name(), "no answer".to_owned())))? {
            Admitted::Granted(grant) => Ok(Some(request.granted(grant.token()))),
            Admitted::LeaseTaken(_) | Admitted::ClaimTaken(_) => Ok(None),
        }
    }

    fn exists(&self, name: &MutexName) -> Result<bool, MutexError> {
        let found = self.client.ask(cmd("EXISTS").arg(self.client.prefix.key(name)));
        found.and_then(script::flag).map_err(|failure| self.failed("look at", name, failure))
    }

    fn forget(&self, lease: &Lease) -> Result<bool, MutexError> {
        let answer = self.release(std::slice::from_ref(lease)).pop();
        answer.unwrap_or_else(|| Err(self.foreign("forget", lease.name(), "no answer".to_owned())))
    }

    fn scope(&self) -> Scope {
        Scope::Fleet
    }

    fn identity(&self) -> StoreId {
        StoreId::of(&*self.client)
    }

    fn admit(&self, admissions: &[Admission]) -> Answers<Admitted> {
        self.release_then_admit(&[], admissions).1
    }

    fn release(&self, leases: &[Lease]) -> Answers<bool> {
        self.release_then_admit(leases, &[]).0
    }

    fn release_then_admit(&self, ended: &[Lease], admissions: &[Admission]) -> (Answers<bool>, Answers<Admitted>) {
        let of_one_mutex = |admission: &Admission| match (admission.lease(), admission.claim()) {
            (Some(lease), Some(claim)) => {
                lease.name().mutex() == claim.name().mutex() && lease.owner() == claim.owner()
            }
            _ => true,
        };
        if admissions.iter().all(of_one_mutex) {
            return self.release_and_admit_at_once(ended, admissions);
        }
        (self.release(ended), admit_each(self, admissions))
    }

    fn can_extend(&self) -> bool {
        true
    }

    fn extend(&self, leases: &[Lease], term: Term) -> Answers<bool> {
        self.extended(leases, self.extend_all(leases, term))
    }

    fn release_after(&self, leases: &[Lease], rest: Term) -> Answers<bool> {
        let from = Clock::system().moment().plus(rest.get());
        let answers = self.extend_all(leases, rest);
        self.owe_what_failed(leases, &answers, from);
        self.extended(leases, answers)
    }

    fn holder(&self, name: &MutexName) -> Result<Option<Holder>, MutexError> {
        let verb = "look up the holder of";
        let answer = self.client.ask(&script::look(self.client.prefix.key(name)));
        match answer.and_then(script::looked).map_err(|failure| self.failed(verb, name, failure))? {
            None => Ok(None),
            Some(Ok(holder)) => Ok(Some(holder)),
            Some(Err(foreign)) => Err(self.foreign(verb, name, foreign)),
        }
    }

    fn break_lease(&self, name: &MutexName) -> Result<Broken, MutexError> {
        let Some(holder) = self.holder(name)? else { return Ok(Broken::NotHeld) };
        // Only this holder is broken, however late the request arrives and however often.
        let held = Held { name: name.clone(), owner: holder.owner() };
        let call = |_: &[usize], _: ServerClock, _: Moment| script::release([&held].into_iter(), &self.client.prefix);
        let began = Clock::system().moment();
        let Heard { mut first, again, .. } =
            self.client.ask_about(&Inquiry { names: vec![name], call: Box::new(call), meaning: script::released });
        let answer = first.pop().unwrap_or_else(|| Err(failure::not_understood("nothing")));
        let released = answer.map_err(|failure| self.failed("break", name, failure))?;
        Ok(Broken::if_held(released.went_back(again, Clock::system().moment().since(began))))
    }

    fn check(&self) -> Result<Vec<StoreWarning>, MutexError> {
        let look = || -> Result<_, Failure> {
            let asked = Clock::system().now();
            let mut answers = self.client.ask_each(&[cmd("TIME"), cmd("INFO")])?;
            let heard = Clock::system().now();
            let info = answers.pop().unwrap_or_default();
            let time = script::time(answers.pop().unwrap_or_default())?;
            let apart = (asked - time).max(time - heard).to_std().unwrap_or_default();
            let mut warnings = health::warnings(&info, apart)?;
            if self.client.server.target.address.is_overheard() {
                warnings.push(StoreWarning::Plaintext { instead: "rediss://" });
            }
            // On a cluster it has no such key, or another node has it.
            let last = self.client.ask(cmd("GET").arg(self.client.prefix.token_key())).ok();
            let ahead = last.as_ref().and_then(script::last_grant).and_then(|last| (last - time).to_std().ok());
            warnings.extend(ahead.and_then(StoreWarning::of_grants_ahead));
            Ok(warnings)
        };
        look().map_err(|failure| failure.while_trying_to(format!("check {}", self.client.server)))
    }
}

impl fmt::Debug for RedisMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisMutex")
            .field("server", &self.client.server.to_string())
            .field("prefix", &self.client.prefix.as_str())
            .finish()
    }
}
