//! Statements over a connection that is handed in, the same for every database: those of fences and
//! of records. The locks have connections of their own, and statements by their dialects.
//!
//! A text has a `?` for each of its values, in their order. A database that spells that otherwise
//! says so. Values are bound and never written into a text, which users may have logged.

use std::future::Future;

use super::trouble::Trouble;

/// A value of a statement.
#[derive(Debug, Clone)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number, or nothing.
    Whole(Option<i64>),
    /// Bytes, or nothing.
    Bytes(Option<Vec<u8>>),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Whole(Some(number))
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(Some(bytes))
    }
}

/// A database that statements of ours can be run in. Nobody else can implement it.
pub trait Runs: sqlx::Database {
    /// The kind of an error.
    #[doc(hidden)]
    fn trouble(error: &sqlx::Error) -> Trouble;

    /// Whether a transaction that sqlx takes for open is open at the database. One that ends it
    /// without a word to sqlx, and runs the next statements each by itself, is asked.
    #[doc(hidden)]
    fn is_open(
        _connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send {
        std::future::ready(Ok(true))
    }

    /// Where a table may be kept by an engine without transactions: what answers the `engine` of
    /// this one if that is so.
    #[doc(hidden)]
    fn other_engine(_table: &str) -> Option<String> {
        None
    }

    /// Has a statement run; how many rows it has written.
    #[doc(hidden)]
    fn run(
        connection: &mut Self::Connection,
        text: String,
        values: Vec<Value>,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Has a statement run; its rows.
    #[doc(hidden)]
    fn rows(
        connection: &mut Self::Connection,
        text: String,
        values: Vec<Value>,
    ) -> impl Future<Output = Result<Vec<Self::Row>, sqlx::Error>> + Send;

    /// A column of a row.
    #[doc(hidden)]
    fn whole(row: &Self::Row, column: &str) -> Result<Option<i64>, sqlx::Error>;

    /// A column of a row.
    #[doc(hidden)]
    fn text(row: &Self::Row, column: &str) -> Result<Option<String>, sqlx::Error>;

    /// A column of a row.
    #[doc(hidden)]
    fn bytes(row: &Self::Row, column: &str) -> Result<Option<Vec<u8>>, sqlx::Error>;
}

/// [`Runs`] for a database, by what its errors are about and how a text is spelled there.
macro_rules! runs {
    ($database:ty, $trouble:path, $spelled:expr $(, $own:item)*) => {
        impl $crate::sql::runs::Runs for $database {
            $($own)*

            fn trouble(error: &sqlx::Error) -> $crate::sql::Trouble {
                $trouble(error)
            }

            async fn run(
                connection: &mut Self::Connection,
                text: String,
                values: Vec<$crate::sql::runs::Value>,
            ) -> Result<u64, sqlx::Error> {
                let done = bound(text, values).execute(connection).await?;
                Ok(done.rows_affected())
            }

            async fn rows(
                connection: &mut Self::Connection,
                text: String,
                values: Vec<$crate::sql::runs::Value>,
            ) -> Result<Vec<Self::Row>, sqlx::Error> {
                bound(text, values).fetch_all(connection).await
            }

            fn whole(row: &Self::Row, column: &str) -> Result<Option<i64>, sqlx::Error> {
                sqlx::Row::try_get(row, column)
            }

            fn text(row: &Self::Row, column: &str) -> Result<Option<String>, sqlx::Error> {
                sqlx::Row::try_get(row, column)
            }

            fn bytes(row: &Self::Row, column: &str) -> Result<Option<Vec<u8>>, sqlx::Error> {
                sqlx::Row::try_get(row, column)
            }
        }

        fn bound(
            text: String,
            values: Vec<$crate::sql::runs::Value>,
        ) -> sqlx::query::Query<'static, $database, <$database as sqlx::Database>::Arguments> {
            use $crate::sql::runs::Value;
            // The text is made of constants and of names of tables, which were checked.
            let query = sqlx::query(sqlx::AssertSqlSafe($spelled(text)));
            values.into_iter().fold(query, |query, value| match value {
                Value::Text(text) => query.bind(text),
                Value::Whole(number) => query.bind(number),
                Value::Bytes(bytes) => query.bind(bytes),
            })
        }
    };
}
pub(in crate::sql) use runs;

/// A column that has a value in each row that we write.
pub(super) fn there<T>(column: Option<T>) -> Result<T, sqlx::Error> {
    column.ok_or_else(|| sqlx::Error::Decode("a column has no value".into()))
}

/// Makes a table where it is missing, or looks whether that which is there will do: whether it can
/// be read by these columns.
///
/// A table that could not be made may be there all the same. Others may have made it at the same
/// time, and one who may make nothing is served where all is there.
pub(super) async fn make<D: Runs>(
    connection: &mut D::Connection,
    statements: Vec<String>,
    table: &str,
    columns: &str,
) -> Result<(), sqlx::Error> {
    let mut refused = None;
    for statement in statements {
        if let Err(error) = D::run(&mut *connection, statement, Vec::new()).await {
            refused = refused.or(Some(error));
        }
    }
    let look = format!("SELECT {columns} FROM {table} LIMIT 0");
    match (D::rows(connection, look, Vec::new()).await, refused) {
        (Ok(_), _) => Ok(()),
        (Err(_), Some(error)) | (Err(error), None) => Err(error),
    }
}

/// The engine of a table, if that is one without transactions.
pub(super) async fn other_engine<D: Runs>(
    connection: &mut D::Connection,
    table: &str,
) -> Result<Option<String>, sqlx::Error> {
    let Some(look) = D::other_engine(table) else { return Ok(None) };
    let rows = D::rows(connection, look, Vec::new()).await?;
    Ok(rows.first().map(|row| D::text(row, "engine")).transpose()?.flatten())
}
