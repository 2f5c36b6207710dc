//! Pairs the lines of a history into calls.

use std::collections::HashMap;

use super::violation::Violation;
use crate::history::{Event, Fun, Kind, Share};

/// A call and its outcome, if it has one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub(super) invoke: &'a Event,
    pub(super) outcome: Option<&'a Event>,
}

impl<'a> Call<'a> {
    /// The outcome, if it took effect.
    pub(super) fn ok(&self) -> Option<&'a Event> {
        self.outcome.filter(|end| end.kind == Kind::Ok)
    }
}

/// A time in which a process thought that it held a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold<'a> {
    pub(super) grant: Call<'a>,
    pub(super) token: u64,
    /// When the grant was complete.
    pub(super) from_ns: u64,
    /// When it began to release, or was told that it lost the lock.
    pub(super) until_ns: Option<u64>,
    /// By how much its process may have written that down late.
    pub(super) stalled_ns: u64,
    /// The first and the last time at which it knew that it held, if it wrote that down.
    pub(super) known_ns: Option<(u64, u64)>,
    /// When it became a reader's.
    pub(super) downgraded_ns: Option<u64>,
}

impl<'a> Hold<'a> {
    pub(super) fn key(&self) -> &'a str {
        &self.grant.invoke.key
    }

    /// In which way it is shared, at first.
    pub(super) fn share(&self) -> Option<Share> {
        self.grant.outcome.and_then(|end| end.share)
    }

    /// Whether it was beside others at any time.
    pub(super) fn is_ever_shared(&self) -> bool {
        self.share().is_some() || self.downgraded_ns.is_some()
    }

    /// The parts of a span of it, each with the way in which it is shared then.
    pub(super) fn parts(&self, (from, until): (u64, u64)) -> Vec<(u64, u64, Option<Share>)> {
        match self.downgraded_ns.filter(|at| *at < until) {
            None => vec![(from, until, self.share())],
            Some(at) if at <= from => vec![(from, until, Some(Share::Reader))],
            Some(at) => vec![(from, at, self.share()), (at, until, Some(Share::Reader))],
        }
    }

    pub(super) fn process(&self) -> &'a str {
        &self.grant.invoke.process
    }
}

/// The calls of a history, each list in the order of invocation.
#[derive(Debug, Default)]
pub(super) struct Calls<'a> {
    pub(super) acquires: Vec<Call<'a>>,
    pub(super) releases: Vec<Call<'a>>,
    pub(super) writes: Vec<Call<'a>>,
    pub(super) holds: Vec<Hold<'a>>,
    /// The lines of holders whose time was over and who were not told.
    pub(super) untold: Vec<&'a Event>,
    /// How many losses were told.
    pub(super) losses: u64,
    /// When each process was last heard of.
    pub(super) last_ns: HashMap<&'a str, u64>,
    /// The time of the last event.
    pub(super) end_ns: u64,
}

impl<'a> Calls<'a> {
    /// Pairs `events`, which are in the order of time.
    pub(super) fn pair(events: &[&'a Event]) -> Result<Self, Violation> {
        let mut calls = Calls::default();
        let mut open: HashMap<&str, (Fun, usize)> = HashMap::new();
        for &event in events {
            calls.end_ns = event.t_ns;
            calls.last_ns.insert(&event.process, event.t_ns);
            let process = event.process.as_str();
            let under_way = open.get(process).copied();
            match (event.kind, under_way) {
                (Kind::Invoke, Some(_)) => return Err(malformed(event, "two calls at once")),
                (Kind::Invoke, None) => {
                    let index = calls.begin(event);
                    open.insert(process, (event.f, index));
                }
                // A line about what a holder knows of its hold answers no call.
                (Kind::Ok, _) if event.f == Fun::Renew => calls.know_hold(event),
                (Kind::Ok, _) if event.f == Fun::Downgrade => {
                    if let Some(hold) = calls.hold_of(event) {
                        hold.downgraded_ns.get_or_insert(event.t_ns);
                    }
                }
                (Kind::Info, _) if event.f == Fun::Renew => calls.untold.push(event),
                (Kind::Fail, _) if event.f == Fun::Renew => {
                    calls.losses += 1;
                    calls.end_hold(event);
                }
                (_, Some((f, index))) if f == event.f => {
                    calls.finish(index, event)?;
                    open.remove(process);
                }
                _ => return Err(malformed(event, "an outcome without its call")),
            }
        }
        Ok(calls)
    }

    fn list(&mut self, f: Fun) -> Option<&mut Vec<Call<'a>>> {
        match f {
            Fun::Acquire => Some(&mut self.acquires),
            Fun::Release => Some(&mut self.releases),
            Fun::Write => Some(&mut self.writes),
            Fun::Renew | Fun::Downgrade => None,
        }
    }

    fn begin(&mut self, invoke: &'a Event) -> usize {
        if invoke.f == Fun::Release {
            self.end_hold(invoke);
        }
        let Some(list) = self.list(invoke.f) else { return 0 };
        list.push(Call { invoke, outcome: None });
        list.len() - 1
    }

    fn finish(&mut self, index: usize, outcome: &'a Event) -> Result<(), Violation> {
        let Some(list) = self.list(outcome.f) else { return Ok(()) };
        let call = &mut list[index];
        if call.invoke.key != outcome.key {
            return Err(malformed(outcome, "an outcome with another key than its call"));
        }
        call.outcome = Some(outcome);
        let grant = *call;
        if outcome.f == Fun::Acquire && outcome.kind == Kind::Ok {
            let token = outcome.token.ok_or(malformed(outcome, "a grant without a token"))?;
            let (from_ns, until_ns, stalled_ns) = (outcome.t_ns, None, 0);
            let (known_ns, downgraded_ns) = (None, None);
            let end = Hold { grant, token, from_ns, until_ns, stalled_ns, known_ns, downgraded_ns };
            self.holds.push(end);
        }
        Ok(())
    }

    /// The latest hold of the event's process on its key, or that of its token.
    fn hold_of(&mut self, event: &Event) -> Option<&mut Hold<'a>> {
        self.holds.iter_mut().rev().find(|hold| {
            hold.process() == event.process
                && hold.key() == event.key
                && event.token.is_none_or(|token| token == hold.token)
        })
    }

    fn end_hold(&mut self, event: &Event) {
        if let Some(hold) = self.hold_of(event)
            && hold.until_ns.is_none()
        {
            hold.until_ns = Some(event.t_ns);
            hold.stalled_ns = event.stalled_ns.unwrap_or(0);
        }
    }

    fn know_hold(&mut self, event: &Event) {
        if let Some(hold) = self.hold_of(event) {
            hold.known_ns = Some((hold.known_ns.map_or(event.t_ns, |known| known.0), event.t_ns));
        }
    }
}

fn malformed(event: &Event, what: &'static str) -> Violation {
    Violation::Malformed { process: event.process.clone(), t_ns: event.t_ns, what }
}
