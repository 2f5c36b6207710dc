//! The parts that the URLs of etcd may hold. They are here without the feature `etcd` too, so that
//! an error can name what is missing.

use crate::backend::Scheme;

/// The usual port on which a member listens for clients.
const PORT: u16 = 2_379;

/// Members of a cluster that a URL may name.
const MEMBERS_MAX: usize = 64;

/// The members of one cluster; the path is what the keys begin with.
pub(crate) const MEMBERS: Scheme = Scheme::new("etcd")
    .with_hosts(MEMBERS_MAX, PORT)
    .with_params(&["session"])
    .with_login()
    .with_path()
    .with_tls_params(&["ca", "cert", "key"])
    .behind(("etcd", cfg!(feature = "etcd")), ("etcd-tls", cfg!(feature = "etcd-tls")));
