//! The answers of a node that does not serve a slot, or not now. Nothing was done then.

use redis::{ErrorKind, ServerErrorKind};

use super::layout::Addr;
use crate::redis::wire::request::Failure;

/// A node's word on where a slot is, or why it does not serve it now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// Another node owns the slot.
    Moved(Addr),
    /// The slot is on its way to another node, and so are these keys, or they do not exist.
    Ask(Addr),
    /// The slot is on its way, and of the keys some are here and some are not.
    TryAgain,
    /// The cluster does not serve the slot now, or the node is not ready.
    Down,
}

impl Redirect {
    /// Reads a failure of the node at `asked`; `None` if it is of another kind.
    pub(super) fn of(failure: &Failure, asked: &Addr) -> Option<Self> {
        let Failure::Server(error) = failure else { return None };
        let ErrorKind::Server(kind) = error.kind() else { return None };
        let target = || Addr::parse(error.redirect_node()?.0, asked);
        match kind {
            ServerErrorKind::Moved => target().map(Self::Moved),
            ServerErrorKind::Ask => target().map(Self::Ask),
            ServerErrorKind::TryAgain => Some(Self::TryAgain),
            ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown
            | ServerErrorKind::BusyLoading
            | ServerErrorKind::ReadOnly => Some(Self::Down),
            _ => None,
        }
    }
}

/// Whether the keys are at the node that the slot is on its way to.
pub(super) fn is_ask(failure: &Failure) -> bool {
    let kind = ErrorKind::Server(ServerErrorKind::Ask);
    matches!(failure, Failure::Server(error) if error.kind() == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(code: &str, detail: &str) -> Option<Redirect> {
        let line = format!("-{code} {detail}\r\n");
        let error = redis::parse_redis_value(line.as_bytes()).unwrap().extract_error().unwrap_err();
        Redirect::of(&Failure::Server(error), &Addr::new("seed", 1))
    }

    #[test]
    fn redirections_are_told_from_other_failures() {
        let to = |host| Addr::new(host, 7001);
        assert_eq!(read("MOVED", "3999 10.0.0.1:7001"), Some(Redirect::Moved(to("10.0.0.1"))));
        assert_eq!(read("MOVED", "3999 :7001"), Some(Redirect::Moved(to("seed"))));
        assert_eq!(read("MOVED", "3999 ?:7001"), Some(Redirect::Moved(to("seed"))));
        assert_eq!(read("ASK", "3999 ::1:7001"), Some(Redirect::Ask(to("::1"))));
        assert_eq!(read("TRYAGAIN", "Multiple keys"), Some(Redirect::TryAgain));
        assert_eq!(read("CLUSTERDOWN", "The cluster is down"), Some(Redirect::Down));
        for (code, detail) in [("MOVED", "nonsense"), ("ERR", "MOVED"), ("NOSCRIPT", "No")] {
            assert_eq!(read(code, detail), None, "{code} {detail}");
        }
    }
}
