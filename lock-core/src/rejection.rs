//! Input that is refused before anything is sent.

use std::time::Duration;

use crate::key::{Key, KeyError};
use crate::mode::Mode;

/// Input that no acquire can serve. Nothing was sent, but for [`OtherLimit`](Self::OtherLimit).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The key is empty or too long.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A duration is outside its bounds.
    #[error("lock `{key}`: {option} is {given:?}, it must be from {min:?} to {max:?}")]
    OutOfBounds {
        /// The key.
        key: Key,
        /// The name of the option.
        option: &'static str,
        /// The value that was given.
        given: Duration,
        /// The least that is allowed.
        min: Duration,
        /// The most that is allowed.
        max: Duration,
    },
    /// More retries than anyone can mean.
    #[error("lock `{key}`: {given} retries, at most {max} are allowed")]
    TooManyRetries {
        /// The key.
        key: Key,
        /// The value that was given.
        given: u32,
        /// The most that is allowed.
        max: u32,
    },
    /// The `name` is too long, or would break the line of whoever prints it.
    #[error(
        "lock `{key}`: name is {given:?}, it must be at most {max} bytes without control characters"
    )]
    Name {
        /// The key.
        key: Key,
        /// The value that was given.
        given: &'static str,
        /// The most bytes that are allowed.
        max: usize,
    },
    /// The value to be published in an election is too long.
    #[error("election `{key}`: a value of {given} bytes, it must be at most {max}")]
    Value {
        /// The key.
        key: Key,
        /// How many bytes were given.
        given: usize,
        /// The most that are allowed.
        max: usize,
    },
    /// More replicas than a store has.
    #[error("lock `{key}`: {given} replicas, it must be from 1 to {max}")]
    Replicas {
        /// The key.
        key: Key,
        /// The value that was given.
        given: u32,
        /// The most that is allowed.
        max: u32,
    },
    /// No permits, or more than a store counts.
    #[error("lock `{key}`: {given} permits, it must be from 1 to {max}")]
    Permits {
        /// The key.
        key: Key,
        /// The value that was given.
        given: u32,
        /// The most that is allowed.
        max: u32,
    },
    /// Permits of the key are in use or waited for, here or in another process, by some who say
    /// otherwise of how many there are. The store was asked, and nothing is left of it. All have to
    /// agree; the number may change when the key is free.
    #[error("lock `{key}`: asked for one of {given} permits while those of {in_use} are in use")]
    OtherLimit {
        /// The key.
        key: Key,
        /// How many there are, as this acquire says.
        given: u32,
        /// How many there are, as those in use say.
        in_use: u32,
    },
    /// It was called under a hold of the key, and wants more than that gives: the key alone under
    /// one that shares it, for instance. It would wait for itself, and two who did so for each
    /// other. Ask for the most that is needed first, and [downgrade](crate::LockGuard::downgrade)
    /// it.
    #[error(
        "lock `{key}`: asked for as {asked} under a hold that is {held}, which it would wait for"
    )]
    Upgrade {
        /// The key.
        key: Key,
        /// How it is held.
        held: Mode,
        /// The mode that was asked for.
        asked: Mode,
    },
    /// A key that is taken from its holders is had alone: it cannot be shared, nor be one of its
    /// permits.
    #[error("lock `{key}`: asked for as {asked} by force, which takes a key alone")]
    Forced {
        /// The key.
        key: Key,
        /// The mode that was asked for.
        asked: Mode,
    },
    /// The store has no way to do what an option asks for; [`Capabilities`](crate::backend::Capabilities)
    /// says so beforehand.
    #[error("lock `{key}`: {option} cannot be had: its store does not promise it")]
    Unsupported {
        /// The key.
        key: Key,
        /// The name of the option.
        option: &'static str,
    },
    /// [`LockClient::lock_all`](crate::LockClient::lock_all), or `keys = ..` of `#[distributed_lock]`, was
    /// given no key at all, or more than [`KEYS_MAX`](crate::limits::KEYS_MAX).
    #[error("{given} keys to lock at once, it must be from 1 to {max}")]
    KeyCount {
        /// How many different keys were given.
        given: usize,
        /// The most that is allowed.
        max: usize,
    },
    /// `#[distributed_lock]` found no client: none named, no axum state, none installed.
    #[error("no lock client: name one with `client = …` or call `LockClient::install_global`")]
    NoClient,
}

impl Rejection {
    /// The key, where the input was good enough to make one.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::OutOfBounds { key, .. }
            | Self::TooManyRetries { key, .. }
            | Self::Value { key, .. }
            | Self::Replicas { key, .. }
            | Self::Permits { key, .. }
            | Self::OtherLimit { key, .. }
            | Self::Upgrade { key, .. }
            | Self::Forced { key, .. }
            | Self::Unsupported { key, .. }
            | Self::Name { key, .. } => Some(key),
            Self::Key(_) | Self::KeyCount { .. } | Self::NoClient => None,
        }
    }
}
