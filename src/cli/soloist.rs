//! The program `soloist`: protects commands from running over themselves, and shows and frees what a store has.

fn main() -> std::process::ExitCode {
    // No other code in this process does so, and the driver for MySQL takes no other.
    #[cfg(feature = "mysql-tls")]
    let _ = rustls::crypto::ring::default_provider().install_default();
    soloist::cli::run_tool()
}
