//! What can be chosen about a server.

use std::fmt;
use std::time::Duration;

use super::MysqlMutex;
use super::address::{Address, Target};
use crate::base::error::InvalidOptions;
#[cfg(feature = "mysql-tls")]
use crate::store::remote::tls::TlsOptions;
use crate::store::sql::SqlMutex;
use crate::store::sql::options::SqlOptions;

/// Options of a [`MysqlMutex`]; what is wrong with them is told by [`build`](Self::build).
///
/// ```
/// use soloist::MysqlMutex;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mutex = MysqlMutex::builder("mysql://app:secret@127.0.0.1/app").table("billing_mutexes").build()?;
/// let error = MysqlMutex::builder("mysql://app:secret@127.0.0.1/app").table("Billing mutexes").build().unwrap_err();
/// assert!(error.to_string().starts_with("the name of a table for mutexes is 1 to 48 of a-z, 0-9 and _"));
/// # Ok(())
/// # }
/// ```
#[must_use = "it opens nothing until it is built"]
pub struct MysqlMutexBuilder {
    address: Result<Address, InvalidOptions>,
    options: SqlOptions,
    #[cfg(feature = "mysql-tls")]
    tls: TlsOptions,
}

impl MysqlMutexBuilder {
    pub(super) fn new(url: &str) -> Self {
        Self {
            address: Address::of_url(url),
            options: SqlOptions::default(),
            #[cfg(feature = "mysql-tls")]
            tls: TlsOptions::default(),
        }
    }

    /// The table, `soloist_mutexes` unless it is set: programs with different tables don't see each other's mutexes. 1 to
    /// 48 of a-z, 0-9 and _, no digit first; that of its database may stand before it, as in `app.mutexes`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mutex = soloist::MysqlMutex::builder("mysql://app:secret@127.0.0.1/app").table("app.mutexes").build()?;
    /// assert!(format!("{mutex:?}").contains("app.mutexes"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.options.table = table.into();
        self
    }

    /// How long one call takes at most, four seconds unless it is set; 100 milliseconds to a minute. The look-up of the
    /// host, the connecting, the TLS handshake, the login, and a second attempt are part of it.
    ///
    /// The server waits for what somebody's transaction has for a second at least. With less than four seconds for a call,
    /// that can be longer than its first attempt lasts, and the error is then one of the store and not of the name.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = soloist::MysqlMutex::builder("mysql://app:secret@127.0.0.1/app");
    /// let mutex = builder.timeout(Duration::from_secs(2)).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// Who must have signed the server's certificate, as PEM: the roots of the system unless it is set.
    ///
    /// ```no_run
    /// use soloist::MysqlMutex;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let ours = std::fs::read("/etc/myapp/ca.pem")?;
    /// let url = "mysql://app:secret@db.internal/app?ssl-mode=REQUIRED";
    /// let mutex = MysqlMutex::builder(url).root_certificates(ours).build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "mysql-tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "mysql-tls")))]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.roots = Some(pem.into());
        self
    }

    /// A certificate of our own and its key, as PEM, for servers that ask for one.
    ///
    /// ```no_run
    /// use std::fs::read;
    /// use soloist::MysqlMutex;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = MysqlMutex::builder("mysql://app@db.internal/app?ssl-mode=REQUIRED");
    /// let mutex = builder.client_certificate(read("/etc/myapp/cert.pem")?, read("/etc/myapp/key.pem")?).build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "mysql-tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "mysql-tls")))]
    pub fn client_certificate(mut self, chain_pem: impl Into<Vec<u8>>, key_pem: impl Into<Vec<u8>>) -> Self {
        self.tls.client = Some((chain_pem.into(), key_pem.into()));
        self
    }

    /// The mutexes; nothing is connected yet.
    ///
    /// # Errors
    ///
    /// The URL, the table's name, the time-out, or a certificate is not what it should be.
    ///
    /// ```
    /// let error = soloist::MysqlMutex::builder("mysql://127.0.0.1/app").build().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "the url of a mysql server has no user, as in mysql://user:password@host/database"
    /// );
    /// ```
    pub fn build(self) -> Result<MysqlMutex, InvalidOptions> {
        let options = self.options.check()?;
        let target = Target {
            address: self.address?,
            // The server counts them in seconds.
            lock_timeout: options.lock_timeout().as_secs().max(1),
            #[cfg(feature = "mysql-tls")]
            tls: self.tls.check()?,
        };
        Ok(MysqlMutex(SqlMutex::new(target, options)))
    }
}

/// Without user and password.
impl fmt::Debug for MysqlMutexBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = self.address.as_ref().map_or_else(ToString::to_string, ToString::to_string);
        f.debug_struct("MysqlMutexBuilder")
            .field("server", &server)
            .field("table", &self.options.table)
            .field("timeout", &self.options.timeout)
            .finish_non_exhaustive()
    }
}
