//! The fixture's own session.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use zookeeper_client::{Client, Error, SessionState};

/// The credentials of a user who passes every ACL.
const SUPER: &[u8] = b"super:for-the-fixture-only";

/// The digest of [`SUPER`] for the server: the name, and the SHA-1 of all of it in base64.
pub(super) const SUPER_DIGEST: &str = "super:vmSeKGhrQGyoqcqB+GELkchxwxg=";

/// How long one request may take: 5 s. The client itself waits without bound for a connection.
const LIMIT: Duration = Duration::from_secs(5);

/// How long a session is asked for, and the pause between two tries.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(100);

/// A session with every right, on a runtime of its own: it works while the test's runtime is
/// blocked or its clock is paused, and may be used from inside a runtime.
#[derive(Debug)]
pub(super) struct Admin {
    client: Client,
    runtime: Option<Runtime>,
}

impl Admin {
    /// Opens a session at `addr`, as long as the server allows: its pings then are rare.
    pub(super) fn connect(addr: SocketAddr) -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let connecting = async move {
            let began = Instant::now();
            loop {
                let connector = Client::connector().with_auth("digest", SUPER).with_fail_eagerly();
                let connector = connector.with_session_timeout(Duration::from_secs(60));
                match connector.connect(&addr.to_string()).await {
                    // A server on a busy machine may be late for some seconds.
                    Err(Error::NoHosts) if began.elapsed() < CONNECT_WITHIN => {
                        tokio::time::sleep(PAUSE).await;
                    }
                    answer => return answer,
                }
            }
        };
        match block_on(&runtime, CONNECT_WITHIN + LIMIT, connecting) {
            Ok(client) => Ok(Admin { client, runtime: Some(runtime) }),
            Err(error) => {
                // As when it is dropped: it must not wait for its end inside another runtime.
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// True if a request has a chance.
    pub(super) fn is_usable(&self) -> bool {
        self.client.state() == SessionState::SyncConnected
    }

    pub(super) fn session_id(&self) -> i64 {
        self.client.session_id().0
    }

    /// Carries out `work`, at most for [`LIMIT`], and blocks the calling thread meanwhile.
    pub(super) fn run<T, F, W>(&self, work: W) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
        W: FnOnce(Client) -> F,
    {
        let runtime = self.runtime.as_ref().expect("taken on drop only");
        block_on(runtime, LIMIT, work(self.client.clone()))
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A runtime must not wait for its end inside another one.
            runtime.shutdown_background();
        }
    }
}

/// `Runtime::block_on` that is allowed inside another runtime, and bounded.
fn block_on<T, F>(runtime: &Runtime, limit: Duration, work: F) -> Result<T, Error>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let (answer, answered) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        let _ = answer.send(timeout(limit, work).await.unwrap_or(Err(Error::Timeout)));
    });
    answered.recv().expect("the work did not panic")
}
