//! `RedisMutex`: mutexes on a Redis server.
//!
//! The scope is the fleet that is connected to the server, and the clock is the server's. After a crash, a lease stays
//! for the rest of its term at most, and a claim until it expires.
//!
//! Each lease and each claim has a key, and all keys of a prefix lie on one slot of a cluster. A script releases
//! leases, and decides on admissions in one step: it reads the claim and the lease, and writes both if both are free.
//! An admission that is refused writes nothing. All grants of a call get one token: the larger of the last token plus
//! one and the server's time in microseconds. So tokens also rise if the server restarts without its data. A release
//! and an extension compare the owner.
//!
//! A call goes one way, file by file: from here to `server/server_mutex.rs` (the meaning of an answer),
//! `server/attempts.rs` (the attempts), `engine.rs` (the requests on a connection; `calls_and_replies.rs` writes and
//! reads them), `connection.rs` (the driver's commands and its parser), and `stream.rs` (the socket). The decision is
//! `scripts/carry_out.lua`. `topology.rs` finds the server for a new connection: it asks Sentinels for the primary, or
//! asks a node of a cluster which node has the slot. After a failover a connection breaks, or its server answers
//! `MOVED` or `READONLY`, and the call is retried on a new connection.
//!
//! An entry begins with its format, `v1`, and its owner; an entry of another format is neither used nor changed. An
//! entry records its term. If an admission finds an entry with more time left than its term, the server's clock was set
//! back. The admission then shortens the entry to one term from now.
//!
//! A request names a window of the server's time: from the time when it was sent to the deadline of its caller. Outside
//! of the window, the script only releases: an admission that arrives late, or after the clock was set back, writes
//! nothing.
//!
//! If a reply is lost, the request is sent once more on another connection. The script recognises the owner. For a
//! release, the entry of a new holder says for how long this holder has had the name. A name that this process may hold
//! after all is released by a later call. If an admission was sent twice, its first copy may arrive when its run is
//! over. So the release revokes the owner, and the script grants that owner nothing more until the window ends.

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::InvalidOptions;
use crate::store::event_mutex::delegate::delegate;
use crate::store::server::{attempts::Server, server_builder::server_builder};

mod address;
mod calls_and_replies;
mod connection;
mod engine;
mod health;
mod keys;
mod scripts;
mod server_error;
mod stored_holder;
mod stream;
mod topology;

use address::Address;
use engine::RedisEngine;

