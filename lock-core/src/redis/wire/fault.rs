//! The meaning of an error of the server or the link for a verb.

use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tokio::task::JoinError;

use crate::backend::{Fault, FaultKind};

/// The server's words about a user without a right. Inside a script the code is lost, so the text
/// decides.
const REFUSALS: [&str; 9] = [
    "noauth",
    "wrongpass",
    "noperm",
    "acl failure",
    "no permissions",
    "the user executing the script",
    "unknown command",
    "unknown redis command",
    "invalid username-password",
];

/// The words of Redis and of Valkey about a missing right on keys or channels.
const OUT_OF_REACH: [&str; 3] = ["one of the", "access a key", "access a channel"];

/// Sorts an error. Texts of the server name commands and keys, never a password.
pub(in crate::redis) fn fault(error: RedisError) -> Fault {
    let text = error.to_string();
    if let Some(key) = used_up(&text) {
        return no_tokens(key).with_source(error);
    }
    let lower = text.to_lowercase();
    let kind = match error.kind() {
        ErrorKind::AuthenticationFailed
        | ErrorKind::InvalidClientConfig
        | ErrorKind::RESP3NotSupported
        | ErrorKind::Server(ServerErrorKind::NoPerm) => FaultKind::Refused,
        _ if lower.contains("wrongtype") => FaultKind::ForeignValue,
        _ if REFUSALS.iter().any(|refusal| lower.contains(refusal)) => FaultKind::Refused,
        _ => FaultKind::Transient,
    };
    let what = match (kind, error.kind()) {
        (FaultKind::ForeignValue, _) => {
            "something that is no lock is stored at a key of this lock; it was left as it is".into()
        }
        (_, ErrorKind::RESP3NotSupported) => {
            "the server is too old: this backend needs Redis 6.2 or later".into()
        }
        (FaultKind::Refused, _) if OUT_OF_REACH.iter().any(|text| lower.contains(text)) => {
            format!(
                "redis refuses: {text}: a lock needs keys ~lock:* and channels &lock:push:*, and \
                 with `layout=redisson` its name, ~redisson_lock_token:* and \
                 &redisson_lock__channel:* too"
            )
        }
        (FaultKind::Refused, _) => format!("redis refuses: {text}"),
        _ => format!("redis did not serve the request: {text}"),
    };
    Fault::new(kind, what).with_source(error)
}

/// The key whose mark has no token above it, if that is what a script of ours said.
fn used_up(text: &str) -> Option<&str> {
    let (_, said) = text.split_once("USEDUP")?;
    let said = said.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    said.split_whitespace().next()
}

fn no_tokens(key: &str) -> Fault {
    let what = format!(
        "there is no token left: `{key}` is beyond 2^53, as the server's clock is beyond 2055, or \
         was once. Set the clock right, then `DEL {key}`. Tokens begin at the clock again, so \
         resources have to forget those that they have seen above it"
    );
    Fault::new(FaultKind::Refused, what)
}

/// Whether the server refused a command before it wrote anything, as one that is not ready, not that
/// of the keys, busy with a script, or a replica does. A script has these of its first write, or says
/// itself that it came too late.
pub(in crate::redis) fn is_unserved(error: &RedisError) -> bool {
    use ServerErrorKind::{Ask, BusyLoading, ClusterDown, MasterDown, Moved, TryAgain};
    match error.kind() {
        ErrorKind::Server(Ask | BusyLoading | ClusterDown | MasterDown | Moved | TryAgain) => true,
        _ => matches!(error.code(), Some("BUSY" | "LATE")) || is_read_only(error),
    }
}

/// Whether the server only reads: it is a replica. Before 7.0 the code is lost inside a script, and
/// stands behind the places in which it came up. What comes behind that may name a key.
pub(in crate::redis) fn is_read_only(error: &RedisError) -> bool {
    let is_place = |part: &str| {
        let of_script =
            part.starts_with("Error running script") || part.starts_with("@user_script");
        of_script || part.parse::<u32>().is_ok()
    };
    let said = error.detail().and_then(|detail| detail.split(": ").find(|part| !is_place(part)));
    error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
        || said.is_some_and(|said| said.starts_with("-READONLY "))
}

/// The server that answered, or was to, is not the master any more.
pub(in crate::redis) fn superseded() -> Fault {
    Fault::new(FaultKind::Superseded, "the sentinels name another master by now")
}

