//! Encryption, and who is trusted.

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::stream::Timed;
use crate::error::InvalidOptions;

/// What the user gave, as PEM.
#[derive(Default)]
pub(super) struct TlsOptions {
    pub(super) roots: Option<Vec<u8>>,
    pub(super) client: Option<(Vec<u8>, Vec<u8>)>,
}

/// The same, read.
pub(super) struct Tls {
    roots: Option<Vec<CertificateDer<'static>>>,
    client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    config: OnceLock<Arc<ClientConfig>>,
}

impl TlsOptions {
    pub(super) fn check(self) -> Result<Tls, InvalidOptions> {
        let client = self.client.map(|(chain, key)| {
            let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| wrong("key of the client", &error))?;
            Ok((certificates(&chain, "certificate of the client")?, key))
        });
        Ok(Tls {
            roots: self.roots.map(|pem| certificates(&pem, "root certificates")).transpose()?,
            client: client.transpose()?,
            config: OnceLock::new(),
        })
    }
}

impl Tls {
    /// The handshake takes place with the first byte that is sent.
    pub(super) fn wrap(&self, host: &str, socket: Timed) -> io::Result<StreamOwned<ClientConnection, Timed>> {
        let config = match self.config.get() {
            Some(config) => Arc::clone(config),
            None => Arc::clone(self.config.get_or_init({
                let config = Arc::new(self.configure()?);
                || config
            })),
        };
        let host = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(StreamOwned::new(ClientConnection::new(config, host).map_err(io::Error::other)?, socket))
    }

    /// The roots of the system are read when they are needed for the first time.
    fn configure(&self) -> io::Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        if let Some(ours) = &self.roots {
            ours.iter().try_for_each(|root| roots.add(root.clone())).map_err(io::Error::other)?;
        } else {
            // One that can't be read is none that we need; if all are so, nobody is trusted.
            let system = rustls_native_certs::load_native_certs();
            if roots.add_parsable_certificates(system.certs).0 == 0 {
                let what = "the system trusts no root certificate; install ca-certificates, or name your own";
                return Err(io::Error::new(io::ErrorKind::NotFound, what));
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(io::Error::other)?.with_root_certificates(roots);
        match &self.client {
            None => Ok(config.with_no_client_auth()),
            Some((chain, key)) => {
                config.with_client_auth_cert(chain.clone(), key.clone_key()).map_err(io::Error::other)
            }
        }
    }
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, InvalidOptions> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => {
            Err(InvalidOptions::new(format!("the {what} for redis: there is no certificate in the PEM")))
        }
        certificates => certificates.map_err(|error| wrong(what, &error)),
    }
}

fn wrong(what: &str, error: &rustls::pki_types::pem::Error) -> InvalidOptions {
    InvalidOptions::new(format!("the {what} for redis: {error}"))
}
