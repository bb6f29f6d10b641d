//! The options of a `RedisMutex`.

use std::time::Duration;

use super::address::Address;
use crate::store::remote::server_builder::server_builder;

server_builder! {
    /// Options of a [`RedisMutex`](crate::RedisMutex); [`build`](Self::build) says what is wrong with them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::RedisMutex;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = RedisMutex::builder("redis://127.0.0.1").prefix("billing:").timeout(Duration::from_millis(500));
    /// let mutex = builder.build()?;
    /// assert!(format!("{mutex:?}").contains("billing:"));
    ///
    /// let error = RedisMutex::builder("redis://127.0.0.1").prefix("{billing}").build().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "the prefix of keys in redis is 1 to 100 visible ASCII characters, and no braces"
    /// );
    /// # Ok(())
    /// # }
    /// ```
    pub struct RedisMutexBuilder(Address) with "redis-tls";

    /// The first characters of all keys, `soloist:` unless it is set: programs with different prefixes don't see each
    /// other's mutexes. 1 to 100 visible ASCII characters without braces.
    prefix: "soloist:";

    /// The longest time that one call takes, two seconds unless it is set; a millisecond to ten minutes. It includes the
    /// look-up of the host, the connecting, the TLS handshake, the login, and a second attempt.
    timeout: Duration::from_secs(2);
}
