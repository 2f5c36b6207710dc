//! The sentinels that are known, and what they said.

use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::answer::{Master, Poll};
use crate::backend::url::Host;
use crate::redis::schemes::SENTINELS_MAX;

/// A sentinel that only others named, and that does not answer, is forgotten after this.
const SILENT_FOR: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) watched: Vec<Watched>,
    pub(super) poll: Poll,
    /// The number of times that a master was elected.
    pub(super) terms: u64,
    /// The master that was elected last.
    pub(super) elected: Option<Master>,
    /// The time when any of them answered last.
    pub(super) heard: Option<Instant>,
    /// The time when all were last asked in vain.
    pub(super) unheard: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Watched {
    pub(super) at: Host,
    /// The sentinel's own name, once it is known: it may have several addresses.
    id: Option<String>,
    /// Whether the URL names it.
    is_named: bool,
    heard: Instant,
    /// The time when it answered last.
    answered: Option<Instant>,
    pub(super) task: Option<AbortHandle>,
}

impl Known {
    /// Those that the URL names.
    pub(super) fn new(named: &[Host], now: Instant) -> Self {
        let watched = named.iter().map(|at| Watched {
            at: at.clone(),
            id: None,
            is_named: true,
            heard: now,
            answered: None,
            task: None,
        });
        Self { watched: watched.collect(), ..Self::default() }
    }

    /// Forgets a sentinel that only others named, and that has not answered for long; whether it
    /// is unknown now.
    pub(super) fn forget_silent(&mut self, at: &Host, now: Instant) -> bool {
        let lasting = self.watched.iter().any(|one| {
            let is_silent = now.saturating_duration_since(one.heard) >= SILENT_FOR;
            one.at == *at && (one.is_named || !is_silent)
        });
        if !lasting {
            self.watched.retain(|one| one.at != *at);
            self.poll.forget(at);
        }
        !lasting
    }

    /// A sentinel has answered. If it goes by another address as well, that of the URL stays.
    pub(super) fn heard_from(&mut self, at: &Host, id: Option<String>, now: Instant) {
        let Some(one) = self.watched.iter_mut().find(|one| one.at == *at) else { return };
        (one.heard, one.answered) = (now, Some(now));
        if one.id == id || id.is_none() {
            return;
        }
        one.id = id.clone();
        self.drop_doubles(id.as_deref());
    }

    /// Under which address a sentinel is counted: the first, if the URL names it by several.
    pub(super) fn voter<'a>(&'a self, at: &'a Host) -> &'a Host {
        let id = self.watched.iter().find(|one| one.at == *at).and_then(|one| one.id.as_ref());
        let same = |one: &&Watched| id.is_some() && one.id.as_ref() == id;
        self.watched.iter().find(same).map_or(at, |one| &one.at)
    }

    /// The number that a majority is wanted of: those of the URL, and others that have answered of
    /// late. A sentinel tells of its dead peers for ever.
    pub(super) fn voters(&self, now: Instant) -> usize {
        let is_there = |one: &&Watched| {
            let since = |at| now.saturating_duration_since(at);
            one.is_named || one.answered.is_some_and(|at| since(at) < SILENT_FOR)
        };
        let counted = |one: &&Watched| is_there(one) && *self.voter(&one.at) == one.at;
        self.watched.iter().filter(counted).count()
    }

    fn drop_doubles(&mut self, id: Option<&str>) {
        let is_same = |one: &Watched| one.id.is_some() && one.id.as_deref() == id;
        if !self.watched.iter().any(|one| is_same(one) && one.is_named) {
            return;
        }
        let poll = &mut self.poll;
        self.watched.retain(|one| {
            let is_double = is_same(one) && !one.is_named;
            if is_double {
                poll.forget(&one.at);
                one.task.iter().for_each(AbortHandle::abort);
            }
            !is_double
        });
    }

    /// A sentinel was told of by another.
    pub(super) fn told_of(&mut self, at: Host, id: String, now: Instant) {
        let is_known = |one: &Watched| one.at == at || one.id.as_deref() == Some(&id);
        if self.watched.len() < SENTINELS_MAX && !self.watched.iter().any(is_known) {
            self.watched.push(Watched {
                at,
                id: Some(id),
                is_named: false,
                heard: now,
                answered: None,
                task: None,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::clock;

    fn at(host: &str) -> Host {
        Host::new(host, 1)
    }

    fn addresses(known: &Known) -> Vec<&str> {
        known.watched.iter().map(|one| one.at.name()).collect()
    }

    #[test]
    fn a_sentinel_with_two_addresses_is_one_and_keeps_that_of_the_url() {
        let now = clock::now();
        let mut known = Known::new(&[at("name1"), at("name2")], now);
        known.heard_from(&at("name1"), Some("1".into()), now);
        known.told_of(at("ip1"), "1".into(), now);
        assert_eq!(addresses(&known), ["name1", "name2"], "known by its own name");
        known.told_of(at("ip2"), "2".into(), now);
        known.told_of(at("ip3"), "3".into(), now);
        assert_eq!(addresses(&known), ["name1", "name2", "ip2", "ip3"]);
        known.heard_from(&at("name2"), Some("2".into()), now);
        assert_eq!(addresses(&known), ["name1", "name2", "ip3"]);
    }

    #[test]
    fn a_sentinel_votes_once_and_one_that_is_dead_not_at_all() {
        let now = clock::now();
        let mut known = Known::new(&[at("name1"), at("again1"), at("name2")], now);
        assert_eq!(known.voters(now), 3, "as far as is known");
        known.heard_from(&at("name1"), Some("1".into()), now);
        known.heard_from(&at("again1"), Some("1".into()), now);
        assert_eq!((known.voter(&at("again1")), known.voters(now)), (&at("name1"), 2));
        for id in ["3", "4", "5", "6"] {
            known.told_of(at(id), id.into(), now);
        }
        assert_eq!(known.voters(now), 2, "told of, and never heard");
        known.heard_from(&at("3"), Some("3".into()), now);
        assert_eq!(known.voters(now), 3);
        assert_eq!(known.voters(now + SILENT_FOR), 2, "not heard of for long");
    }

    #[test]
    fn as_many_as_are_asked_are_learnt_and_those_that_are_silent_for_long_forgotten() {
        let now = clock::now();
        let mut known = Known::new(&[at("named")], now);
        for n in 0..2 * SENTINELS_MAX {
            known.told_of(at(&format!("told{n}")), n.to_string(), now);
        }
        assert_eq!(known.watched.len(), SENTINELS_MAX);
        let almost = now + SILENT_FOR - Duration::from_millis(1);
        assert!(!known.forget_silent(&at("told0"), almost));
        known.heard_from(&at("told0"), Some("0".into()), almost);
        let late = now + SILENT_FOR;
        assert!(!known.forget_silent(&at("told0"), late), "it has answered meanwhile");
        assert!(known.forget_silent(&at("told1"), late));
        assert!(!known.forget_silent(&at("named"), late), "the URL names it");
        assert_eq!(known.watched.len(), SENTINELS_MAX - 1);
        assert!(known.forget_silent(&at("told1"), late), "it is unknown by now");
    }
}
