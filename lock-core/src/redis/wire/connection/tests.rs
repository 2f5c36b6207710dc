use std::io::{BufReader, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, Sender, channel};

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
                        fake::subscribed(&words[1])
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

/// The client's thread stands still while its subscription is answered and its connection cut. So it
/// reads both at once, and is told of the end before it has noted the connection.
#[tokio::test]
async fn one_that_comes_back_does_so_also_where_it_ends_as_it_is_made() {
    let server = cutting();
    let inboxes = Arc::<Inboxes>::default();
    let connection = Connection::listening(route::to_port(server.port), "channel".into(), inboxes);
    let first = tokio::spawn({
        let connection = connection.clone();
        async move { connection.get().await.map(drop) }
    });
    for _ in 0..5 {
        let asked = async {
            while server.asked.try_recv().is_err() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), asked).await.expect("one more connection");
        server.answers.send(()).unwrap();
        server.cut.recv().unwrap();
    }
    assert!(first.await.unwrap().is_err());
    assert!(!connection.is_there());
}

#[tokio::test]
async fn one_task_brings_it_back_however_many_find_that_it_is_gone() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let connection = Connection::standing(route::to_port(nobody.port()));
    assert!(connection.get().await.is_err());
    for _ in 0..50 {
        assert!(!connection.is_there());
        tokio::task::yield_now().await;
    }
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 1);
    // It ends with the last who has the connection.
    drop(connection);
    while Handle::current().metrics().num_alive_tasks() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
