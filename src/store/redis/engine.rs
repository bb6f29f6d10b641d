//! The requests to a Redis server on one connection. Scripts carry out the releases, the admissions and most reads.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use redis::cmd;

use super::address::Address;
use super::connection::Connection;
use super::scripts::{self, LOOK, Prefix, looked, replies};
use super::server_error::read;
use super::topology;
use crate::base::error::InvalidOptions;
use crate::lease::name::MutexName;
use crate::store::event_mutex::held::Names;
use crate::store::server::engine::{Answers, Attempt, Engine, FoundEntry, Health, Request};
use crate::store::server::failure::Failure;
use crate::store::server::server_builder::Target;
use crate::time::clock::moment::Moment;

/// The most names that one call of the script `look` reads. Such a call takes about a millisecond.
const LOOKED_AT_ONCE: usize = 1000;

/// The number of keys that the server examines for one reply to `SCAN`.
const SCANNED_AT_ONCE: u32 = 1000;

/// The longest time after the deadline of a call for which the server may still accept a copy of the request. The
/// server checks the deadline on its own clock, which drifts from the clock of this process.
const MARGIN: Duration = Duration::from_secs(1);

pub(super) struct RedisEngine {
    pub(super) target: Target<Address>,
    pub(super) prefix: Prefix,
    /// The server that answered last, as its index in the list of the URL. This server is asked first.
    answered_last: AtomicUsize,
}

impl RedisEngine {
    pub(super) fn new(target: Target<Address>) -> Result<Self, InvalidOptions> {
        let prefix = Prefix::new(&target.namespace)?;
        Ok(Self { target, prefix, answered_last: AtomicUsize::new(0) })
    }
}

impl Engine for RedisEngine {
    /// After the deadline of a call, the scripts grant and extend nothing.
    const COMMITS_LATE: bool = false;

    type Address = Address;
    type Connection = Connection;

    fn target(&self) -> &Target<Address> {
        &self.target
    }

    fn open(&self, until: Moment) -> Result<Connection, Failure> {
        let (target, Address { topology, servers, .. }) = (&self.target, &self.target.address);
        let connected = match topology {
            None => Connection::to(target, &servers[0], None, until).map(|(connection, _)| connection),
            Some(topology) => topology::connect(target, topology, &self.prefix, &self.answered_last, until),
        };
        connected.map_err(Failure::undone)
    }

    fn carry_out(&self, attempt: &mut Attempt<Connection>, request: Request<'_>) -> Result<Answers, Failure> {
        let mut answers = self.call_script(attempt, request)?;
        if self.target.address.replicas > 0 {
            self.wait_for_replicas(attempt, request.admissions, &mut answers);
        }
        Ok(answers)
    }

    fn held(&self, attempt: &mut Attempt<Connection>, names: Names<'_>) -> Result<Vec<FoundEntry>, Failure> {
        let listed: Vec<MutexName>;
        let each = if let Names::Each(each) = names {
            each
        } else {
            let listed_at = |text: &str| MutexName::read_key_text(text).filter(|name| names.contain(name));
            listed = Vec::from_iter(self.scan(attempt, &names.beginning_of_keys(), listed_at)?);
            &listed
        };
        let mut found = Vec::new();
        // Each part is read in its own round trip, because the length of the replies in one round trip is limited.
        for names in each.chunks(LOOKED_AT_ONCE) {
            let keys: Vec<String> = names.iter().map(|name| self.prefix.key(name)).collect();
            let answers = replies(attempt, [LOOK.call(names.len()).arg(keys).take()])?;
            found.extend(looked(names, &answers[0])?);
        }
        Ok(found)
    }

    fn health(&self, attempt: &mut Attempt<Connection>) -> Result<Health, Failure> {
        self.read_health(attempt)
    }
}

impl RedisEngine {
    /// Ends leases and claims, and decides on admissions, by calls of the script `carry_out`.
    pub(super) fn call_script(
        &self,
        attempt: &mut Attempt<Connection>,
        request: Request<'_>,
    ) -> Result<Answers, Failure> {
        scripts::carry_out(attempt, &self.prefix, self.target.timeout + MARGIN, request)
    }

    /// Reads all keys of this store whose text behind the prefix begins with `beginning`. Passes each such text to
    /// `parse`, and returns the results. A key is left out if its result is `None`.
    pub(super) fn scan<T: Ord>(
        &self,
        attempt: &mut Attempt<Connection>,
        beginning: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<BTreeSet<T>, Failure> {
        let prefix = self.prefix.with("");
        let pattern = beginning_with(&self.prefix.with(beginning));
        let mut found = BTreeSet::new();
        let mut cursor = None;
        while cursor.as_deref() != Some("0") {
            let mut scan = cmd("SCAN");
            scan.arg(cursor.as_deref().unwrap_or("0")).arg("MATCH").arg(&pattern).arg("COUNT").arg(SCANNED_AT_ONCE);
            // `SCAN` names no key, so a node of a cluster answers `SCAN` even if another node has the slot of the
            // prefix. The second command fails if this node does not have the slot.
            let answers = replies(attempt, [scan, topology::question_of_slot(&self.prefix)])?;
            let (next, keys): (String, Vec<Vec<u8>>) = read(&answers[0])?;
            // The store's keys are text. Other keys are left out.
            let text = |key| str::from_utf8(key).ok()?.strip_prefix(&prefix);
            found.extend(keys.iter().filter_map(|key| parse(text(key)?)));
            cursor = Some(next);
        }
        Ok(found)
    }
}

/// Returns the pattern of `SCAN` for the keys that begin with this text.
fn beginning_with(text: &str) -> String {
    let is_special = |char: &char| matches!(char, '*' | '?' | '[' | ']' | '\\');
    let escaped = text.chars().flat_map(|char| is_special(&char).then_some('\\').into_iter().chain([char]));
    escaped.chain(['*']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_finds_the_keys_with_a_beginning_and_no_others() {
        let prefix = Prefix::new(r"a*[b]?\:").unwrap();
        for (names, pattern) in [
            (Names::MarksOf("a"), r"{a\*\[b\]\?\\:}:mark/a/*"),
            (Names::LeasesWithPrefix("ü*/"), r"{a\*\[b\]\?\\:}:lease/%C3%BC\*%2F*"),
        ] {
            assert_eq!(beginning_with(&prefix.with(names.beginning_of_keys())), pattern);
        }
    }
}
