//! Many claims in one statement.
//!
//! It renews what it finds unlocked, as one row that somebody else keeps must not hold up the
//! others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::arg::Arg;
use super::link::Link;
use crate::backend::Fault;
use crate::sql::dialect::Ask;
use crate::sql::fault::odd;
use crate::sql::read::Found;
use crate::sql::remote::{Renewed, Together, Twice};
use crate::sql::row::ms;

/// The place of the claim, behind what a grant has.
const CLAIM: usize = 5;

/// The renewals of several claims, as PostgreSQL does them.
#[derive(Debug)]
pub(super) struct Several {
    pub(super) link: Arc<Link>,
    pub(super) text: Arc<str>,
    /// It counts its requests with those of the store.
    pub(super) requests: Arc<AtomicU64>,
}

impl Together for Several {
    async fn renew_all(&self, asks: &[Ask], by: Instant) -> Result<Renewed, Fault> {
        let texts = |of: fn(&Ask) -> String| Arg::Texts(asks.iter().map(of).collect());
        let wholes = |of: fn(&Ask) -> i64| Arg::Wholes(asks.iter().map(of).collect());
        let args = [
            texts(|ask| ask.key.to_string()),
            texts(|ask| ask.claim.to_string()),
            texts(|ask| ask.about.to_string()),
            wholes(|ask| ms(ask.lease)),
            wholes(|ask| i64::from(ask.tokens_max)),
        ];
        self.requests.fetch_add(1, Ordering::Relaxed);
        let rows = self.link.run(by, &self.text, &args, Twice::Same).await?;
        rows.iter().map(|row| Found(row).renewed(CLAIM)).collect::<Result<_, _>>().map_err(odd)
    }

    fn place(&self) -> String {
        self.link.config().server()
    }
}
