//! The meaning of an error of the server or the link.

use std::time::Duration;

use zookeeper_client::Error;

use crate::backend::{Fault, FaultKind};

/// The reason why a request was not served.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server's own answer: it changed nothing.
    Answer(Error),
    /// No answer: it may have taken effect, and may do so still.
    Unknown(Fault),
    /// The data stored there are not what they should be; nothing was done.
    Unfit(Fault),
    /// The session is over.
    Over,
}

impl Failure {
    /// Sorts an error. Only what the server itself said is taken for an answer.
    pub(super) fn of(error: Error) -> Self {
        match error {
            Error::SessionExpired | Error::AuthFailed | Error::ClientClosed => Self::Over,
            Error::NoNode
            | Error::NoAuth
            | Error::BadVersion
            | Error::BadArguments(_)
            | Error::NoChildrenForEphemerals
            | Error::NodeExists
            | Error::NotEmpty
            | Error::InvalidAcl
            | Error::NotReadOnly
            | Error::QuotaExceeded
            | Error::Throttled
            | Error::Unimplemented => Self::Answer(error),
            _ => Self::Unknown(fault(error)),
        }
    }

    /// Whether a node that was named is not there.
    pub(super) fn is_no_node(&self) -> bool {
        matches!(self, Self::Answer(Error::NoNode))
    }

    pub(super) fn into_fault(self) -> Fault {
        match self {
            Self::Answer(error) => fault(error),
            Self::Unknown(fault) | Self::Unfit(fault) => fault,
            Self::Over => session_over(),
        }
    }
}

/// Sorts an error by whether it can pass. Texts of the client name no password.
pub(super) fn fault(error: Error) -> Fault {
    let (kind, what) = match &error {
        Error::AuthFailed => {
            (FaultKind::Refused, "zookeeper refuses the user or the password".into())
        }
        Error::NoAuth => (
            FaultKind::Refused,
            "zookeeper refuses: a lock needs the rights to create, read, write and delete at its \
             path; another user may own a node there"
                .into(),
        ),
        Error::InvalidAcl => {
            (FaultKind::Refused, "zookeeper refuses the rights that go with our user".into())
        }
        Error::Unimplemented => (
            FaultKind::Refused,
            "the server is too old: this backend needs ZooKeeper 3.5 or later".into(),
        ),
        Error::NoChildrenForEphemerals => (
            FaultKind::ForeignValue,
            "an ephemeral node, which can have no children, stands where the directory of this \
             lock would be; it was left as it is"
                .into(),
        ),
        Error::BadArguments(_) => {
            (FaultKind::Refused, format!("zookeeper refuses the request: {error}"))
        }
        _ => (FaultKind::Transient, format!("zookeeper did not serve the request: {error}")),
    };
    Fault::new(kind, what).with_source(error)
}

/// No answer in time.
pub(super) fn timed_out(within: Duration) -> Fault {
    Fault::new(
        FaultKind::Transient,
        format!("zookeeper did not complete the request within {within:?}"),
    )
}

/// No session was opened in time. The client library keeps the reason to itself.
pub(super) fn not_opened(within: Duration, tls: bool) -> Fault {
    let also = match tls {
        true => ", or none has a certificate for its host name that `ca` has signed",
        false => "",
    };
    let what = format!("no zookeeper server answered within {within:?}{also}");
    Fault::new(FaultKind::Transient, what)
}

/// The session ended, by the server's word or with what served it.
pub(super) fn session_over() -> Fault {
    Fault::new(FaultKind::Transient, "the session at zookeeper is over")
}

/// A session was given up. A node in it goes when the server ends the session. Nothing can be asked
/// for any more, so asking again is of no use.
pub(super) fn left_to_its_session() -> Fault {
    let what =
        "the session at zookeeper was given up; the lock's node goes when the server ends it";
    Fault::new(FaultKind::Refused, what)
}

/// No majority has confirmed the session of late, so nothing can be said to be held.
pub(super) fn unconfirmed() -> Fault {
    let what = "no majority of the zookeeper servers has confirmed the session in time";
    Fault::new(FaultKind::Transient, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_server_said_is_an_answer() {
        for answer in [Error::NoNode, Error::NodeExists, Error::NoAuth, Error::Throttled] {
            assert!(matches!(Failure::of(answer.clone()), Failure::Answer(_)), "{answer}");
        }
        for unknown in [
            Error::ConnectionLoss,
            Error::Timeout,
            Error::SessionMoved,
            Error::UnexpectedError("no response".into()),
            Error::UnexpectedErrorCode(-7),
        ] {
            let Failure::Unknown(fault) = Failure::of(unknown.clone()) else {
                panic!("{unknown} was taken for an answer");
            };
            assert!(fault.is_transient());
        }
        assert!(matches!(Failure::of(Error::SessionExpired), Failure::Over));
        assert!(matches!(Failure::of(Error::ClientClosed), Failure::Over));
    }

    #[test]
    fn errors_are_sorted_by_whether_they_can_pass() {
        for refused in [Error::AuthFailed, Error::NoAuth, Error::InvalidAcl, Error::Unimplemented] {
            assert_eq!(fault(refused).kind(), FaultKind::Refused);
        }
        for passing in [Error::NotReadOnly, Error::QuotaExceeded, Error::ConnectionLoss] {
            assert_eq!(fault(passing).kind(), FaultKind::Transient);
        }
        assert_eq!(fault(Error::NoChildrenForEphemerals).kind(), FaultKind::ForeignValue);
    }
}
