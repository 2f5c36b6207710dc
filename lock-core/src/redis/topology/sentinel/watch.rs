//! One task for each sentinel, which listens to it and asks it every second. It ends with the
//! client.

use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, PushKind};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::answer::Report;
use super::ask;
use super::target::Target;
use crate::backend::io::Home;
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

/// Whoever the answers of the sentinels are for.
pub(super) trait Watcher: Send + Sync + 'static {
    fn target(&self) -> &Target;

    /// A sentinel has answered.
    fn learn(self: &Arc<Self>, at: &Host, report: Report);

    /// Whether the task of a sentinel is to end.
    fn gives_up(&self, at: &Host) -> bool;
}

/// Starts the task. It ends with the sender of `client`. `looks` has it ask at once.
pub(super) fn start<W: Watcher, T: Send + Sync + 'static>(
    home: &Home,
    watcher: &Arc<W>,
    at: Host,
    client: watch::Receiver<T>,
    looks: watch::Receiver<()>,
) -> AbortHandle {
    let this = Arc::downgrade(watcher);
    let watching = home.spawn(async move {
        tokio::select! {
            biased;
            () = end(client) => {}
            () = watch_for_good(this, at, looks) => {}
        }
    });
    watching.abort_handle()
}

/// Resolves when the client is gone.
async fn end<T>(mut client: watch::Receiver<T>) {
    while client.changed().await.is_ok() {}
}

async fn watch_for_good<W: Watcher>(this: Weak<W>, at: Host, mut looks: watch::Receiver<()>) {
    let mut failures = 0;
    loop {
        let hint = Arc::new(Notify::new());
        if let Ok(mut connection) = connect(&this, &at, &hint).await {
            let fault = follow(&this, &at, &mut connection, &hint, &mut looks, &mut failures).await;
            tracing::debug!(sentinel = %at, %fault, "a sentinel is out of reach");
        }
        if this.upgrade().is_none_or(|watcher| watcher.gives_up(&at)) {
            return;
        }
        failures += 1;
        clock::alarm_in(FAULT_PAUSES.pause(failures, clock::random_bits())).await;
    }
}

async fn connect<W: Watcher>(
    this: &Weak<W>,
    at: &Host,
    hint: &Arc<Notify>,
) -> Result<MultiplexedConnection, Fault> {
    let Some(target) = this.upgrade().map(|watcher| watcher.target().clone()) else {
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
async fn follow<W: Watcher>(
    this: &Weak<W>,
    at: &Host,
    connection: &mut MultiplexedConnection,
    hint: &Notify,
    looks: &mut watch::Receiver<()>,
    failures: &mut u32,
) -> Fault {
    loop {
        let Some(target) = this.upgrade().map(|watcher| watcher.target().clone()) else {
            return gone();
        };
        // Changes from here on are asked about anew.
        looks.mark_unchanged();
        let answer = ask::ask(connection, &target).await;
        let Some(watcher) = this.upgrade() else { return gone() };
        match answer {
            Ok(Some(report)) => {
                *failures = 0;
                watcher.learn(at, report);
            }
            // It has nothing to say now.
            Ok(None) => {}
            Err(fault) => return fault,
        }
        drop(watcher);
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
