//! The payment that an application writes in the transaction that completes its record, whatever
//! its database.

use bytes::Bytes;
use sqlx::Transaction;

use crate::support::Db;

pub(crate) async fn pay(tx: &mut Transaction<'static, Db>) {
    let pay = sqlx::query("INSERT INTO payments (amount) VALUES (5)");
    pay.execute(&mut **tx).await.expect("a payment");
}

pub(crate) fn paid() -> Bytes {
    Bytes::from_static(b"paid")
}
