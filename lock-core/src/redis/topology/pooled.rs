//! The check that an application's pool leads to the master.
//!
//! The pool of a Sentinel set may keep a connection to a server that was the master once and does
//! not know that it is no more. What is granted there must not count. So where the URL names
//! sentinels, each request through the pool asks in the same write who answers. The answer must
//! name the server to which the connection of our own leads, as that follows the sentinels. Where
//! it names another than is known, that server is asked anew: it may have restarted. Only where the
//! answer is another's still, the request is made over our own: the pool may be slower to follow.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::Value;

use super::origin::Origin;
use super::sentinel::Sentinels;
use crate::backend::{Fault, FaultKind};
use crate::redis::wire::connection::Connection;
use crate::redis::wire::fault;
use crate::redis::wire::pool::RedisPool;
use crate::redis::wire::request::{
    Failure, REQUEST_WITHIN, Request, Unserved, WrongServer, elsewhere, run_id, who,
};

/// An application's pool, and which server has to answer through it.
#[derive(Debug)]
pub(in crate::redis) struct Pooled {
    pool: RedisPool,
    sentinels: Option<Arc<Sentinels>>,
    /// It was seen to lead to the server and database of the URL. Nothing of a lock goes through it
    /// before.
    fits: AtomicBool,
    /// The master of a term, by a name that a server has from its start to its end.
    master: Mutex<Option<(u64, String)>>,
}

impl Pooled {
    pub(in crate::redis) fn new(pool: RedisPool, origin: &Origin) -> Self {
        let (sentinels, fits) = (origin.sentinels().cloned(), AtomicBool::new(false));
        Self { pool, sentinels, fits, master: Mutex::default() }
    }

    /// Whether it was seen to lead where the URL does.
    pub(in crate::redis) fn fits(&self) -> bool {
        self.fits.load(Ordering::Acquire)
    }

    pub(in crate::redis) fn does_fit(&self) {
        self.fits.store(true, Ordering::Release);
    }

    pub(in crate::redis) fn is_of_cluster(&self) -> bool {
        self.pool.is_of_cluster()
    }

    fn master(&self) -> MutexGuard<'_, Option<(u64, String)>> {
        self.master.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request through the pool; `main` is the connection of our own.
    pub(in crate::redis) async fn send(
        &self,
        request: Request<'_>,
        main: &Arc<Connection>,
    ) -> Result<Value, WrongServer> {
        let Some(sentinels) = &self.sentinels else { return self.pool.send(request).await };
        // Before it is asked who the master is: one that comes later is not yet known by name.
        let term = sentinels.number();
        let master = self.master_in(term, main).await.map_err(unsent)?;
        let is_master = |answered| self.is_master(master, answered, term, main);
        self.pool.send_to(request, is_master, sentinels.superseded(term)).await
    }

    /// Whether the server that answered is the master, which was `known` by that name before. It has
    /// served the request, so the request must not be sent there once more.
    async fn is_master(
        &self,
        known: String,
        answered: Option<String>,
        term: u64,
        main: &Arc<Connection>,
    ) -> Result<(), WrongServer> {
        if answered.as_ref() == Some(&known) {
            return Ok(());
        }
        let (master, number) = self.ask(term, main).await.map_err(|fault| {
            let what = "nobody says whether the application's pool led to the master";
            Failure::Other(Fault::new(FaultKind::Transient, what).with_source(fault))
        })?;
        if answered == Some(master) {
            return Ok(());
        }
        Err(WrongServer { again: Some(number), ..Failure::Other(elsewhere()).into() })
    }

    /// There is another master: what the pool keeps leads to the last one.
    pub(in crate::redis) fn switched(&self) {
        self.pool.forget_idle();
    }

    async fn master_in(&self, term: u64, main: &Arc<Connection>) -> Result<String, Fault> {
        if let Some((of, master)) = &*self.master()
            && *of == term
        {
            return Ok(master.clone());
        }
        Ok(self.ask(term, main).await?.0)
    }

    /// Asks the server to which our own connection leads who it is; also the number of that.
    async fn ask(&self, term: u64, main: &Arc<Connection>) -> Result<(String, u64), Fault> {
        let request = Request { command: &who(), replicas: None };
        let answer = main.exchange_over(request, None, REQUEST_WITHIN).await;
        let (answer, number) = answer.map_err(|unserved| of_who(unserved.fault.into_fault()))?;
        let master = run_id(answer).ok_or_else(|| fault::strange("who it is"))?;
        *self.master() = Some((term, master.clone()));
        Ok((master, number))
    }
}

