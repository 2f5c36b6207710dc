//! The meaning of the sentinels' answers. Pure: no clock, no connection.
//!
//! A failover raises the epoch of a master's configuration, and each sentinel knows the greatest
//! epoch that it has heard of. So the master with the greatest epoch is the master, and whoever
//! says otherwise has not heard of it yet. The one exception is a set of sentinels that was made
//! anew and counts from zero: see [`Poll::elect`].

use std::collections::HashMap;
use std::time::{Duration, Instant};

use redis::{FromRedisValue, Value};

use crate::backend::url::Host;

/// Sentinels tell each other of a switch every 2 s. A switch that none of them knows of after
/// this time was unmade.
const UNMADE_AFTER: Duration = Duration::from_secs(10);

/// An answer says nothing of the time after this.
const ANSWER_GOOD_FOR: Duration = Duration::from_secs(3);

/// A master, and the epoch of the configuration that made it so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::redis) struct Master {
    pub(in crate::redis) at: Host,
    pub(super) epoch: u64,
}

/// The report of one sentinel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) master: Master,
    /// The sentinel's own name, by which others tell of it.
    pub(super) id: Option<String>,
    /// The other sentinels, and their names.
    pub(super) others: Vec<(Host, String)>,
}

impl Report {
    /// The report in the answers to `SENTINEL get-master-addr-by-name`, `master`,
    /// `get-master-addr-by-name`, `sentinels` and `myid`. `None` if a switch came in between, or
    /// they are of no use: the sentinel does not know the master, or has only just begun to.
    pub(super) fn read(answers: &[Value]) -> Option<Self> {
        let [before, master, after, others, id] = answers else { return None };
        let (before, after) = (address_pair(before)?, address_pair(after)?);
        if before != after {
            return None;
        }
        let fields = HashMap::<String, String>::from_redis_value(master.clone()).ok()?;
        let epoch = fields.get("config-epoch")?.parse().ok()?;
        let others = match others {
            Value::Array(others) => others.iter().filter_map(sentinel_fields).collect(),
            _ => Vec::new(),
        };
        let id = String::from_redis_value(id.clone()).ok();
        Some(Self { master: Master { at: before, epoch }, id, others })
    }
}

fn address(host: &str, port: &str) -> Option<Host> {
    let port = port.parse().ok().filter(|port| *port != 0)?;
    (!host.is_empty()).then(|| Host::new(host, port))
}

fn address_pair(value: &Value) -> Option<Host> {
    let (host, port) = <(String, String)>::from_redis_value(value.clone()).ok()?;
    address(&host, &port)
}

fn sentinel_fields(value: &Value) -> Option<(Host, String)> {
    let mut fields = HashMap::<String, String>::from_redis_value(value.clone()).ok()?;
    let id = fields.remove("runid")?;
    Some((address(fields.get("ip")?, fields.get("port")?)?, id))
}

/// The last answer of each sentinel.
#[derive(Debug, Default)]
pub(super) struct Poll {
    answers: HashMap<Host, (Master, Instant)>,
    /// Since when a majority has spoken against the elected one, and nobody for it.
    against: Option<Instant>,
}

impl Poll {
    pub(super) fn note(&mut self, sentinel: &Host, master: Master, now: Instant) {
        self.answers.insert(sentinel.clone(), (master, now));
    }

    pub(super) fn forget(&mut self, sentinel: &Host) {
        self.answers.remove(sentinel);
    }

    /// The master instead of `elected`, if there is another.
    ///
    /// A greater epoch wins at once, whoever tells of it. A smaller or an equal one never does,
    /// while anybody speaks for the elected master: whoever was told of a switch must not go back.
    /// Where a majority of the `sentinels` has spoken against it for 10 s and nobody for it, their
    /// master is taken: the sentinels were made anew.
    pub(super) fn elect(
        &mut self,
        elected: Option<&Master>,
        sentinels: usize,
        now: Instant,
    ) -> Option<Master> {
        self.answers.retain(|_, (_, at)| now.saturating_duration_since(*at) < ANSWER_GOOD_FOR);
        let (best, votes) = self.best()?;
        let Some(elected) = elected else { return Some(best) };
        if best.epoch > elected.epoch {
            self.against = None;
            return Some(best);
        }
        let defended = self.answers.values().any(|(master, _)| master.at == elected.at);
        if defended || votes * 2 <= sentinels {
            self.against = None;
            return None;
        }
        let since = *self.against.get_or_insert(now);
        if now.saturating_duration_since(since) < UNMADE_AFTER {
            return None;
        }
        self.against = None;
        Some(best)
    }

