//! The TLS options of the MySQL driver.

use std::io;

use mysql_async::{ClientIdentity, OptsBuilder, SslOpts};
use rustls::crypto::CryptoProvider;

use super::address::Target;
use crate::store::remote::server_url::Encryption;

/// The same options; with encryption, if the URL asks for it.
pub(super) fn encrypted(options: OptsBuilder, target: &Target) -> io::Result<OptsBuilder> {
    if target.address.encryption == Encryption::None {
        return Ok(options);
    }
    target.tls.config()?; // What is wrong with a certificate is said in the same words as for the other stores.
    // The driver asks for the process's own. Where there is none, and several are built in, that panics.
    if CryptoProvider::get_default().is_none() {
        let _ = rustls::crypto::ring::default_provider().install_default(); // Somebody else was a moment faster.
    }
    let roots = target.tls.roots()?.iter().map(|root| root.to_vec().into()).collect();
    let mut tls = SslOpts::default().with_root_certs(roots).with_disable_built_in_roots(true);
    if let Some((chain, key)) = target.tls.client_pem() {
        tls = tls.with_client_identity(Some(ClientIdentity::new(chain.clone().into(), key.clone().into())));
    }
    Ok(options.ssl_opts(tls))
}
