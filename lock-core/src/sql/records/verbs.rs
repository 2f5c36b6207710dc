//! The statements of a record, the same for every database. None of them begins a transaction or
//! ends one, so they commit by themselves, or with the transaction around them.

use std::time::Duration;

use super::columns::{COLUMNS, Columns, IN_FLIGHT, LAYOUT, length, payload_of};
use super::dialect::{RecordDialect, Seen, Version};
use crate::records::{Outcome, RecordId, Row};
use crate::sql::TableName;
use crate::sql::runs::{Value, there};
use crate::token::FencingToken;

fn id_of(id: RecordId) -> Value {
    id.as_bytes().to_vec().into()
}

/// The row of an id, and the time. The statement ends with `behind`.
pub(super) async fn read<D: RecordDialect>(
    connection: &mut D::Connection,
    table: &TableName,
    id: RecordId,
    behind: &str,
) -> Result<Seen, sqlx::Error> {
    // A row comes either way, so that the time does.
    let (now, names) = (D::NOW, COLUMNS.join(", "));
    let read = format!(
        "SELECT t.now, {names} FROM (SELECT {now} AS now) AS t LEFT JOIN {table} ON id = ? {behind}"
    );
    let rows = D::rows(connection, read, vec![id_of(id)]).await?;
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    let is_there = D::whole(row, "version")?.is_some();
    let columns = is_there.then(|| columns::<D>(row)).transpose()?;
    let row_of = |columns: Columns| (columns.version(), columns.into_row());
    Ok(Seen { now: there(D::whole(row, "now")?)?, row: columns.map(row_of) })
}

/// Puts a row in the place of the one that was read; `false` where that is another by now.
pub(super) async fn swap<D: RecordDialect>(
    connection: &mut D::Connection,
    table: &TableName,
    id: RecordId,
    seen: Option<Version>,
    row: &Row,
) -> Result<bool, sqlx::Error> {
    let mut values = values(id, Columns::of(row, seen));
    let swap = match seen {
        // Two may make it at once, and one of them has come too late.
        None => D::insert_record(table, &COLUMNS),
        Some(seen) => {
            let wanted = [id_of(id), seen.number.into(), seen.token.into(), seen.until.into()];
            values.extend(wanted);
            let sets = COLUMNS.map(|name| format!("{name} = ?")).join(", ");
            format!(
                "UPDATE {table} SET {sets} WHERE id = ? AND version = ? AND token = ? AND until = ?"
            )
        }
    };
    Ok(D::run(connection, swap, values).await? > 0)
}

/// Completes what is in flight under this very token; `false` where there is no such thing, or it
/// is not sound, and nothing was written.
pub(super) async fn complete<D: RecordDialect>(
    connection: &mut D::Connection,
    table: &TableName,
    (id, token): (RecordId, FencingToken),
    outcome: &Outcome,
    ttl: Duration,
) -> Result<bool, sqlx::Error> {
    // Only what reads as a record is made another one: see `Columns::into_row`.
    let now = D::NOW;
    let complete = format!(
        "UPDATE {table} SET version = version + 1, state = ?, until = {now} + ?, barred = NULL, \
         back_token = NULL, back_first = NULL, back_since = NULL, back_until = NULL, \
         payload_bytes = ?, payload = ? \
         WHERE id = ? AND layout = {LAYOUT} AND state = '{IN_FLIGHT}' AND token = ? \
         AND until > {now} AND length(fingerprint) = 32 AND payload IS NULL \
         AND payload_bytes IS NULL AND (barred IS NULL OR barred > 0) \
         AND (back_token IS NULL) = (back_since IS NULL) \
         AND (back_token IS NULL) = (back_until IS NULL) \
         AND (back_token IS NULL OR back_token > 0) \
         AND (back_first IS NULL OR (back_first > 0 AND back_token IS NOT NULL))"
    );
    let (state, payload) = payload_of(outcome);
    let values = vec![
        Value::Text(state.to_owned()),
        i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX).into(),
        Value::Whole(length(payload)),
        Value::Bytes(payload.map(<[u8]>::to_vec)),
        id_of(id),
        i64::from(token).into(),
    ];
    Ok(D::run(connection, complete, values).await? > 0)
}

fn columns<D: RecordDialect>(row: &D::Row) -> Result<Columns, sqlx::Error> {
    let whole = |name| there(D::whole(row, name)?);
    Ok(Columns {
        layout: whole("layout")?,
        version: whole("version")?,
        state: there(D::text(row, "state")?)?,
        token: whole("token")?,
        barred: D::whole(row, "barred")?,
        since: whole("since")?,
        until: whole("until")?,
        back_token: D::whole(row, "back_token")?,
        back_first: D::whole(row, "back_first")?,
        back_since: D::whole(row, "back_since")?,
        back_until: D::whole(row, "back_until")?,
        fingerprint: there(D::bytes(row, "fingerprint")?)?,
        payload_bytes: D::whole(row, "payload_bytes")?,
        payload: D::bytes(row, "payload")?,
    })
}

/// In the order of [`COLUMNS`].
pub(super) fn values(id: RecordId, columns: Columns) -> Vec<Value> {
    vec![
        id_of(id),
        columns.layout.into(),
        columns.version.into(),
        Value::Text(columns.state),
        columns.token.into(),
        Value::Whole(columns.barred),
        columns.since.into(),
        columns.until.into(),
        Value::Whole(columns.back_token),
        Value::Whole(columns.back_first),
        Value::Whole(columns.back_since),
        Value::Whole(columns.back_until),
        columns.fingerprint.into(),
        Value::Whole(columns.payload_bytes),
        Value::Bytes(columns.payload),
    ]
}
