//! `RedisMutex`: a store on a Redis server.
//!
//! The scope is the fleet: all processes that use the server. The clock is the server's. If a process crashes, its
//! lease stays until its term ends, and its claim stays until it expires.
//!
//! Each lease and each claim has a key. All keys of a prefix lie on one hash slot of a cluster. One script ends leases
//! and decides on admissions, in one step. For an admission, the script reads the claim and the lease, and writes both
//! if both are free. A refused admission writes nothing. All grants of a call get one token: the last token plus one,
//! or the server's time in microseconds if that is larger. So tokens rise even if the server restarts without its data.
//! A release or an extension changes an entry only if the entry has the owner of the request.
//!
//! A call begins in this file, and passes through these files in this order: `server/server_mutex.rs` (the meaning of
//! an answer), `server/attempts.rs` (the attempts), `engine.rs` (the requests), `scripts.rs` (the calls of the scripts, with
//! their keys and entries, and the replies), and `connection.rs` (the driver's commands, its parser, and the socket). On the
//! server, `scripts/carry_out.lua` decides. If the URL has `?wait=`, `wait_for_replicas.rs` then waits for the replicas.
//!
//! If the URL names Sentinels or nodes of a cluster, `topology.rs` finds the server for a new connection. It asks
//! Sentinels for the primary, or asks a node of a cluster which node has the slot. After a failover, a connection
//! breaks, or its server answers `MOVED` or `READONLY`. The call is then retried on a new connection.
//!
//! An entry begins with its format, `v1`, and its owner. If an entry has another format, each request for its name
//! fails, and the entry is not changed. An entry records its term. If an admission finds an entry with more time left
//! than its term, the server's clock was set back. The admission then shortens the entry to one term from now.
//!
//! A request names a window of the server's time. The window begins when the request is sent, and ends at the deadline
//! of the caller. Outside of the window, the script releases names, but grants and extends nothing. So an admission
//! that arrives late, or after the clock was set back, writes nothing.
//!
//! If a reply is lost, the request is sent once more on another connection. The script finds the owner in the entry, so
//! an admission that was granted already gets its first token again. The second attempt of a release may find the entry
//! of a new holder. If the new holder acquired the name before the call began, the lease had been lost. Otherwise, the
//! first attempt counts as the release.
//!
//! If an admission was sent twice, its first copy may arrive after the run has ended. So the grant of the second copy
//! also revokes the owner: the script grants this owner nothing more until the window of the first copy has ended. If it
//! stays unknown whether an admission was granted, a later call releases its names, and revokes the owner.

use std::sync::Arc;
use std::time::Duration;

use crate::base::error::InvalidOptions;
use crate::store::event_mutex::delegate::delegate;
use crate::store::server::{attempts::Server, server_builder::server_builder};

mod address;
mod connection;
mod engine;
mod health;
mod run_lines;
mod scripts;
mod server_error;
mod topology;
mod wait_for_replicas;

use address::Address;
use engine::RedisEngine;

