//! The requests of a free key without a client: the two scripts that a claim at one server calls, with
//! the keys and arguments that it gives them. What an acquire takes beyond these is the engine's.
//!
//! It is no lock: nobody renews, waits or is told. `tests/tests/bare_redis.rs` compares what it sends
//! with what a client sends.

use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use lock_core::Key;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, RedisWrite, Script, ToRedisArgs};

macro_rules! source {
    ($name:literal) => {
        include_str!(concat!("../../../../lock-core/src/redis/protocol/script/", $name, ".lua"))
    };
}

static ATTEMPT: LazyLock<Script> = LazyLock::new(|| whole(source!("attempt")));
static WITHDRAW: LazyLock<Script> = LazyLock::new(|| whole(source!("withdraw")));

/// Puts the shared functions in where the body asks for them, as the client does. A script goes by
/// its hash, so each letter counts: an empty line of the body is left out.
fn whole(body: &str) -> Script {
    let tokens = [source!("ticks"), source!("tokens")].concat();
    let promote = [source!("owner"), source!("held"), source!("promote")].concat();
    let lines = body.lines().flat_map(|line| match line.trim() {
        "--TOKENS" => tokens.lines(),
        "--MODE" => source!("mode").lines(),
        "--PROMOTE" => promote.lines(),
        _ => line.lines(),
    });
    Script::new(&lines.fold(String::new(), |text, line| text + line + "\n"))
}

/// A session as of a client that has connected.
#[derive(Debug, Clone)]
pub struct BareSession {
    name: Arc<str>,
}

/// A claim as of a waiter that has opened one. Each has an id of its own, as each acquire has.
#[derive(Debug)]
pub struct BareClaim {
    key: Key,
    id: u128,
    session: Arc<str>,
    lease: Duration,
}

impl BareSession {
    /// A session with a name of its own, whose claims call scripts that the server knows from now
    /// on.
    ///
    /// # Errors
    ///
    /// Those of the server.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the server may know the scripts.
    pub async fn open(connection: &mut MultiplexedConnection) -> RedisResult<Self> {
        for script in [&ATTEMPT, &WITHDRAW] {
            script.load_async(connection).await?;
        }
        Ok(Self { name: format!("{:016x}", RandomState::new().hash_one(0)).into() })
    }

    /// A claim that would wait for its turn, with this lease.
    #[must_use]
    pub fn claim(&self, key: &Key, lease: Duration) -> BareClaim {
        BareClaim { key: key.clone(), id: random(), session: self.name.clone(), lease }
    }
}

impl BareClaim {
    /// Takes the key if it is free.
    #[must_use]
    pub fn attempt(&self) -> Cmd {
        let mut command = self.call(&ATTEMPT);
        command.arg(u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX));
        command
    }

    /// Gives it back.
    #[must_use]
    pub fn withdraw(&self) -> Cmd {
        self.call(&WITHDRAW)
    }

    fn call(&self, script: &Script) -> Cmd {
        // As much room as a client makes.
        let mut command = Cmd::with_capacity(12, 464);
        command.arg("EVALSHA").arg(script.get_hash()).arg(1);
        command.arg(Parts(["lock:{", self.key.as_str(), "}"])).arg(Owner(self));
        command
    }
}

/// One argument, written without a string of its own.
struct Parts<'a>([&'a str; 3]);

/// The claim as it stands at the server.
struct Owner<'a>(&'a BareClaim);

impl ToRedisArgs for Parts<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        let mut argument = out.writer_for_next_arg();
        for part in self.0 {
            // Into memory.
            let _ = argument.write_all(part.as_bytes());
        }
    }
}

impl ToRedisArgs for Owner<'_> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        let mut digits = [b':'; 33];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0.id.to_be_bytes()) {
            let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 0xf)]);
        }
        let mut argument = out.writer_for_next_arg();
        let _ = argument.write_all(&digits);
        let _ = argument.write_all(self.0.session.as_bytes());
    }
}

/// An id, for what a client's costs: two hashes of a count under random keys.
fn random() -> u128 {
    static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let [high, low] = KEYS.each_ref().map(|key| u128::from(key.hash_one(count)));
    high << 64 | low
}
