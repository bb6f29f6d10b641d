//! The trait `Session`, a connection to an SQL server of any kind, and where that is.

use std::fmt;
use std::time::Duration;

use super::statements::{Dialect, TextRow};
use crate::store::remote::failure::Failure;
#[cfg(any(feature = "mysql-tls", feature = "postgres-tls"))]
use crate::store::remote::tls::Tls;
use crate::time::clock::moment::Moment;

/// One connection to a server.
pub(crate) trait Session: Sized + Send + 'static {
    const DIALECT: Dialect;

    /// Where the server is, and who we are to it. It is displayed without user and password.
    type Address: fmt::Display + Send + Sync + 'static;

    fn open(target: &Target<Self::Address>, until: Moment) -> Result<Self, Failure>;

    fn is_closed(&mut self) -> bool;

    /// Has the statements carried out, all or none, and hears the rows of all of them, one behind the other. It ends at
    /// `until`, however little is missing. A refusal that may pass leaves the session as it was.
    fn query(&mut self, statements: &str, until: Moment) -> Result<Vec<TextRow>, Failure>;

    /// What to write behind the URL for TLS, where what is said may be read on its way.
    fn plaintext(address: &Self::Address) -> Option<&'static str>;
}

/// A server, and how it is reached.
pub(crate) struct Target<A> {
    pub(crate) address: A,
    /// How long one call takes at most.
    pub(crate) timeout: Duration,
    #[cfg(any(feature = "mysql-tls", feature = "postgres-tls"))]
    #[cfg_attr(not(all(feature = "mysql-tls", feature = "postgres-tls")), allow(dead_code))]
    // One of the two has none.
    pub(crate) tls: Tls,
}

impl<A> Target<A> {
    /// The longest time that a statement waits for a row that another transaction has locked: so much less than a call may
    /// last on a connection that was idle, that the server says so in time.
    pub(crate) fn lock_timeout(&self) -> Duration {
        self.timeout / 4
    }
}

/// What `health` tells of this: the second column of each row that has it in the first.
pub(crate) fn told<'a>(health: &'a [TextRow], what: &str) -> Vec<&'a str> {
    let rows = health.iter().filter(|row| row.first().is_some_and(|first| first == what));
    rows.filter_map(|row| row.get(1).map(String::as_str)).collect()
}
