//! Certificates for one test, made by `openssl`.

use std::path::{Path, PathBuf};
use std::process::Command;

fn openssl(folder: &Path, words: &str) {
    let output = Command::new("openssl").args(words.split(' ')).current_dir(folder).output();
    let output = output.expect("openssl: install the Debian package `openssl`");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A certificate authority, and a server's certificate for 127.0.0.1 signed by it, with its key;
/// each in a file of `folder`, in PEM.
///
/// # Panics
///
/// If `openssl` is missing, with the package's name, or fails.
#[must_use]
pub fn certificates(folder: &Path) -> [PathBuf; 3] {
    let san = "subjectAltName=IP:127.0.0.1,DNS:localhost\n";
    std::fs::write(folder.join("san"), san).expect("a folder to write to");
    let curve = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(folder, &format!("req -x509 {curve} -days 2 -subj /CN=ca -keyout ca.key -out ca.pem"));
    openssl(folder, &format!("req {curve} -subj /CN=server -keyout server.key -out server.csr"));
    openssl(
        folder,
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san \
         -out server.pem",
    );
    ["ca.pem", "server.pem", "server.key"].map(|name| folder.join(name))
}
