//! The login and the settings with which servers are connected to.

use std::fmt;

use redis::io::tcp::TcpSettings;
use redis::{
    Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, RedisResult,
};

use super::fault;
use crate::backend::url::{Host, Login};
use crate::backend::{Fault, StoreUrl, UrlError, UrlPart};

/// The highest number of a database that anyone configures.
const DB_MAX: i64 = 65_535;

/// The same for all servers of a URL. Its clients speak RESP3, for pushes, and do not delay small
/// requests.
#[derive(Clone, Default)]
pub(in crate::redis) struct Access {
    pub(in crate::redis) login: Option<Login>,
    pub(in crate::redis) db: i64,
    /// Everything is sent over TLS, to servers that can prove who they are.
    pub(in crate::redis) tls: bool,
}

impl Access {
    /// Database 0, as the login of the URL.
    pub(in crate::redis) fn of(url: &StoreUrl) -> Self {
        install_tls();
        Self { login: url.login().cloned(), db: 0, tls: url.is_tls() }
    }

    /// A client of the server at a host.
    pub(in crate::redis) fn client(&self, at: &Host) -> Result<Client, Fault> {
        let (host, port) = (at.name().to_owned(), at.port());
        self.to(match self.tls {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        })
    }

    /// A client of the server behind a socket.
    pub(in crate::redis) fn client_of_socket(&self, path: &str) -> Result<Client, Fault> {
        self.to(ConnectionAddr::Unix(path.into()))
    }

    fn to(&self, addr: ConnectionAddr) -> Result<Client, Fault> {
        let mut settings =
            RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3).set_db(self.db);
        if let Some(login) = &self.login {
            settings = settings.set_password(login.password());
            if let Some(user) = login.user() {
                settings = settings.set_username(user);
            }
        }
        let tcp = TcpSettings::default().set_nodelay(true);
        let client = || -> RedisResult<Client> {
            let info = addr.into_connection_info()?;
            Client::open(info.set_redis_settings(settings).set_tcp_settings(tcp))
        };
        client().map_err(fault::fault)
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("tls", &self.tls).finish_non_exhaustive()
    }
}

/// The number of the database that is the path.
pub(in crate::redis) fn database_in_path(url: &StoreUrl) -> Result<i64, UrlError> {
    database(url.path().strip_prefix('/').unwrap_or_default(), UrlPart::Path)
}

/// The number of a database, 0 if none is given.
pub(in crate::redis) fn database(text: &str, part: UrlPart) -> Result<i64, UrlError> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = match text {
        "" => Some(0),
        text if is_number => text.parse().ok().filter(|db| *db <= DB_MAX),
        _ => None,
    };
    number.ok_or_else(|| UrlError::new(part, "a database is a number from 0 to 65535"))
}

/// TLS needs a provider of cryptography for the whole process; one that the application installed
/// stays.
fn install_tls() {
    #[cfg(feature = "redis-tls")]
    drop(rustls::crypto::ring::default_provider().install_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_whom_the_login_says_and_speaks_resp3() {
        let login = Login::new(Some("u".into()), "p".into());
        let access = Access { login: Some(login), db: 2, tls: false };
        let at = Host::new("there", 7);
        for client in [access.client(&at), access.client_of_socket("/run/s")] {
            let client = client.unwrap();
            let settings = client.get_connection_info().redis_settings();
            assert_eq!(settings.protocol(), ProtocolVersion::RESP3);
            assert_eq!((settings.username(), settings.password()), (Some("u"), Some("p")));
            assert_eq!(settings.db(), 2);
        }
    }

    #[cfg(feature = "redis-tls")]
    #[test]
    fn over_tls_a_server_proves_who_it_is() {
        let access = Access { tls: true, ..Access::default() };
        let client = access.client(&Host::new("there", 7)).unwrap();
        let wanted = ConnectionAddr::TcpTls {
            host: "there".into(),
            port: 7,
            insecure: false,
            tls_params: None,
        };
        assert_eq!(client.get_connection_info().addr(), &wanted);
    }
}