/// Mutexes between all processes that reach one Redis server, 6.2 or newer, or Valkey. It supports all methods of
/// [`EventMutex`](crate::EventMutex), except that it has no [lifelines](crate::EventMutex::lifeline).
///
/// A protected run costs two commands: one script for the admission, and one for the release. The store connects at its
/// first command, so a tick without a due event opens no connection. The store needs no asynchronous runtime; inside a
/// runtime, each call blocks its thread.
///
/// # Keys
///
/// The keys are in the URL's database. A key is the prefix in braces, which is `soloist` unless it is set, and the text
/// of the [name](crate::MutexName):
///
/// | key | value | expires |
/// | --- | --- | --- |
/// | `{soloist}:lease/reports` | the holder of the lease of `reports` | with the lease |
/// | `{soloist}:claim/reports/reports/2026-03-01T02:30:00Z` | the run that took this occurrence of `reports` | with the claim |
/// | `{soloist}:claim/reports/weekly/2026-03-01T02:30:00Z` | an occurrence of `weekly`, which shares this mutex | with the claim |
/// | `{soloist}:permit/reports/reports/day@2026-03-01` | the run that took this period | with the claim |
/// | `{soloist}:mark/reports/reports/seen…`, `{soloist}:mark/shop/shop/paused` | since when an event is known that [catches up](crate::Event::catch_up); that a schedule is [paused](crate::Schedule::pause) | when it ends |
/// | `{soloist}:runs/reports` | the [log of its runs](crate::Schedule::with_run_log): a hash with a line for each run that is kept | never |
/// | `{soloist}:token` | the last fencing token | 30 days after it |
/// | `{soloist}:revoked` | owners whose admission was asked for twice, and that have released: a late copy of it is granted nothing | a second after the longest call |
/// | `{soloist}:none` | nothing, ever: a node of a cluster is asked for it | |
/// | `{soloist}:check` | nothing: [`check`](crate::EventMutex::check) sees whether the server takes writes | a millisecond later |
///
/// The prefix is the hash tag of all its keys, so that they lie on one slot of a cluster.
///
/// A value reads `v1 OWNER token=1772366400000000 term=60000 since=2026-03-01T02:30:00.000Z pid=4711 host=web-1
/// app=shop`. Bytes of a name that are not plain ASCII, and `/ % { } " ' \` and the space, are written as `%XX`. To
/// free a name by hand, delete its key, or call [`break_lease`](crate::EventMutex::break_lease). A value of another
/// format than `v1` is an error for its name, and is not changed.
///
/// # What it promises, and what Redis does not
///
/// Terms are measured on the server's clock. A killed process leaves its lease until the term ends.
///
/// A released name stays free however the server's clock is set. If the clock is set
///
/// - **back**, the lease of a killed process ends one term after the next admission that asks for it. So do a claim and
///   the minimum hold of [`hold_at_least`](crate::Event::hold_at_least). If such a lease blocks an admission, the
///   report says that the holder's `since` lies in the future, and [the process fails](crate::SkipReason::is_failure);
///   a claim is reported as usual. [`check`](crate::EventMutex::check) warns of such a clock. A pause lasts until the
///   server's clock shows its end.
/// - **forward**, leases and claims end early: a run is cancelled at its next renewal, and an occurrence may run twice,
///   the second time with a higher [fencing token](crate::FencingToken).
///
/// Redis copies a write to its replicas after it has answered. So a failover, or a restart without data, can lose a
/// lease or a claim that was granted a moment before. Another owner can then acquire the name. This second holder has a
/// higher [fencing token](crate::FencingToken), unless the clock of the new primary is behind.
/// [`wait_for_replicas`](RedisMutexBuilder::wait_for_replicas) makes such a loss rarer, and
/// [`check`](crate::EventMutex::check) warns of replicas without it. The server must not evict keys:
/// [`check`](crate::EventMutex::check) warns of an eviction policy, too.
///
/// With `redis+sentinel://`, each new connection asks the Sentinels where the primary is. With `redis+cluster://`, the
/// new connection asks the nodes which of them has the slot of the prefix. A call during a failover fails, as if the
/// server did not answer, until a new primary has taken over. While the slot is being moved to another node, calls
/// fail, too, and nothing is granted.
///
/// A call takes two seconds at most, or the [`timeout`](RedisMutexBuilder::timeout) that is set. This includes the
/// look-up of the host and the handshake; [`break_lease`](crate::EventMutex::break_lease) makes two calls. If an answer
/// is lost, the request is sent once more on a new connection. A name that this process may then hold without knowing
/// it is released with its next call. The call takes a quarter of its time for this at most. The last handle tries once
/// more when it is dropped. If a process ends without an answer, its lease and its claim stay until their terms end.
///
/// A release leaves no trace. So if the reply to a release is lost, and the second attempt finds the name free, the
/// first attempt counts as the release, even if the server had lost the lease before. If another owner has held the
/// name since before the call, the lease was lost, and the release says so.
///
/// The server's user needs `+@connection +evalsha +script|load +time +get +mget +exists +set +del +pttl +pexpire` on the keys
/// `~{soloist}:*`, `+hgetall +hget +hmget +hset +hincrby +hdel` for a [log of runs](crate::Schedule::with_run_log), `+info` for
/// [`check`](crate::EventMutex::check), `+role` with Sentinels, `+wait` with `?wait=1`, and `+scan` to list [leases with a prefix](crate::store::Names::LeasesWithPrefix), which reads
/// through all keys of the database.
///
/// If the server has no room for another connection, is being started, refuses connections, or is blocked by a script
/// of another client, the call is retried after short random pauses, until its time limit.
///
/// Clones are cheap. Together they keep up to eight idle connections, each for half a second to a second after its last
/// use. Concurrent calls open as many more connections as they need. A child process that `fork` makes opens
/// connections of its own.
///
/// ```no_run
/// use soloist::{Event, RedisMutex, Schedule};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schedule = Schedule::new(RedisMutex::new("redis://user:secret@cache.internal:6379/0")?);
/// schedule.add(Event::call("reports", |_| println!("once in the whole fleet")).hourly().on_one_server())?;
/// schedule.run_due(chrono::Utc::now());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisMutex(Arc<Server<RedisEngine>>);

