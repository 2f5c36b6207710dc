//! The names of docs/redis.md.

use tests::redis::RedisServer;

use crate::support::*;

const DOCUMENT: &str = include_str!("../../../docs/redis.md");

/// Each key that is there while a key is held by several and waited for stands in the page, with its
/// type; and each has an end.
#[tokio::test]
async fn every_key_at_the_server_is_in_the_page() {
    let server = RedisServer::start();
    let store = store(&server).await;
    let mut asked = Vec::new();
    for mode in [of(2), of(2), WRITER] {
        let mut asker = claim(&store, mode);
        let _stands = asker.attempt().await.unwrap();
        asked.push(asker);
    }
    let seen = server.keys();
    assert_eq!(seen.len(), 6);
    for key in seen {
        let name = key.name.replace("{k}", "{K}");
        let kind = if key.kind == "zset" { "sorted set" } else { &key.kind };
        let row = format!("| `{name}` | {kind} |");
        assert!(DOCUMENT.contains(&row), "{row}");
        assert!(key.is_clock() || key.ttl_ms.is_some(), "{key:?} has no end");
    }
    assert!(DOCUMENT.contains(&server.command::<String>(&["GET", LOCK]).replace("2", "N")));
}
