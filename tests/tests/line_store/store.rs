//! The store, as a stranger writes it.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lock_core::Key;
use lock_core::backend::{
    Attempt, Backend, Capabilities, Change, Claim, ClaimId, Fault, FaultKind, Grant, Renewal,
    Terms, TokenBlock, Withdrawal,
    io::{Home, within},
};
use lock_core::view::{Holder, Inspection, Waiter};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::speech::{claim_of, mode_of, mode_word};

/// How long an answer may take.
const REQUEST_WITHIN: Duration = Duration::from_secs(2);

/// The runtime that serves the connection.
#[derive(Debug, Clone)]
pub(crate) enum Served {
    AtHome(Arc<Home>),
    /// The runtime of whoever asked first: the trap.
    ByTheCaller,
}

/// A lock service at the other end of a line.
#[derive(Debug)]
pub(crate) struct Lines(Arc<Link>);

impl Lines {
    /// It is connected to by who asks first.
    pub(crate) fn at(addr: SocketAddr, served: Served) -> Self {
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        let session = SESSIONS.fetch_add(1, Ordering::Relaxed).to_string();
        Self(Arc::new(Link {
            addr,
            served,
            session,
            current: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            told: Arc::default(),
            sent: AtomicU64::new(0),
        }))
    }

    /// As it should be.
    pub(crate) fn at_home(addr: SocketAddr) -> Self {
        Self::at(addr, Served::AtHome(Home::shared().expect("a thread")))
    }
}

type Asked = (String, oneshot::Sender<String>);
type Requests = mpsc::UnboundedSender<Asked>;

/// Claims that listen for pushes.
type Told = Mutex<HashMap<ClaimId, Arc<Notify>>>;

#[derive(Debug)]
struct Link {
    addr: SocketAddr,
    served: Served,
    session: String,
    current: Mutex<Option<Requests>>,
    /// Held while one connects. Only tasks of the home wait for it, so nobody who is blocked has it.
    connecting: tokio::sync::Mutex<()>,
    told: Arc<Told>,
    sent: AtomicU64,
}

fn trouble(what: &str) -> Fault {
    Fault::new(FaultKind::Transient, what)
}

impl Link {
    fn current(&self) -> Option<Requests> {
        let mut current = self.current.lock().expect("no panic");
        current.take_if(|requests| requests.is_closed());
        current.clone()
    }

    /// The connection, made anew if there is none.
    async fn connection(self: &Arc<Self>) -> Result<Requests, Fault> {
        if let Some(requests) = self.current() {
            return Ok(requests);
        }
        let connecting = self.clone().connect();
        let connected = match &self.served {
            Served::AtHome(home) => home.run(REQUEST_WITHIN, connecting).await,
            Served::ByTheCaller => within(REQUEST_WITHIN, connecting).await,
        };
        let connected = connected.unwrap_or_else(|late| Err(std::io::Error::other(late)));
        connected.map_err(|error| trouble("it cannot be reached").unsent().with_source(error))
    }

    async fn connect(self: Arc<Self>) -> std::io::Result<Requests> {
        let _one = self.connecting.lock().await;
        if let Some(requests) = self.current() {
            return Ok(requests);
        }
        let mut socket = TcpStream::connect(self.addr).await?;
        socket.set_nodelay(true)?;
        socket.write_all(format!("hello {}\n", self.session).as_bytes()).await?;
        let (requests, asked) = mpsc::unbounded_channel();
        // A task of this runtime, which is the home's.
        drop(tokio::spawn(serve(socket, asked, self.told.clone())));
        *self.current.lock().expect("no panic") = Some(requests.clone());
        Ok(requests)
    }

    async fn ask(self: &Arc<Self>, request: String) -> Result<Vec<String>, Fault> {
        let requests = self.connection().await?;
        self.sent.fetch_add(1, Ordering::Relaxed);
        let (answer, answered) = oneshot::channel();
        let lost = || trouble("the connection was lost");
        requests.send((request, answer)).map_err(|_| lost().unsent())?;
        match within(REQUEST_WITHIN, answered).await {
            Ok(answer) => {
                answer.map(|line| line.split(' ').map(str::to_owned).collect()).map_err(|_| lost())
            }
            // Whatever it hangs on, the next request goes over another one.
            Err(late) => {
                let mut current = self.current.lock().expect("no panic");
                current.take_if(|current| current.same_channel(&requests));
                Err(trouble("it did not answer in time").with_source(late))
            }
        }
    }

    async fn is(self: &Arc<Self>, request: String) -> Result<bool, Fault> {
        Ok(self.ask(request).await?[0] == "yes")
    }
}

