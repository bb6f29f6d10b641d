//! TLS: the trusted roots, and a certificate of our own.

use std::io;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::base::error::InvalidOptions;

/// What the user gave, as PEM.
#[derive(Default)]
pub(crate) struct TlsOptions {
    pub(crate) roots: Option<Vec<u8>>,
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
}

/// The same, read.
pub(crate) struct Tls {
    roots: Option<Vec<CertificateDer<'static>>>,
    client: Option<ClientCertificate>,
    config: OnceLock<Arc<ClientConfig>>,
}

struct ClientCertificate {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// Both, as the user gave them.
    #[cfg(feature = "mysql-tls")]
    pem: (Vec<u8>, Vec<u8>),
}

impl TlsOptions {
    pub(crate) fn check(self) -> Result<Tls, InvalidOptions> {
        let client = self.client.map(|pem| {
            let key = PrivateKeyDer::from_pem_slice(&pem.1).map_err(|error| wrong("key of the client", &error))?;
            let chain = certificates(&pem.0, "certificate of the client")?;
            Ok(ClientCertificate {
                chain,
                key,
                #[cfg(feature = "mysql-tls")]
                pem,
            })
        });
        Ok(Tls {
            roots: self.roots.map(|pem| certificates(&pem, "root certificates")).transpose()?,
            client: client.transpose()?,
            config: OnceLock::new(),
        })
    }
}

impl Tls {
    /// What a connection is made with; the roots of the system are read when it is needed for the first time.
    pub(crate) fn config(&self) -> io::Result<Arc<ClientConfig>> {
        match self.config.get() {
            Some(config) => Ok(Arc::clone(config)),
            None => Ok(Arc::clone(self.config.get_or_init({
                let config = Arc::new(self.configure()?);
                || config
            }))),
        }
    }

    fn configure(&self) -> io::Result<ClientConfig> {
        let mut roots = RootCertStore::empty();
        self.roots()?.into_iter().try_for_each(|root| roots.add(root)).map_err(io::Error::other)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(io::Error::other)?.with_root_certificates(roots);
        match &self.client {
            None => Ok(config.with_no_client_auth()),
            Some(ClientCertificate { chain, key, .. }) => {
                config.with_client_auth_cert(chain.clone(), key.clone_key()).map_err(io::Error::other)
            }
        }
    }

    /// Who is trusted: the roots that the user gave, or those of the system.
    pub(crate) fn roots(&self) -> io::Result<Vec<CertificateDer<'static>>> {
        if let Some(ours) = &self.roots {
            return Ok(ours.clone());
        }
        // One that can't be read is none that we need; if all are so, nobody is trusted.
        let system = rustls_native_certs::load_native_certs().certs;
        let is_readable = |root: &CertificateDer<'static>| RootCertStore::empty().add(root.clone()).is_ok();
        let readable: Vec<_> = system.into_iter().filter(is_readable).collect();
        if readable.is_empty() {
            let what = "the system trusts no root certificate; install ca-certificates, or name your own";
            return Err(io::Error::other(what));
        }
        Ok(readable)
    }

    /// The certificate of our own and its key, as PEM.
    #[cfg(feature = "mysql-tls")]
    pub(crate) fn client_pem(&self) -> Option<&(Vec<u8>, Vec<u8>)> {
        self.client.as_ref().map(|client| &client.pem)
    }
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, InvalidOptions> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => {
            Err(InvalidOptions::new(format!("the {what}: there is no certificate in the PEM")))
        }
        certificates => certificates.map_err(|error| wrong(what, &error)),
    }
}

fn wrong(what: &str, error: &rustls::pki_types::pem::Error) -> InvalidOptions {
    InvalidOptions::new(format!("the {what}: {error}"))
}