/// A member of a quorum is not asked before it was looked at.
pub(in crate::redis) fn unready() -> Fault {
    Fault::new(FaultKind::Unready, "a member of the quorum has to be looked at first")
}

/// No answer in time.
pub(in crate::redis) fn timed_out(within: Duration) -> Fault {
    Fault::new(FaultKind::Transient, format!("redis did not answer within {within:?}"))
}

/// The task that was to connect has ended without an answer.
pub(in crate::redis) fn not_made(ended: &JoinError) -> Fault {
    let what = match ended.is_panic() {
        true => "what connects to redis panicked, which is a bug: the panic was printed",
        false => "the thread of the connections to redis has ended",
    };
    Fault::new(FaultKind::Transient, what)
}

/// The connection ended before anything could be sent over it.
pub(in crate::redis) fn cut_at_once() -> Fault {
    Fault::new(FaultKind::Transient, "the connection to redis was cut as soon as it was made")
}

/// An answer that no script of ours gives.
pub(in crate::redis) fn strange(what: &str) -> Fault {
    Fault::new(FaultKind::Transient, format!("redis answered {what} in an unknown form"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::wire::request::Failure;

    fn of_server(code: &str, detail: &str) -> Fault {
        fault(redis::make_extension_error(code.into(), Some(detail.into())))
    }

    #[test]
    fn errors_are_sorted_by_whether_they_can_pass() {
        for (code, detail) in [
            ("OOM", "command not allowed when used memory > 'maxmemory'."),
            ("MISCONF", "Redis is configured to save RDB snapshots"),
            ("LOADING", "Redis is loading the dataset in memory"),
            ("READONLY", "You can't write against a read only replica."),
            ("BUSY", "Redis is busy running a script."),
        ] {
            assert_eq!(of_server(code, detail).kind(), FaultKind::Transient, "{code}");
        }
        for (code, detail) in [
            ("NOPERM", "this user has no permissions to run the 'evalsha' command"),
            ("ERR", "ACL failure in script: User u has no permissions to run the 'time' command"),
            ("ERR", "The user executing the script can't publish to the channel mentioned"),
            ("NOAUTH", "Authentication required."),
            ("WRONGPASS", "invalid username-password pair or user is disabled."),
            ("ERR", "unknown command 'HELLO'"),
        ] {
            assert_eq!(of_server(code, detail).kind(), FaultKind::Refused, "{code} {detail}");
        }
        for (code, detail) in [
            ("USEDUP", "lock:clock:{a}"),
            ("ERR", "user_script:17: USEDUP lock:clock:{a} script: 0f, on @user_script:17."),
            ("ERR", "Error running script (call to f_0f): @user_script:17: USEDUP lock:clock:{a}"),
        ] {
            let used_up = of_server(code, detail);
            assert_eq!(used_up.kind(), FaultKind::Refused, "{code} {detail}");
            let said = used_up.to_string();
            assert!(said.contains("`DEL lock:clock:{a}`") && said.contains("2055"), "{said}");
        }
        let foreign = of_server("WRONGTYPE", "Operation against a key holding the wrong kind");
        assert_eq!(foreign.kind(), FaultKind::ForeignValue);
    }

    /// A withdrawal that finds nothing behind one of these has released nothing.
    #[test]
    fn a_command_that_the_server_did_not_run_counts_as_not_sent() {
        let is_unsent = |line: &str| {
            let line = format!("-{line}\r\n");
            let answer = redis::parse_redis_value(line.as_bytes()).unwrap();
            Failure::Server(answer.extract_error().unwrap_err()).into_fault().is_unsent()
        };
        for line in [
            "LOADING Redis is loading the dataset in memory",
            "CLUSTERDOWN The cluster is down",
            "MOVED 3999 10.0.0.1:7001",
            "ASK 3999 10.0.0.1:7001",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL",
            "LATE it was too long on its way, and nothing was done",
            "READONLY You can't write against a read only replica.",
            "ERR Error running script (call to f_0f): @user_script:1: @user_script: 1: -READONLY You \
             can't write against a read only replica.",
        ] {
            assert!(is_unsent(line), "{line}");
        }
        for line in [
            "OOM command not allowed",
            "ERR Error running script",
            "ERR Error running script (call to f_0f): @user_script:17: no `x: -READONLY y`",
            "NOREPLICAS Not enough",
        ] {
            assert!(!is_unsent(line), "{line}");
        }
    }
}
