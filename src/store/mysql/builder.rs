//! The options of a `MysqlMutex`.

use super::address::Address;
use crate::store::{remote::server_builder::server_builder, sql::options::DEFAULT_TIMEOUT, sql::statements::TABLE};

server_builder! {
    /// Options of a [`MysqlMutex`](crate::MysqlMutex); [`build`](Self::build) says what is wrong with them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::MysqlMutex;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = MysqlMutex::builder("mysql://app:secret@127.0.0.1/app").table("app.mutexes");
    /// let mutex = builder.timeout(Duration::from_secs(2)).build()?;
    /// assert!(format!("{mutex:?}").contains("app.mutexes"));
    ///
    /// let error = MysqlMutex::builder("mysql://app:secret@127.0.0.1/app").table("Billing mutexes").build().unwrap_err();
    /// assert!(error.to_string().starts_with("the name of a table for mutexes is 1 to 48 of a-z, 0-9 and _"));
    /// # Ok(())
    /// # }
    /// ```
    pub struct MysqlMutexBuilder(Address) with "mysql-tls";

    /// The table, `soloist_mutexes` unless it is set: programs with different tables don't see each other's mutexes. 1 to
    /// 48 of a-z, 0-9 and _, no digit first; the name of its database may stand before it, as in `app.mutexes`.
    table: TABLE;

    /// The longest time that one call takes, four seconds unless it is set; 100 milliseconds to a minute. It includes the
    /// look-up of the host, the connecting, the TLS handshake, the login, and a second attempt.
    ///
    /// The server waits for a row that another transaction has locked for a second at least. With less than four seconds
    /// for a call, that can be longer than its first attempt lasts, and the error is then one of the store and not of the
    /// name.
    timeout: DEFAULT_TIMEOUT;
}
