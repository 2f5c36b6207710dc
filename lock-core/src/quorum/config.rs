//! The configuration of a quorum: its clients must all agree on it.

use std::time::Duration;

use super::QuorumError;
use crate::backend::{StoreUrl, UrlError};
use crate::proto::Identity;

/// Below this there is no member that could fail.
pub(super) const MEMBERS_MIN: usize = 3;

/// More of them cost more than they bear.
pub(super) const MEMBERS_MAX: usize = 9;

/// The longest lease of a quorum whose configuration says nothing: 30 s.
const LEASE_MAX: Duration = Duration::from_secs(30);

/// The bounds of the longest lease.
const LEASE_MAX_MIN: Duration = Duration::from_secs(1);
const LEASE_MAX_MAX: Duration = Duration::from_secs(60 * 60);

/// The longest name of a quorum, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// The longest name of a member, in bytes: a host may have 253.
const MEMBER_BYTES_MAX: usize = 260;

/// The configuration of a [managed](super::Quorum::managed) quorum, on which all of its clients
/// must agree. A client that finds another configuration at any member serves nothing: two lists of
/// members that differ may grant one key twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MembershipConfig {
    pub(super) members: Vec<String>,
    name: Option<String>,
    lease_max: Duration,
}

impl MembershipConfig {
    /// The quorum of these members, 3 to 9, each named as all clients name it (`host:port`), in
    /// the order of the stores. Leases are up to 30 s.
    pub fn new<M: Into<String>>(members: impl IntoIterator<Item = M>) -> Self {
        let members = members.into_iter().map(Into::into).collect();
        Self { members, name: None, lease_max: LEASE_MAX }
    }

    /// The configuration of a URL whose hosts are the members, with the parameters `name` and
    /// `lease_max` (see [`with_name`](Self::with_name) and
    /// [`with_lease_max`](Self::with_lease_max)).
    ///
    /// # Errors
    ///
    /// Where `lease_max` is no duration.
    pub fn of(url: &StoreUrl) -> Result<Self, UrlError> {
        let config = Self::new(url.hosts().iter().map(ToString::to_string));
        let name = url.param("name").map(String::from);
        let lease_max = url.duration("lease_max")?.unwrap_or(config.lease_max);
        Ok(Self { name, lease_max, ..config })
    }

    /// Names the quorum, where its clients reach the members under different names: 1 to 128
    /// bytes, no control characters. Without one, the sorted list of members is its name.
    ///
    /// Nothing shows any more that two lists differ, but for their lengths: give each list of
    /// members a name of its own.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The longest lease, 1 s to 1 h (default 30 s), in whole milliseconds. A member that lost its
    /// data is kept away for as long; longer leases are refused.
    #[must_use]
    pub fn with_lease_max(mut self, lease_max: Duration) -> Self {
        self.lease_max = lease_max;
        self
    }

    pub(super) fn lease_max(&self) -> Duration {
        self.lease_max
    }

    pub(super) fn check(&self, stores: usize) -> Result<Identity, QuorumError> {
        let given = self.members.len();
        if given < MEMBERS_MIN {
            return Err(QuorumError::TooFew { given });
        }
        if given > MEMBERS_MAX {
            return Err(QuorumError::TooMany { given });
        }
        if given != stores {
            return Err(QuorumError::Names { given, stores });
        }
        let is_bad = |text: &str, bytes_max| {
            text.is_empty() || text.len() > bytes_max || text.contains(char::is_control)
        };
        if let Some(place) = self.members.iter().position(|name| is_bad(name, MEMBER_BYTES_MAX)) {
            return Err(QuorumError::Name { given: format!("the name of member {place}") });
        }
        let mut sorted = self.members.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(QuorumError::Twice { member: twice[0].clone() });
        }
        let quorum = match &self.name {
            Some(name) if is_bad(name, NAME_BYTES_MAX) => {
                return Err(QuorumError::Name { given: "the name of the quorum".into() });
            }
            Some(name) => name.clone(),
            None => sorted.join(","),
        };
        let is_whole = self.lease_max.subsec_nanos().is_multiple_of(1_000_000);
        if !is_whole || !(LEASE_MAX_MIN..=LEASE_MAX_MAX).contains(&self.lease_max) {
            return Err(QuorumError::LeaseMax { given: self.lease_max });
        }
        let members = u32::try_from(given).unwrap_or(u32::MAX);
        Ok(Identity { quorum, members, lease_max: self.lease_max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_one_quorum_in_whatever_order() {
        let one = MembershipConfig::new(["c:1", "a:1", "b:1"]).check(3).unwrap();
        assert_eq!(one, MembershipConfig::new(["a:1", "b:1", "c:1"]).check(3).unwrap());
        assert_eq!(one.quorum, "a:1,b:1,c:1");
        let named = MembershipConfig::new(["c:1", "a:1", "b:1"]).with_name("n").check(3).unwrap();
        assert_eq!(named.quorum, "n");
    }

    #[test]
    fn what_is_no_quorum_is_refused() {
        let three = || MembershipConfig::new(["a", "b", "c"]);
        for (config, what) in [
            (MembershipConfig::new(["a", "b"]), "not 2"),
            (MembershipConfig::new((0..10).map(|n| n.to_string())), "not 10"),
            (MembershipConfig::new(["a", "b", "c", "d"]), "4 names"),
            (MembershipConfig::new(["a", "b", "a"]), "`a`"),
            (MembershipConfig::new(["a", "", "b"]), "member 1"),
            (three().with_name(""), "the name of the quorum"),
            (three().with_name("two\nlines"), "the name of the quorum"),
            (three().with_lease_max(Duration::from_millis(999)), "999ms"),
            (three().with_lease_max(Duration::from_micros(1_500_500)), "1.5005s"),
            (three().with_lease_max(Duration::from_secs(3_601)), "3601s"),
        ] {
            let error = config.check(3).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
