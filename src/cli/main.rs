//! The program `soloist`: keeps commands from overlapping, and shows and frees the leases of a store.

fn main() -> std::process::ExitCode {
    // The driver for MySQL uses TLS only with the process's default provider of cryptography. No other code in this
    // process installs a provider.
    #[cfg(feature = "mysql-tls")]
    let _ = rustls::crypto::ring::default_provider().install_default();
    soloist::cli::run_tool()
}
