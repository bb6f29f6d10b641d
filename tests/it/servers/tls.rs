//! Certificates of an authority that only tests trust.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Writes `ca.pem`, and `server.pem` with `server.key` for 127.0.0.1 and localhost.
pub(super) fn write_certificates(directory: &Path) {
    let names = "subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n";
    fs::write(directory.join("server.extensions"), names).expect("the directory takes a file");
    let key = "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(directory, &format!("{key} -x509 -days 30 -subj /CN=authority -keyout ca.key -out ca.pem"));
    openssl(directory, &format!("{key} -subj /CN=localhost -keyout server.key -out server.request"));
    let sign = "x509 -req -in server.request -CA ca.pem -CAkey ca.key -CAcreateserial -days 30";
    openssl(directory, &format!("{sign} -extfile server.extensions -out server.pem"));
}

fn openssl(directory: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    let output = command.current_dir(directory).args(arguments.split(' ')).output();
    let output = output.expect("openssl is installed; tests/run installs it, or says what to install");
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}
