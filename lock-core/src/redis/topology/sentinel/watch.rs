//! One task for each sentinel, which listens to it and asks it every second. It ends with the
//! client.

use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, PushKind};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::ask;
use super::sentinels::{Sentinels, Term};
use crate::backend::url::Host;
use crate::backend::{Fault, FaultKind};
use crate::ground::{FAULT_PAUSES, clock, timeout};

/// A message that was lost costs no more than this.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Not more often than this, whoever is in a hurry.
const ASK_PAUSE: Duration = Duration::from_millis(25);

/// The messages of a sentinel when there is another master, the earliest first. The sentinel that
/// leads the failover knows of it before its own `+switch-master`.
const CHANNELS: [&str; 3] = ["+promoted-slave", "+failover-state-reconf-slaves", "+switch-master"];

/// Starts the task.
pub(super) fn start(sentinels: &Arc<Sentinels>, at: Host) -> AbortHandle {
    let (this, terms, looks) =
        (Arc::downgrade(sentinels), sentinels.term.subscribe(), sentinels.looks.subscribe());
    let watching = sentinels.home.spawn(async move {
        tokio::select! {
            biased;
            () = end(terms) => {}
            () = watch_for_good(this, at, looks) => {}
        }
    });
    watching.abort_handle()
}

/// Resolves when the client is gone.
async fn end(mut terms: watch::Receiver<Option<Term>>) {
    while terms.changed().await.is_ok() {}
}

async fn watch_for_good(this: Weak<Sentinels>, at: Host, mut looks: watch::Receiver<()>) {
    let mut failures = 0;
    loop {
        let hint = Arc::new(Notify::new());
        if let Ok(mut connection) = connect(&this, &at, &hint).await {
            let fault = follow(&this, &at, &mut connection, &hint, &mut looks, &mut failures).await;
            tracing::debug!(sentinel = %at, %fault, "a sentinel is out of reach");
        }
        if this.upgrade().is_none_or(|sentinels| sentinels.gives_up(&at)) {
            return;
        }
        failures += 1;
        clock::alarm_in(FAULT_PAUSES.pause(failures, clock::random_bits())).await;
    }
}

async fn connect(
    this: &Weak<Sentinels>,
    at: &Host,
    hint: &Arc<Notify>,
) -> Result<MultiplexedConnection, Fault> {
    let Some(target) = this.upgrade().map(|sentinels| sentinels.target.clone()) else {
        return Err(gone());
    };
    let hint = hint.clone();
    let config = AsyncConnectionConfig::new().set_push_sender(move |info: redis::PushInfo| {
        // The words of a message do not count, only that there is something to ask about. A
        // connection that is gone tells the same.
        if matches!(info.kind, PushKind::Message | PushKind::Disconnection) {
            hint.notify_one();
        }
        Ok::<(), std::convert::Infallible>(())
    });
    let mut connection = ask::connect(&target, at, config).await?;
    let subscribing = connection.subscribe(&CHANNELS[..]);
    match timeout::within(target.within, subscribing).await {
        Ok(Ok(())) => {}
        // It is asked all the same.
        Ok(Err(error)) => {
            tracing::debug!(sentinel = %at, code = ?error.code(), "it can't be listened to");
        }
        Err(_) => return Err(gone()),
    }
    Ok(connection)
}

/// Asks, again and again, until it does not answer.
async fn follow(
    this: &Weak<Sentinels>,
    at: &Host,
    connection: &mut MultiplexedConnection,
    hint: &Notify,
    looks: &mut watch::Receiver<()>,
    failures: &mut u32,
) -> Fault {
    loop {
        let Some(target) = this.upgrade().map(|sentinels| sentinels.target.clone()) else {
            return gone();
        };
        // Changes from here on are asked about anew.
        looks.mark_unchanged();
        let answer = ask::ask(connection, &target).await;
        let Some(sentinels) = this.upgrade() else { return gone() };
        match answer {
            Ok(Some(report)) => {
                *failures = 0;
                sentinels.learn(at, report);
            }
            // It has nothing to say now.
            Ok(None) => {}
            Err(fault) => return fault,
        }
        drop(sentinels);
        clock::alarm_in(ASK_PAUSE).await;
        tokio::select! {
            () = hint.notified() => {}
            _ = looks.changed() => {}
            () = clock::alarm_in(ASK_EVERY) => {}
        }
    }
}

/// The client that asked is gone.
fn gone() -> Fault {
    Fault::new(FaultKind::Transient, "the connection to a sentinel is not wanted any more")
}