    /// The master with the greatest epoch, of several the one that most name, and how many do.
    fn best(&self) -> Option<(Master, usize)> {
        let votes = |master: &Master| {
            self.answers.values().filter(|(other, _)| other.at == master.at).count()
        };
        let masters = self.answers.values().map(|(master, _)| (master, votes(master)));
        // The address last, so that all clients choose alike.
        let best = masters
            .max_by_key(|(master, votes)| (master.epoch, *votes, std::cmp::Reverse(&master.at)));
        best.map(|(master, votes)| (master.clone(), votes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::clock;

    fn at(port: u16) -> Host {
        Host::new("h", port)
    }

    fn master(port: u16, epoch: u64) -> Master {
        Master { at: at(port), epoch }
    }

    fn poll(answers: &[(u16, u16, u64)], now: Instant) -> Poll {
        let mut poll = Poll::default();
        for &(sentinel, port, epoch) in answers {
            poll.note(&at(sentinel), master(port, epoch), now);
        }
        poll
    }

    fn text(words: &[&str]) -> Value {
        Value::Array(words.iter().map(|word| Value::BulkString((*word).into())).collect())
    }

    #[test]
    fn the_first_answer_elects_and_none_elects_nobody() {
        let now = clock::now();
        assert_eq!(Poll::default().elect(None, 3, now), None);
        assert_eq!(poll(&[(1, 10, 0)], now).elect(None, 3, now), Some(master(10, 0)));
    }

    #[test]
    fn the_greatest_epoch_wins_whoever_tells_of_it() {
        let now = clock::now();
        let mut poll = poll(&[(1, 10, 4), (2, 10, 4), (3, 11, 5)], now);
        assert_eq!(poll.elect(None, 3, now), Some(master(11, 5)));
        assert_eq!(poll.elect(Some(&master(10, 4)), 3, now), Some(master(11, 5)));
        // A failover there and back is a switch, too.
        assert_eq!(poll.elect(Some(&master(11, 4)), 3, now), Some(master(11, 5)));
        assert_eq!(poll.elect(Some(&master(11, 5)), 3, now), None);
    }

    #[test]
    fn of_one_epoch_the_master_that_most_name_is_elected() {
        let now = clock::now();
        let mut poll = poll(&[(1, 12, 0), (2, 11, 0), (3, 11, 0)], now);
        assert_eq!(poll.elect(None, 3, now), Some(master(11, 0)));
    }

    #[test]
    fn a_majority_that_has_not_heard_of_a_switch_does_not_undo_it() {
        let now = clock::now();
        let mut poll = poll(&[(1, 10, 4), (2, 10, 4)], now);
        for past in [0, 5, 9] {
            let now = now + Duration::from_secs(past);
            poll.note(&at(1), master(10, 4), now);
            poll.note(&at(2), master(10, 4), now);
            assert_eq!(poll.elect(Some(&master(11, 5)), 3, now), None, "{past}");
        }
        // One that knows of it starts the time anew.
        let later = now + Duration::from_secs(9);
        poll.note(&at(3), master(11, 5), later);
        assert_eq!(poll.elect(Some(&master(11, 5)), 3, later), None);
        let later = now + Duration::from_secs(11);
        poll.note(&at(1), master(10, 4), later);
        poll.note(&at(2), master(10, 4), later);
        assert_eq!(poll.elect(Some(&master(11, 5)), 3, later), None);
    }

    #[test]
    fn sentinels_that_were_made_anew_are_believed_in_the_end() {
        let now = clock::now();
        let elected = master(11, 5);
        let mut poll = Poll::default();
        for past in 0..=10 {
            let now = now + Duration::from_secs(past);
            poll.note(&at(1), master(10, 0), now);
            poll.note(&at(2), master(10, 0), now);
            let other = poll.elect(Some(&elected), 3, now);
            assert_eq!(other, (past == 10).then(|| master(10, 0)), "{past}");
        }
        // A minority is not.
        let mut poll = Poll::default();
        for past in 0..=20 {
            let now = now + Duration::from_secs(past);
            poll.note(&at(1), master(10, 0), now);
            assert_eq!(poll.elect(Some(&elected), 3, now), None, "{past}");
        }
    }

    #[test]
    fn what_was_said_long_ago_says_nothing() {
        let now = clock::now();
        let mut poll = poll(&[(1, 10, 4)], now);
        assert_eq!(poll.elect(None, 3, now + ANSWER_GOOD_FOR), None);
    }

    #[test]
    fn a_report_is_read_and_a_torn_or_a_strange_one_is_none() {
        let named = text(&["10.0.0.1", "6379"]);
        let fields = text(&["name", "m", "ip", "10.0.0.9", "port", "1", "config-epoch", "7"]);
        let others = Value::Array(vec![
            text(&["name", "x", "ip", "10.0.0.2", "port", "26379", "runid", "x"]),
            text(&["name", "y", "ip", "", "port", "26379", "runid", "y"]),
            text(&["name", "z", "ip", "10.0.0.3", "port", "0", "runid", "z"]),
        ]);
        let id = Value::BulkString("w".into());
        let (torn, none) = (text(&["10.0.0.8", "6379"]), Value::Nil);
        let answers = |before: &Value, fields: &Value, after: &Value| {
            [before, fields, after, &others, &id].map(Value::clone)
        };
        let report = Report::read(&answers(&named, &fields, &named)).unwrap();
        // The address by name: while a failover goes on, the other one is the old master's.
        let at = Host::new("10.0.0.1", 6379);
        assert_eq!(report.master, Master { at, epoch: 7 });
        let other = Host::new("10.0.0.2", 26379);
        assert_eq!((report.id.as_deref(), report.others), (Some("w"), vec![(other, "x".into())]));
        assert_eq!(Report::read(&[]), None);
        assert_eq!(Report::read(&answers(&named, &fields, &torn)), None);
        assert_eq!(Report::read(&answers(&none, &fields, &none)), None);
        assert_eq!(Report::read(&answers(&named, &none, &named)), None);
        assert_eq!(Report::read(&answers(&named, &text(&["config-epoch", "x"]), &named)), None);
    }
}
