//! Which keys are locked.

use lock_core::{AcquireError, Key, LockClient, LockHandle, distributed_lock};

use crate::{holder, is_held};

type Outcome<T = String> = Result<T, AcquireError>;

#[distributed_lock(key = "order:{id}:{state}", client = locks, guard = g)]
async fn order(locks: &LockClient, id: &str, state: &str) -> Outcome {
    Ok(g.key().to_string())
}

#[tokio::test(start_paused = true)]
async fn a_value_can_not_forge_the_key_of_another() {
    let locks = LockClient::memory();
    let pairs = [
        ("1", "2:3"),
        ("1:2", "3"),
        ("1", "2%3A3"),
        ("1%3A2", "3"),
        ("", "1:2:3"),
        ("1:2:3", ""),
        ("{1}", "2"),
        ("%7B1%7D", "2"),
        ("1", "2"),
        ("1\n", "2"),
        ("1", "\n2"),
        ("..", "."),
    ];
    let mut keys = Vec::new();
    for (id, state) in pairs {
        let key = order(&locks, id, state).await.unwrap();
        assert_eq!(key, Key::from_segments(["order", id, state]).unwrap().as_str());
        assert!(key.bytes().all(|b| b.is_ascii_graphic() && !b"{}/".contains(&b)), "{key}");
        keys.push(key);
    }
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), pairs.len());
}

#[tokio::test(start_paused = true)]
async fn a_value_that_makes_the_key_too_long_is_rejected_and_the_body_does_not_run() {
    let locks = LockClient::memory();
    let error = order(&locks, &"x".repeat(10_000_000), "").await.unwrap_err();
    assert!(error.is_rejected(), "{error}");
    assert!(error.to_string().contains("10000007 bytes"), "{error}");
}

struct Request {
    line: (Line, u8),
}

struct Line {
    sku: String,
}

#[distributed_lock(key = "{{}}:a-{req.line.0.sku}:{req.line.1}", client = locks, guard = g)]
async fn fields(locks: &LockClient, req: Request) -> Outcome {
    let _ = req;
    Ok(g.key().to_string())
}

#[distributed_lock(key = ("t:{1}:{0}:{id}", id + 1, format_args!("{id:03}")), client = locks, guard = g)]
async fn tuple(locks: &LockClient, id: u8) -> Outcome {
    Ok(g.key().to_string())
}

#[distributed_lock(key = format!("e:{id}"), client = locks, guard = g)]
async fn expression(locks: &LockClient, id: &str) -> Outcome {
    Ok(g.key().to_string())
}

#[distributed_lock(client = LOCKS.with(Clone::clone), guard = g)]
async fn no_parameters() -> Outcome {
    Ok(g.key().to_string())
}

thread_local! {
    static LOCKS: LockClient = LockClient::memory();
}

#[tokio::test(start_paused = true)]
async fn each_form_of_a_key_names_what_it_says() {
    let locks = LockClient::memory();
    let req = Request { line: (Line { sku: "s:1".into() }, 2) };
    assert_eq!(fields(&locks, req).await.unwrap(), "%7B%7D:a-s%3A1:2");
    assert_eq!(tuple(&locks, 7).await.unwrap(), "t:007:8:7");
    // In text the caller separates the segments.
    assert_eq!(expression(&locks, "1:2").await.unwrap(), "e:1:2");
    assert_eq!(no_parameters().await.unwrap(), "runtime:keys:no_parameters");
}

#[distributed_lock(keys = ["account:{from}", "account:{to}"], client = locks, guard = guards)]
async fn transfer(locks: &LockClient, from: u8, to: u8) -> Outcome<Vec<String>> {
    for key in ["account:1", "account:2"] {
        assert_eq!(
            is_held_outside(locks, key).await,
            guards.iter().any(|g| g.key().as_str() == key)
        );
    }
    Ok(guards.iter().map(LockHandle::key).map(Key::to_string).collect())
}

async fn is_held_outside(locks: &LockClient, key: &'static str) -> bool {
    let locks = locks.clone();
    tokio::spawn(async move { is_held(&locks, key).await }).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn several_keys_are_held_together_in_sorted_order_and_each_once() {
    let locks = LockClient::memory();
    assert_eq!(transfer(&locks, 2, 1).await.unwrap(), ["account:1", "account:2"]);
    assert_eq!(transfer(&locks, 1, 2).await.unwrap(), ["account:1", "account:2"]);
    assert_eq!(transfer(&locks, 2, 2).await.unwrap(), ["account:2"]);
    assert_eq!(locks.stats().held, 0);
}

#[tokio::test(start_paused = true)]
async fn opposite_orders_do_not_block_each_other() {
    let locks = LockClient::memory();
    for _ in 0..20 {
        let (a, b) = tokio::join!(transfer(&locks, 1, 2), transfer(&locks, 2, 1));
        a.and(b).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn several_keys_wait_no_longer_than_one() {
    let locks = LockClient::memory();
    let first = holder(&locks, "account:1").await;
    let _second = holder(&locks, "account:2").await;
    let started = tokio::time::Instant::now();
    let call = transfer(&locks, 1, 2);
    let release = async {
        tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
        first.release().await.unwrap();
    };
    let (outcome, ()) = tokio::join!(call, release);
    assert!(outcome.unwrap_err().is_timeout());
    // Two tries of 2 s and the pause between them, not twice as much.
    let waited = started.elapsed().as_millis();
    assert!((3_900..5_000).contains(&waited), "{waited} ms");
    assert!(!is_held(&locks, "account:1").await, "what was taken is given back");
}

#[distributed_lock(keys = items.iter().map(|item| Key::from_segments(["item", item])), client = locks)]
async fn many(locks: &LockClient, items: Vec<String>) -> Outcome<usize> {
    Ok(items.len())
}

#[tokio::test(start_paused = true)]
async fn no_keys_and_too_many_keys_are_rejected() {
    let locks = LockClient::memory();
    let items = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>();
    assert!(many(&locks, items(0)).await.unwrap_err().is_rejected());
    assert_eq!(many(&locks, items(64)).await.unwrap(), 64);
    assert!(many(&locks, items(65)).await.unwrap_err().is_rejected());
}

#[distributed_lock(key = ("once:{}", count(calls)), client = locks, retries = 3, wait = "10ms")]
async fn once(locks: &LockClient, calls: &std::cell::Cell<u8>) -> Outcome<()> {
    Ok(())
}

fn count(calls: &std::cell::Cell<u8>) -> u8 {
    calls.set(calls.get() + 1);
    1
}

#[tokio::test(start_paused = true)]
async fn the_key_is_evaluated_once_whatever_the_retries() {
    let locks = LockClient::memory();
    let _other = holder(&locks, "once:1").await;
    let calls = std::cell::Cell::new(0);
    assert!(once(&locks, &calls).await.unwrap_err().is_timeout());
    assert_eq!(calls.get(), 1);
}
