//! TLS: the trusted root certificates, and the client's certificate.

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::server_url::ServerAddress;
use crate::base::error::InvalidOptions;

const ROOTS: &str = "root_certificates";

const CLIENT: &str = "client_certificate";

/// The user's certificates, as PEM, and the TLS configuration that is made of them.
#[derive(Default)]
pub(crate) struct Tls {
    pub(crate) roots: Option<Vec<u8>>,
    /// The chain of the client's certificate, and its key.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
    config: OnceLock<Arc<ClientConfig>>,
}

impl Tls {
    /// Checks the certificates. They are refused if others on the network can read the connection to `address`, because
    /// then they have no effect.
    pub(crate) fn check<A: ServerAddress>(self, address: &A) -> Result<Self, InvalidOptions> {
        self.roots.as_ref().map(|pem| certificates(pem, ROOTS)).transpose()?;
        self.client()?;
        let method = if self.roots.is_some() { Some(ROOTS) } else { self.client.as_ref().map(|_| CLIENT) };
        match method.filter(|_| address.is_overheard()) {
            Some(method) => Err(InvalidOptions::new(format!(
                "`{method}(..)` has no effect, because the connection to another host is not encrypted: use TLS, with {} in \
                 the url",
                A::TLS
            ))),
            None => Ok(self),
        }
    }

    fn client(&self) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, InvalidOptions> {
        let Some((chain, key)) = &self.client else { return Ok(None) };
        let read = PrivateKeyDer::from_pem_slice(key).map_err(|_| wrong(CLIENT, "private key"))?;
        Ok(Some((certificates(chain, CLIENT)?, read)))
    }

    /// Returns the configuration of a connection. It uses the crypto provider of the process, or `ring` if the process
    /// has none. The first call reads the root certificates.
    pub(crate) fn config(&self) -> io::Result<Arc<ClientConfig>> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(self.configure()?);
        Ok(Arc::clone(self.config.get_or_init(|| config)))
    }

    fn configure(&self) -> io::Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        self.roots()?.into_iter().try_for_each(|root| roots.add(root)).map_err(io::Error::other)?;
        let default = CryptoProvider::get_default().cloned();
        let provider = default.unwrap_or_else(|| Arc::new(rustls::crypto::ring::default_provider()));
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(io::Error::other)?.with_root_certificates(roots);
        match self.client().map_err(io::Error::other)? {
            None => Ok(config.with_no_client_auth()),
            Some((chain, key)) => config.with_client_auth_cert(chain, key).map_err(io::Error::other),
        }
    }

    /// Returns the trusted roots: those of the user, or those of the system.
    pub(crate) fn roots(&self) -> io::Result<Vec<CertificateDer<'static>>> {
        if let Some(pem) = &self.roots {
            return certificates(pem, ROOTS).map_err(io::Error::other);
        }
        // Root certificates that can't be read are ignored. If no root certificate can be read, the result is an error.
        let system = rustls_native_certs::load_native_certs().certs;
        let is_readable = |root: &CertificateDer<'static>| RootCertStore::empty().add(root.clone()).is_ok();
        let readable: Vec<_> = system.into_iter().filter(is_readable).collect();
        if readable.is_empty() {
            let what = "the system trusts no root certificate; install ca-certificates, or pass your own to \
                        `root_certificates(..)` of the builder";
            return Err(io::Error::other(what));
        }
        Ok(readable)
    }
}

fn certificates(pem: &[u8], method: &str) -> Result<Vec<CertificateDer<'static>>, InvalidOptions> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    read.ok().filter(|found| !found.is_empty()).ok_or_else(|| wrong(method, "certificate"))
}

/// Returns the error of a PEM without this item. It does not use the text of the parser's error, which may show a key.
fn wrong(method: &str, item: &str) -> InvalidOptions {
    InvalidOptions::new(format!(
        "`{method}(..)`: there is no readable {item}: pass the contents of a PEM file and not its path; certificates come first, \
         then the key, which must not be encrypted"
    ))
}
