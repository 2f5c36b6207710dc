//! Hearing from other processes: one connection of the store's own, on one channel of the table.
//!
//! A word names a key, who says it, and the claim that holds the key, where it is one: whoever
//! listens to the key reads its row, unless that says it all. Words that are said while the
//! connection is away are lost, so all rows are read when it is back, and the store looks by itself
//! meanwhile.
//!
//! `LISTEN` says nothing of whether words arrive: behind a pooler that gives each transaction
//! another connection it succeeds, and nothing comes. So the first word is one of our own.

use std::sync::{Arc, Weak};
use std::time::Duration;

use sqlx::postgres::{PgListener, PgNotification, PgPoolOptions};
use tokio::task::AbortHandle;

use super::arg::Arg;
use super::config::Way;
use super::link::Link;
use crate::backend::io::{Home, Pauses};
use crate::ground::{Plus as _, clock};
use crate::key::Key;
use crate::sql::changes::{Changes, Hearing};
use crate::sql::remote::{CONNECT, Twice};
use crate::sql::row::{self, Row};
use crate::sql::schema::TableName;

/// Between two looks where nobody can be heard, while somebody waits for a key, and while those who
/// listen hold or follow.
pub(super) const LOOKS: Hearing =
    Hearing::Looks { waiting: Duration::from_millis(20), holding: Duration::from_millis(250) };

/// How long an echo may take.
const ECHO: Duration = Duration::from_secs(2);

/// A connection that said nothing for so long is asked whether it is there.
const SILENCE: Duration = Duration::from_secs(5);

/// Between two tries to listen.
const AWAY: Pauses = Pauses::new(Duration::from_millis(100), Duration::from_secs(5));

/// In place of a holder where there is none, or more than one.
const NOT_ONE: &str = "-";

/// Between two tries where no word arrived though it was listened.
const DEAF: Duration = Duration::from_secs(60);

/// The channel on which the stores of a table speak, and the name of this one.
#[derive(Debug, Clone)]
pub(super) struct Name {
    channel: Arc<str>,
    own: Arc<str>,
}

impl Name {
    pub(super) fn new(table: &TableName) -> Self {
        let bits = u64::from(clock::random_bits()) << 32 | u64::from(clock::random_bits());
        Self { channel: format!("{table}_change").into(), own: format!("{bits:016x}").into() }
    }

    pub(super) fn channel(&self) -> &str {
        &self.channel
    }

    /// The word that is said of a key whose row is this one now.
    pub(super) fn word(&self, key: &Key, row: &Row) -> String {
        format!("{} {} {key}", self.own, row.only_holder().unwrap_or(NOT_ONE))
    }

    /// A word that is of no key.
    fn echo(&self) -> &str {
        &self.own
    }
}

/// A task that listens, for as long as somebody has this.
#[derive(Debug)]
pub(super) struct Listener(AbortHandle);

impl Listener {
    pub(super) fn start(link: Arc<Link>, name: Name, changes: Weak<Changes>) -> Self {
        let home = link.home().clone();
        Self(home.spawn(listen(link, name, changes)).abort_handle())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A listener that is closed at once when it is dropped.
///
/// Its own drop has a task say farewell, which on a connection that has gone silent takes as long
/// as the system waits. That task is given to a runtime that runs nothing, and ends with it.
struct Ears(Option<PgListener>);

impl Ears {
    fn get(&mut self) -> Result<&mut PgListener, sqlx::Error> {
        self.0.as_mut().ok_or(sqlx::Error::PoolClosed)
    }
}

impl Drop for Ears {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return };
        let entered = runtime.enter();
        drop(self.0.take());
        drop(entered);
        runtime.shutdown_background();
    }
}

/// The reason why there is nothing to be heard.
enum End {
    /// The connection is away.
    Away(String),
    /// No word arrives.
    Deaf,
    /// Nobody wants to hear.
    Gone,
}

