//! The reason why a server lets nobody in.
//!
//! A server that is full says so and hangs up, before it is asked anything. A client that has
//! written by then is told of a broken pipe, and the word is lost. So it is looked for once more,
//! over a connection that nothing is written to.

use std::io;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, RedisError};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

use crate::ground::timeout;

/// The time that a server may take for its word. It comes with the connection.
const SAID_WITHIN: Duration = Duration::from_millis(200);

/// Longer than any such word.
const WORD_BYTES_MAX: usize = 512;

/// Connects. Where the server hangs up with a word, that is the error.
pub(in crate::redis) async fn connect(
    client: &Client,
    config: &AsyncConnectionConfig,
) -> Result<MultiplexedConnection, RedisError> {
    match client.get_multiplexed_async_connection_with_config(config).await {
        Err(error) if error.is_connection_dropped() => Err(told(client, error).await),
        connected => connected,
    }
}

async fn told(client: &Client, error: RedisError) -> RedisError {
    let said = timeout::within(SAID_WITHIN, listen(client)).await;
    said.ok().and_then(Result::ok).as_deref().and_then(word).unwrap_or(error)
}

/// The first words of the server.
async fn listen(client: &Client) -> io::Result<Vec<u8>> {
    let mut said = vec![0; WORD_BYTES_MAX];
    let length = match client.get_connection_info().addr() {
        ConnectionAddr::Tcp(host, port) => {
            let server = TcpStream::connect((host.as_str(), *port)).await?;
            server.readable().await?;
            server.try_read(&mut said)?
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            let server = UnixStream::connect(path).await?;
            server.readable().await?;
            server.try_read(&mut said)?
        }
        // Over TLS nothing is said before both have shaken hands.
        _ => 0,
    };
    said.truncate(length);
    Ok(said)
}

/// An error of the protocol: `-CODE and why`.
fn word(said: &[u8]) -> Option<RedisError> {
    let line = str::from_utf8(said).ok()?.strip_prefix('-')?.lines().next()?;
    let (code, why) = line.split_once(' ')?;
    Some(redis::make_extension_error(code.to_owned(), Some(why.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_error_is_a_word() {
        let full = word(b"-ERR max number of clients reached\r\n").expect("a word");
        assert!(full.to_string().contains("max number of clients reached"), "{full}");
        for other in [&b""[..], b"+OK\r\n", b"-", b"-ERR", b"\xff\xfe"] {
            assert!(word(other).is_none(), "{other:?}");
        }
    }
}
