//! The benchmarks' rival "our scripts" sends what our client sends.

use std::time::Duration;

use cycles::BareSession;
use futures_util::StreamExt;
use lock_core::{Key, LockClient};
use tests::redis::RedisServer;
use tests::resource::patient;

const LEASE: Duration = Duration::from_secs(60);

/// Ends what is listened to.
const LAST: &str = "last";

#[tokio::test]
async fn a_bare_claim_sends_what_a_client_sends_for_a_free_key() {
    let server = RedisServer::start();
    let locks = LockClient::connect(&server.url()).await.unwrap();
    let mut bare = patient(&server.url()).await.unwrap();
    let session = BareSession::open(&mut bare).await.unwrap();
    // A key as services have them, with something to escape.
    let key = Key::new("order:4 {2}/näïve").unwrap();
    let lock = || async {
        let guard = locks.lock(&key).lease(LEASE).acquire().await.unwrap();
        guard.release().await.unwrap();
    };
    // The rest of what connecting sends is over then.
    lock().await;

    let client = redis::Client::open(server.url()).unwrap();
    let monitor = client.get_async_monitor().await.unwrap();
    lock().await;
    let claim = session.claim(&key, LEASE);
    let token: u64 = claim.attempt().query_async(&mut bare).await.unwrap();
    let released: i64 = claim.withdraw().query_async(&mut bare).await.unwrap();
    assert!(token > 0 && released == 1);
    redis::cmd("ECHO").arg(LAST).exec_async(&mut bare).await.unwrap();

    let lines = monitor.into_on_message().take_while(|line: &String| {
        let goes_on = !line.contains(LAST);
        async move { goes_on }
    });
    let sent: Vec<_> = lines.filter_map(|line| async move { command(&line) }).collect().await;
    assert_eq!(sent.len(), 4, "{sent:#?}");
    assert_eq!(sent[..2], sent[2..], "left the client's, right the bare claim's");
}

/// The command that a client sent, with each claim written as `<claim>`; none for what a script
/// called.
fn command(line: &str) -> Option<String> {
    let (from, command) = line.split_once("] ")?;
    let of_script = from.ends_with(" lua");
    (!of_script).then(|| without_claims(command))
}

fn without_claims(command: &str) -> String {
    let is_claim = |word: &str| {
        let word = word.trim_matches('"');
        let hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
        word.split_once(':').is_some_and(|(id, session)| {
            (id.len(), session.len()) == (32, 16) && hex(id) && hex(session)
        })
    };
    let words = command.split(' ').map(|word| if is_claim(word) { "<claim>" } else { word });
    words.collect::<Vec<_>>().join(" ")
}
