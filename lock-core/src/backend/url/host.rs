//! The host and the port of a server.

use std::fmt;
use std::net::Ipv6Addr;

use super::{UrlError, UrlPart};

/// A host and a port. Shown as `host:port`, an IPv6 address in brackets.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Host {
    name: String,
    port: u16,
}

impl Host {
    /// The name is what a resolver takes: an IPv6 address has no brackets.
    #[must_use]
    pub fn new(name: impl Into<String>, port: u16) -> Self {
        Self { name: name.into(), port }
    }

    /// A name or an address, without brackets. Out of a URL it is in lower case.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Reads `name[:port]` or `[address][:port]`.
    pub(super) fn read(text: &str, port: u16) -> Result<Self, UrlError> {
        let bad = |reason: &'static str| UrlError::new(UrlPart::Hosts, reason);
        // The port is what follows the last colon, unless that is part of an address in brackets.
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, port.parse().unwrap_or(0)),
            _ => (text, port),
        };
        if port == 0 {
            return Err(bad("a port is a number from 1 to 65535"));
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        let bracketed = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        match bracketed.map(str::parse::<Ipv6Addr>) {
            Some(Ok(address)) => Ok(Self::new(address.to_string(), port)),
            None if !name.is_empty() && name.bytes().all(plain) => {
                Ok(Self::new(name.to_ascii_lowercase(), port))
            }
            _ => Err(bad("each host is a name, an IPv4 address, or an IPv6 address in brackets")),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
