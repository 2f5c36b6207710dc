//! A process that books one payment in a PostgreSQL database: as `till`, where the steps are the
//! requests to the server, and a test that sits between kills it at one of them.
//!
//! `till_postgres --port PORT --user NAME --mode MODE`: the tables are in the schema of that name.

#![allow(clippy::disallowed_methods)]

use clap::{Parser, ValueEnum};
use lock_core::LockClient;
use lock_core::idempotency::{Begun, Fingerprint, Idempotency, Scope, Tx, TxError};
use lock_core::sql::SqlRecords;
use lock_tower::IdempotencyLayer;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgSslMode};
use sqlx::{PgPool, Postgres, Transaction};
use tower::ServiceExt as _;

type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// Books one payment; see the file's head.
#[derive(Debug, Parser)]
struct Arguments {
    #[arg(long)]
    port: u16,
    #[arg(long)]
    user: String,
    #[arg(long)]
    mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// `complete_in`, the commit, and `committed`.
    ByHand,
    /// `Execution::commit`.
    Commit,
    /// While a secret is replaced.
    Rotation,
    /// A handler with a `Tx` behind an `IdempotencyLayer`.
    Layer,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Trouble> {
    let arguments = Arguments::parse();
    let options = PgConnectOptions::new_without_pgpass()
        .host("127.0.0.1")
        .port(arguments.port)
        .username(&arguments.user)
        .database("postgres")
        .application_name("till")
        .ssl_mode(PgSslMode::Disable)
        .options([("search_path", &arguments.user)]);
    let pool = PgPoolOptions::new().max_connections(2).connect_with(options).await?;
    let once = Idempotency::new("till", LockClient::memory(), SqlRecords::with_pool(&pool));
    let once = match arguments.mode {
        Mode::Rotation => {
            once.with_secret("the new secret of it").with_old_secret("the old one of it")
        }
        _ => once.with_secret("the old one of it"),
    };
    match arguments.mode {
        Mode::Layer => over_http(once, pool).await,
        mode => by_call(once, pool, mode).await,
    }
}

/// Two effects, of which none may be there without the other, and without the record.
async fn book(tx: &mut Transaction<'static, Postgres>) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO payments (amount) VALUES (5)").execute(&mut **tx).await?;
    let update = sqlx::query("UPDATE accounts SET balance = balance - 5 WHERE id = 1");
    update.execute(&mut **tx).await.map(drop)
}

async fn by_call(once: Idempotency, pool: PgPool, mode: Mode) -> Result<(), Trouble> {
    let begun = once.begin(&Scope::of("tests"), b"payment", Fingerprint::new([1; 32])).await?;
    let Begun::Run(mut execution) = begun else { return Err(format!("{begun:?}").into()) };
    let mut tx = pool.begin().await?;
    book(&mut tx).await?;
    let answer = bytes::Bytes::from_static(b"paid");
    if mode != Mode::ByHand {
        return Ok(execution.commit(tx, answer).await?);
    }
    execution.complete_in(&mut tx, answer).await?;
    tx.commit().await?;
    Ok(execution.committed().await?)
}

async fn pay(mut tx: Tx<Postgres>) -> Result<&'static str, TxError> {
    book(tx.open().await?).await?;
    Ok("paid")
}

async fn over_http(once: Idempotency, pool: PgPool) -> Result<(), Trouble> {
    let app = axum::Router::new()
        .route("/payments", axum::routing::post(pay))
        .route_layer(IdempotencyLayer::new(once).global_scope().required(true))
        .with_state(pool);
    let request = axum::http::Request::post("/payments").header("idempotency-key", "payment");
    let response = app.oneshot(request.body(axum::body::Body::empty())?).await?;
    if response.status() != 200 {
        return Err(format!("{response:?}").into());
    }
    Ok(())
}
