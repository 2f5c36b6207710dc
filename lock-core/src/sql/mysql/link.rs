//! Statements of MySQL and MariaDB over a link.

use std::time::Instant;

use sqlx::mysql::{MySqlQueryResult, MySqlRow};

use super::config::MysqlConfig;
use super::session::Session;
use super::text::{Arg, Text};
use super::trouble::{is_duplicate, number};
use crate::backend::Fault;
use crate::sql::remote::{self, Server, Twice, Unserved};

/// A MySQL or MariaDB server, and how to ask it.
pub(in crate::sql) type Link = remote::Link<MysqlServer>;

/// A MySQL or MariaDB server.
#[derive(Debug)]
pub(in crate::sql) struct MysqlServer {
    pub(super) config: MysqlConfig,
}

impl Server for MysqlServer {
    type Session = Session;

    fn place(&self) -> String {
        self.config.server()
    }

    fn connections(&self) -> u32 {
        self.config.params.connections
    }

    async fn open(&self) -> Result<Session, Unserved> {
        Session::open(&self.config).await
    }

    async fn ping(&self, session: &mut Session) -> Result<(), sqlx::Error> {
        session.ping().await
    }

    fn unserved(&self, error: sqlx::Error) -> Unserved {
        Unserved::of_mysql(error, &self.config)
    }
}

/// The outcome of a statement that is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tried {
    Done,
    /// There is no such table or view.
    Missing,
    /// The login has not the right to it.
    Denied,
}

impl Link {
    pub(super) fn config(&self) -> &MysqlConfig {
        &self.server().config
    }

    /// Has one statement run that reads. To be polled at home, and to its end, which is `by` at the
    /// latest.
    pub(super) async fn rows(
        &self,
        by: Instant,
        text: &Text,
        args: &[Arg],
    ) -> Result<Vec<MySqlRow>, Fault> {
        self.ask(by, Twice::Same, &|session: &mut Session| {
            let (text, args) = (text.clone(), args.to_vec());
            Box::pin(async move { session.rows(&text, &args).await })
        })
        .await
    }

    /// Has one statement run that writes, which commits by itself; `None` where a row of that key
    /// is there. Otherwise as [`rows`](Self::rows).
    pub(super) async fn write(
        &self,
        by: Instant,
        text: &Text,
        args: &[Arg],
        twice: Twice,
    ) -> Result<Option<MySqlQueryResult>, Fault> {
        self.ask(by, twice, &|session: &mut Session| {
            let (text, args) = (text.clone(), args.to_vec());
            Box::pin(async move {
                match session.write(&text, &args).await {
                    Err(error) if is_duplicate(&error) => Ok(None),
                    done => done.map(Some),
                }
            })
        })
        .await
    }

    /// Has a statement run that has no values.
    pub(super) async fn once(&self, by: Instant, text: &str) -> Result<Vec<MySqlRow>, Fault> {
        self.ask(by, Twice::Same, &|session: &mut Session| {
            let text = text.to_owned();
            Box::pin(async move { session.once(text).await })
        })
        .await
    }

    /// Tries a statement that does nothing.
    pub(super) async fn tries(&self, by: Instant, text: &str) -> Result<Tried, Fault> {
        self.ask(by, Twice::Same, &|session: &mut Session| {
            let text = text.to_owned();
            Box::pin(async move {
                match session.once(text).await {
                    Ok(_) => Ok(Tried::Done),
                    Err(error) => match number(&error) {
                        Some(1_146) => Ok(Tried::Missing),
                        Some(1_142 | 1_143) => Ok(Tried::Denied),
                        _ => Err(error),
                    },
                }
            })
        })
        .await
    }
}
