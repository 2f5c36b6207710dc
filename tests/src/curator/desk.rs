//! Brings what the program says to who waits for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{oneshot, watch};

use super::answer::{Answer, Event, Line};
use super::process::Output;

/// The commands under way and the events so far.
#[derive(Debug)]
pub(super) struct Desk {
    calls: Mutex<Calls>,
    events: watch::Sender<Vec<Event>>,
}

#[derive(Debug, Default)]
struct Calls {
    last_id: u64,
    /// `None` once the program says nothing more.
    open: Option<HashMap<u64, oneshot::Sender<Answer>>>,
}

impl Desk {
    /// A desk that reads `output` to its end.
    pub(super) fn open(output: Output) -> Arc<Self> {
        let calls = Calls { last_id: 0, open: Some(HashMap::new()) };
        let desk = Arc::new(Desk { calls: Mutex::new(calls), events: watch::Sender::default() });
        tokio::spawn(Arc::clone(&desk).read(output));
        desk
    }

    /// A new command's id, and its answer to come. The answer's channel is closed when the program
    /// says nothing more.
    pub(super) fn call(&self) -> (u64, oneshot::Receiver<Answer>) {
        let (sender, receiver) = oneshot::channel();
        let mut calls = self.calls.lock().expect("no holder panics");
        calls.last_id += 1;
        let id = calls.last_id;
        if let Some(open) = &mut calls.open {
            open.insert(id, sender);
        }
        (id, receiver)
    }

    pub(super) fn events(&self) -> watch::Receiver<Vec<Event>> {
        self.events.subscribe()
    }

    async fn read(self: Arc<Self>, mut output: Output) {
        while let Ok(Some(line)) = output.next_line().await {
            match serde_json::from_str(&line) {
                Ok(Line::Event(event)) => self.events.send_modify(|events| events.push(event)),
                Ok(Line::Answer(answer)) => self.answer(answer),
                Err(error) => {
                    eprintln!("Curator's program said {line:?}: {error}");
                    break;
                }
            }
        }
        self.calls.lock().expect("no holder panics").open = None;
    }

    fn answer(&self, answer: Answer) {
        let mut calls = self.calls.lock().expect("no holder panics");
        let call = calls.open.as_mut().and_then(|open| open.remove(&answer.id));
        if let Some(call) = call {
            // The caller may have stopped listening.
            let _ = call.send(answer);
        }
    }
}
