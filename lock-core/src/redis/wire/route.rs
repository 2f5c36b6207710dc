//! The way of connections to a server, and the home where they live.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use redis::Client;

use crate::backend::Fault;
use crate::backend::io::Home;

/// The server that a connection is made to, and whether that is still the one to ask.
///
/// The time of one server in this place is a *term*. Each connection carries the number of the term
/// that it was made in: when the term is over, what it still answers does not count.
pub(in crate::redis) trait Route: fmt::Debug + Send + Sync {
    /// The home where its connections are made and served.
    fn home(&self) -> &Arc<Home>;

    /// Whether it is the same server for ever: its term does not end.
    fn is_fixed(&self) -> bool;

    /// A client of the server that is to be asked now, and the number of its term.
    fn server(&self) -> BoxFuture<'_, Result<(Client, u64), Fault>>;

    /// Whether an answer of this term counts.
    fn is_current(&self, term: u64) -> bool;

    /// Resolves when this term is over; `None` if it never is.
    fn superseded(&self, term: u64) -> Option<BoxFuture<'_, ()>>;

    /// The server did not serve a request: perhaps there is another by now.
    fn look(&self);
}

/// One server.
#[derive(Debug)]
struct Fixed {
    server: Client,
    home: Arc<Home>,
}

impl Route for Fixed {
    fn home(&self) -> &Arc<Home> {
        &self.home
    }

    fn is_fixed(&self) -> bool {
        true
    }

    fn server(&self) -> BoxFuture<'_, Result<(Client, u64), Fault>> {
        Box::pin(async { Ok((self.server.clone(), 0)) })
    }

    fn is_current(&self, _: u64) -> bool {
        true
    }

    fn superseded(&self, _: u64) -> Option<BoxFuture<'_, ()>> {
        None
    }

    fn look(&self) {}
}

/// A route to this server, always.
pub(in crate::redis) fn to(server: Client, home: Arc<Home>) -> Arc<dyn Route> {
    Arc::new(Fixed { server, home })
}

/// A route to a server of a test. The home is nobody else's.
#[cfg(test)]
pub(in crate::redis) fn to_port(port: u16) -> Arc<dyn Route> {
    let at = crate::backend::url::Host::new("127.0.0.1", port);
    let home = Home::start("test").expect("a thread");
    to(super::access::Access::default().client(&at).expect("a client"), home)
}