impl RedisMutex {
    /// Returns a store on the server and in the database of a URL. The store connects at the first call.
    ///
    /// | URL | server |
    /// | --- | --- |
    /// | `redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]` | over TCP; port 6379, database 0 |
    /// | `rediss://…` | the same over TLS, with the feature `redis-tls` |
    /// | `redis+unix:///PATH[?db=DATABASE&user=USER&pass=PASSWORD]` | over a socket of this host |
    /// | `redis+sentinel://[[USER]:PASSWORD@]HOST[:PORT][,HOST…]/NAME[/DATABASE]` | the primary that these [Sentinels](https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/) watch under this name; port 26379; `?sentinel_user=` and `?sentinel_password=` are for the Sentinels, the others for the primary |
    /// | `redis+cluster://[[USER]:PASSWORD@]HOST[:PORT][,HOST…]` | the node of a [cluster](https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/) that has the slot of the prefix; any of its nodes may be listed |
    /// | `rediss+sentinel://…`, `rediss+cluster://…` | the same over TLS |
    /// | `…?prefix=billing&timeout=500ms` | with these options of the [builder](RedisMutexBuilder) |
    ///
    /// With `?wait=1`, a change [counts when a replica has it](RedisMutexBuilder::wait_for_replicas).
    ///
    /// Without TLS the password goes over the network in plain text, because Redis has no other login:
    /// [`check`](crate::EventMutex::check) warns of a server without TLS that is not on this host.
    ///
    /// # Errors
    ///
    /// The URL has none of these forms. No message shows its user or its password.
    ///
    /// ```
    /// use soloist::RedisMutex;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mutex = RedisMutex::new("redis://127.0.0.1/2")?;
    /// assert_eq!(format!("{mutex:?}"), r#"RedisMutex { server: "redis://127.0.0.1:6379/2", prefix: "soloist" }"#);
    /// let billing = RedisMutex::new("redis://127.0.0.1/2?prefix=billing")?;
    /// assert_eq!(format!("{billing:?}"), r#"RedisMutex { server: "redis://127.0.0.1:6379/2", prefix: "billing" }"#);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(url: &str) -> Result<Self, InvalidOptions> {
        Self::builder(url).build()
    }

    /// Returns a builder, for options.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::RedisMutex;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mutex =
    ///     RedisMutex::builder("redis://127.0.0.1").prefix("billing").timeout(Duration::from_millis(500)).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(url: &str) -> RedisMutexBuilder {
        RedisMutexBuilder::new(url)
    }
}

server_builder! {
    /// Options of a [`RedisMutex`](crate::RedisMutex); [`build`](Self::build) checks them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::RedisMutex;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = RedisMutex::builder("redis://127.0.0.1").prefix("billing").timeout(Duration::from_millis(500));
    /// let mutex = builder.build()?;
    /// assert!(format!("{mutex:?}").contains("billing"));
    ///
    /// let error = RedisMutex::builder("redis://127.0.0.1").prefix("{billing}").build().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "the prefix of keys in redis has to be 1 to 100 visible ASCII characters without braces, as in ?prefix=shop"
    /// );
    /// # Ok(())
    /// # }
    /// ```
    pub struct RedisMutexBuilder(Address) of RedisMutex with "redis-tls";

    /// Sets the prefix, which is the hash tag of all keys: 1 to 100 visible ASCII characters without braces. The
    /// default is the prefix in the URL, or `soloist`. Programs with different prefixes don't see each other's leases.
    prefix: "soloist";

    /// Sets the longest time of a call: a millisecond to ten minutes. The default is the timeout in the URL, or two
    /// seconds. The time includes the look-up of the host, the connecting, the TLS handshake, the login, and a second
    /// attempt.
    timeout: Duration::from_secs(2);
}

/// The shortest and the longest time-out of a call.
const TIMEOUTS: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(600)];

impl RedisMutexBuilder {
    /// Sets how many replicas must confirm each change before the call returns. The default is the number in the URL,
    /// as in `?wait=1`, or 0. If too few replicas confirm a change in time, the call fails. A grant is then released. A
    /// renewal is retried until the lease ends, and then the run is cancelled: so no run goes on under a primary that
    /// is cut off. The end of a lease or of a pause may have happened.
    pub fn wait_for_replicas(mut self, replicas: u32) -> Self {
        if let Ok(address) = &mut self.options.address {
            address.replicas = replicas;
        }
        self
    }

    /// Checks the options, and returns the store, which connects at the first call.
    ///
    /// # Errors
    ///
    /// The URL, the prefix, the timeout, or a certificate is not valid.
    pub fn build(self) -> Result<RedisMutex, InvalidOptions> {
        Ok(RedisMutex(Arc::new(Server::new(RedisEngine::new(self.options.check(TIMEOUTS)?)?))))
    }
}

delegate!(impl EventMutex for RedisMutex, |this| &*this.0);
