//! Ctrl-C and SIGTERM.

use std::io;

use tokio::sync::watch;

/// Told once that the program is to stop; stays told.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    asked: watch::Receiver<bool>,
}

impl Stop {
    /// Listens from now on; from then on these signals do not end the process by themselves.
    pub(crate) fn listen() -> io::Result<Self> {
        let mut signals = Signals::listen()?;
        let (tell, asked) = watch::channel(false);
        tokio::spawn(async move {
            signals.first().await;
            tell.send_replace(true);
            // The receivers would take a sender that is gone for a signal.
            tell.closed().await;
        });
        Ok(Self { asked })
    }

    pub(crate) async fn asked(&mut self) {
        let _ = self.asked.wait_for(|asked| *asked).await;
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn first(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    async fn first(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