async fn listen(link: Arc<Link>, name: Name, changes: Weak<Changes>) {
    let (mut tries, mut is_told) = (0, false);
    loop {
        let mut heard = false;
        let end = listen_once(&link, &name, &changes, &mut heard).await;
        let Some(changes) = changes.upgrade() else { return };
        changes.hear_by(LOOKS);
        drop(changes);
        tries = if heard { 1 } else { tries + 1 };
        let pause = match end {
            End::Gone => return,
            End::Away(why) => {
                tracing::debug!(%why, "the connection that listens for locks ended");
                AWAY.after(tries)
            }
            End::Deaf => {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::warn!(
                        "no word of PostgreSQL's NOTIFY arrives here, so waiters poll every 20 ms: \
                         a pooler in transaction mode stands between; connect to the server \
                         itself to be pushed to"
                    );
                }
                DEAF
            }
        };
        link.home().sleep_until(clock::now().plus(pause)).await;
    }
}

async fn listen_once(link: &Link, name: &Name, changes: &Weak<Changes>, heard: &mut bool) -> End {
    let home = link.home();
    let by = clock::now().plus(CONNECT);
    let way = link.way().unwrap_or(Way::Direct);
    let connecting = async {
        // Not `PgListener::connect_with` on a pool of several: its connection is this one.
        let pool = PgPoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
        let pool = pool.connect_with(link.config().own_options(way)).await?;
        let mut listener = Ears(Some(PgListener::connect_with(&pool).await?));
        let ears = listener.get()?;
        ears.ignore_pool_close_event(true);
        ears.eager_reconnect(false);
        ears.listen(name.channel()).await?;
        Ok::<_, sqlx::Error>(listener)
    };
    let mut ears = match home.timeout_at(by, connecting).await {
        Ok(Ok(ears)) => ears,
        Ok(Err(error)) => return End::Away(error.to_string()),
        Err(_) => return End::Away("it did not answer in time".to_owned()),
    };
    let listener = match ears.get() {
        Ok(listener) => listener,
        Err(error) => return End::Away(error.to_string()),
    };
    match echo(link, name, listener).await {
        Ok(true) => {}
        Ok(false) => return End::Deaf,
        Err(why) => return End::Away(why),
    }
    *heard = true;
    // From here on nothing is missed, and what was said before is read.
    let Some(strong) = changes.upgrade() else { return End::Gone };
    strong.hear_by(Hearing::Told);
    drop(strong);
    loop {
        let silence = clock::now().plus(SILENCE);
        match home.timeout_at(silence, listener.try_recv()).await {
            Ok(Ok(Some(word))) => {
                let Some(changes) = changes.upgrade() else { return End::Gone };
                hear(&changes, name, &word);
            }
            Ok(Ok(None)) => return End::Away("the connection was reset".to_owned()),
            Ok(Err(error)) => return End::Away(error.to_string()),
            Err(_) => {
                if !is_there(home, listener).await {
                    return End::Away("it did not answer in time".to_owned());
                }
            }
        }
    }
}

/// Whether a word of our own arrives.
async fn echo(link: &Link, name: &Name, listener: &mut PgListener) -> Result<bool, String> {
    let by = clock::now().plus(ECHO);
    let args = [Arg::Text(name.channel().to_owned()), Arg::Text(name.echo().to_owned())];
    let says = "SELECT pg_notify($1, $2)".into();
    if let Err(fault) = link.run(by, &says, &args, Twice::Same).await {
        return Err(fault.to_string());
    }
    loop {
        match link.home().timeout_at(by, listener.try_recv()).await {
            Ok(Ok(Some(word))) if word.payload() == name.echo() => return Ok(true),
            Ok(Ok(Some(_))) => {}
            Ok(Ok(None)) => return Err("the connection was reset".to_owned()),
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Ok(false),
        }
    }
}

/// A connection may end without a word: where a firewall forgets it, nobody tells.
async fn is_there(home: &Home, listener: &mut PgListener) -> bool {
    let by = clock::now().plus(ECHO);
    let asks = sqlx::raw_sql("SELECT 1").execute(listener);
    matches!(home.timeout_at(by, asks).await, Ok(Ok(_)))
}

fn hear(changes: &Changes, name: &Name, word: &PgNotification) {
    // A key may have spaces in it, the others have none.
    let mut parts = word.payload().splitn(3, ' ');
    if let (Some(who), Some(holder), Some(key)) = (parts.next(), parts.next(), parts.next())
        && who != name.own.as_ref()
    {
        changes.unread(key, row::claim(holder).ok());
    }
}
