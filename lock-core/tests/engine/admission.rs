//! A key keeps its goodput however many want it: who cannot be served in time is refused, at once
//! where that can be known, and who waits is served.

use std::time::Duration;

use lock_core::{AcquireError, LockClient, LockOptions};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::{Test, ms, secs};

/// The ends of the callers of one load.
#[derive(Debug, Default)]
struct Outcome {
    /// Done within their budget.
    done: u32,
    /// Done, and late.
    late: u32,
    refused: u32,
    /// The longest time to a refusal.
    refused_after: Duration,
    timed_out: u32,
}

impl Outcome {
    fn add(&mut self, other: &Self) {
        self.done += other.done;
        self.late += other.late;
        self.refused += other.refused;
        self.refused_after = self.refused_after.max(other.refused_after);
        self.timed_out += other.timed_out;
    }
}

/// One caller: takes the key, holds it and is done.
async fn call(locks: LockClient, hold: Duration, budget: Duration) -> Outcome {
    let begun = Instant::now();
    let mut outcome = Outcome::default();
    match locks.lock("sku").await {
        Ok(guard) => {
            sleep(hold).await;
            guard.release().await.expect("held");
            let in_time = begun.elapsed() <= budget;
            (outcome.done, outcome.late) = (u32::from(in_time), u32::from(!in_time));
        }
        Err(AcquireError::Overloaded(error)) => {
            assert!(error.estimated_wait().is_some(), "{error}");
            outcome.refused = 1;
            outcome.refused_after = begun.elapsed();
        }
        Err(AcquireError::Timeout(_)) => outcome.timed_out = 1,
        Err(other) => panic!("{other}"),
    }
    outcome
}

/// Calls come `every` so often for `span`, to each of the clients in turn.
async fn load(clients: &[LockClient], hold: Duration, every: Duration, span: Duration) -> Outcome {
    let budget = clients[0].defaults().budget();
    let mut calls = JoinSet::new();
    let begun = Instant::now();
    let mut n = 0_u32;
    while every * n < span {
        tokio::time::sleep_until(begun + every * n).await;
        calls.spawn(call(clients[n as usize % clients.len()].clone(), hold, budget));
        n += 1;
    }
    let mut all = Outcome::default();
    while let Some(outcome) = calls.join_next().await {
        all.add(&outcome.expect("no panic"));
    }
    all
}

async fn client(url: &str, wait: Duration, retries: u32) -> LockClient {
    let options = LockOptions::new().with_wait(wait).with_retries(retries).with_admission(true);
    LockClient::builder(url).defaults(options).connect().await.expect("memory")
}

#[tokio::test(start_paused = true)]
async fn goodput_stays_at_capacity_at_every_load() -> Test {
    for load_per_capacity in [1, 2, 5, 10] {
        let locks = client("memory:", secs(2), 1).await;
        let (hold, span) = (ms(5), secs(10));
        let every = hold / load_per_capacity;
        let outcome = load(std::slice::from_ref(&locks), hold, every, span).await;
        // The key can do this while calls come, and in the budget of the last.
        let capacity = u32::try_from(span.as_millis() / hold.as_millis())?;
        assert!(outcome.done * 100 >= capacity * 95, "{load_per_capacity}x: {outcome:?}");
        assert_eq!((outcome.timed_out, outcome.late), (0, 0), "{load_per_capacity}x");
        assert_eq!(outcome.refused_after, Duration::ZERO, "{load_per_capacity}x: {outcome:?}");
        assert_eq!(locks.stats().refused, u64::from(outcome.refused));
        assert!(locks.busy_keys().is_empty());
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_load_below_capacity_is_never_refused() -> Test {
    let locks = client("memory:", ms(200), 0).await;
    let outcome = load(&[locks], ms(5), ms(10), secs(10)).await;
    assert_eq!(outcome.done, 1_000, "{outcome:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn of_a_burst_as_many_are_served_as_the_budget_can_hold() -> Test {
    let locks = client("memory:", secs(2), 1).await;
    let outcome =
        load(&[locks], ms(10), Duration::from_nanos(1), Duration::from_nanos(1_000)).await;
    assert!(outcome.done >= 388, "of 400: {outcome:?}");
    // The others are told while they wait, a few at the very end of their time; the last of all
    // keeps its turn.
    assert!(outcome.timed_out <= 3 && outcome.late <= 1, "{outcome:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_key_that_several_processes_share_keeps_its_goodput_too() -> Test {
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(client("memory:shared-by-four", secs(2), 1).await);
    }
    let outcome = load(&clients, ms(5), ms(1), secs(10)).await;
    assert!(outcome.done >= 1_900, "of 2,000: {outcome:?}");
    assert!(outcome.timed_out + outcome.late <= 20, "{outcome:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_time_out_tells_how_long_the_line_would_take() -> Test {
    let locks = client("memory:", secs(2), 0).await;
    let outcome = tokio::spawn(async move {
        let plain = LockOptions::new().with_wait(ms(150));
        let mut calls = JoinSet::new();
        for _ in 0..40 {
            calls.spawn(call(locks.clone(), ms(50), secs(2)));
        }
        sleep(ms(500)).await;
        let held = locks.busy_keys();
        let quantiles = held[0].holds.expect("known after ten holds");
        assert!((ms(43)..ms(57)).contains(&quantiles.p50), "{quantiles:?}");
        assert!(held[0].waits.is_some() && held[0].guards.len() == 1, "{held:?}");
        let AcquireError::Timeout(error) = locks.lock("sku").options(plain).await.unwrap_err()
        else {
            panic!("another error")
        };
        let left = error.estimated_wait();
        calls.join_all().await;
        left
    });
    let estimate = outcome.await?.expect("known after ten holds");
    assert!((ms(1_000)..ms(1_600)).contains(&estimate), "{estimate:?}");
    Ok(())
}