/// A store on a Redis server (6.2 or newer) or on Valkey, for all processes that reach this server. The store supports
/// all methods of [`EventMutex`](crate::EventMutex) except [`lifeline`](crate::EventMutex::lifeline).
///
/// A protected run costs two commands: one call of a script for the admission, and one for the release. The store
/// connects at its first command, so a tick without a due event opens no connection. The store needs no asynchronous
/// runtime. Inside a runtime, each call blocks its thread.
///
/// # Keys
///
/// All keys are in the database that the URL names. A key is the prefix in braces, a colon, and the text of the
/// [name](crate::MutexName). The default prefix is `soloist`.
///
/// | key | value | expires |
/// | --- | --- | --- |
/// | `{soloist}:lease/reports` | the holder of the lease of `reports` | with the lease |
/// | `{soloist}:claim/reports/reports/2026-03-01T02:30:00Z` | the run that took this occurrence of `reports` | with the claim |
/// | `{soloist}:claim/reports/weekly/2026-03-01T02:30:00Z` | the run that took this occurrence of `weekly`, an event that shares the mutex `reports` | with the claim |
/// | `{soloist}:permit/reports/reports/day@2026-03-01` | the run that took the permit for this [period](crate::Period) | with the permit |
/// | `{soloist}:mark/reports/reports/seen…` | the time since which an event that [catches up](crate::Event::catch_up) is known | with the marker |
/// | `{soloist}:mark/shop/shop/paused` | the [pause](crate::Schedule::pause) of a schedule | with the marker |
/// | `{soloist}:runs/reports` | the [log of runs](crate::Schedule::with_run_log) of `reports`: a hash with a line for each run in the log | never |
/// | `{soloist}:token` | the last fencing token | 30 days after the last grant |
/// | `{soloist}:revoked` | revoked owners: a copy of their admission may still arrive; the server refuses this copy | after the timeout of a call and one more second |
/// | `{soloist}:none` | this key never exists; a new connection asks a node of a cluster for it, to learn whether the node has the slot | |
///
/// The prefix is the hash tag of all keys, so that all keys lie on one hash slot of a cluster.
///
/// The value of a lease, claim or marker is a text such as
/// `v1 OWNER token=1772366400000000 term=60000 since=2026-03-01T02:30:00.000Z host=web-1 app=shop`. `OWNER` ends with the
/// process id. In a key, each byte of a name that is not plain ASCII is written as `%XX`. So are the space and the
/// characters `/ % { } " ' \`. To free a name by hand, delete its key, or call
/// [`break_lease`](crate::EventMutex::break_lease). If a value does not begin with `v1`, each request for its name fails,
/// and the value is not changed.
///
/// # What it promises, and what Redis does not
///
/// Terms are measured on the server's clock. The lease of a killed process stays until its term ends.
///
/// A released name stays free, even if the server's clock is set to another time. If the clock is set
///
/// - **back**, the lease of a killed process ends one term after the next admission that asks for it. A claim ends in
///   the same way, and so does the minimum hold of [`hold_at_least`](crate::Event::hold_at_least). If such a lease
///   blocks an admission, the report says that the holder's `since` lies in the future, and the skip [counts as a
///   failure](crate::SkipReason::is_failure). If such a claim blocks an admission, the report says nothing special.
///   [`check`](crate::EventMutex::check) warns of such a clock. A pause lasts until the server's clock shows the end of
///   the pause.
/// - **forward**, leases and claims end early. A run is then cancelled at its next renewal. An occurrence may run
///   twice, the second time with a higher [fencing token](crate::FencingToken).
///
/// Redis copies a write to its replicas after it has answered. So a failover, or a restart without data, can lose a
/// lease or a claim that was granted a moment before. Another owner can then acquire the name. This second holder has a
/// higher [fencing token](crate::FencingToken), unless the clock of the new primary is behind.
/// [`wait_for_replicas`](RedisMutexBuilder::wait_for_replicas) makes such a loss rarer.
/// [`check`](crate::EventMutex::check) warns if the server has replicas, but no call waits for them. The server must
/// not evict keys: [`check`](crate::EventMutex::check) also warns of an eviction policy.
///
/// With `redis+sentinel://`, each new connection asks the Sentinels where the primary is. With `redis+cluster://`, each
/// new connection asks the nodes which of them has the slot of the prefix. During a failover, calls fail as if the
/// server did not answer, until a new primary has taken over. While the slot is being moved to another node, calls also
/// fail, and nothing is granted.
///
/// A call takes two seconds at most, or the [`timeout`](RedisMutexBuilder::timeout) that is set. This time includes the
/// look-up of the host and the handshake. [`break_lease`](crate::EventMutex::break_lease) makes two calls.
///
/// If an answer is lost, the request is sent once more on a new connection. If it stays unknown whether a name was
/// granted, a later call of this process releases the name first, and spends at most a quarter of its time on that. If
/// the last handle of the store is dropped, such a release is tried once more. If a process ends before it gets an
/// answer, its lease and its claim stay until their terms end.
///
/// A release deletes the key of the name. If the reply to a release is lost, and the second attempt finds the name
/// free, the release counts as done, even if the server had lost the lease before. If the second attempt finds an owner
/// that acquired the name before the call began, the lease was lost, and the release reports that.
///
/// The user in the URL needs `+@connection +evalsha +script|load +time +mget +set +del +pttl +pexpire` on
/// the keys `~{soloist}:*`. Some features need more rights:
///
/// | feature | rights |
/// | --- | --- |
/// | a [log of runs](crate::Schedule::with_run_log) | `+hgetall +hget +hmget +hset +hincrby +hdel` |
/// | [`check`](crate::EventMutex::check) | `+info` |
/// | Sentinels | `+role` |
/// | `?wait=1` | `+wait` |
/// | a list of [leases with a prefix](crate::store::Names::LeasesWithPrefix), which reads all keys of the database | `+scan` |
///
/// A call is retried after short random pauses, until its time limit, in these cases: the server has no room for
/// another connection, is being started, refuses connections, or is blocked by a script of another client.
///
/// Clones are cheap, and share their connections: at most eight idle connections, which are closed about a second after
/// their last use. Concurrent calls open as many more connections as they need. A forked child process opens its own
/// connections.
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
    /// Returns a store on the server, and in the database, that the URL names. The store connects at the first call.
    ///
    /// | URL | server |
    /// | --- | --- |
    /// | `redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]` | over TCP; port 6379, database 0 |
    /// | `rediss://…` | over TCP with TLS; needs the feature `redis-tls` |
    /// | `redis+unix:///PATH[?db=DATABASE&user=USER&pass=PASSWORD]` | over a socket of this host |
    /// | `redis+sentinel://[[USER]:PASSWORD@]HOST[:PORT][,HOST…]/NAME[/DATABASE]` | the primary that these [Sentinels](https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/) watch under this name; port 26379. `USER` and `PASSWORD` are for the primary, `?sentinel_user=` and `?sentinel_password=` for the Sentinels |
    /// | `redis+cluster://[[USER]:PASSWORD@]HOST[:PORT][,HOST…]` | the node of a [cluster](https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/) that has the slot of the prefix; list any of the nodes |
    /// | `rediss+sentinel://…`, `rediss+cluster://…` | a primary or a cluster over TLS |
    /// | `…?prefix=billing&timeout=500ms` | with these options of the [builder](RedisMutexBuilder) |
    ///
    /// With `?wait=1`, an admission, a renewal or a release succeeds only after a replica [has confirmed
    /// it](RedisMutexBuilder::wait_for_replicas).
    ///
    /// Without TLS, the password goes over the network in plain text, because Redis has no other login.
    /// [`check`](crate::EventMutex::check) warns of a server without TLS on another host.
    ///
    /// # Errors
    ///
    /// The URL has none of these forms. No error message shows the user or the password in the URL.
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
    ///     "the prefix of keys in redis has to be 1 to 100 visible ASCII characters without braces, as in `prefix(\"shop\")` or ?prefix=shop"
    /// );
    /// # Ok(())
    /// # }
    /// ```
    pub struct RedisMutexBuilder(Address) of RedisMutex on RedisEngine with "redis-tls";

    /// Sets the prefix, which is the hash tag of all keys: 1 to 100 visible ASCII characters without braces. The
    /// default is the prefix in the URL, or `soloist`. Programs with different prefixes don't see each other's leases.
    prefix: "soloist";

    /// Sets the longest time of a call: a millisecond to ten minutes. The default is the timeout in the URL, or two
    /// seconds. The time includes the look-up of the host, the connection, the TLS handshake, the login, and a second
    /// attempt.
    timeout: Duration::from_secs(2), in TIMEOUTS;
}

/// The shortest and the longest timeout of a call.
const TIMEOUTS: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(600)];

impl RedisMutexBuilder {
    /// Sets how many replicas must confirm an admission, a renewal or a release before the call returns. The default is
    /// the number in the URL, as in `?wait=1`, or 0. If too few replicas confirm in time, the call fails:
    ///
    /// - A new lease or claim is released.
    /// - A renewal is retried until the lease ends. Then the run is cancelled, so that no run goes on under a primary
    ///   that is cut off from its replicas.
    /// - A release, or the end of a pause, may have taken effect on the primary.
    pub fn wait_for_replicas(mut self, replicas: u32) -> Self {
        if let Ok(address) = &mut self.options.address {
            address.replicas = replicas;
        }
        self
    }
}

delegate!(impl EventMutex for RedisMutex, |this| &*this.0);
