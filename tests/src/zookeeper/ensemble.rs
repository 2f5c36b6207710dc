//! Several servers that form a quorum.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::launch::{START_LIMIT, Seat};
use super::observe::OwnSessions;
use super::options::ZooKeeperOptions;
use super::server::ZooKeeperServer;
use crate::port::{free_port, is_port_taken};
use crate::proxy::Proxy;

/// Servers on the loopback interface that elect a leader, numbered from 0; stopped when dropped.
///
/// The links over which a follower is told what to do by its leader pass through proxies, one for
/// each pair and direction, so that a test can cut them; the links over which they elect, and
/// those of clients, do not. A server without its leader gives up after 5 ticks (10 s), and until
/// then answers reads from what it knows.
///
/// ```no_run
/// # async fn example() {
/// use tests::zookeeper::ZooKeeperEnsemble;
///
/// let ensemble = ZooKeeperEnsemble::start(3);
/// let behind = ensemble.followers()[0];
/// ensemble.cut_from_leader(behind);
/// // … clients of ensemble.url_of(behind) read what was true before …
/// ensemble.heal();
/// # }
/// ```
#[derive(Debug)]
pub struct ZooKeeperEnsemble {
    servers: Vec<ZooKeeperServer>,
    /// `links[i][j]` is where server `i` finds server `j` should that one lead.
    links: Vec<Vec<Proxy>>,
}

impl ZooKeeperEnsemble {
    /// Starts `n` servers and waits until all of them serve.
    ///
    /// # Panics
    ///
    /// If ZooKeeper or Java is not installed, with the package's name, or if they do not serve
    /// in 30 s, with the end of a log.
    #[must_use]
    pub fn start(n: usize) -> Self {
        Self::with(n, &ZooKeeperOptions::new())
    }

    /// Starts `n` servers with `options` and waits until all of them serve. A server may take 10
    /// ticks to find a leader (`initLimit`) and be silent for 5 (`syncLimit`) unless the options
    /// say otherwise.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[must_use]
    pub fn with(n: usize, options: &ZooKeeperOptions) -> Self {
        // Between the choice of a port and a server's bind another process may take it.
        for _ in 0..20 {
            let mut ensemble = Self::unstarted(n, options);
            ensemble.servers.iter_mut().for_each(ZooKeeperServer::spawn);
            match ensemble.form() {
                Ok(()) => return ensemble,
                Err(log) if is_port_taken(&log) => {}
                Err(log) => panic!("the ensemble did not form:\n{log}"),
            }
        }
        panic!("the ensemble found no free ports in 20 tries");
    }

    fn unstarted(n: usize, options: &ZooKeeperOptions) -> Self {
        let ports: Vec<(u16, u16)> = (0..n).map(|_| (free_port(), free_port())).collect();
        let link =
            |&(quorum, _): &(u16, u16)| Proxy::opaque(SocketAddr::from(([127, 0, 0, 1], quorum)));
        let links: Vec<Vec<Proxy>> = (0..n).map(|_| ports.iter().map(link).collect()).collect();
        let own_sessions = OwnSessions::default();
        let server = |i: usize| {
            let mut members = String::new();
            for (j, (quorum, election)) in ports.iter().enumerate() {
                let port = if i == j { *quorum } else { links[i][j].addr().port() };
                members += &format!("server.{}=127.0.0.1:{port}:{election}\n", j + 1);
            }
            let seat = Some(Seat { id: i + 1, members });
            let mut server = ZooKeeperServer::unstarted(
                options.clone().or_set("initLimit", "10").or_set("syncLimit", "5"),
                free_port(),
                seat,
            );
            server.own_sessions = OwnSessions::clone(&own_sessions);
            server
        };
        let servers = (0..n).map(server).collect();
        ZooKeeperEnsemble { servers, links }
    }

    /// `zookeeper://127.0.0.1:<port>,127.0.0.1:<port>…`, with every server, running or not.
    #[must_use]
    pub fn url(&self) -> String {
        format!("zookeeper://{}", self.connect_string())
    }

