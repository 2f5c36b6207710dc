//! Several processes on one table.

use sqlx::Row;
use tests::sharing::processes_share_a_key;

use crate::support::*;

/// V1, V2, V4, V5.
#[tokio::test]
async fn processes_share_a_key_fairly_and_nobody_is_left_out() {
    processes_share_a_key(Place::new, Place::new_url).await;
}

/// F16, F40 (V2): the clock was set back by an hour, once. What is granted and renewed goes on from the
/// row, and by so little each that the clock catches up.
#[tokio::test]
async fn a_row_that_is_ahead_of_the_clock_goes_on_by_little() {
    let place = Place::new();
    let (locks, table) = (connect(&place.new_url(), ms(2_000)).await, &place.table);
    let guard = locks.lock("k").await.expect("a free key");
    let ahead = i64::from(guard.token()) + 8_000_000 * 3_600;
    guard.release().await.expect("a release");
    place.server.sql(format!("UPDATE {table} SET fence = {ahead} WHERE name = 'k'"));
    let guard = renewed(&locks, "k", 2).await;
    assert!(i64::from(guard.token()) > ahead, "a finding of safety: {}", guard.token());
    let rows = place.server.sql(format!("SELECT fence FROM {table} WHERE name = 'k'"));
    let on = rows[0].get::<i64, _>(0) - ahead;
    let stats = locks.stats();
    let asked = i64::try_from(stats.renewals + stats.acquired).expect("few") + 1;
    assert!(on <= 512 * asked, "{on} tokens for {asked} statements");
    guard.release().await.expect("a release");
}
