//! The parts that the URLs of Redis may hold. They are here without the feature `redis` too, so
//! that an error can name what is missing.

use crate::backend::Scheme;

/// The port on which a server listens.
const PORT: u16 = 6_379;

/// The port on which a sentinel listens.
const SENTINEL_PORT: u16 = 26_379;

/// Sentinels that are asked at most, those of the URL and those that they name.
pub(crate) const SENTINELS_MAX: usize = 16;

/// Nodes of a cluster that a URL may name; they name the others.
const SEEDS_MAX: usize = 64;

/// Members of a quorum.
const MEMBERS_MAX: usize = 9;

const fn redis(scheme: Scheme) -> Scheme {
    scheme.behind(("redis", cfg!(feature = "redis")), ("redis-tls", cfg!(feature = "redis-tls")))
}

/// One server; the path is the number of a database.
pub(crate) const SERVER: Scheme = redis(
    Scheme::new("redis")
        .with_hosts(1, PORT)
        .with_login()
        .with_path()
        .with_params(&["layout"])
        .with_tls()
        .with_tls_alias("rediss"),
);

/// The same behind a unix socket.
pub(crate) const SOCKET: Scheme =
    redis(Scheme::new("redis+unix").with_socket().with_login().with_params(&["db", "layout"]));

/// Sentinels, behind which the path names the master and perhaps a database.
pub(crate) const SENTINEL: Scheme = redis(
    Scheme::new("redis+sentinel")
        .with_hosts(SENTINELS_MAX, SENTINEL_PORT)
        .with_login()
        .with_path()
        .with_params(&["layout"])
        .with_secret_params(&["sentinel_user", "sentinel_password"])
        .with_tls(),
);

/// Nodes of a cluster.
pub(crate) const CLUSTER: Scheme = redis(
    Scheme::new("redis+cluster").with_hosts(SEEDS_MAX, PORT).with_login().with_path().with_tls(),
);

/// Servers of which a majority decides.
pub(crate) const QUORUM: Scheme = redis(
    Scheme::new("redlock")
        .with_hosts(MEMBERS_MAX, PORT)
        .with_login_each()
        .with_path()
        .with_params(&["name", "lease_max"])
        .with_tls(),
);

/// Those that may be in the layout of Redisson.
#[cfg(feature = "redis")]
pub(crate) const WITH_LAYOUTS: [Scheme; 3] = [SERVER, SOCKET, SENTINEL];

/// Those that are one store, for locks and for records.
#[cfg(feature = "redis")]
pub(crate) const STORES: [Scheme; 4] = [SERVER, SOCKET, SENTINEL, CLUSTER];
