//! The program `soloist`: keeps commands from overlapping, and shows and frees the leases of a store.

fn main() -> std::process::ExitCode {
    // The driver for MySQL accepts only this provider, and no other code in this process installs one.
    #[cfg(feature = "mysql-tls")]
    let _ = rustls::crypto::ring::default_provider().install_default();
    soloist::cli::run_tool()
}
