//! Being told: one stream for all watches of a client.
//!
//! A watch begins with what is written from now on. Its server says as of which revision that is. If
//! something was written since the read that the watch follows, one more look is due, and the same
//! watch goes on from there. A watch from that read on would need no look. But a server looks after
//! watches that begin in the past ten times a second only, some versions once: so long the news of a
//! release would take wherever others write to the cluster.
//!
//! With the stream all watches on it end, and whoever has one looks: what was not told is read.
//!
//! A stream keeps the login that it was opened with. A member that does not take it any more
//! refuses new watches on it, and not always by their names. So a refusal ends the stream.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use futures_util::stream;
use tokio::sync::{mpsc, watch};

use super::links::Links;
use super::wire::{
    Event, Filter, Range, WatchAsked, WatchCancel, WatchCreate, WatchRequest, WatchResponse,
};
use crate::backend::io::within;
use crate::ground::{clock, lock};

/// Before those are told whose watches could not be set: they look, and set them again.
const FAILED_PAUSE: Duration = Duration::from_millis(100);

/// How long a stream may take to open.
const OPEN_WITHIN: Duration = Duration::from_secs(2);

/// The news that the watches of a claim have told since the last look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    // ## Nothing => (Behind | News)
    Nothing,
    // ## Behind => (Nothing | News)
    /// Something was written, up to this revision, before they began.
    Behind(i64),
    News,
}

type Told = Arc<watch::Sender<Heard>>;

/// One watch, as the client knows it.
#[derive(Debug, Clone)]
struct Ear {
    /// The number of its stream.
    stream: u64,
    /// The revision of the read that it follows.
    since: i64,
    told: Told,
}

impl Ear {
    fn hear(&self, answer: &WatchResponse) {
        let is_new =
            |event: &Event| event.kv.as_ref().is_none_or(|kv| kv.mod_revision > self.since);
        let begins = answer.header.filter(|_| answer.created).map_or(0, |header| header.revision);
        if answer.canceled || answer.events.iter().any(is_new) {
            self.told.send_replace(Heard::News);
        } else if begins > self.since {
            self.told.send_if_modified(|heard| match heard {
                Heard::News => false,
                Heard::Nothing | Heard::Behind(_) => {
                    *heard = Heard::Behind(begins);
                    true
                }
            });
        }
    }
}

/// The keys and the events that are watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) range: Range,
    pub(super) events: Events,
}

/// The events that are told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Events {
    All,
    Puts,
    Deletions,
}

/// All watches of a client.
#[derive(Debug)]
pub(super) struct Hub {
    links: Arc<Links>,
    state: Mutex<State>,
    /// Its drop ends the stream: a server keeps one of which the client's half has ended.
    stays: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The way of requests into the stream, and the number of that stream.
    stream: Option<mpsc::UnboundedSender<WatchRequest>>,
    number: u64,
    last: i64,
    /// By the id of the watch.
    ears: HashMap<i64, Ear>,
}

/// The watches of one claim, and whether they have told something. Dropping it takes them off the
/// server.
#[derive(Debug)]
pub(super) struct Watch {
    hub: Arc<Hub>,
    wanted: Vec<Wanted>,
    ids: Vec<i64>,
    told: Told,
}

impl Watch {
    /// A read as of this revision was made. Whether the watch goes on from there.
    pub(super) fn looked(&self, revision: i64) -> bool {
        looked(&self.told, revision)
    }

    /// A look is due, and nothing else was told.
    pub(super) fn is_behind(&self) -> bool {
        matches!(*self.told.borrow(), Heard::Behind(_))
    }

    /// Resolves when it has told something, or a look is due.
    pub(super) async fn over(&self) {
        // The sender is here.
        drop(self.told.subscribe().wait_for(|heard| *heard != Heard::Nothing).await);
    }
}

fn looked(told: &Told, revision: i64) -> bool {
    told.send_if_modified(|heard| {
        let is_seen = matches!(heard, Heard::Behind(begins) if *begins <= revision);
        if is_seen {
            *heard = Heard::Nothing;
        }
        is_seen
    });
    *told.borrow() == Heard::Nothing
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = lock(&self.hub.state);
        for id in &self.ids {
            let number = state.number;
            if state.ears.remove(id).is_some_and(|ear| ear.stream == number)
                && let Some(stream) = &state.stream
            {
                let asked = WatchAsked::Cancel(WatchCancel { watch_id: *id });
                // A stream that has ended has no watches.
                drop(stream.send(WatchRequest { asked: Some(asked) }));
            }
        }
    }
}

impl Hub {
    pub(super) fn new(links: Arc<Links>) -> Arc<Self> {
        Arc::new(Self { links, state: Mutex::default(), stays: watch::Sender::new(()) })
    }

