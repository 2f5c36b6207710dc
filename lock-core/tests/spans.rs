//! The spans of an acquire, a hold and a request, on a paused clock and by a subscriber of this
//! thread. In a process of their own: a thread without a subscriber that meets a span first can
//! turn it off for all.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::LockClient;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

type Test = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// The word that no field may carry.
const SECRET: &str = "account-of-jane-doe";

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Lets all tasks run that can, without the clock going on.
async fn settle() {
    for _ in 0..32 {
        tokio::task::yield_now().await;
    }
}

/// One span: its name, its parent, its fields, and whether it ended.
#[derive(Debug, Clone, Default)]
struct Seen {
    name: &'static str,
    parent: Option<&'static str>,
    fields: BTreeMap<&'static str, String>,
    handles: usize,
}

impl Seen {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

impl Visit for Seen {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

#[derive(Debug, Clone, Default)]
struct Spans {
    seen: Arc<Mutex<Vec<Seen>>>,
    entered: Arc<Mutex<Vec<usize>>>,
    keys: bool,
}

fn of<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Spans {
    fn at(id: &Id) -> usize {
        id.into_u64() as usize - 1
    }

    fn all(&self, name: &str) -> Vec<Seen> {
        of(&self.seen).iter().filter(|span| span.name == name).cloned().collect()
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        *metadata.level() <= Level::DEBUG || (self.keys && target == "lock_core::key")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut seen = of(&self.seen);
        let current = || of(&self.entered).last().copied();
        let parent = match attributes.parent() {
            Some(parent) => Some(Self::at(parent)),
            None if attributes.is_contextual() => current(),
            None => None,
        };
        let parent = parent.map(|parent| seen[parent].name);
        let name = attributes.metadata().name();
        let mut span = Seen { name, parent, fields: BTreeMap::new(), handles: 1 };
        attributes.record(&mut span);
        seen.push(span);
        Id::from_u64(seen.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(&mut of(&self.seen)[Self::at(span)]);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let name = "event";
        let mut seen = Seen { name, ..Seen::default() };
        event.record(&mut seen);
        of(&self.seen).push(seen);
    }

    fn enter(&self, span: &Id) {
        of(&self.entered).push(Self::at(span));
    }

    fn exit(&self, _: &Id) {
        of(&self.entered).pop();
    }

    fn clone_span(&self, id: &Id) -> Id {
        of(&self.seen)[Self::at(id)].handles += 1;
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut seen = of(&self.seen);
        seen[Self::at(&id)].handles -= 1;
        seen[Self::at(&id)].handles == 0
    }
}

#[tokio::test(start_paused = true)]
async fn an_acquire_and_its_hold_are_children_of_the_span_that_awaits_them() -> Test {
    let spans = Spans::default();
    let _listening = tracing::subscriber::set_default(spans.clone());
    let locks = LockClient::memory();
    let caller = tracing::info_span!("caller");
    let acquire = locks.lock(SECRET).name("test").acquire();
    let guard = tracing::Instrument::instrument(acquire, caller.clone()).await?;
    let [acquired] = &spans.all("lock.acquire")[..] else { panic!("{spans:?}") };
    assert_eq!((acquired.parent, acquired.handles), (Some("caller"), 0));
    assert_eq!(acquired.field("lock.outcome"), "granted");
    assert_eq!(acquired.field("lock.token"), guard.token().to_string());
    assert_eq!((acquired.field("lock.name"), acquired.field("lock.tries")), ("test", "1"));
    let [held] = &spans.all("lock.hold")[..] else { panic!("{spans:?}") };
    assert_eq!((held.parent, held.handles), (Some("caller"), 1), "it lasts");
    guard.release().await?;
    let [held] = &spans.all("lock.hold")[..] else { panic!("{spans:?}") };
    assert_eq!((held.handles, held.field("lock.outcome")), (0, "released"));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_request_is_a_root_span_with_its_verb_and_its_outcome() -> Test {
    let spans = Spans::default();
    let _listening = tracing::subscriber::set_default(spans.clone());
    LockClient::memory().lock(SECRET).await?.release().await?;
    settle().await;
    let told: Vec<_> = spans
        .all("lock.store")
        .into_iter()
        .map(|span| {
            assert_eq!((span.parent, span.handles), (None, 0));
            (span.field("lock.verb").to_owned(), span.field("lock.outcome").to_owned())
        })
        .collect();
    let expected = [("attempt", "granted"), ("withdraw", "released")];
    assert_eq!(told, expected.map(|(verb, end)| (verb.to_owned(), end.to_owned())));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn failures_and_losses_are_told_by_name() -> Test {
    let spans = Spans::default();
    let _listening = tracing::subscriber::set_default(spans.clone());
    let locks = LockClient::memory();
    let guard = locks.lock(SECRET).hold_limit(ms(500)).await?;
    assert!(locks.lock(SECRET).wait(ms(10)).retries(1).await.is_err());
    let waiter = tokio::spawn(locks.lock(SECRET).acquire());
    settle().await;
    waiter.abort();
    settle().await;
    let ends: Vec<_> = spans
        .all("lock.acquire")
        .into_iter()
        .map(|span| (span.field("lock.outcome").to_owned(), span.field("lock.tries").to_owned()))
        .collect();
    let expected = [("granted", "1"), ("timeout", "2"), ("cancelled", "1")];
    assert_eq!(ends, expected.map(|(end, tries)| (end.to_owned(), tries.to_owned())));
    guard.lost().await;
    drop(guard);
    let [held] = &spans.all("lock.hold")[..] else { panic!("{spans:?}") };
    assert_eq!(held.field("lock.outcome"), "lost");
    let lost = |event: &Seen| event.field("lock.reason") == "hold_limit";
    assert_eq!(spans.all("event").iter().filter(|event| lost(event)).count(), 1);
    Ok(())
}

#[cfg(feature = "idempotency")]
#[tokio::test(start_paused = true)]
async fn a_request_under_an_idempotency_key_and_its_execution_tell_how_they_ended() -> Test {
    use lock_core::idempotency::{Begun, Fingerprint, Idempotency, MemoryRecords, Scope};

    let spans = Spans::default();
    let _listening = tracing::subscriber::set_default(spans.clone());
    let once = Idempotency::new("tests", LockClient::memory(), MemoryRecords::new());
    let (scope, asked) = (Scope::of("tenant"), Fingerprint::new([1; 32]));
    let caller = tracing::info_span!("caller");
    let begin = |key: &'static str| {
        let begun = once.begin(&scope, key.as_bytes(), asked);
        tracing::Instrument::instrument(begun, caller.clone())
    };
    let Begun::Run(execution) = begin(SECRET).await? else { panic!("it is new") };
    let [running] = &spans.all("idempotency.execution")[..] else { panic!("{spans:?}") };
    assert_eq!((running.parent, running.field("idempotency.outcome")), (Some("caller"), ""));
    assert_eq!(running.field("lock.token"), execution.token().to_string());
    assert_eq!(running.field("idempotency.id"), execution.id().to_string());
    // In line for its lock, and gone.
    let mut waiting = Box::pin(begin(SECRET));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    drop(waiting);
    execution.complete("done".into()).await?;
    assert!(matches!(begin(SECRET).await?, Begun::Replay(_)));
    for (key, ends) in ["given up", "left"].into_iter().zip(["aborted", "left"]) {
        let Begun::Run(execution) = begin(key).await? else { panic!("it is new") };
        match ends {
            "left" => execution.leave(),
            _ => execution.abort().await?,
        }
    }
    assert!(once.idle(ms(1_000)).await);
    let told = |name| {
        let ended = |span: Seen| {
            assert_eq!((span.parent, span.handles), (Some("caller"), 0), "{span:?}");
            span.field("idempotency.outcome").to_owned()
        };
        spans.all(name).into_iter().map(ended).collect::<Vec<_>>()
    };
    let begun = ["executed", "cancelled", "replayed", "executed", "executed"];
    assert_eq!(told("idempotency.begin"), begun);
    assert_eq!(told("idempotency.execution"), ["completed", "aborted", "left"]);
    assert!(!format!("{:?}", of(&spans.seen)).contains(SECRET));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_key_is_in_a_span_only_for_those_who_ask_for_it() -> Test {
    for keys in [false, true] {
        let spans = Spans { keys, ..Spans::default() };
        let _listening = tracing::subscriber::set_default(spans.clone());
        let locks = LockClient::memory();
        let guard = locks.lock(SECRET).hold_limit(ms(5)).await?;
        guard.lost().await;
        drop(guard);
        settle().await;
        assert_eq!(format!("{:?}", of(&spans.seen)).contains(SECRET), keys);
        for name in ["lock.acquire", "lock.hold", "lock.store"] {
            let shown = if keys { SECRET } else { "" };
            assert!(spans.all(name).iter().all(|span| span.field("lock.key") == shown), "{name}");
        }
    }
    Ok(())
}
