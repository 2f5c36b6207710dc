//! Being told: one stream for all watches of a client.
//!
//! A watch begins behind the revision that was read, so nothing can happen in between. With the
//! stream all watches on it end, and whoever has one looks: what was not told is read.
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
    Filter, Range, WatchAsked, WatchCancel, WatchCreate, WatchRequest, WatchResponse,
};
use crate::backend::io::within;
use crate::ground::{clock, lock};

/// Before those are told whose watches could not be set: they look, and set them again.
const FAILED_PAUSE: Duration = Duration::from_millis(100);

/// How long a stream may take to open.
const OPEN_WITHIN: Duration = Duration::from_secs(2);

type Ear = Arc<watch::Sender<bool>>;

/// The keys and the events that are watched.
#[derive(Debug, Clone)]
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
    /// The ears that are told, by the id of the watch, each with the number of its stream.
    ears: HashMap<i64, (u64, Ear)>,
}

/// The watches of one claim, and whether they have told something. Dropping it takes them off the
/// server.
#[derive(Debug)]
pub(super) struct Watch {
    hub: Arc<Hub>,
    ids: Vec<i64>,
    ear: Ear,
}

impl Watch {
    pub(super) fn is_over(&self) -> bool {
        *self.ear.borrow()
    }

    /// Resolves when it has told something, now and later.
    pub(super) async fn over(&self) {
        // The sender is here.
        drop(self.ear.subscribe().wait_for(|told| *told).await);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = lock(&self.hub.state);
        for id in &self.ids {
            let number = state.number;
            if state.ears.remove(id).is_some_and(|(stream, _)| stream == number)
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

    /// Watches for what happens after this revision.
    pub(super) fn watch(self: &Arc<Self>, wanted: Vec<Wanted>, revision: i64) -> Watch {
        let ear: Ear = Arc::new(watch::Sender::new(false));
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
        for Wanted { range, events } in wanted {
            state.last = state.last.wrapping_add(1);
            let (id, number) = (state.last, state.number);
            ids.push(id);
            state.ears.insert(id, (number, ear.clone()));
            let filters = match events {
                Events::All => vec![],
                Events::Puts => vec![Filter::Deletions.into()],
                Events::Deletions => vec![Filter::Puts.into()],
            };
            let create = WatchCreate {
                key: range.begin,
                range_end: range.end,
                start_revision: revision.saturating_add(1),
                filters,
                watch_id: id,
            };
            let request = WatchRequest { asked: Some(WatchAsked::Create(create)) };
            // One that has just ended tells all of its ears, this one too.
            state.stream.as_ref().map(|stream| stream.send(request));
        }
        drop(state);
        Watch { hub: self.clone(), ids, ear }
    }

    fn tell(&self, answer: &WatchResponse) {
        if answer.events.is_empty() && !answer.canceled {
            return;
        }
        if let Some((_, ear)) = lock(&self.state).ears.get(&answer.watch_id) {
            ear.send_replace(true);
        }
    }

    /// This stream is no more.
    fn ended(&self, number: u64) {
        let mut state = lock(&self.state);
        if state.number == number {
            state.stream = None;
        }
        state.ears.retain(|_, (stream, ear)| {
            let is_here = *stream == number;
            if is_here {
                ear.send_replace(true);
            }
            !is_here
        });
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