    /// The same without `zookeeper://`, as ZooKeeper's own clients take it.
    #[must_use]
    pub fn connect_string(&self) -> String {
        let hosts: Vec<String> = self.servers.iter().map(ZooKeeperServer::connect_string).collect();
        hosts.join(",")
    }

    /// The URL of server `i` alone.
    #[must_use]
    pub fn url_of(&self, i: usize) -> String {
        self.servers[i].url()
    }

    /// Server `i`, to look into it or to pause it.
    #[must_use]
    pub fn server(&self, i: usize) -> &ZooKeeperServer {
        &self.servers[i]
    }

    /// The server that leads. Waits for one; two may say so while one of them is not yet told.
    ///
    /// # Panics
    ///
    /// If there is not exactly one for 30 s.
    #[must_use]
    pub fn leader(&self) -> usize {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if let [leader] = self.all_that_are("leader")[..] {
                return leader;
            }
            assert!(Instant::now() < deadline, "no leader, or more than one: {:?}", self.modes());
            sleep(Duration::from_millis(10));
        }
    }

    /// The servers that follow a leader now.
    #[must_use]
    pub fn followers(&self) -> Vec<usize> {
        self.all_that_are("follower")
    }

    /// Silences the link between follower `i` and its leader, both ways. Nothing is closed.
    ///
    /// # Panics
    ///
    /// If `i` leads.
    pub fn cut_from_leader(&self, i: usize) {
        let leader = self.leader();
        assert_ne!(i, leader, "server {i} is the leader");
        self.links[i][leader].black_hole();
    }

    /// Heals every link. What was sent meanwhile arrives, if its connection still stands.
    pub fn heal(&self) {
        self.links.iter().flatten().for_each(Proxy::resume);
    }

    /// Kills server `i` (`SIGKILL`) and waits for its end.
    pub fn kill(&mut self, i: usize) {
        self.servers[i].kill();
    }

    /// Starts server `i` again on its data, and waits until all that run serve, if they are
    /// enough for a quorum.
    ///
    /// # Panics
    ///
    /// If they do not serve within 30 s.
    pub fn start_again(&mut self, i: usize) {
        self.start_again_all(&[i]);
    }

    /// The same of several at once, which may need each other to serve.
    ///
    /// # Panics
    ///
    /// As [`start_again`](Self::start_again).
    pub fn start_again_all(&mut self, which: &[usize]) {
        for &i in which {
            self.servers[i].kill();
            self.servers[i].spawn();
        }
        let running = self.servers.iter().filter(|server| server.is_running()).count();
        if running * 2 > self.servers.len() {
            self.form_again();
        }
    }

    /// Kills every server, starts all of them on their data, and waits until all serve. Sessions
    /// live on, each with its whole timeout.
    ///
    /// # Panics
    ///
    /// If they do not serve within 30 s.
    pub fn restart_all(&mut self) {
        self.servers.iter_mut().for_each(ZooKeeperServer::kill);
        self.servers.iter_mut().for_each(ZooKeeperServer::spawn);
        self.form_again();
    }

    fn form_again(&mut self) {
        self.form().unwrap_or_else(|log| panic!("the ensemble did not form again:\n{log}"));
    }

    /// Waits until every server that runs serves; the error is the log of one that ended.
    fn form(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + START_LIMIT;
        for server in self.servers.iter_mut().filter(|server| server.is_running()) {
            while server.mode().is_none() {
                if server.has_ended() {
                    return Err(server.end_of_log());
                }
                assert!(Instant::now() < deadline, "no quorum:\n{}", server.end_of_log());
                sleep(Duration::from_millis(10));
            }
            server.begin_counts();
        }
        Ok(())
    }

    fn all_that_are(&self, mode: &str) -> Vec<usize> {
        let modes = self.modes();
        (0..modes.len()).filter(|i| modes[*i].as_deref() == Some(mode)).collect()
    }

    fn modes(&self) -> Vec<Option<String>> {
        // At once, for a paused server takes its time.
        std::thread::scope(|scope| {
            let asked: Vec<_> =
                self.servers.iter().map(|server| scope.spawn(|| server.mode())).collect();
            asked.into_iter().map(|answer| answer.join().expect("no panic")).collect()
        })
    }
}
