//! Looking into a running server from outside the lock.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redis::FromRedisValue;

use super::server::{Admin, RedisServer};

/// One key as the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// The name, with anything that is not UTF-8 replaced.
    pub name: String,
    /// The type, as `TYPE` has it: `string`, `list`, `hash`, `zset` …
    pub kind: String,
    /// Milliseconds to live; `None` if the key never expires.
    pub ttl_ms: Option<u64>,
}

impl KeyInfo {
    /// Whether it is the highest token that a server gave, or that of a slot: all that our locks
    /// leave behind.
    #[must_use]
    pub fn is_clock(&self) -> bool {
        let tag = self.name.strip_prefix("lock:clock");
        let is_it = tag.is_some_and(|tag| tag.is_empty() || tag.starts_with(":{"));
        is_it && self.kind == "string" && self.ttl_ms.is_none()
    }
}

/// The figures of `INFO commandstats` for one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandStat {
    /// How often it ran, scripts' inner calls included.
    pub calls: u64,
    /// How long it ran in all, in microseconds.
    pub usec: u64,
    /// How often it was refused before it ran (wrong arguments, missing rights).
    pub rejected_calls: u64,
    /// How often it failed while it ran.
    pub failed_calls: u64,
}

/// `INFO commandstats` by lower-case command; a subcommand is `config|get`.
#[derive(Clone, Debug, Default)]
pub struct CommandStats(pub BTreeMap<String, CommandStat>);

impl CommandStats {
    /// How often `command` ran.
    #[must_use]
    pub fn calls(&self, command: &str) -> u64 {
        self.0.get(command).map_or(0, |stat| stat.calls)
    }

    /// How often the `commands` ran together.
    #[must_use]
    pub fn calls_of(&self, commands: &[&str]) -> u64 {
        commands.iter().map(|command| self.calls(command)).sum()
    }
}

/// One line of `CLIENT LIST`.
#[derive(Clone, Debug)]
pub struct ClientInfo(BTreeMap<String, String>);

impl ClientInfo {
    /// Any field of the line, as `resp`, `cmd`, `age`.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The server's number of the connection.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.number("id")
    }

    /// The name that the client gave itself, or "".
    #[must_use]
    pub fn name(&self) -> &str {
        self.field("name").unwrap_or_default()
    }

    /// How many channels, patterns and shard channels it is subscribed to.
    #[must_use]
    pub fn subscriptions(&self) -> u64 {
        self.number("sub") + self.number("psub") + self.number("ssub")
    }

    fn number(&self, field: &str) -> u64 {
        self.field(field).and_then(|value| value.parse().ok()).unwrap_or(0)
    }
}

/// How long a cluster may be down before it is a failure, and the pause between two questions.
const DOWN_WITHIN: Duration = Duration::from_secs(20);
const DOWN_PAUSE: Duration = Duration::from_millis(100);

