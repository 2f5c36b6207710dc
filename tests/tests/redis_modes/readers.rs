//! Readers, and who stays out.

use lock_core::Key;
use lock_core::backend::{Attempt, Backend, Claim, FaultKind};
use tests::redis::RedisServer;

use crate::support::*;

#[tokio::test]
async fn others_that_set_the_key_if_it_is_absent_stay_out_until_the_last_reader_is_gone() {
    let server = RedisServer::start();
    let (one, two) = (store(&server).await, store(&server).await);
    let (mut first, mut last) = (claim(&one, READER), claim(&two, READER));
    first.takes().await;
    last.takes().await;
    let mut writer = claim(&two, WRITER);
    for reader in [&mut first, &mut last] {
        assert!(!sets_if_absent(&server));
        writer.waits().await;
        reader.renews().await;
        writer.leaves().await;
        reader.releases().await;
    }
    assert_eq!(keys(&server), Vec::<String>::new());
    assert!(sets_if_absent(&server));
    // And the other way round: it is asked for often, as nobody pushes its release.
    assert!(first.waits().await.1 <= ms(50));
    // A value that merely looks like ours is theirs too.
    server.command::<()>(&["SET", LOCK, "lock:permits:mine"]);
    for mode in [READER, WRITER, of(2)] {
        let mut asker = claim(&one, mode);
        assert!(asker.waits().await.1 <= ms(50));
        asker.leaves().await;
    }
    server.command::<()>(&["DEL", LOCK]);
    first.takes().await;
    first.releases().await;
    assert_eq!(keys(&server), Vec::<String>::new());
}

#[tokio::test]
async fn the_lock_lives_as_long_as_the_longest_lease_of_those_who_are_left() {
    let server = RedisServer::start();
    let store = store(&server).await;
    let [mut long, mut short] = [LONG, ms(9_000)].map(|lease| claim_for(&store, READER, lease));
    short.takes().await;
    assert!(left(&server, LOCK) <= ms(9_000));
    long.takes().await;
    for _ in 0..2 {
        for name in [LOCK, HELD] {
            assert!(left(&server, name) > LONG / 2, "{name}");
        }
        short.renews().await;
    }
    long.releases().await;
    for name in [LOCK, HELD] {
        assert!(left(&server, name) <= ms(9_000), "{name}");
    }
    short.releases().await;
    assert_eq!(keys(&server), Vec::<String>::new());
}

/// It was deleted, evicted, or another version took it away.
#[tokio::test]
async fn readers_whose_lock_was_deleted_are_lost_whoever_has_the_key_by_then() {
    let server = RedisServer::start();
    let (one, two) = (store(&server).await, store(&server).await);
    for heir in [Some(READER), Some(WRITER), None] {
        let mut gone = claim(&one, READER);
        gone.takes().await;
        server.command::<()>(&["DEL", LOCK]);
        let mut next = claim(&two, heir.unwrap_or(WRITER));
        if heir.is_some() {
            next.takes().await;
            gone.is_lost().await;
        } else {
            // A writer that became a reader since: those of the past are not among those beside it.
            next.takes().await;
            next.downgrades().await;
            gone.is_lost().await;
        }
        let seen = two.inspect(&Key::new("k").unwrap()).await.unwrap();
        assert!(seen.holders.len() == 1 && seen.holders[0].claim == next.id, "{seen:?}");
        gone.leaves().await;
        next.renews().await;
        next.releases().await;
        server.command::<()>(&["DEL", HELD]);
        assert_eq!(keys(&server), Vec::<String>::new());
    }
}

