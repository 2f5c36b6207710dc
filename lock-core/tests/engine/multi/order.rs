//! The keys that are taken, and their order.

use lock_core::error::{KeyError, Rejection};
use lock_core::limits::KEYS_MAX;
use lock_core::{AcquireError, Key};
use tokio::time::{Instant, sleep};

use super::{KEYS, taken};
use crate::{Stage, Test, ms, secs, settle};

const ORDERS: [[&str; 3]; 6] = [
    ["j", "k", "l"],
    ["j", "l", "k"],
    ["k", "j", "l"],
    ["k", "l", "j"],
    ["l", "j", "k"],
    ["l", "k", "j"],
];

#[tokio::test(start_paused = true)]
async fn keys_are_taken_in_one_order_in_whatever_order_they_are_named() -> Test {
    for order in ORDERS {
        for (stuck, key) in KEYS.into_iter().enumerate() {
            let stage = Stage::new();
            let held = stage.rival.lock(key).await?;
            let waiting = tokio::spawn(stage.locks.lock_all(order).acquire());
            settle().await;
            // Those before the one that is not to be had, and that one itself.
            let expected = [0, 1, 2].map(|at| at <= stuck);
            assert_eq!(taken(&stage).await?, expected, "{order:?}, {key} is taken");
            held.release().await?;
            let all = waiting.await??;
            assert!(all.keys().map(Key::as_str).eq(KEYS));
            all.release().await?;
            stage.is_clean(ms(1)).await;
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn who_names_the_keys_in_opposite_orders_never_waits_for_each_other() -> Test {
    let stage = Stage::new();
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for (client, order) in [(&stage.locks, ["j", "k"]), (&stage.rival, ["k", "j"])] {
        for order in [order, [order[1], order[0]]] {
            let client = client.clone();
            tasks.push(tokio::spawn(async move {
                for _ in 0..50 {
                    let both = client.lock_all(order).wait(secs(60)).await?;
                    sleep(ms(1)).await;
                    drop(both);
                    tokio::task::yield_now().await;
                }
                Ok::<_, AcquireError>(())
            }));
        }
    }
    for task in tasks {
        task.await??;
    }
    // Some timers' resolution for each of 200 turns; nobody waited for a time-out.
    assert!(begun.elapsed() < secs(2), "{:?}", begun.elapsed());
    stage.is_clean(ms(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_named_twice_is_taken_once() -> Test {
    let stage = Stage::new();
    let all = stage.locks.lock_all(["k", "j", "k", "a{b}", "a%7Bb%7D"]).await?;
    assert_eq!(
        all.keys().map(Key::as_str).collect::<Vec<_>>(),
        ["a%257Bb%257D", "a%7Bb%7D", "j", "k"]
    );
    assert_eq!(stage.script.claims().len(), 4);
    all.release().await?;

    let one = stage.locks.lock_all(["k"; 1_000]).await?;
    assert_eq!((one.keys().len(), one.tokens().len()), (1, 1));
    one.release().await?;
    stage.is_clean(ms(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_no_acquire_can_serve_is_refused_by_name_before_anything_is_sent() -> Test {
    let stage = Stage::new();
    let many: Vec<_> = (0..=KEYS_MAX).map(|number| format!("k{number}")).collect();
    let long = "q".repeat(600);
    let too_few = stage.locks.lock_all(Vec::<Key>::new()).await.unwrap_err();
    let too_many = stage.locks.lock_all(&many).await.unwrap_err();
    let invalid = stage.locks.lock_all(["a", &long, "b"]).try_acquire().await.unwrap_err();
    let empty = stage.locks.lock_all(["a", ""]).run(|_| async {}).await.unwrap_err();
    let mut options = Vec::new();
    for (option, several) in [
        ("lease", stage.locks.lock_all(["b", "a"]).lease(ms(0))),
        ("hold_limit", stage.locks.lock_all(["b", "a"]).hold_limit(ms(0))),
        ("wait", stage.locks.lock_all(["b", "a"]).wait(secs(90_000)).admission(true)),
        ("1001 retries", stage.locks.lock_all(["b", "a"]).retries(1_001)),
    ] {
        options.push((option, several.await.unwrap_err().to_string()));
    }
    assert!(stage.script.claims().is_empty());

    let count = |error: &AcquireError| match error {
        AcquireError::Rejected(Rejection::KeyCount { given, max }) => (*given, *max),
        other => panic!("{other}"),
    };
    assert_eq!((count(&too_few), count(&too_many)), ((0, KEYS_MAX), (KEYS_MAX + 1, KEYS_MAX)));
    assert!(too_many.to_string().contains("65 keys"), "{too_many}");
    assert!(invalid.to_string().contains("`qqq") && invalid.is_rejected(), "{invalid}");
    assert!(empty.to_string() == KeyError::Empty.to_string(), "{empty}");
    for (option, error) in options {
        assert!(error.starts_with(&format!("lock `a`: {option}")), "{error}");
    }

    stage.locks.lock_all(&many[1..]).await?.release().await?;
    stage.is_clean(ms(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_try_takes_all_or_gives_those_before_back() -> Test {
    for (stuck, key) in KEYS.into_iter().enumerate() {
        for here in [true, false] {
            let stage = Stage::new();
            let client = if here { &stage.locks } else { &stage.rival };
            let held = client.lock(key).await?;
            let begun = Instant::now();
            assert!(stage.locks.lock_all(KEYS).retries(9).try_acquire().await?.is_none());
            assert_eq!(begun.elapsed(), ms(0));
            // Back at the store when it is said, not soon after.
            assert_eq!(taken(&stage).await?, [0, 1, 2].map(|at| at == stuck));
            held.release().await?;
            let all = stage.locks.lock_all(KEYS).try_acquire().await?.expect("all are free");
            assert_eq!(taken(&stage).await?, [true; 3]);
            all.release().await?;
            stage.is_clean(ms(1)).await;
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_held_by_the_caller_is_re_entered_and_the_others_are_taken() -> Test {
    let stage = Stage::new();
    let outer = stage.locks.lock("k").await?;
    let inner = outer.scope(stage.locks.lock_all(KEYS).wait(ms(100)).acquire()).await?;
    assert_eq!(inner.token("k"), Some(outer.token()));
    // Under all of them, each can be taken again, alone and together.
    let again = inner.scope(async { stage.locks.lock_all(["l", "j"]).wait(ms(100)).await }).await?;
    assert_eq!((again.token("j"), again.token("l")), (inner.token("j"), inner.token("l")));
    assert_eq!((again.token("k"), inner.token("")), (None, None));
    again.release().await?;
    assert_eq!(taken(&stage).await?, [true; 3]);
    inner.release().await?;
    assert_eq!(taken(&stage).await?, [false, true, false]);
    assert!(outer.is_held());
    outer.release().await?;

    let run = stage.locks.lock_all(KEYS).run(async |all| {
        let single = stage.locks.lock("k").wait(ms(100)).await?;
        assert_eq!(Some(single.token()), all.token("k"));
        Ok::<_, AcquireError>(all.tokens().len())
    });
    assert_eq!(run.await??, 3);
    let stranger = stage.locks.lock_all(KEYS);
    let outer = stage.locks.lock("k").await?;
    let error = outer.scope(stranger.reentrant(false).wait(ms(100)).acquire()).await.unwrap_err();
    assert!(error.is_timeout() && error.key().is_some_and(|key| key.as_str() == "k"), "{error}");
    drop(outer);
    stage.is_clean(ms(1)).await;
    Ok(())
}