fn of_who(fault: Fault) -> Fault {
    if fault.kind() != FaultKind::Refused {
        return fault;
    }
    let what = "a pool beside sentinels needs the right +info, to tell the master from others";
    Fault::new(FaultKind::Refused, what).with_source(fault)
}

fn unsent(fault: Fault) -> Unserved {
    Unserved { fault: Failure::Other(fault.unsent()), sent: None }
}

#[cfg(all(test, feature = "deadpool"))]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use deadpool_redis::{Config, Runtime};

    use super::*;
    use crate::backend::StoreUrl;
    use crate::redis::schemes::SENTINEL;
    use crate::redis::wire::{fake, route};

    /// A server that counts what it is to write, and says that it is the one of a name; without one
    /// it hangs up where it is asked.
    #[derive(Clone, Default)]
    struct Server {
        name: Arc<Mutex<Option<&'static str>>>,
        writes: Arc<AtomicUsize>,
    }

    impl Server {
        fn named(name: &'static str) -> Self {
            let server = Self::default();
            server.is_now(Some(name));
            server
        }

        fn is_now(&self, name: Option<&'static str>) {
            *self.name.lock().unwrap() = name;
        }

        fn writes(&self) -> usize {
            self.writes.load(Ordering::SeqCst)
        }

        fn start(&self) -> u16 {
            let this = self.clone();
            fake::start(move |words| match words {
                ["INFO", ..] => {
                    Some(fake::text(&format!("run_id:{}", (*this.name.lock().unwrap())?)))
                }
                ["PING", said] => Some(fake::text(said)),
                words => {
                    this.writes.fetch_add(usize::from(words[0] == "SET"), Ordering::SeqCst);
                    Some("+OK\r\n".into())
                }
            })
        }
    }

    fn pooled(port: u16) -> Pooled {
        let config = Config::from_url(format!("redis://127.0.0.1:{port}"));
        let pool = config.create_pool(Some(Runtime::Tokio1)).unwrap();
        // Nobody asks the sentinels: the term is the first for good.
        let url = StoreUrl::parse("redis+sentinel://127.0.0.1:1/m", &[SENTINEL]).unwrap();
        Pooled::new(pool.into(), &Origin::of(&url).unwrap())
    }

    async fn write(pooled: &Pooled, main: &Arc<Connection>) -> Result<Value, WrongServer> {
        let mut command = redis::cmd("SET");
        command.arg("k").arg("v");
        pooled.send(Request { command: &command, replicas: None }, main).await
    }

    /// It has another name then, and no other server has taken its place.
    #[tokio::test]
    async fn a_master_that_has_restarted_serves_a_request_once() {
        let master = Server::named("a");
        let port = master.start();
        let (pooled, main) = (pooled(port), Connection::plain(route::to_port(port)));
        for (n, name) in ["a", "a", "b", "b"].into_iter().enumerate() {
            master.is_now(Some(name));
            let answer = write(&pooled, &main).await;
            assert!(answer.is_ok(), "{name}: {answer:?}");
            assert_eq!(master.writes(), n + 1);
        }
    }

    #[tokio::test]
    async fn what_another_server_answered_may_be_sent_again_to_the_master_alone() {
        let (former, master) = (Server::named("a"), Server::named("b"));
        let pooled = pooled(former.start());
        let main = Connection::plain(route::to_port(master.start()));
        for _ in 0..2 {
            let wrong = write(&pooled, &main).await.unwrap_err();
            let (_, number) = pooled.ask(0, &main).await.unwrap();
            assert_eq!(wrong.again, Some(number), "{wrong:?}");
            assert!(
                wrong.unserved.sent.is_some() && !wrong.unserved.fault.into_fault().is_unsent()
            );
        }
        assert_eq!((former.writes(), master.writes()), (2, 0));
    }

    #[tokio::test]
    async fn what_an_unknown_server_answered_is_not_sent_again_where_the_master_says_nothing() {
        let (other, master) = (Server::named("a"), Server::named("a"));
        let pooled = pooled(other.start());
        let main = Connection::plain(route::to_port(master.start()));
        write(&pooled, &main).await.unwrap();
        other.is_now(Some("b"));
        master.is_now(None);
        let wrong = write(&pooled, &main).await.unwrap_err();
        assert!(wrong.again.is_none() && wrong.unserved.sent.is_some(), "{wrong:?}");
        assert!(!wrong.unserved.fault.into_fault().is_unsent());
    }
}
