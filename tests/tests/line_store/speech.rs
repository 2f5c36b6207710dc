//! The speech over the link: a request is a line, answered by a line, in order. A line that begins
//! with `*` is a push.

use lock_core::Mode;
use lock_core::backend::{ClaimId, Grant};
use tests::proxy::{Direction, Event, IN_ORDER, Protocol, Request};

/// For a proxy.
#[derive(Debug)]
pub(crate) struct Speech;

impl Protocol for Speech {
    fn scheme(&self) -> &'static str {
        "lines"
    }

    fn frame_len(&self, _: Direction, bytes: &[u8]) -> Option<usize> {
        bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1)
    }

    fn request<'a>(&self, bytes: &'a [u8]) -> Request<'a> {
        let verb = bytes.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        let verb = String::from_utf8_lossy(verb).to_ascii_uppercase();
        Request { verb, ticket: Some(IN_ORDER), subscribes: false, bytes }
    }

    fn said(&self, bytes: &[u8], _: bool) -> Event {
        match bytes.starts_with(b"*") {
            true => Event::Push { message: true },
            false => Event::Reply { ticket: IN_ORDER },
        }
    }
}

pub(crate) fn mode_word(mode: Mode) -> String {
    match mode {
        Mode::Shared => "shared".to_owned(),
        Mode::Permit { of } => of.to_string(),
        _ => "alone".to_owned(),
    }
}

pub(crate) fn mode_of(word: &str) -> Option<Mode> {
    match word {
        "alone" => Some(Mode::Exclusive),
        "shared" => Some(Mode::Shared),
        limit => limit.parse().ok().map(|of| Mode::Permit { of }),
    }
}

pub(crate) fn claim_of(word: &str) -> Option<ClaimId> {
    u128::from_str_radix(word, 16).ok().map(ClaimId::from_bits)
}

/// Times are in microseconds.
pub(crate) fn grant_words(grant: &Grant) -> String {
    let tokens = (grant.tokens.first().unwrap_or(1), grant.tokens.last().unwrap_or(0));
    let flags = [grant.wanted, grant.handed_on, grant.revoke_requested].map(u8::from);
    let (us, [wanted, handed_on, revoked]) = (grant.valid_for.as_micros(), flags);
    format!("{} {} {us} {} {wanted} {handed_on} {revoked}", tokens.0, tokens.1, grant.slot)
}
