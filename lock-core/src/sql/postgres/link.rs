//! PostgreSQL's statements over its link.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use sqlx::postgres::PgRow;

use super::arg::Arg;
use super::config::{PostgresConfig, Way};
use super::session::Session;
use crate::backend::Fault;
use crate::sql::remote::{self, Server, Twice, Unserved};

/// A PostgreSQL server, and how to ask it.
pub(in crate::sql) type Link = remote::Link<PostgresServer>;

/// A PostgreSQL server.
#[derive(Debug)]
pub(in crate::sql) struct PostgresServer {
    pub(super) config: PostgresConfig,
    /// How it is reached, once it was.
    way: OnceLock<Way>,
}

impl PostgresServer {
    pub(super) fn new(config: PostgresConfig) -> Self {
        Self { config, way: OnceLock::new() }
    }
}

impl Server for PostgresServer {
    type Session = Session;

    fn place(&self) -> String {
        self.config.server()
    }

    fn connections(&self) -> u32 {
        self.config.params.connections
    }

    async fn open(&self) -> Result<Session, Unserved> {
        let session = Session::open(&self.config, self.way.get().copied()).await?;
        let _is_known = self.way.set(session.way());
        Ok(session)
    }

    async fn ping(&self, session: &mut Session) -> Result<(), sqlx::Error> {
        session.ping().await
    }

    fn unserved(&self, error: sqlx::Error) -> Unserved {
        Unserved::of_postgres(error, &self.config)
    }
}

impl Link {
    pub(super) fn config(&self) -> &PostgresConfig {
        &self.server().config
    }

    pub(super) fn way(&self) -> Option<Way> {
        self.server().way.get().copied()
    }

    /// Has one statement run, which commits by itself. To be polled at home, and to its end, which
    /// is `by` at the latest.
    pub(super) async fn run(
        &self,
        by: Instant,
        statement: &Arc<str>,
        args: &[Arg],
        twice: Twice,
    ) -> Result<Vec<PgRow>, Fault> {
        self.ask(by, twice, &|session: &mut Session| {
            let (statement, args) = (statement.clone(), args.to_vec());
            Box::pin(async move { session.run(&statement, &args).await })
        })
        .await
    }

    /// Has some statements run in one transaction, without values.
    pub(super) async fn run_all(&self, by: Instant, script: &str) -> Result<(), Fault> {
        self.ask(by, Twice::Same, &|session: &mut Session| {
            let script = script.to_owned();
            Box::pin(async move { session.run_all(script).await })
        })
        .await
        .map(drop)
    }
}
