//! The enrolment that a member of a quorum keeps, and its text: one line of eight words.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The first word. Another layout is another word, so that nobody reads what it does not know.
const LAYOUT: &str = "lock-quorum-1";

/// The word that stands for nothing.
const NONE: &str = "-";

/// All of a list of hosts stays as it is, for those who look at the store.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'.').remove(b',').remove(b':').remove(b'_').remove(b'[').remove(b']');

/// The proof that a store is a member of a quorum. It lives for as long as the store has its data.
///
/// Its text is one line: `lock-quorum-1 <quorum> <members> <lease_max in ms> <nonce> <incarnation>
/// <ready_at in µs> <token_min>`. Quorum and incarnation are percent-encoded. An incarnation
/// without a name is `-`, and so is no minimum. Equal enrolments are equal texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolment {
    /// The name of the quorum: the list of its members, or what the application calls it.
    pub quorum: String,
    /// The number of members.
    pub members: u32,
    /// The longest lease that its clients ask for, in whole milliseconds.
    pub lease_max: Duration,
    /// Drawn at random with each enrolment of a store that had none, or has lost writes.
    pub nonce: u64,
    /// The [`Probe::incarnation`](super::Probe::incarnation) that it was written in.
    pub incarnation: String,
    /// The time from which the store may grant, by [`Probe::now`](super::Probe::now), in whole
    /// microseconds.
    pub ready_at: Duration,
    /// Its tokens are above this; `None` until the others were asked how far they are.
    pub token_min: Option<u64>,
}

/// A text that is no [`Enrolment`] of this layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not the enrolment of a member of a quorum, or one of another version")]
pub struct EnrolmentError;

impl fmt::Display for Enrolment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quorum = utf8_percent_encode(&self.quorum, ENCODED);
        let (members, lease_ms) = (self.members, self.lease_max.as_millis());
        let (nonce, ready_us) = (self.nonce, self.ready_at.as_micros());
        write!(f, "{LAYOUT} {quorum} {members} {lease_ms} {nonce:016x} ")?;
        match self.incarnation.as_str() {
            "" => f.write_str(NONE)?,
            // An incarnation of this name would be read as none.
            NONE => f.write_str("%2D")?,
            incarnation => utf8_percent_encode(incarnation, ENCODED).fmt(f)?,
        }
        write!(f, " {ready_us} ")?;
        match self.token_min {
            Some(token_min) => write!(f, "{token_min}"),
            None => f.write_str(NONE),
        }
    }
}

impl FromStr for Enrolment {
    type Err = EnrolmentError;

    fn from_str(text: &str) -> Result<Self, EnrolmentError> {
        let words: Vec<_> = text.split(' ').collect();
        let [LAYOUT, quorum, members, lease_ms, nonce, incarnation, ready_us, token_min] =
            words[..]
        else {
            return Err(EnrolmentError);
        };
        let decoded = |word: &str| {
            let text = percent_decode_str(word).decode_utf8();
            text.map(String::from).map_err(|_| EnrolmentError)
        };
        let number = |word: &str| word.parse::<u64>().map_err(|_| EnrolmentError);
        Ok(Self {
            quorum: decoded(quorum)?,
            members: members.parse().map_err(|_| EnrolmentError)?,
            lease_max: Duration::from_millis(number(lease_ms)?),
            nonce: u64::from_str_radix(nonce, 16).map_err(|_| EnrolmentError)?,
            incarnation: if incarnation == NONE { String::new() } else { decoded(incarnation)? },
            ready_at: Duration::from_micros(number(ready_us)?),
            token_min: if token_min == NONE { None } else { Some(number(token_min)?) },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn some() -> Enrolment {
        Enrolment {
            quorum: "a:1,[::1]:2,c.d_e:3".into(),
            members: 3,
            lease_max: Duration::from_secs(30),
            nonce: 0xab,
            incarnation: "f00".into(),
            ready_at: Duration::from_micros(1_700_000_000_000_001),
            token_min: None,
        }
    }

    #[test]
    fn it_is_one_line_that_people_can_read() {
        let text =
            "lock-quorum-1 a:1,[::1]:2,c.d_e:3 3 30000 00000000000000ab f00 1700000000000001 -";
        assert_eq!(some().to_string(), text);
        assert!(Enrolment { token_min: Some(7), ..some() }.to_string().ends_with("01 7"));
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in ["", "-", "x", "lock-quorum-2 q 3 1 0 - 0 -", "lock-quorum-1 q 3 1 0 - 0 - -"] {
            assert_eq!(text.parse::<Enrolment>(), Err(EnrolmentError), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            quorum: String, members: u32, lease_ms: u64, nonce: u64, incarnation: String,
            ready_us: u64, token_min: Option<u64>,
        ) {
            let lease_max = Duration::from_millis(lease_ms);
            let ready_at = Duration::from_micros(ready_us);
            let it = Enrolment { quorum, members, lease_max, nonce, incarnation, ready_at, token_min };
            let text = it.to_string();
            prop_assert!(!text.contains(char::is_control), "{}", text);
            prop_assert_eq!(text.parse::<Enrolment>(), Ok(it));
        }
    }
}
