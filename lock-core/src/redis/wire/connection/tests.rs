use std::io::{BufReader, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, Sender, channel};

use futures_util::future::BoxFuture;

use super::super::{fake, route};
use super::*;

/// A server that ends each connection right behind the answer to its subscription.
struct Cutting {
    port: u16,
    /// A subscription has come, and is not answered yet.
    asked: Receiver<()>,
    answers: Sender<()>,
    /// It was answered, and the connection has ended.
    cut: Receiver<()>,
}

fn cutting() -> Cutting {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let ((asks, asked), (answers, answer), (cuts, cut)) = (channel(), channel(), channel());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let mut reader = BufReader::new(&stream);
            while let Some(words) = fake::command(&mut reader) {
                let said = match words[0].as_str() {
                    "HELLO" => "%1\r\n+proto\r\n:3\r\n".to_owned(),
                    "SUBSCRIBE" => {
                        asks.send(()).unwrap();
                        answer.recv().unwrap();
                        fake::subscribed("subscribe", &words[1])
                    }
                    _ => "+OK\r\n".to_owned(),
                };
                (&stream).write_all(said.as_bytes()).unwrap();
                if words[0] == "SUBSCRIBE" {
                    break;
                }
            }
            drop(stream);
            cuts.send(()).unwrap();
        }
    });
    Cutting { port, asked, answers, cut }
}

/// The thread of the connections stands still while a subscription is answered and its connection
/// cut. So it reads both at once, and is told of the end before it has noted the connection.
#[tokio::test]
async fn one_that_comes_back_does_so_also_where_it_ends_as_it_is_made() {
    let Cutting { port, asked, answers, cut } = cutting();
    let connection =
        Connection::listening(route::to_port(port), Session::of_test(), "channel".into());
    let first = tokio::spawn({
        let connection = connection.clone();
        async move { connection.get(REQUEST_WITHIN).await.map(drop) }
    });
    let server = Arc::new(Mutex::new((answers, cut)));
    for _ in 0..5 {
        let asked = async {
            while asked.try_recv().is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), asked).await.expect("one more connection");
        let server = server.clone();
        let stands_still = connection.home().spawn(async move {
            let server = lock(&server);
            server.0.send(()).unwrap();
            server.1.recv().unwrap();
        });
        stands_still.await.unwrap();
    }
    assert!(first.await.unwrap().is_err());
    assert!(!connection.is_there());
}

#[tokio::test]
async fn one_task_brings_it_back_however_many_find_that_it_is_gone() {
    // Nobody listens there, and no connection gets it as its own.
    let connection = Connection::standing(route::to_port(1), Session::of_test());
    let home = connection.home().clone();
    assert!(connection.get(REQUEST_WITHIN).await.is_err());
    let tasks = async |count| {
        while home.tasks() != count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tasks(0).await;
    for _ in 0..50 {
        assert!(!connection.is_there());
    }
    assert_eq!(home.tasks(), 1);
    // It ends with the last who has the connection.
    drop(connection);
    tasks(0).await;
}

/// A runtime that nobody drives stands for one that is blocked.
#[test]
fn a_connection_serves_others_while_the_runtime_that_asked_for_it_first_is_blocked() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let connection = Connection::plain(route::to_port(fake::start(|_| Some("+OK\r\n".into()))));
    let first = runtime();
    let ping = || {
        let (connection, mut command) = (connection.clone(), Cmd::new());
        command.arg("PING");
        async move { connection.call(&command, REQUEST_WITHIN).await }
    };
    assert!(first.block_on(ping()).is_ok());
    let number = lock(&connection.latest).current.as_ref().unwrap().number;
    assert!(runtime().block_on(ping()).is_ok());
    drop(first);
    assert!(runtime().block_on(ping()).is_ok());
    assert_eq!(lock(&connection.latest).current.as_ref().unwrap().number, number, "one for all");
}

/// A route to nowhere: whoever asks it panics.
#[derive(Debug)]
struct Panics(Arc<Home>);

impl Route for Panics {
    fn home(&self) -> &Arc<Home> {
        &self.0
    }

    fn is_fixed(&self) -> bool {
        true
    }

    fn server(&self) -> BoxFuture<'_, Result<(Client, u64), Fault>> {
        Box::pin(async { std::panic::resume_unwind(Box::new("a bug")) })
    }

    fn is_current(&self, _: u64) -> bool {
        true
    }

    fn superseded(&self, _: u64) -> Option<BoxFuture<'_, ()>> {
        None
    }

    fn look(&self) {}
}

#[tokio::test]
async fn a_panic_is_not_told_as_a_server_that_does_not_answer() {
    let connection = Connection::plain(Arc::new(Panics(Home::start("test").unwrap())));
    for _ in 0..2 {
        let Err(fault) = connection.get(REQUEST_WITHIN).await else { panic!("there is none") };
        assert!(fault.to_string().contains("panicked"), "{fault}");
    }
}

/// A server that was started anew reads its data first, and refuses what claims ask meanwhile. They
/// are told once that it is back, and so not before it answers.
#[tokio::test]
async fn a_server_that_reads_its_data_is_not_back() {
    let (asked, refused) = (Arc::new(AtomicU64::new(0)), 3);
    let counted = asked.clone();
    let port = fake::start(move |words| match words {
        ["SUBSCRIBE", channel] => Some(fake::subscribed("subscribe", channel)),
        ["GET", "lock:clock"] if counted.fetch_add(1, Ordering::SeqCst) < refused => {
            Some("-LOADING Redis is loading the dataset in memory\r\n".into())
        }
        ["EVALSHA", ..] => None,
        _ => Some("+OK\r\n".into()),
    });
    let session = Session::of_test();
    let inbox = session.inboxes.open(crate::backend::ClaimId::from_bits(5));
    let connection = Connection::listening(route::to_port(port), session, "channel".into());
    connection.get(REQUEST_WITHIN).await.unwrap();
    // The server goes away.
    let mut command = Cmd::new();
    command.arg("EVALSHA");
    assert!(connection.call(&command, REQUEST_WITHIN).await.is_err());
    let told = tokio::time::timeout(Duration::from_secs(20), inbox.changed(true));
    told.await.expect("it is back");
    assert!(asked.load(Ordering::SeqCst) > refused, "it was told too early");
    assert!(connection.is_there());
}
