//! The server: a register for each key, on a thread of its own.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lock_core::backend::register::{OtherLimit, Place, Register, Turn, reserve, ticks};
use lock_core::backend::{Attempt, ClaimId, Renewal, Withdrawal};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};

use crate::speech::{claim_of, grant_words, mode_of, mode_word};

/// A waiter that has not asked for so long is gone.
const WAITER_LIVES: Duration = Duration::from_secs(15);

/// Waiters ask again after this at the latest, as a push may be lost.
const RECHECK: Duration = Duration::from_millis(500);

/// The claim to tell, and its session.
#[derive(Debug, Clone)]
struct With {
    session: String,
    claim: ClaimId,
}

#[derive(Debug)]
struct State {
    began: Instant,
    keys: HashMap<String, Register<With>>,
    /// No key that was forgotten had a greater token.
    token_min: u64,
    sessions: HashMap<String, mpsc::UnboundedSender<String>>,
}

#[derive(Debug)]
pub(crate) struct Server {
    addr: SocketAddr,
    state: Arc<Mutex<State>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a loopback port");
        listener.set_nonblocking(true).expect("a socket that can poll");
        let addr = listener.local_addr().expect("a bound port");
        let state = Arc::new(Mutex::new(State {
            began: Instant::now(),
            keys: HashMap::new(),
            token_min: 0,
            sessions: HashMap::new(),
        }));
        let (stop, stopped) = oneshot::channel();
        let inside = state.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                let listener = TcpListener::from_std(listener).expect("a runtime with I/O");
                let accept = async {
                    loop {
                        if let Ok((client, _)) = listener.accept().await {
                            drop(tokio::spawn(serve(client, inside.clone())));
                        }
                    }
                };
                tokio::select! {
                    () = accept => {}
                    _ = stopped => {}
                }
            });
        });
        Self { addr, state, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The keys that it knows something of.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.state.lock().expect("no panic").keys.keys().cloned().collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A client's connection, from its start to its end.
async fn serve(mut client: TcpStream, state: Arc<Mutex<State>>) {
    let _ = client.set_nodelay(true);
    let (read, mut write) = client.split();
    let (say, mut said) = mpsc::unbounded_channel::<String>();
    let mut lines = BufReader::new(read).lines();
    let mut session = String::new();
    loop {
        tokio::select! {
            line = lines.next_line() => {
                let Ok(Some(line)) = line else { break };
                let mut state = state.lock().expect("no panic");
                if let Some(name) = line.strip_prefix("hello ") {
                    name.clone_into(&mut session);
                    state.sessions.insert(session.clone(), say.clone());
                }
                let answer = state.answer(&session, &line);
                say.send(answer.unwrap_or_else(|| "what?".to_owned())).expect("it is here");
            }
            words = said.recv() => {
                let Some(words) = words else { break };
                if write.write_all(format!("{words}\n").as_bytes()).await.is_err() {
                    break;
                }
            }
        }
    }
    let mut state = state.lock().expect("no panic");
    if state.sessions.get(&session).is_some_and(|other| other.same_channel(&say)) {
        state.sessions.remove(&session);
    }
}

impl State {
    /// `None` for what is no request.
    fn answer(&mut self, session: &str, line: &str) -> Option<String> {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["hello", _] => Some("ok".to_owned()),
            ["attempt", key, claim, mode, lease, tokens_max, joins] => {
                let (claim, mode) = (claim_of(claim)?, mode_of(mode)?);
                let with = With { session: session.to_owned(), claim };
                let due = Some(self.began.elapsed() + WAITER_LIVES);
                let (lease, tokens_max) = (us(lease)?, tokens_max.parse().ok()?);
                let place = Place { claim, mode, lease, tokens_max, due, with };
                Some(match self.turn(key, |key, turn| key.attempt(place, joins == "1", turn)) {
                    Ok(Attempt::Granted(grant)) => format!("granted {}", grant_words(&grant)),
                    Ok(Attempt::Blocked { ahead, recheck }) => {
                        let recheck = recheck.min(RECHECK).as_micros();
                        format!("blocked {} {recheck}", ahead.unwrap_or(0))
                    }
                    Err(OtherLimit(limit)) => format!("limit {limit}"),
                })
            }
            ["renew", key, claim, lease] => {
                let (claim, lease) = (claim_of(claim)?, us(lease)?);
                Some(renewal(self.turn(key, |key, turn| key.renew(claim, lease, true, turn))))
            }
            ["downgrade", key, claim, lease] => {
                let (claim, lease) = (claim_of(claim)?, us(lease)?);
                Some(renewal(self.turn(key, |key, turn| key.downgrade(claim, lease, turn))))
            }
            ["withdraw", key, claim] => {
                let claim = claim_of(claim)?;
                let answer = self.turn(key, |key, turn| key.withdraw(claim, turn));
                Some(yes(answer == Withdrawal::Released))
            }
            ["revoke", key] => Some(yes(self.turn(key, Register::request_revoke))),
            ["force", key] => Some(yes(self.turn(key, Register::force_release))),
            ["inspect", key] => Some(self.turn(key, |key, turn| {
                let holders = key.owners(turn.now).map(|owner| {
                    let left = (owner.until - turn.now).as_micros();
                    let Place { claim, mode, .. } = owner.place;
                    format!(" holds {claim} {} {left}", mode_word(mode))
                });
                let waiter = |place: &Place<_>| {
                    format!(" waits {} {} 0", place.claim, mode_word(place.mode))
                };
                "seen".to_owned() + &holders.chain(key.line().map(waiter)).collect::<String>()
            })),
            _ => None,
        }
    }

    fn turn<A>(
        &mut self,
        key: &str,
        ask: impl FnOnce(&mut Register<With>, &Turn<'_, With>) -> A,
    ) -> A {
        let Self { began, keys, token_min, sessions } = self;
        let now = began.elapsed();
        let mint = |last: Option<u64>, count| {
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
            let clock = ticks(u64::try_from(wall.as_micros()).expect("before the year 500,000"));
            let clock = if last.is_none() { clock.max(*token_min + 1) } else { clock };
            reserve(last, clock, count)
        };
        let wake = |with: &With| {
            if let Some(session) = sessions.get(&with.session) {
                let _ = session.send(format!("* {}", with.claim));
            }
        };
        let turn = Turn { now, mint: &mint, wake: &wake, may_grant: true };
        let register = keys.entry(key.to_owned()).or_default();
        let answer = ask(register, &turn);
        if register.is_idle(now) {
            let last = keys.remove(key).and_then(|register| register.last());
            *token_min = (*token_min).max(last.unwrap_or(0));
        }
        answer
    }
}

fn us(word: &str) -> Option<Duration> {
    word.parse().ok().map(Duration::from_micros)
}

fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

fn renewal(answer: Renewal) -> String {
    match answer {
        Renewal::Held(grant) => format!("held {}", grant_words(&grant)),
        Renewal::Lost => "lost".to_owned(),
    }
}
