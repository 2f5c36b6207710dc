//! The worker's answers.

use serde::{Deserialize, Serialize};

use crate::clock::now_ns;

/// One line of JSON; fields that do not apply are left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// True if the command did what it says.
    pub ok: bool,
    /// When it was done: nanoseconds of `CLOCK_MONOTONIC`.
    pub t_ns: u64,
    /// The fencing token of a grant, or of the hold that the command was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<u64>,
    /// The answer of `is_held`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<bool>,
    /// Whether the resource accepted a `write`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<bool>,
    /// The error: `timeout`, `overloaded`, `unavailable`, `rejected`, `closed`, `not_held`, `busy`
    /// (a `try` that found the key taken), `lost`, `usage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The error's text, or the cause of a loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Anything more, as the counters of `stats`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<serde_json::Value>,
}

impl Reply {
    /// A success, now.
    #[must_use]
    pub fn done() -> Self {
        Reply {
            ok: true,
            t_ns: now_ns(),
            token: None,
            held: None,
            accepted: None,
            error: None,
            message: None,
            value: None,
        }
    }

    /// A failure, now.
    #[must_use]
    pub fn failed(error: &str, message: impl ToString) -> Self {
        let (error, message) = (Some(error.to_owned()), Some(message.to_string()));
        Reply { ok: false, error, message, ..Self::done() }
    }

    /// # Panics
    ///
    /// If it is not a success, with the answer in the message.
    #[track_caller]
    pub fn expect_success(&self) {
        assert!(self.ok, "{self:?}");
    }

    /// The token of a grant.
    ///
    /// # Panics
    ///
    /// If there is none, with the answer in the message.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token.unwrap_or_else(|| panic!("no token in {self:?}"))
    }

    /// Whether the resource accepted the write.
    ///
    /// # Panics
    ///
    /// If the answer does not say, as when the write could not be made.
    #[must_use]
    pub fn accepted(&self) -> bool {
        self.accepted.unwrap_or_else(|| panic!("no verdict in {self:?}"))
    }

    /// The error, or "".
    #[must_use]
    pub fn error(&self) -> &str {
        self.error.as_deref().unwrap_or_default()
    }
}
