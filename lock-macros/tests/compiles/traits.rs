//! Native `async fn` in traits, and `#[async_trait]`.
#![deny(warnings)]

use lock_core::{AcquireError, LockClient, distributed_lock};

type Outcome<T> = Result<T, AcquireError>;

trait Native {
    fn client(&self) -> &LockClient;

    async fn required(&self, id: u64) -> Outcome<u64>;

    #[distributed_lock(key = "provided:{id}", client = self.client())]
    async fn provided(&self, id: u64) -> Outcome<u64> {
        Ok(id)
    }
}

#[async_trait::async_trait]
trait Boxed: Sync {
    fn locks(&self) -> &LockClient;

    async fn required(&self, id: u64, name: &str) -> Outcome<String>;

    async fn patterns(&mut self, pair: (u64, String), _: u8) -> Outcome<String>;

    async fn consumed(self: Box<Self>, mut text: String) -> Outcome<String>
    where
        Self: Send;

    async fn generic<T: Send + std::fmt::Display + 'static>(&self, id: T) -> Outcome<T>
    where
        Self: Sized;

    async fn nothing(&self);

    async fn nothing_of(&self, pair: (u64, String));

    #[distributed_lock(key = "provided:{id}", client = self.locks(), guard = g)]
    async fn provided(&self, id: u64) -> Outcome<u64> {
        assert!(g.is_held());
        Ok(id)
    }
}

struct Shop {
    locks: LockClient,
    name: String,
}

impl Native for Shop {
    fn client(&self) -> &LockClient {
        &self.locks
    }

    #[distributed_lock(key = "native:{self.name}:{id}", client = self.locks)]
    async fn required(&self, id: u64) -> Outcome<u64> {
        if id == 0 {
            return Ok(1);
        }
        Native::provided(self, id).await
    }
}

#[async_trait::async_trait]
impl Boxed for Shop {
    fn locks(&self) -> &LockClient {
        &self.locks
    }

    #[distributed_lock(
        key = "boxed:{self.name}:{id}:{name}",
        client = self.locks,
        when = !self.name.is_empty(),
        on_busy = |e| { assert!(!self.name.is_empty()); Err(e) },
    )]
    async fn required(&self, id: u64, name: &str) -> Outcome<String> {
        if id == 0 {
            return Ok(self.name.clone());
        }
        Ok(format!("{name}{id}"))
    }

    #[distributed_lock(key = "boxed:{number}:{text}", client = self.locks)]
    async fn patterns(&mut self, (number, mut text): (u64, String), _: u8) -> Outcome<String> {
        self.name.push('!');
        text.push('!');
        Ok(format!("{number}{text}"))
    }

    #[distributed_lock(key = ("boxed:{}", format_args!("{}", self.name)), client = self.locks)]
    async fn consumed(self: Box<Self>, mut text: String) -> Outcome<String> {
        text.push_str(&self.name);
        Ok(text)
    }

    #[distributed_lock(key = "boxed:{id}", client = self.locks)]
    async fn generic<T: Send + std::fmt::Display + 'static>(&self, id: T) -> Outcome<T> {
        tokio::task::yield_now().await;
        Ok(id)
    }

    #[distributed_lock(key = "boxed", client = self.locks, on_busy = |_| ())]
    async fn nothing(&self) {
        tokio::task::yield_now().await;
    }

    #[distributed_lock(key = "boxed:{number}:{text}", client = self.locks, on_busy = |_| ())]
    async fn nothing_of(&self, (number, text): (u64, String)) {
        drop((number, text));
    }
}

fn is_send<T: Send>(_: T) {}

pub(crate) fn main() {
    let shop = Shop { locks: LockClient::memory(), name: "a".into() };
    is_send(Boxed::required(&shop, 1, "b"));
    is_send(shop.generic(1_u8));
    is_send(shop.nothing());
    is_send(shop.nothing_of((1, "a".into())));
    is_send(Boxed::provided(&shop, 1));
    let mut shop = Box::new(shop);
    is_send(shop.patterns((1, "a".into()), 0));
    let _ = Native::required(&*shop, 1);
    is_send(shop.consumed("a".into()));
}
