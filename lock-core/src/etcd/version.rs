//! The version of the cluster, as the leases of some cannot be relied on.

use std::sync::Arc;

use super::links::{Links, REQUEST_WITHIN};
use crate::ground::{Plus as _, clock};

/// The first version of each line whose leader looks at the others before it lets a lease end.
/// Before that one that was voted out, and was too slow to notice, ends leases that are kept.
const SAFE_FROM: [(u32, u32, u32); 2] = [(3, 4, 31), (3, 5, 13)];

/// Warns of a cluster that may end a lease that is kept.
pub(super) async fn look_at(links: Arc<Links>) {
    let until = clock::now().plus(REQUEST_WITHIN);
    let Ok(version) = links.version(until).await else { return };
    if read(&version).is_some_and(ends_leases) {
        tracing::warn!(
            version,
            "this etcd may end a lease that is kept, after a leader was slow: update it to 3.4.31, \
             3.5.13 or later, and have resources check the fencing token"
        );
    }
}

fn read(version: &str) -> Option<(u32, u32, u32)> {
    let mut parts = version.split(['.', '-', '+']).map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?))
}

fn ends_leases(version: (u32, u32, u32)) -> bool {
    let is_line = |safe: &&(u32, u32, u32)| (safe.0, safe.1) == (version.0, version.1);
    match SAFE_FROM.iter().find(is_line) {
        Some(safe) => version < *safe,
        None => version < SAFE_FROM[0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_whose_leases_cannot_be_relied_on_are_told() {
        for (version, is_bad) in [
            ("3.3.27", true),
            ("3.4.23", true),
            ("3.4.31", false),
            ("3.5.0", true),
            ("3.5.13", false),
            ("3.6.0-rc.1", false),
            ("4.0.0", false),
        ] {
            assert_eq!(ends_leases(read(version).unwrap()), is_bad, "{version}");
        }
        assert_eq!(read("odd"), None);
    }
}
