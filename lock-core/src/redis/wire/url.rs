//! From a URL to a client. No error repeats the URL: it may hold a password.

use redis::io::tcp::TcpSettings;
use redis::{Client, IntoConnectionInfo, ProtocolVersion};
use url::Url;

use crate::error::ConnectError;

fn bad(reason: impl Into<String>) -> ConnectError {
    ConnectError::Url { reason: reason.into() }
}

/// Reads the URL; pushes need RESP3, small requests no delay.
pub(in crate::redis) fn client(url: &str) -> Result<Client, ConnectError> {
    let parsed = Url::parse(url).map_err(|error| bad(error.to_string()))?;
    for (name, _) in parsed.query_pairs() {
        if !matches!(&*name, "db" | "user" | "pass") || parsed.scheme() != "redis+unix" {
            let name: String = name.escape_default().take(32).collect();
            return Err(bad(format!(
                "unknown parameter `{name}`: `redis+unix:` takes `db`, `user` and `pass`, the \
                 others none"
            )));
        }
    }
    let info = parsed.into_connection_info().map_err(|error| {
        // Only its class: the detail could repeat a part of the URL.
        bad(error.category().to_owned())
    })?;
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let tcp = TcpSettings::default().set_nodelay(true);
    let info = info.set_redis_settings(settings).set_tcp_settings(tcp);
    Client::open(info).map_err(|error| bad(error.category().to_owned()))
}

/// `rediss:` needs a provider of cryptography for the whole process; one that the application
/// installed stays.
pub(in crate::redis) fn install_tls() {
    #[cfg(feature = "redis-tls")]
    drop(rustls::crypto::ring::default_provider().install_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_url_is_refused_without_repeating_it() {
        for url in [
            "redis://:secret@host:port",
            "redis://:secret@host/notanumber",
            "redis://:secret@host/0?protocol=2",
            "redis://:secret@",
            "redis:",
        ] {
            let error = client(url).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{url}: {error}");
        }
    }

    #[test]
    fn good_urls_are_read() {
        for url in ["redis://127.0.0.1", "redis://u:p@h:1/2", "redis+unix:///tmp/s?db=1"] {
            let client = client(url).unwrap();
            assert_eq!(
                client.get_connection_info().redis_settings().protocol(),
                ProtocolVersion::RESP3
            );
        }
    }
}
