//! The files that TLS needs: whom to trust, and optionally who we are.

use std::fs;

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::backend::{StoreUrl, UrlError, UrlPart};

/// Reads the files of `ca`, `cert` and `key`. An error names the parameter, not what is in it.
pub(super) fn secured(endpoint: Endpoint, url: &StoreUrl) -> Result<Endpoint, UrlError> {
    let bad = |reason: String| UrlError::new(UrlPart::Parameters, reason);
    let read = |name: &str| {
        let text = url.param(name).map(fs::read_to_string).transpose();
        text.map_err(|error| bad(format!("the file of `{name}` cannot be read: {error}")))
    };
    let Some(ca) = read("ca")? else {
        return Err(bad("TLS needs `ca`, the file of the authority to trust".into()));
    };
    let trusting = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca));
    let config = match (read("cert")?, read("key")?) {
        (Some(cert), Some(key)) => trusting.identity(Identity::from_pem(cert, key)),
        (None, None) => trusting,
        _ => return Err(bad("`cert` and `key` are given together or not at all".into())),
    };
    let unusable = |_| bad("a file of `ca`, `cert` or `key` holds nothing usable in PEM".into());
    endpoint.tls_config(config).map_err(unusable)
}
