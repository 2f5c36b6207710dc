//! What `zookeeper+tls` needs to know: whom to trust, and optionally who we are.

use std::fs;

use zookeeper_client::TlsOptions;

/// Reads the files of `ca`, `cert` and `key`. An error names the parameter, not what is in it.
pub(super) fn options(files: &[Option<String>; 3]) -> Result<TlsOptions, String> {
    let read = |name: &str, file: &Option<String>| match file {
        Some(path) => fs::read_to_string(path)
            .map(Some)
            .map_err(|error| format!("the file of `{name}` cannot be read: {error}")),
        None => Ok(None),
    };
    let [ca, cert, key] = files;
    let Some(ca) = read("ca", ca)? else {
        return Err("`zookeeper+tls` needs `ca`, the file of the authority to trust".into());
    };
    let unusable = |name: &str| format!("the file of `{name}` holds nothing usable in PEM");
    let options = TlsOptions::new().with_pem_ca(&ca).map_err(|_| unusable("ca"))?;
    match (read("cert", cert)?, read("key", key)?) {
        (Some(cert), Some(key)) => {
            options.with_pem_identity(&cert, &key).map_err(|_| unusable("cert` or `key"))
        }
        (None, None) => Ok(options),
        _ => Err("`cert` and `key` are given together or not at all".into()),
    }
}

/// A provider of cryptography for the whole process; one that the application installed stays.
pub(super) fn install() {
    drop(rustls::crypto::ring::default_provider().install_default());
}