/// Questions to a running server. Each blocks the calling thread for one round trip, at most 5 s,
/// and panics if the server does not answer.
impl RedisServer {
    /// Runs any command, as `server.command::<u64>(&["DEL", "k"])`.
    ///
    /// # Panics
    ///
    /// If the server refuses it or the answer is not a `T`. A node whose cluster is down is asked again
    /// for a while: on a busy machine nodes take each other for dead for a moment.
    pub fn command<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let until = Instant::now() + DOWN_WITHIN;
        let is_down = |error: &redis::RedisError| {
            error.kind() == redis::ErrorKind::Server(redis::ServerErrorKind::ClusterDown)
        };
        loop {
            match self.try_command(words) {
                Err(error) if is_down(&error) && Instant::now() < until => {
                    std::thread::sleep(DOWN_PAUSE);
                }
                answer => return answer.unwrap_or_else(|error| panic!("{words:?}: {error}")),
            }
        }
    }

    /// Runs any command and hands back the server's refusal.
    ///
    /// # Errors
    ///
    /// The server's answer, or why it could not be asked.
    pub fn try_command<T: FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        let mut admin = self.admin.lock().expect("no fixture panicked");
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        let mut open = match admin.take() {
            Some(open) => open,
            None => Admin(self.connect()?),
        };
        let mut answer = command.query(&mut open.0);
        // A server that changes its role closes all connections.
        let is_closed = |error: &redis::RedisError| error.is_connection_dropped();
        if answer.as_ref().is_err_and(is_closed) {
            open = Admin(self.connect()?);
            answer = command.query(&mut open.0);
        }
        // After a timeout the next answer on this connection would be a stale one.
        let broken = |error: &redis::RedisError| error.is_io_error() || error.is_timeout();
        if !answer.as_ref().is_err_and(broken) {
            *admin = Some(open);
        }
        answer
    }

    /// Every key, sorted by name. Keys that vanish while they are listed are left out.
    #[must_use]
    pub fn keys(&self) -> Vec<KeyInfo> {
        let names: Vec<Vec<u8>> = self.command(&["KEYS", "*"]);
        let mut keys: Vec<KeyInfo> = names
            .iter()
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .filter_map(|name| self.key(&name))
            .collect();
        keys.sort_by(|a, b| a.name.cmp(&b.name));
        keys
    }

    /// One key, if it exists.
    #[must_use]
    pub fn key(&self, name: &str) -> Option<KeyInfo> {
        let kind: String = self.command(&["TYPE", name]);
        let ttl_ms = match self.command::<i64>(&["PTTL", name]) {
            -2 => return None,
            -1 => None,
            ttl => Some(ttl.unsigned_abs()),
        };
        (kind != "none").then(|| KeyInfo { name: name.to_owned(), kind, ttl_ms })
    }

    /// The highest token that the server gave; in a cluster, of the keys in the slot of this lock.
    #[must_use]
    pub fn highest_token(&self, lock: &str) -> Option<u64> {
        let slot = |name: &str| self.try_command::<u16>(&["CLUSTER", "KEYSLOT", name]).ok();
        let clock = match slot(lock) {
            None => "lock:clock".to_owned(),
            slot_of_lock => {
                let mut clocks = self.keys().into_iter().filter(KeyInfo::is_clock);
                clocks.find(|clock| slot(&clock.name) == slot_of_lock)?.name
            }
        };
        self.command(&["GET", &clock])
    }

    /// The processor time that serves commands has taken since the server started, in microseconds.
    #[must_use]
    pub fn cpu_us(&self) -> f64 {
        let info: String = self.command(&["INFO", "cpu"]);
        let seconds = |name: &str| {
            let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.and_then(|value| value.trim().parse::<f64>().ok()).expect("a number of seconds")
        };
        let parts = ["used_cpu_user_main_thread", "used_cpu_sys_main_thread"];
        parts.map(seconds).iter().sum::<f64>() * 1e6
    }

    /// All that locks have here now beyond clocks: keys and subscriptions.
    #[must_use]
    pub fn left_of_locks(&self) -> Vec<String> {
        let keys = self.keys().into_iter().filter(|key| !key.is_clock());
        let mut left: Vec<_> = keys.map(|key| format!("{key:?}")).collect();
        let channels = self.channels().into_iter().filter(|name| !name.starts_with("__sentinel"));
        left.extend(channels.map(|channel| format!("channel {channel}")));
        left
    }

    /// The same, and the connections of their clients. Servers, sentinels and the fixtures speak
    /// RESP2, and lock clients do not.
    #[must_use]
    pub fn left_by_locks(&self) -> Vec<String> {
        let mut left = self.left_of_locks();
        let ours = self.clients().into_iter().filter(|one| one.field("resp") == Some("3"));
        left.extend(ours.map(|client| format!("{client:?}")));
        left
    }

    /// Starts the counters of [`command_stats`](Self::command_stats) at zero.
    pub fn reset_stats(&self) {
        self.command::<()>(&["CONFIG", "RESETSTAT"]);
    }

    /// How often each command ran since the start or the last reset.
    #[must_use]
    pub fn command_stats(&self) -> CommandStats {
        let info: String = self.command(&["INFO", "commandstats"]);
        CommandStats(info.lines().filter_map(parse_stat).collect())
    }

    /// The channels and shard channels that somebody is subscribed to, sorted.
    #[must_use]
    pub fn channels(&self) -> Vec<String> {
        let mut channels: Vec<String> = self.command(&["PUBSUB", "CHANNELS"]);
        channels.extend(self.command::<Vec<String>>(&["PUBSUB", "SHARDCHANNELS"]));
        channels.sort();
        channels
    }

    /// How many connections are subscribed to `channel`, plain or sharded.
    #[must_use]
    pub fn subscribers(&self, channel: &str) -> u64 {
        let plain: (String, u64) = self.command(&["PUBSUB", "NUMSUB", channel]);
        let sharded: (String, u64) = self.command(&["PUBSUB", "SHARDNUMSUB", channel]);
        plain.1 + sharded.1
    }

    /// Every connection but the fixture's own.
    #[must_use]
    pub fn clients(&self) -> Vec<ClientInfo> {
        let list: String = self.command(&["CLIENT", "LIST"]);
        list.lines().map(parse_client).filter(|client| client.name() != "fixture").collect()
    }
}

/// Reads `cmdstat_set:calls=2,usec=5,usec_per_call=2.50,rejected_calls=0,failed_calls=0`.
fn parse_stat(line: &str) -> Option<(String, CommandStat)> {
    let (name, fields) = line.strip_prefix("cmdstat_")?.split_once(':')?;
    let field = |wanted: &str| {
        fields
            .split(',')
            .filter_map(|field| field.split_once('='))
            .find(|(name, _)| *name == wanted)
            .and_then(|(_, value)| value.trim().parse().ok())
            .unwrap_or(0)
    };
    let stat = CommandStat {
        calls: field("calls"),
        usec: field("usec"),
        rejected_calls: field("rejected_calls"),
        failed_calls: field("failed_calls"),
    };
    Some((name.to_lowercase(), stat))
}

fn parse_client(line: &str) -> ClientInfo {
    let fields = line.split(' ').filter_map(|field| field.split_once('='));
    ClientInfo(fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}