/// Writes requests, and reads answers and pushes.
async fn serve(mut socket: TcpStream, mut asked: mpsc::UnboundedReceiver<Asked>, told: Arc<Told>) {
    let (read, mut write) = socket.split();
    let mut lines = BufReader::new(read).lines();
    // The first answer is that to the greeting.
    let mut waiting = VecDeque::from([None]);
    loop {
        tokio::select! {
            request = asked.recv() => {
                let Some((request, answer)) = request else { break };
                waiting.push_back(Some(answer));
                if write.write_all(format!("{request}\n").as_bytes()).await.is_err() {
                    break;
                }
            }
            line = lines.next_line() => {
                let Ok(Some(line)) = line else { break };
                if let Some(claim) = line.strip_prefix("* ") {
                    let told = told.lock().expect("no panic");
                    let events = claim_of(claim).and_then(|claim| told.get(&claim));
                    events.inspect(|events| events.notify_one());
                } else if let Some(Some(answer)) = waiting.pop_front() {
                    // Whoever asked may be gone.
                    let _ = answer.send(line);
                }
            }
        }
    }
    // Pushes that came meanwhile are lost: all ask.
    told.lock().expect("no panic").values().for_each(|events| events.notify_one());
}

impl Backend for Lines {
    type Claim = LineClaim;

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::none();
        capabilities.fencing = true;
        capabilities.fifo = true;
        capabilities.push = true;
        capabilities.shared = true;
        capabilities.permits = true;
        capabilities.revocation = true;
        capabilities.force_release = true;
        capabilities.lease_min = Duration::from_millis(100);
        capabilities
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> LineClaim {
        let events = Arc::new(Notify::new());
        self.0.told.lock().expect("no panic").insert(id, events.clone());
        LineClaim { link: self.0.clone(), key: key.clone(), id, terms, events, heard: false }
    }

    async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
        let seen = self.0.ask(format!("inspect {key}")).await?;
        let (mut holders, mut waiters) = (Vec::new(), Vec::new());
        for part in seen[1..].chunks(4) {
            let mode = mode_of(&part[2]).unwrap_or_default();
            match &*part[0] {
                "holds" => {
                    let left = Some(Duration::from_micros(number(&part[3])));
                    holders.push(Holder::new(part[1].clone(), None, left).with_mode(mode));
                }
                _ => waiters.push(Waiter::new(part[1].clone()).with_mode(mode)),
            }
        }
        Ok(Inspection::new(holders, waiters))
    }

    async fn request_revoke(&self, key: &Key) -> Result<bool, Fault> {
        self.0.is(format!("revoke {key}")).await
    }

    async fn force_release(&self, key: &Key) -> Result<bool, Fault> {
        self.0.is(format!("force {key}")).await
    }

    fn requests(&self) -> u64 {
        self.0.sent.load(Ordering::Relaxed)
    }
}

pub(crate) struct LineClaim {
    link: Arc<Link>,
    key: Key,
    id: ClaimId,
    terms: Terms,
    events: Arc<Notify>,
    /// It was told of a change, and has not asked since.
    heard: bool,
}

impl LineClaim {
    async fn extend(&mut self, verb: &str) -> Result<Renewal, Fault> {
        self.heard = false;
        let Self { key, id, terms, .. } = self;
        let request = format!("{verb} {key} {id} {}", terms.lease.as_micros());
        let answer = self.link.ask(request).await?;
        Ok(match &*answer[0] {
            "held" => Renewal::Held(grant(&answer[1..])),
            _ => Renewal::Lost,
        })
    }
}

impl Claim for LineClaim {
    async fn attempt(&mut self) -> Result<Attempt, Fault> {
        self.heard = false;
        let Self { key, id, terms, .. } = self;
        let (mode, lease) = (mode_word(terms.mode), terms.lease.as_micros());
        let (tokens, queues) = (terms.tokens_max, u8::from(terms.queues));
        let request = format!("attempt {key} {id} {mode} {lease} {tokens} {queues}");
        let answer = self.link.ask(request).await?;
        match &*answer[0] {
            "granted" => Ok(Attempt::Granted(grant(&answer[1..]))),
            "limit" => Err(Fault::other_limit(answer[1].parse().map_err(|_| trouble("no limit"))?)),
            _ => Ok(Attempt::Blocked {
                ahead: answer[1].parse().ok(),
                recheck: Duration::from_micros(number(&answer[2])),
            }),
        }
    }

    async fn changed(&mut self) -> Change {
        if !self.heard {
            self.events.notified().await;
            self.heard = true;
        }
        Change::Here
    }

    async fn renew(&mut self) -> Result<Renewal, Fault> {
        self.extend("renew").await
    }

    async fn downgrade(&mut self) -> Result<Renewal, Fault> {
        self.extend("downgrade").await
    }

    async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
        let Self { key, id, .. } = self;
        match self.link.is(format!("withdraw {key} {id}")).await? {
            true => Ok(Withdrawal::Released),
            false => Ok(Withdrawal::NotHeld),
        }
    }
}

impl Drop for LineClaim {
    fn drop(&mut self) {
        self.link.told.lock().expect("no panic").remove(&self.id);
    }
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or(0)
}

fn grant(words: &[String]) -> Grant {
    let [first, last, us, slot, wanted, handed_on, revoked] =
        [0, 1, 2, 3, 4, 5, 6].map(|at| number(&words[at]));
    Grant {
        slot: u32::try_from(slot).unwrap_or(0),
        wanted: wanted == 1,
        handed_on: handed_on == 1,
        revoke_requested: revoked == 1,
        ..Grant::new(TokenBlock::new(first, last), Duration::from_micros(us))
    }
}
