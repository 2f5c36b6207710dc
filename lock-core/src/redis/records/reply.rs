//! The answers of the scripts.

use std::time::Duration;

use bytes::Bytes;
use redis::{FromRedisValue as _, Value};

use crate::backend::Fault;
use crate::records::{Claimed, Found, Written};
use crate::redis::wire::fault;
use crate::token::FencingToken;

/// An answer of `peek.lua` or `claim.lua`.
enum Reply {
    Absent,
    InFlight { age: Duration, token: FencingToken },
    Done(Bytes),
    WithoutPayload,
    Mismatch,
    Claimed { replaced: Option<FencingToken> },
    Unknown { age: Duration },
}

fn reply(value: Value) -> Option<Reply> {
    let Value::Array(parts) = value else { return None };
    let mut parts = parts.into_iter();
    let mut next = || parts.next();
    Some(match u8::from_redis_value(next()?).ok()? {
        0 => Reply::Absent,
        1 => Reply::InFlight { age: age(next()?)?, token: token(next()?)? },
        2 => Reply::Done(payload(next()?)?),
        3 => Reply::WithoutPayload,
        4 => Reply::Mismatch,
        5 => {
            let replaced = token(next()?)?;
            Reply::Claimed { replaced: (replaced.get() > 0).then_some(replaced) }
        }
        6 => Reply::Unknown { age: age(next()?)? },
        _ => return None,
    })
}

fn age(value: Value) -> Option<Duration> {
    u64::from_redis_value(value).ok().map(Duration::from_millis)
}

fn token(value: Value) -> Option<FencingToken> {
    let digits = String::from_redis_value(value).ok()?;
    digits.parse().ok().map(FencingToken::from_stored)
}

fn payload(value: Value) -> Option<Bytes> {
    match value {
        Value::BulkString(bytes) => Some(bytes.into()),
        _ => None,
    }
}

pub(super) fn found(value: Value) -> Result<Found, Fault> {
    Ok(match reply(value) {
        Some(Reply::Absent) => Found::Absent,
        Some(Reply::InFlight { age, token }) => Found::InFlight { age, token },
        Some(Reply::Done(payload)) => Found::Done(payload),
        Some(Reply::WithoutPayload) => Found::WithoutPayload,
        Some(Reply::Mismatch) => Found::Mismatch,
        Some(Reply::Claimed { .. } | Reply::Unknown { .. }) | None => {
            return Err(fault::strange("a look at a record"));
        }
    })
}

pub(super) fn claimed(value: Value) -> Result<Claimed, Fault> {
    Ok(match reply(value) {
        Some(Reply::Claimed { replaced }) => Claimed::Claimed { replaced },
        Some(Reply::InFlight { age, token }) => Claimed::InFlight { age, token },
        Some(Reply::Done(payload)) => Claimed::Done(payload),
        Some(Reply::WithoutPayload) => Claimed::WithoutPayload,
        Some(Reply::Mismatch) => Claimed::Mismatch,
        Some(Reply::Unknown { age }) => Claimed::Unknown { age },
        Some(Reply::Absent) | None => return Err(fault::strange("a claim of a record")),
    })
}

pub(super) fn written(value: Value) -> Result<Written, Fault> {
    match value {
        Value::Int(1) => Ok(Written::Yes),
        Value::Int(0) => Ok(Written::Stale),
        _ => Err(fault::strange("a write of a record")),
    }
}
