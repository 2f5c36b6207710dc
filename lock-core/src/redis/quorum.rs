//! `redlock://`: one lock at a majority of independent servers.
//!
//! The hosts of the URL know nothing of each other: no replication between them, no cluster.

use std::sync::Arc;

use super::topology::Topology;
use super::topology::origin::Origin;
use super::wire::access::{self, Access};
use super::wire::pool::RedisPool;
use super::wire::route;
use crate::backend::io::Home;
use crate::backend::{ConnectError, StoreUrl, who};

/// The servers that a URL names, each of which is connected to when it is asked for something.
pub(super) fn members(
    url: &StoreUrl,
    pools: Vec<RedisPool>,
) -> Result<Vec<Arc<Topology>>, ConnectError> {
    let (given, servers) = (pools.len(), url.hosts().len());
    if given != 0 && given != servers {
        let reason = format!("{given} pools for {servers} servers: one each, in their order");
        return Err(ConnectError::Pools { reason });
    }
    let access = Access { db: access::database_in_path(url)?, ..Access::of(url) };
    let home = Home::shared().map_err(ConnectError::Store)?;
    let mut pools = pools.into_iter();
    let member = |(place, host)| {
        let access = Access { login: url.login_at(place).cloned(), ..access };
        let client = access.client(host).map_err(ConnectError::Store)?;
        let origin = Origin::Server(route::to(client, home.clone()));
        Ok(Topology::new(&origin, Some(who(url.label())), pools.next()).into())
    };
    url.hosts().iter().enumerate().map(member).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::schemes::QUORUM;

    #[test]
    fn hosts_have_the_login_of_the_first_or_their_own() {
        let url = StoreUrl::parse("redlock://u:p@A:1,b,v:w%2c@[::1]:3/2", &[QUORUM]).unwrap();
        let logins: Vec<_> = (0..3).map(|place| url.login_at(place).unwrap()).collect();
        let passwords: Vec<_> = logins.iter().map(|login| login.password()).collect();
        assert_eq!(passwords, ["p", "p", "w,"]);
        let names: Vec<_> = url.hosts().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["a:1", "b:6379", "[::1]:3"]);
        assert_eq!(members(&url, Vec::new()).unwrap().len(), 3);
        let url = StoreUrl::parse("redlock://a,b,u:p@c/x", &[QUORUM]).unwrap();
        assert!(url.login_at(0).is_none() && url.login_at(2).is_some());
        assert!(members(&url, Vec::new()).is_err(), "of what database?");
    }
}
