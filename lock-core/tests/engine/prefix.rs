//! Keys below a prefix, and who asks for them.

use lock_core::backend::ConnectError;
use lock_core::error::{KeyError, Rejection};
use lock_core::limits::{KEY_BYTES_MAX, PREFIX_BYTES_MAX};
use lock_core::memory::Memory;
use lock_core::test_util::Scripted;
use lock_core::{AcquireError, LockClient};

use tokio::time::timeout;

use crate::mute::Mute;
use crate::{Test, secs, settle};

/// Two clients of one store, the first of which has a prefix.
async fn clients() -> Result<(LockClient, LockClient), ConnectError> {
    let store = Memory::new();
    let below = LockClient::builder_with(store.clone()).prefix("staging:eu").connect().await?;
    Ok((below, LockClient::with_backend(store)))
}

#[tokio::test(start_paused = true)]
async fn whoever_has_no_prefix_finds_the_key_below_it_and_the_client_names_it_without() -> Test {
    let (below, all) = clients().await?;
    let held = below.lock("order:42").await?;
    assert_eq!(held.key().as_str(), "order:42");
    assert_eq!(below.busy_keys()[0].key, *held.key());
    assert_eq!(below.inspect(held.key()).await?.holders.len(), 1);
    assert!(all.inspect("order:42").await?.holders.is_empty());
    assert_eq!(all.inspect("staging:eu:order:42").await?.holders.len(), 1);
    assert!(below.request_revoke("order:42").await?);
    held.revoke_requested().await;
    assert!(!all.force_release("order:42").await?);
    assert!(below.force_release("order:42").await?);
    let lost = held.lost().await;
    assert_eq!(lost.key().as_str(), "order:42");
    let both = below.lock_all(["b", "a"]).await?;
    assert_eq!(both.keys().map(|key| key.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    assert!(both.token("a").is_some());
    assert!(all.lock("staging:eu:a").try_acquire().await?.is_none());
    let (taken, beside) = (all.lock("a").await?, below.lock("a").force_acquire().await?);
    assert_eq!(beside.key().as_str(), "a");
    assert!(timeout(secs(1), both.lost()).await?.key().as_str() == "a" && taken.is_held());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_election_is_among_those_of_one_prefix() -> Test {
    let (below, all) = clients().await?;
    let term = below.election("leader").run_for("one").await?;
    let other = all.election("leader").run_for("another").await?;
    settle().await;
    for (locks, leader) in [(&below, "one"), (&all, "another")] {
        let found = locks.election("leader").leader().await?.expect("somebody leads");
        assert_eq!(&*found.value, leader);
    }
    let found = all.election("staging:eu:leader").leader().await?.expect("somebody leads");
    assert_eq!(&*found.value, "one");
    term.resign().await?;
    other.resign().await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_key_that_does_not_fit_below_the_prefix_is_refused_with_its_bound() -> Test {
    let (backend, script) = Scripted::new(Memory::new());
    let below = LockClient::builder_with(backend).prefix("staging:eu").connect().await?;
    let most = KEY_BYTES_MAX - "staging:eu:".len();
    assert_eq!(below.capabilities().key_bytes_max, most);
    let (fits, long) = ("k".repeat(most), "k".repeat(most + 1));
    below.lock(&fits).await?.release().await?;
    let is_told = |error: &KeyError| matches!(error, KeyError::TooLong { bytes, max, .. } if (*bytes, *max) == (most + 1, most));
    for error in [
        below.lock(&long).await.expect_err("too long"),
        below.lock_all(["a", &long]).await.expect_err("too long"),
        below.election(&long).run_for("one").await.expect_err("too long"),
    ] {
        let AcquireError::Rejected(Rejection::Key(error)) = error else { panic!("{error:?}") };
        assert!(is_told(&error), "{error}");
    }
    assert!(below.inspect(&long).await.is_err() && below.force_release(&long).await.is_err());
    assert!(below.request_revoke(&long).await.is_err());
    assert!(below.election(&long).leader().await.is_err());
    assert_eq!(script.calls().len(), 2, "the one that fits alone was sent");
    Ok(())
}

#[tokio::test]
async fn a_prefix_is_told_by_the_builder_or_by_the_url_and_has_bounds() -> Test {
    let url = "memory:?prefix=canary";
    let of_url = LockClient::connect(url).await?;
    assert_eq!(of_url.prefix().map(|key| key.as_str()), Some("canary"));
    let of_both = LockClient::builder(url).prefix("stag ing").connect().await?;
    assert_eq!(of_both.prefix().map(|key| key.as_str()), Some("stag%20ing"));
    assert!(LockClient::memory().prefix().is_none());
    for bad in [String::new(), "p".repeat(PREFIX_BYTES_MAX + 1)] {
        let error = LockClient::builder("memory:").prefix(bad).connect().await.unwrap_err();
        assert!(matches!(error, ConnectError::Prefix(_)), "{error}");
    }
    let long = format!("memory:?prefix={}", "p".repeat(PREFIX_BYTES_MAX + 1));
    let error = LockClient::connect(&long).await.unwrap_err().to_string();
    assert!(error.contains("129 bytes") && error.contains("128"), "{error}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn claims_say_who_asks_and_a_label_has_bounds() -> Test {
    let (backend, script) = Scripted::new(Memory::new());
    let locks = LockClient::builder_with(backend).label("checkout@web-3").connect().await?;
    locks.lock("k").name("pay").await?.release().await?;
    let (_, terms) = script.claims()[0];
    assert_eq!(terms.about(), "checkout@web-3 name=pay");
    for bad in ["", "__REVOKE__", "two\nlines", &*"l".repeat(129)] {
        let error = LockClient::builder("memory:").label(bad).connect().await.unwrap_err();
        assert!(matches!(error, ConnectError::Label { bytes } if bytes == bad.len()), "{error}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn all_busy_keys_are_inspected_of_those_below_the_prefix() -> Test {
    let (below, all) = clients().await?;
    let (_held, _beside) = (below.lock("order:42").await?, all.lock("order:42").await?);
    let waiting = tokio::spawn(below.lock("order:42").wait(secs(600)).acquire());
    settle().await;
    let seen = below.inspect_all(9).await?;
    let [(key, inspection)] = &seen.keys[..] else { panic!("{seen:?}") };
    assert_eq!((key.as_str(), inspection.holders.len(), seen.is_whole), ("order:42", 1, true));
    let seen = all.inspect_all(9).await?;
    let keys: Vec<_> = seen.keys.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(keys, ["order:42", "staging:eu:order:42"]);
    let some = all.inspect_all(1).await?;
    assert!(some.keys.len() == 1 && !some.is_whole);
    waiting.abort();
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn all_keys_are_not_asked_for_where_the_store_cannot_list_them() {
    let cannot = LockClient::with_backend(Mute::new(|capabilities| capabilities.listing = false));
    let error = cannot.inspect_all(9).await.unwrap_err();
    assert!(error.is_unsupported() && error.to_string().contains("listing"), "{error}");
}
