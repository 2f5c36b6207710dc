//! An order is taken once: its record is completed in the transaction that takes the stock.
//!
//! Over a lock store in SQLite the file of the shop keeps the records of idempotency too. A server
//! that is killed leaves the stock, the order and the record as they were, or all three as they are
//! to be; there is no moment in between. A click that comes again is told what the first one came
//! to, whichever server it reaches.

use lock_core::LockClient;
use lock_core::idempotency::{Idempotency, Tx};
use lock_core::idempotent;
use lock_core::sql::SqlRecords;
use sqlx::Sqlite;

use crate::Trouble;
use crate::server::Refused;
use crate::shop::{Sale, Shop, Written};

/// Makes the table of the records, as a step of a deployment would.
pub(crate) async fn migrate(shop: &Shop) -> Result<(), Trouble> {
    Ok(SqlRecords::with_pool(shop.pool()).migrate().await?)
}

/// An engine over these locks, with its records in the file of the shop.
pub(crate) async fn open(locks: &LockClient, shop: &Shop) -> Result<Idempotency, Trouble> {
    let records = SqlRecords::beside(shop.pool()).await?;
    Ok(Idempotency::new("flash-sale", locks.clone(), records))
}

/// Writes a sale, unless this order was taken before; the order that was taken. Where the fence
/// refuses it, neither the stock nor the record is changed.
#[idempotent(
    key = "{sale.order}", scope = "{sale.sku}", client = once, fingerprint = sale.buyer, tx = tx
)]
pub(crate) async fn sell(
    once: &Idempotency,
    mut tx: Tx<Sqlite>,
    sale: Sale<'_>,
) -> Result<String, Refused> {
    match Shop::write(tx.open().await?, sale).await? {
        Written::Done => Ok(sale.order.to_owned()),
        Written::Stale => Err(Refused::Stale),
    }
}
