//! The parts that the URLs of ZooKeeper may hold. They are here without the feature `zookeeper`
//! too, so that an error can name what is missing.

use crate::backend::Scheme;

/// The port on which a server listens.
const PORT: u16 = 2_181;

/// Servers of an ensemble that a URL may name.
const SERVERS_MAX: usize = 64;

/// Members of a quorum.
const MEMBERS_MAX: usize = 9;

const fn zookeeper(scheme: Scheme) -> Scheme {
    scheme.with_login().with_path().with_tls_params(&["ca", "cert", "key"]).behind(
        ("zookeeper", cfg!(feature = "zookeeper")),
        ("zookeeper-tls", cfg!(feature = "zookeeper-tls")),
    )
}

/// One server, or the servers of one ensemble; the path is where the lock directories are.
pub(crate) const SERVERS: Scheme = zookeeper(
    Scheme::new("zookeeper").with_hosts(SERVERS_MAX, PORT).with_params(&["session", "exclusive"]),
);

/// Servers on their own, of which a majority decides.
pub(crate) const QUORUM: Scheme =
    zookeeper(Scheme::new("zookeeper+quorum").with_hosts(MEMBERS_MAX, PORT).with_params(&[
        "session",
        "name",
        "lease_max",
    ]));
