//! Rows that nobody has used for long.

use std::sync::Arc;

use super::together::{A, LEASE, held_by, process};
use crate::sql::store::Store;

/// And none of it looks at more than a part of the table.
#[tokio::test]
async fn a_sweep_goes_from_the_first_name_to_the_last_part_by_part() {
    let server = held_by(&[A]);
    let store = process(&server);
    assert_eq!(Store::sweep(Arc::downgrade(&store), LEASE).await.unwrap(), 3);
    let parts = [("", "b"), ("b", "c"), ("c", "\u{7f}")];
    assert_eq!(server.swept(), parts.map(|(from, before)| (from.to_owned(), before.to_owned())));
}

#[tokio::test]
async fn a_sweep_ends_with_its_store() {
    let server = held_by(&[A]);
    let gone = Arc::downgrade(&process(&server));
    assert_eq!(Store::sweep(gone, LEASE).await.unwrap(), 0);
    assert!(server.swept().is_empty());
}
