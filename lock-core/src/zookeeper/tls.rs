//! The settings of TLS: whom to trust, and optionally who we are.

use std::fs;

use zookeeper_client::TlsOptions;

use crate::backend::{StoreUrl, UrlError, UrlPart};

/// Reads the files of `ca`, `cert` and `key`. An error names the parameter, not what is in it.
pub(super) fn options(url: &StoreUrl) -> Result<TlsOptions, UrlError> {
    let bad = |reason: String| UrlError::new(UrlPart::Parameters, reason);
    let read = |name: &str| {
        let text = url.param(name).map(fs::read_to_string).transpose();
        text.map_err(|error| bad(format!("the file of `{name}` cannot be read: {error}")))
    };
    let unusable = |name| bad(format!("the file of `{name}` holds nothing usable in PEM"));
    let Some(ca) = read("ca")? else {
        return Err(bad("TLS needs `ca`, the file of the authority to trust".into()));
    };
    let options = TlsOptions::new().with_pem_ca(&ca).map_err(|_| unusable("ca"))?;
    match (read("cert")?, read("key")?) {
        (Some(cert), Some(key)) => {
            options.with_pem_identity(&cert, &key).map_err(|_| unusable("cert` or `key"))
        }
        (None, None) => Ok(options),
        _ => Err(bad("`cert` and `key` are given together or not at all".into())),
    }
}

/// A provider of cryptography for the whole process; one that the application installed stays.
pub(super) fn install() {
    drop(rustls::crypto::ring::default_provider().install_default());
}
