//! Requests to the browser and what it says by itself: JSON, each message ended by a zero byte.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// It bounds a broken test, and is no measure of anything.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(30);

type Answer = Result<Value, String>;

#[derive(Debug)]
pub(super) struct Link {
    input: tokio::sync::Mutex<ChildStdin>,
    last_id: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<u64, oneshot::Sender<Answer>>,
    /// Problems of pages, by session.
    problems: HashMap<String, Vec<String>>,
}

impl Link {
    pub(super) fn over(input: ChildStdin, output: ChildStdout) -> Arc<Self> {
        let link = Arc::new(Self {
            input: tokio::sync::Mutex::new(input),
            last_id: AtomicU64::new(0),
            state: Mutex::default(),
        });
        let reader = Arc::downgrade(&link);
        drop(tokio::spawn(async move {
            let mut output = BufReader::new(output);
            let mut message = Vec::new();
            while output.read_until(0, &mut message).await.is_ok_and(|bytes| bytes > 0) {
                message.pop();
                let Some(link) = reader.upgrade() else { return };
                link.heard(serde_json::from_slice(&message).unwrap_or_default());
                message.clear();
            }
            // Callers that still wait are told that nobody will answer.
            if let Some(link) = reader.upgrade() {
                link.state().waiting.clear();
            }
        }));
        link
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn problems(&self, session: &str) -> Vec<String> {
        self.state().problems.get(session).cloned().unwrap_or_default()
    }

    pub(super) async fn ask(&self, session: Option<&str>, method: &str, params: Value) -> Value {
        self.ask_within(ANSWER_WITHIN, session, method, params).await
    }

    pub(super) async fn ask_within(
        &self,
        within: Duration,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Value {
        let answered = timeout(within, self.send(session, method, params));
        match answered.await.unwrap_or_else(|_| Err(format!("no answer within {within:?}"))) {
            Ok(answer) => answer,
            Err(error) => panic!("the browser: {method}: {error}"),
        }
    }

    async fn send(&self, session: Option<&str>, method: &str, params: Value) -> Answer {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let mut request = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            request["sessionId"] = session.into();
        }
        let (reply, answer) = oneshot::channel();
        self.state().waiting.insert(id, reply);
        let mut bytes = request.to_string().into_bytes();
        bytes.push(0);
        let mut input = self.input.lock().await;
        input.write_all(&bytes).await.map_err(|error| error.to_string())?;
        drop(input);
        answer.await.unwrap_or_else(|_| Err("it has ended".to_owned()))
    }

    fn heard(self: &Arc<Self>, mut message: Value) {
        if let Some(id) = message["id"].as_u64() {
            let reply = self.state().waiting.remove(&id);
            let answer = match message["error"]["message"].as_str() {
                Some(error) => Err(error.to_owned()),
                None => Ok(message["result"].take()),
            };
            // The one who asked may have given up.
            drop(reply.map(|reply| reply.send(answer)));
            return;
        }
        let session = message["sessionId"].as_str().unwrap_or_default().to_owned();
        if message["method"] == "Page.javascriptDialogOpening" {
            // Until it is closed the page stands still.
            let (link, session) = (self.clone(), session.clone());
            drop(tokio::spawn(async move {
                let close = json!({ "accept": false });
                drop(link.send(Some(&session), "Page.handleJavaScriptDialog", close).await);
            }));
        }
        if let Some(problem) = problem(&message["method"], &message["params"]) {
            self.state().problems.entry(session).or_default().push(problem);
        }
    }
}

/// The problem that an event tells of, if it does.
fn problem(method: &Value, params: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match method.as_str()? {
        "Runtime.exceptionThrown" => {
            let thrown = &params["exceptionDetails"];
            Some(format!("{} {}", text(&thrown["text"]), thrown["exception"]["description"]))
        }
        "Runtime.consoleAPICalled" if params["type"] == "error" || params["type"] == "assert" => {
            Some(format!("console: {}", params["args"]))
        }
        // A file that was not served, a rule of the policy that was broken.
        "Log.entryAdded" if params["entry"]["level"] == "error" => {
            Some(format!("{} {}", text(&params["entry"]["text"]), params["entry"]["url"]))
        }
        "Page.javascriptDialogOpening" => Some(format!("a dialog: {}", params["message"])),
        _ => None,
    }
}
