//! The options that the builders of all stores on a server have in common, and the methods that set them.

use std::fmt;
use std::time::Duration;

use super::server_url::{ServerAddress, ServerUrl};
#[cfg(feature = "server-tls")]
use super::tls::Tls;
use crate::base::error::InvalidOptions;
use crate::time::clock::shown::ExactDuration;

/// A server: its address, the namespace on it, and the longest time of a call.
pub(crate) struct Target<A> {
    pub(crate) address: A,
    /// The prefix of the keys, or the name of the table.
    pub(crate) namespace: String,
    pub(crate) timeout: Duration,
    #[cfg(feature = "server-tls")]
    pub(crate) tls: Tls,
}

/// The options before they are checked. The store's `build` checks them.
pub(crate) type ServerOptions<A> = Target<Result<A, InvalidOptions>>;

impl<A: ServerAddress> ServerOptions<A> {
    /// Returns the options of a URL. `namespace` and `timeout` are the defaults for options that the URL does not have.
    pub(crate) fn new(url: &str, namespace: &str, timeout: Duration) -> Self {
        let read = || {
            let mut url = ServerUrl::parse::<A>(url)?;
            let (namespace, timeout) = (url.take(A::NAMESPACE)?, url.take_timeout()?);
            Ok((A::of_url(&mut url)?, namespace, timeout))
        };
        let (address, of_url, timeout_of_url) = match read() {
            Ok((address, namespace, timeout)) => (Ok(address), namespace, timeout),
            Err(error) => (Err(error), None, None),
        };
        Self {
            address,
            namespace: of_url.unwrap_or_else(|| namespace.to_owned()),
            timeout: timeout_of_url.unwrap_or(timeout),
            #[cfg(feature = "server-tls")]
            tls: Tls::default(),
        }
    }

    /// Checks all options except the namespace, which the store checks.
    pub(crate) fn check(self, [shortest, longest]: [Duration; 2]) -> Result<Target<A>, InvalidOptions> {
        let timeout = self.timeout;
        if !(shortest..=longest).contains(&timeout) {
            let [timeout, shortest, longest] = [timeout, shortest, longest].map(ExactDuration);
            let what = format!("a timeout of {timeout} for a call of the store: use {shortest} to {longest}");
            return Err(InvalidOptions::new(what));
        }
        let address = self.address?;
        Ok(Target {
            #[cfg(feature = "server-tls")]
            tls: self.tls.check(&address)?,
            address,
            namespace: self.namespace,
            timeout,
        })
    }
}

/// Shows no user and no password.
impl<A: fmt::Display> fmt::Debug for ServerOptions<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = self.address.as_ref().map_or_else(ToString::to_string, ToString::to_string);
        f.debug_struct("ServerOptions")
            .field("server", &server)
            .field("namespace", &self.namespace)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Implements `Debug` for a public store, and defines its builder.
macro_rules! server_builder {
    (
        $(#[$builder_doc:meta])*
        pub struct $builder:ident($address:ty) of $store:ident on $engine:ident with $tls:tt;
        $(#[$namespace_doc:meta])*
        $namespace:ident: $default_namespace:expr;
        $(#[$timeout_doc:meta])*
        timeout: $default_timeout:expr, in $timeouts:expr;
    ) => {
        impl $store {
            /// Returns a builder that sets options.
            pub fn builder(url: &str) -> $builder {
                use $crate::store::server::server_builder::ServerOptions;

                $builder { options: ServerOptions::new(url, $default_namespace, $default_timeout) }
            }
        }

        impl std::fmt::Debug for $store {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        $(#[$builder_doc])*
        #[derive(Debug)]
        #[must_use = "a builder opens nothing until `build` is called"]
        pub struct $builder {
            options: $crate::store::server::server_builder::ServerOptions<$address>,
        }

        impl $builder {
            $(#[$namespace_doc])*
            pub fn $namespace(mut self, $namespace: impl Into<String>) -> Self {
                self.options.namespace = $namespace.into();
                self
            }

            $(#[$timeout_doc])*
            pub fn timeout(mut self, timeout: std::time::Duration) -> Self {
                self.options.timeout = timeout;
                self
            }

            /// Sets the certificates of the authorities that are trusted to sign the server's certificate, as PEM: the
            /// contents of a file, not its path. The default is the system's root certificates. If the URL leads to
            /// another host without TLS, `build` returns an error.
            #[cfg(feature = $tls)]
            pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
                self.options.tls.roots = Some(pem.into());
                self
            }

            /// Sets the client's certificate and its key, as PEM, for servers that ask for a client certificate. If the
            /// URL leads to another host without TLS, `build` returns an error.
            #[cfg(feature = $tls)]
            pub fn client_certificate(mut self, chain_pem: impl Into<Vec<u8>>, key_pem: impl Into<Vec<u8>>) -> Self {
                self.options.tls.client = Some((chain_pem.into(), key_pem.into()));
                self
            }

            /// Checks the options, and returns the store, which connects at the first call.
            ///
            /// # Errors
            ///
            /// The URL, the prefix or the table's name, the timeout, or a certificate is not valid.
            pub fn build(self) -> Result<$store, $crate::base::error::InvalidOptions> {
                use $crate::store::server::attempts::Server;

                let engine = $engine::new(self.options.check($timeouts)?)?;
                Ok($store(std::sync::Arc::new(Server::new(engine))))
            }
        }
    };
}
pub(crate) use server_builder;
