//! Methods, generics and traits hold the lock that their own arguments name.

use std::fmt::Display;
use std::pin::Pin;

use lock_core::{AcquireError, LockClient, distributed_lock};

use crate::is_held;

type Outcome<T = ()> = Result<T, AcquireError>;

struct Shop {
    locks: LockClient,
    name: String,
}

impl Shop {
    async fn holds(&self, key: &str) {
        let (locks, key) = (self.locks.clone(), key.to_owned());
        assert!(tokio::spawn(async move { is_held(&locks, &key).await }).await.unwrap());
        assert_eq!(self.locks.stats().held, 1);
    }

    #[distributed_lock(key = "{self.name}:{id}:{N}", client = self.locks)]
    async fn generic<T: Display, const N: usize>(&mut self, id: T) -> Outcome<T> {
        self.holds(&format!("{}:{id}:{N}", self.name)).await;
        Ok(id)
    }
}

trait Native {
    async fn native(&self, id: u8) -> Outcome<u8>;
}

impl Native for Shop {
    #[distributed_lock(key = "native:{self.name}:{id}", client = self.locks)]
    async fn native(&self, id: u8) -> Outcome<u8> {
        self.holds(&format!("native:{}:{id}", self.name)).await;
        Ok(id)
    }
}

#[async_trait::async_trait]
trait Boxed {
    async fn boxed(&mut self, pair: (u8, String), text: &str) -> Outcome<String>;
    async fn traced(&self, id: u8) -> Outcome<u8>;
}

#[async_trait::async_trait]
impl Boxed for Shop {
    #[distributed_lock(key = "{self.name}:{id}:{name}:{text}", client = self.locks)]
    async fn boxed(&mut self, (id, mut name): (u8, String), text: &str) -> Outcome<String> {
        self.holds(&format!("{}:{id}:{name}:{text}", self.name)).await;
        name.push('!');
        if id == 0 {
            return Ok(name);
        }
        Ok(format!("{name}{id}"))
    }

    #[tracing::instrument(skip(self))]
    #[distributed_lock(key = "{self.name}:{id}", client = self.locks)]
    async fn traced(&self, id: u8) -> Outcome<u8> {
        self.holds(&format!("{}:{id}", self.name)).await;
        Ok(id)
    }
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_method_runs_under_the_lock_it_names() {
    let mut shop = Shop { locks: LockClient::memory(), name: "shop".into() };
    assert_eq!(shop.generic::<_, 3>("a").await.unwrap(), "a");
    assert_eq!(shop.native(7).await.unwrap(), 7);
    assert_eq!(shop.boxed((0, "b".into()), "c").await.unwrap(), "b!");
    assert_eq!(shop.boxed((1, "b".into()), "c").await.unwrap(), "b!1");
    assert_eq!(shop.traced(7).await.unwrap(), 7);
    assert_eq!(shop.locks.stats().acquired, 5);
    assert_eq!(shop.locks.stats().held, 0);
}

/// Looks like what async_trait makes, but for the type of its `let`.
#[distributed_lock(key = "{id}", client = locks)]
fn typed_let(locks: LockClient, id: u8) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
    Box::pin(async move {
        assert_eq!(locks.stats().held, 1, "in front of the block");
        let _: Outcome = {
            assert_eq!(locks.stats().held, 1, "inside of it");
            Ok(())
        };
        assert_eq!(locks.stats().held, 1, "behind it");
        let _ = id;
        Ok(())
    })
}

/// As async_trait's of a function without a value, but for what the first `let` does.
#[distributed_lock(key = "k", client = locks, on_busy = |error| panic!("{error}"))]
fn unit_let(locks: LockClient) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let held = locks.stats().held;
        let _: () = {
            assert_eq!(held, 1, "in front of the block");
        };
    })
}

/// As async_trait's of a function with a value, but for what stands between.
#[distributed_lock(key = "k", client = locks)]
fn named_let(locks: LockClient) -> Pin<Box<dyn Future<Output = Outcome> + Send>> {
    Box::pin(async move {
        if let Some(__ret) = None::<Outcome> {
            return __ret;
        }
        assert_eq!(locks.stats().held, 1, "in front of the block");
        let __ret: Outcome = { Ok(()) };
        __ret
    })
}

#[tokio::test(start_paused = true)]
async fn the_whole_of_a_future_that_was_boxed_by_hand_runs_under_the_lock() {
    let locks = LockClient::memory();
    typed_let(locks.clone(), 1).await.unwrap();
    unit_let(locks.clone()).await;
    named_let(locks.clone()).await.unwrap();
    assert_eq!(locks.stats().acquired, 3);
    assert_eq!(locks.stats().held, 0);
}