    /// Watches for what happens after this revision, which was read. The watch before goes on, if it
    /// is one for the same and has told nothing that was not read.
    pub(super) fn watch(
        self: &Arc<Self>,
        before: Option<Watch>,
        wanted: Vec<Wanted>,
        revision: i64,
    ) -> Watch {
        if let Some(watch) = before
            && watch.wanted == wanted
            && watch.looked(revision)
        {
            return watch;
        }
        let told: Told = Arc::new(watch::Sender::new(Heard::Nothing));
        let mut state = lock(&self.state);
        if state.stream.as_ref().is_none_or(mpsc::UnboundedSender::is_closed) {
            let (requests, asked) = mpsc::unbounded_channel();
            state.number = state.number.wrapping_add(1);
            state.stream = Some(requests);
            let stays = self.stays.subscribe();
            let served = (asked, state.number);
            let serving = serve(Arc::downgrade(self), self.links.clone(), stays, served);
            drop(self.links.home.spawn(serving));
        }
        let mut ids = Vec::with_capacity(wanted.len());
        for Wanted { range, events } in wanted.clone() {
            state.last = state.last.wrapping_add(1);
            let (id, number) = (state.last, state.number);
            ids.push(id);
            state.ears.insert(id, Ear { stream: number, since: revision, told: told.clone() });
            let filters = match events {
                Events::All => vec![],
                Events::Puts => vec![Filter::Deletions.into()],
                Events::Deletions => vec![Filter::Puts.into()],
            };
            let create =
                WatchCreate { key: range.begin, range_end: range.end, filters, watch_id: id };
            let request = WatchRequest { asked: Some(WatchAsked::Create(create)) };
            // One that has just ended tells all of its ears, this one too.
            state.stream.as_ref().map(|stream| stream.send(request));
        }
        drop(state);
        Watch { hub: self.clone(), wanted, ids, told }
    }

    fn tell(&self, answer: &WatchResponse) {
        let ear = lock(&self.state).ears.get(&answer.watch_id).cloned();
        // Without the mutex: whoever is woken may do anything.
        if let Some(ear) = ear {
            ear.hear(answer);
        }
    }

    /// This stream is no more.
    fn ended(&self, number: u64) {
        let mut state = lock(&self.state);
        if state.number == number {
            state.stream = None;
        }
        let ended: Vec<_> = state.ears.extract_if(|_, ear| ear.stream == number).collect();
        drop(state);
        for (_, ear) in ended {
            ear.told.send_replace(Heard::News);
        }
    }
}

/// Serves one stream, for as long as it lasts and its link is the one in use.
async fn serve(
    hub: Weak<Hub>,
    links: Arc<Links>,
    mut stays: watch::Receiver<()>,
    (asked, number): (mpsc::UnboundedReceiver<WatchRequest>, u64),
) {
    let (link, login) = (links.link(), links.logins.number());
    let requests =
        stream::unfold(asked, async |mut asked| asked.recv().await.map(|next| (next, asked)));
    let opened = within(OPEN_WITHIN, links.watch(&link, requests));
    let opened = tokio::select! {
        opened = opened => opened.ok().and_then(Result::ok),
        () = link.left() => None,
        _ = stays.changed() => return,
    };
    match opened {
        Some(mut answers) => loop {
            let answer = tokio::select! {
                answer = answers.message() => answer,
                () = link.left() => break,
                _ = stays.changed() => return,
            };
            let (Ok(Some(answer)), Some(hub)) = (answer, hub.upgrade()) else { break };
            if answer.created && answer.canceled {
                // A stream has the login that it was opened with, which is not taken any more.
                links.logins.forget(login);
                clock::alarm_in(FAILED_PAUSE).await;
                break;
            }
            hub.tell(&answer);
        },
        None => clock::alarm_in(FAILED_PAUSE).await,
    }
    hub.upgrade().inspect(|hub| hub.ended(number));
}

#[cfg(test)]
mod tests {
    use super::super::wire::{Header, KeyValue};
    use super::*;

    fn ear(since: i64) -> Ear {
        Ear { stream: 1, since, told: Arc::new(watch::Sender::new(Heard::Nothing)) }
    }

    fn heard(ear: &Ear, answer: &WatchResponse) -> Heard {
        ear.hear(answer);
        *ear.told.borrow()
    }

    /// It begins behind what was there at this revision.
    fn begins(revision: i64) -> WatchResponse {
        let header = Some(Header { revision, ..Header::default() });
        WatchResponse { header, created: true, ..WatchResponse::default() }
    }

    fn written(mod_revision: i64) -> WatchResponse {
        let kv = Some(KeyValue { mod_revision, ..KeyValue::default() });
        WatchResponse { events: vec![Event { kv }], ..WatchResponse::default() }
    }

    #[test]
    fn a_watch_that_begins_with_what_was_read_has_nothing_to_tell() {
        let ear = ear(7);
        // A member that is behind the others tells what was read as well.
        for answer in [begins(7), begins(3), written(6), written(7)] {
            assert_eq!(heard(&ear, &answer), Heard::Nothing, "{answer:?}");
        }
        assert_eq!(heard(&ear, &written(8)), Heard::News);
    }

    #[test]
    fn a_watch_that_begins_later_wants_one_look_and_goes_on() {
        let ear = ear(7);
        assert_eq!(heard(&ear, &begins(9)), Heard::Behind(9));
        assert!(!looked(&ear.told, 8), "what was written at 9 is not seen by this");
        assert!(looked(&ear.told, 9) && looked(&ear.told, 10));
        assert_eq!(heard(&ear, &written(10)), Heard::News);
        assert!(!looked(&ear.told, 10), "the news may be of what comes behind the read");
    }

    #[test]
    fn news_are_not_forgotten_for_the_sake_of_a_look() {
        let ear = ear(7);
        assert_eq!(heard(&ear, &written(8)), Heard::News);
        assert_eq!(heard(&ear, &begins(9)), Heard::News);
    }
}
