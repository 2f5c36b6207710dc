#![allow(unused)]

use lock_core::idempotency::{Idempotency, IdempotencyError, Scope};
use lock_core::idempotent;

type Outcome<T> = Result<T, IdempotencyError>;

#[idempotent(scope = global)]
async fn no_key(id: u64) -> Outcome<()> {
    Ok(())
}

#[idempotent(key = "{id}")]
async fn no_scope(id: u64) -> Outcome<()> {
    Ok(())
}

#[idempotent]
async fn neither() -> Outcome<()> {
    Ok(())
}

#[idempotent(key = "{di}", scope = "tenant:{tenant}")]
async fn unknown_names(id: u64) -> Outcome<()> {
    Ok(())
}

#[idempotent(key = "{a}{b}", scope = "")]
async fn templates(a: u64, b: u64) -> Outcome<()> {
    Ok(())
}

#[idempotent(key = "k", scope = global, lease = "1s")]
async fn unknown_option() -> Outcome<()> {
    Ok(())
}

#[idempotent(key = "k", scope = global, key = "k")]
async fn twice() -> Outcome<()> {
    Ok(())
}

#[idempotent(
    key = "k",
    scope = global,
    ttl = "10ms",
    wait = "25h",
    on_unknown = "maybe",
    fingerprint = (),
    guard = 1
)]
async fn values() -> Outcome<()> {
    Ok(())
}

#[idempotent(key = "k", scope = global, ttl = "367 days")]
async fn too_long() -> Outcome<()> {
    Ok(())
}

#[idempotent(key = "k", scope = global)]
fn not_async() -> Outcome<()> {
    Ok(())
}

#[idempotent(key = "k", scope = global)]
struct NoFunction;

struct Shop {
    once: Idempotency,
}

impl Shop {
    #[idempotent(key = "k", scope = global, client = self.once)]
    async fn method(&self) -> Outcome<()> {
        Ok(())
    }

    #[idempotent(key = "k", scope = global)]
    async fn of_its_type() -> Outcome<()> {
        Self::fallible()
    }

    #[idempotent(key = "k", scope = Self::scope())]
    async fn by_option() -> Outcome<()> {
        Ok(())
    }

    #[idempotent(key = "k", scope = global, client = self.once, name = 1)]
    async fn with_another_name(&self) -> Outcome<()> {
        Ok(())
    }

    fn scope() -> Scope {
        Scope::Global
    }

    fn fallible() -> Outcome<()> {
        Ok(())
    }
}

#[async_trait::async_trait]
trait Pays {
    async fn pay(id: u64) -> Outcome<()>;
}

#[async_trait::async_trait]
impl Pays for Shop {
    #[idempotent(key = "{id}", scope = global)]
    async fn pay(id: u64) -> Outcome<()> {
        Ok(())
    }
}

fn main() {}