#[tokio::test]
async fn readers_of_whom_nothing_is_noted_any_more_hold_nobody_up() {
    let server = RedisServer::start();
    let (one, two) = (store(&server).await, store(&server).await);
    let mut gone = claim(&one, READER);
    gone.takes().await;
    server.command::<()>(&["DEL", HELD]);
    gone.is_lost().await;
    let mut writer = claim(&two, WRITER);
    writer.takes().await;
    writer.releases().await;
    assert_eq!(keys(&server), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_of_another_type_is_an_error_and_stays() {
    let server = RedisServer::start();
    let store = store(&server).await;
    for (name, mode) in [(LOCK, READER), (HELD, READER), (HELD, of(2)), (SLOTS, of(2))] {
        server.command::<()>(&["HSET", name, "field", "theirs"]);
        let mut refused = claim(&store, mode);
        match refused.attempt().await {
            Err(fault) if fault.kind() == FaultKind::ForeignValue => {}
            answer => panic!("{name}: {answer:?}"),
        }
        assert_eq!(keys(&server), [name]);
        assert_eq!(server.command::<String>(&["HGET", name, "field"]), "theirs");
        server.command::<()>(&["DEL", name]);
    }
    let mut writer = claim(&store, WRITER);
    writer.takes().await;
    server.command::<()>(&["SET", HELD, "theirs"]);
    // The exclusive path does not look there; who would become a reader does.
    assert!(writer.claim.downgrade().await.is_err());
    writer.renews().await;
    writer.releases().await;
    assert_eq!(keys(&server), [HELD]);
}

/// A waiter whose turn it is stays in the line until it is sure to have the key.
#[tokio::test]
async fn who_cannot_be_let_in_keeps_its_place_whoever_comes_by() {
    let server = RedisServer::start();
    let (one, two) = (store(&server).await, store(&server).await);
    let (mut holder, mut writer) = (claim(&one, WRITER), claim(&two, WRITER));
    for mode in [READER, of(2)] {
        let theirs = if mode == READER { HELD } else { SLOTS };
        let mut head = claim(&two, mode);
        holder.takes().await;
        head.waits().await;
        writer.waits().await;
        server.command::<()>(&["SET", theirs, "theirs"]);
        server.command::<()>(&["DEL", LOCK]);
        let answer = writer.attempt().await;
        assert!(answer.is_err_and(|fault| fault.kind() == FaultKind::ForeignValue));
        let line: Vec<String> = server.command(&["LRANGE", QUEUE, "0", "-1"]);
        assert!(line.len() == 2 && line[0].starts_with(&head.id), "{line:?}");
        server.command::<()>(&["DEL", theirs]);
        holder.leaves().await;
        head.takes().await;
        writer.waits().await;
        head.releases().await;
        writer.is_handed(&two).await;
        writer.releases().await;
        assert_eq!(keys(&server), Vec::<String>::new());
    }
}

/// An error of what one holds with others is no error of what is renewed beside it.
#[tokio::test]
async fn a_right_that_readers_miss_takes_no_other_hold_with_it() {
    let server = RedisServer::start();
    let store = store(&server).await;
    let (mut reader, mut other) = (claim(&store, READER), claim_on(&store, "other", WRITER, LONG));
    reader.takes().await;
    other.takes().await;
    for right in ["zscore", "zadd", "zrange"] {
        server.command::<()>(&["ACL", "SETUSER", "default", &format!("-{right}")]);
        let (renewed, _) = tokio::join!(reader.claim.renew(), other.renews());
        let fault = renewed.unwrap_err();
        assert_eq!(fault.kind(), FaultKind::Refused, "{fault}");
        server.command::<()>(&["ACL", "SETUSER", "default", &format!("+{right}")]);
        reader.renews().await;
    }
    // A value of another type is told of that one alone, too.
    server.command::<()>(&["RENAME", HELD, "aside"]);
    server.command::<()>(&["SET", HELD, "theirs"]);
    let (renewed, _) = tokio::join!(reader.claim.renew(), other.renews());
    assert_eq!(renewed.unwrap_err().kind(), FaultKind::ForeignValue);
    server.command::<()>(&["RENAME", "aside", HELD]);
    reader.releases().await;
    other.releases().await;
    assert_eq!(keys(&server), Vec::<String>::new());
}

/// A server that took over does not know two things: that the writer became a reader, and who came
/// then.
#[tokio::test]
async fn a_downgrade_that_a_failover_lost_is_asked_for_again_and_no_token_is_given_twice() {
    let server = RedisServer::start();
    let (one, two) = (store(&server).await, store(&server).await);
    for is_renewed in [true, false] {
        let (mut writer, mut lost) = (claim(&one, WRITER), claim(&two, READER));
        writer.takes().await;
        lost.waits().await;
        let seen: String = server.command(&["GET", LOCK]);
        writer.downgrades().await;
        let tokens = lost.is_handed(&two).await.tokens;
        server.command::<()>(&["SET", LOCK, &seen, "PX", "60000"]);
        server.command::<()>(&["DEL", HELD]);
        let mut next = claim(&two, WRITER);
        if is_renewed {
            writer.renews().await;
            let mut other = claim(&two, READER);
            other.takes().await;
            lost.is_lost().await;
            other.releases().await;
            next.waits().await;
            writer.releases().await;
            next.is_handed(&two).await;
        } else {
            next.waits().await;
            writer.releases().await;
            let grant = next.is_handed(&two).await;
            assert!(
                grant.tokens.first() > tokens.last(),
                "a finding of safety: {grant:?} {tokens:?}"
            );
            lost.leaves().await;
        }
        next.releases().await;
        assert_eq!(keys(&server), Vec::<String>::new());
    }
}

/// Each has tokens of its own for as long as it holds the key.
#[tokio::test]
async fn no_two_readers_have_a_token_in_common_however_often_they_renew() {
    let server = RedisServer::start();
    let (one, two) = (store(&server).await, store(&server).await);
    let mut writer = claim(&one, WRITER);
    let mut blocks = vec![writer.takes().await.tokens];
    let mut reader = claim(&two, READER);
    reader.waits().await;
    blocks.push(writer.downgrades().await.tokens);
    blocks.push(reader.is_handed(&two).await.tokens);
    for _ in 0..3 {
        blocks.push(writer.renews().await.tokens);
        blocks.push(reader.renews().await.tokens);
    }
    for pair in blocks.windows(2) {
        assert!(pair[0].last() < pair[1].first(), "{blocks:?}");
    }
    writer.releases().await;
    reader.releases().await;
    assert_eq!(keys(&server), Vec::<String>::new());
}

/// Its attempt may still be on its way when it is asked again.
#[tokio::test]
async fn a_reader_that_waits_and_asks_again_keeps_its_place() {
    let server = RedisServer::start();
    let (one, two) = (store(&server).await, store(&server).await);
    let mut writer = claim(&one, WRITER);
    writer.takes().await;
    let [mut first, mut second] = [READER, WRITER].map(|mode| claim(&two, mode));
    assert_eq!(first.waits().await.0, 1);
    assert_eq!(second.waits().await.0, 2);
    assert_eq!(first.waits().await.0, 1);
    writer.releases().await;
    first.is_handed(&two).await;
    // A push that was lost: the answer says the same.
    let mut again = first.attempt().await;
    for _ in 0..2 {
        assert!(matches!(again, Ok(Attempt::Granted(grant)) if grant.wanted), "{again:?}");
        again = first.attempt().await;
    }
    second.waits().await;
    first.releases().await;
    second.is_handed(&two).await;
    second.releases().await;
    assert_eq!(keys(&server), Vec::<String>::new());
}
