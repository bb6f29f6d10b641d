//! What can be chosen about a server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::RedisMutex;
use super::address::{Address, Target};
use super::client::Client;
use super::keys::Prefix;
use crate::base::error::InvalidOptions;
use crate::store::remote::server::Server;
#[cfg(feature = "redis-tls")]
use crate::store::remote::tls::TlsOptions;

/// Options of a [`RedisMutex`]; what is wrong with them is told by [`build`](Self::build).
///
/// ```
/// use soloist::RedisMutex;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mutex = RedisMutex::builder("redis://127.0.0.1").prefix("billing:").build()?;
/// let error = RedisMutex::builder("redis://127.0.0.1").prefix("{billing}").build().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "the prefix of keys in redis is 1 to 100 visible ASCII characters, and no braces"
/// );
/// # Ok(())
/// # }
/// ```
#[must_use = "it opens nothing until it is built"]
pub struct RedisMutexBuilder {
    address: Result<Address, InvalidOptions>,
    prefix: String,
    timeout: Duration,
    #[cfg(feature = "redis-tls")]
    tls: TlsOptions,
}

impl RedisMutexBuilder {
    pub(super) fn new(url: &str) -> Self {
        Self {
            address: Address::of_url(url),
            prefix: "soloist:".to_owned(),
            timeout: Duration::from_secs(2),
            #[cfg(feature = "redis-tls")]
            tls: TlsOptions::default(),
        }
    }

    /// What all keys begin with, `soloist:` unless it is set: programs with different prefixes don't see each other's
    /// mutexes. 1 to 100 visible ASCII characters without braces.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mutex = soloist::RedisMutex::builder("redis://127.0.0.1").prefix("billing:").build()?;
    /// assert!(format!("{mutex:?}").contains("billing:"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long one call takes at most, two seconds unless it is set; a millisecond to ten minutes. The look-up of the
    /// host, the connecting, the TLS handshake, the login, and a second attempt are part of it.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mutex = soloist::RedisMutex::builder("redis://127.0.0.1").timeout(Duration::from_millis(500)).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Who must have signed the server's certificate, as PEM: the roots of the system unless it is set.
    ///
    /// ```no_run
    /// use soloist::RedisMutex;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let ours = std::fs::read("/etc/myapp/ca.pem")?;
    /// let mutex = RedisMutex::builder("rediss://cache.internal").root_certificates(ours).build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis-tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redis-tls")))]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls.roots = Some(pem.into());
        self
    }

    /// A certificate of our own and its key, as PEM, for servers that ask for one.
    ///
    /// ```no_run
    /// use std::fs::read;
    /// use soloist::RedisMutex;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = RedisMutex::builder("rediss://cache.internal");
    /// let mutex = builder.client_certificate(read("/etc/myapp/cert.pem")?, read("/etc/myapp/key.pem")?).build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "redis-tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "redis-tls")))]
    pub fn client_certificate(mut self, chain_pem: impl Into<Vec<u8>>, key_pem: impl Into<Vec<u8>>) -> Self {
        self.tls.client = Some((chain_pem.into(), key_pem.into()));
        self
    }

    /// The mutexes; nothing is connected yet.
    ///
    /// # Errors
    ///
    /// The URL, the prefix, the time-out, or a certificate is not what it should be.
    ///
    /// ```
    /// let error = soloist::RedisMutex::builder("redis:/cache").build().unwrap_err();
    /// assert_eq!(error.to_string(), "the url of a redis server has no host, as in redis://host:6379");
    /// ```
    pub fn build(self) -> Result<RedisMutex, InvalidOptions> {
        let address = self.address?;
        let prefix = Prefix::new(self.prefix)?;
        if !(Duration::from_millis(1)..=Duration::from_secs(600)).contains(&self.timeout) {
            let what = format!("a time-out of {:?} for redis is outside of a millisecond to ten minutes", self.timeout);
            return Err(InvalidOptions::new(what));
        }
        let target = Target {
            address,
            #[cfg(feature = "redis-tls")]
            tls: self.tls.check()?,
        };
        Ok(RedisMutex { client: Arc::new(Client::new(Server::new(target, self.timeout), prefix)) })
    }
}

/// Without user and password.
impl fmt::Debug for RedisMutexBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = self.address.as_ref().map_or_else(ToString::to_string, ToString::to_string);
        f.debug_struct("RedisMutexBuilder")
            .field("server", &server)
            .field("prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
