//! Every kind of receiver.
#![deny(warnings)]

use std::sync::Arc;

use lock_core::{AcquireError, LockClient, distributed_lock};

struct Shop {
    locks: LockClient,
    name: String,
    sold: u64,
    place: (u8, String),
}

type Outcome<T = u64> = std::result::Result<T, AcquireError>;

impl Shop {
    #[distributed_lock(key = "shop:{self.name}:{sku}", client = self.locks)]
    async fn by_ref(&self, sku: &str) -> Outcome {
        Ok(self.sold + sku.len() as u64)
    }

    #[distributed_lock(key = "shop:{self.place.1}", client = &self.locks)]
    pub(crate) async fn by_mut(&mut self) -> Outcome {
        self.sold += 1;
        self.name.push('!');
        Ok(self.sold)
    }

    #[distributed_lock(key = "shop:{self.name}", client = self.locks)]
    async fn by_value(mut self) -> Outcome<Self> {
        self.sold += 1;
        Ok(self)
    }

    #[distributed_lock(key = "shop", client = self.locks, guard = g)]
    async fn by_arc(self: Arc<Self>) -> Outcome<Arc<Self>> {
        assert!(g.is_held());
        Ok(self)
    }

    #[distributed_lock(key = ("shop:{}", self.name), client = Some(&self.locks))]
    async fn unused(&self) -> Outcome<()> {
        Ok(())
    }

    #[distributed_lock(key = "shop:{self}", client = self.locks)]
    async fn borrowed<'a>(&'a self, _other: &str) -> Outcome<&'a str> {
        Ok(&self.name)
    }

    #[distributed_lock]
    async fn associated() -> Outcome<()> {
        Ok(())
    }
}

impl std::fmt::Display for Shop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

async fn all(mut shop: Shop) -> Outcome<()> {
    shop.by_ref("a").await?;
    shop.by_mut().await?;
    shop.unused().await?;
    shop.borrowed("x").await?;
    Arc::new(shop.by_value().await?).by_arc().await?;
    Shop::associated().await
}

pub(crate) fn main() {
    let _ = all;
}
