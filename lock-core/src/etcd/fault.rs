//! The meaning of an error of a member or of the link to it.

use std::error::Error;
use std::time::Duration;

use tonic::{Code, ConnectError, Status};

use crate::backend::{Fault, FaultKind};

/// The reason why a request was not served.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    /// The member's own answer: it changed nothing.
    Answer(Fault),
    /// The database is full. A write that was let in before is carried out, and told so all the
    /// same: it took effect or did not, and will not later.
    Full(Fault),
    /// The lease is not known: the session is over.
    NoLease,
    /// The login's token is not known any more: a new one is to be asked for.
    TokenOver,
    /// The cluster asks for a login, and the request carried none.
    LoginAsked(Fault),
    /// The cluster was restored from a backup: its revisions went back.
    WentBack(Fault),
    /// It never ran, and never will.
    Unsent(Fault),
    /// No answer: it may have taken effect, and may do so still.
    Unknown(Fault),
}

impl Failure {
    /// Sorts an error. Only what a member itself said of the request is taken for an answer.
    pub(super) fn of(status: Status) -> Self {
        if is_unsent(&status) {
            return Self::Unsent(no_connection(status));
        }
        let says = status.message();
        let said = |part: &str| says.contains(part);
        let (kind, what) = match status.code() {
            Code::NotFound if said("lease not found") => return Self::NoLease,
            Code::Unauthenticated => return Self::TokenOver,
            Code::InvalidArgument if said("revision of auth store is old") => {
                return Self::TokenOver;
            }
            Code::InvalidArgument if said("user name is empty") => {
                let what = "etcd has authentication enabled: give the URL `user:password@`";
                let fault = Fault::new(FaultKind::Refused, what).with_source(status);
                return Self::LoginAsked(fault);
            }
            // Said of one request before anything is done. A keepalive in a stream may have run,
            // and is sent again all the same.
            Code::Unavailable if said("etcdserver: no leader") => {
                return Self::Unsent(unknown(status));
            }
            Code::InvalidArgument if said("authentication failed") => {
                (FaultKind::Refused, "etcd refuses the user or the password".to_owned())
            }
            Code::PermissionDenied => (
                FaultKind::Refused,
                "etcd refuses: a lock needs the rights to read and write all keys that begin with \
                 the path of the URL"
                    .to_owned(),
            ),
            Code::ResourceExhausted if said("database space exceeded") => {
                let what = "the database of etcd is full: compact and defragment it, and disarm \
                            the alarm; locks go on by themselves then";
                return Self::Full(Fault::new(FaultKind::Transient, what).with_source(status));
            }
            // Said before anything is done, and by a member that is no better left: the others have
            // as much to do. Its kind is lost on the way to the wire.
            Code::ResourceExhausted | Code::Unknown if said("etcdserver: too many requests") => {
                let what = "etcd has too many requests to serve";
                let fault = Fault::new(FaultKind::Transient, what).with_source(status);
                return Self::Answer(fault.unsent());
            }
            Code::Unimplemented => {
                (FaultKind::Refused, "this is no etcd of version 3.4 or later".to_owned())
            }
            // Not `OutOfRange`: an answer that is too large for this side may be one to what was
            // done.
            Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::NotFound
            | Code::AlreadyExists => {
                (FaultKind::Refused, format!("etcd refuses the request: {says}"))
            }
            _ => return Self::Unknown(unknown(status)),
        };
        Self::Answer(Fault::new(kind, what).with_source(status))
    }

    pub(super) fn into_fault(self) -> Fault {
        match self {
            Self::Answer(fault)
            | Self::Full(fault)
            | Self::LoginAsked(fault)
            | Self::WentBack(fault)
            | Self::Unknown(fault) => fault,
            Self::Unsent(fault) => fault.unsent(),
            Self::NoLease => session_over(),
            Self::TokenOver => {
                Fault::new(FaultKind::Transient, "etcd does not know our login any more")
            }
        }
    }
}

/// Whether there was no connection to send the request over.
fn is_unsent(status: &Status) -> bool {
    let mut next: Option<&(dyn Error + 'static)> = status.source();
    while let Some(error) = next {
        if error.is::<ConnectError>() {
            return true;
        }
        next = error.source();
    }
    false
}

fn no_connection(status: Status) -> Fault {
    Fault::new(FaultKind::Transient, "no member of etcd can be connected to").with_source(status)
}

fn unknown(status: Status) -> Fault {
    let what = format!("etcd did not serve the request: {}", status.message());
    Fault::new(FaultKind::Transient, what).with_source(status)
}

/// No answer in time.
pub(super) fn timed_out(within: Duration) -> Fault {
    let what = format!("etcd did not complete the request within {within:?}");
    Fault::new(FaultKind::Transient, what)
}

/// The revision of an answer is below one that was seen before.
pub(super) fn went_back(now: i64, seen: i64) -> Fault {
    let what = format!(
        "etcd was restored from a backup: its revision is {now}, and {seen} was seen, so fencing \
         tokens would repeat; restore it with revisions that go on (`--bump-revision`), or connect \
         anew once nobody holds a lock from before"
    );
    Fault::new(FaultKind::Refused, what)
}

/// The session ended, by the servers' word.
pub(super) fn session_over() -> Fault {
    Fault::new(FaultKind::Transient, "the session at etcd is over")
}

/// No keepalive was answered of late, so nothing can be said to be held.
pub(super) fn unconfirmed() -> Fault {
    Fault::new(FaultKind::Transient, "etcd has not confirmed the session in time")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_member_said_of_the_request_is_an_answer() {
        for (code, says) in [
            (Code::PermissionDenied, "etcdserver: permission denied"),
            (Code::InvalidArgument, "etcdserver: request is too large"),
            (Code::Unknown, "etcdserver: too many requests"),
        ] {
            let failure = Failure::of(Status::new(code, says));
            assert!(matches!(failure, Failure::Answer(_)), "{failure:?}");
        }
        for (code, says) in [
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Unknown, "h2 protocol error"),
            (Code::Internal, "?"),
        ] {
            let failure = Failure::of(Status::new(code, says));
            assert!(matches!(failure, Failure::Unknown(_)), "{failure:?}");
            assert!(failure.into_fault().is_transient());
        }
        let full =
            Status::new(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded");
        assert!(matches!(Failure::of(full), Failure::Full(_)), "it may have run");
        let busy = Status::new(Code::Unknown, "etcdserver: too many requests");
        assert!(Failure::of(busy).into_fault().is_unsent());
        let no_leader = Status::new(Code::Unavailable, "etcdserver: no leader");
        assert!(matches!(Failure::of(no_leader), Failure::Unsent(_)));
        let lease = Status::new(Code::NotFound, "etcdserver: requested lease not found");
        assert!(matches!(Failure::of(lease), Failure::NoLease));
    }

    #[test]
    fn errors_are_sorted_by_whether_they_can_pass() {
        for (code, says, kind) in [
            (Code::PermissionDenied, "etcdserver: permission denied", FaultKind::Refused),
            (
                Code::InvalidArgument,
                "etcdserver: authentication failed, invalid user ID or password",
                FaultKind::Refused,
            ),
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                FaultKind::Transient,
            ),
        ] {
            assert_eq!(Failure::of(Status::new(code, says)).into_fault().kind(), kind, "{says}");
        }
    }
}
