//! The span of a request's wait. In a process of its own: a thread without a subscriber that meets
//! a span first can turn it off for all.

mod common;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use lock_core::LockClient;
use lock_tower::LockLayer;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use common::{Probe, buy, ms, settle, shop, spawn};

const SECRET: &str = "account-of-jane-doe";

type Fields = BTreeMap<&'static str, String>;

/// The waits that were begun, and which of them ended.
#[derive(Clone, Default)]
struct Waits {
    begun: Arc<Mutex<Vec<(Fields, bool)>>>,
    keys: bool,
}

struct Into<'a>(&'a mut Fields);

impl Visit for Into<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for Waits {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_wait = metadata.name() == "lock.wait" && *metadata.level() == Level::DEBUG;
        is_wait || (self.keys && metadata.target() == "lock_core::key")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = Fields::new();
        attributes.record(&mut Into(&mut fields));
        let mut begun = self.begun.lock().unwrap();
        begun.push((fields, false));
        Id::from_u64(begun.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let at = span.into_u64() as usize - 1;
        values.record(&mut Into(&mut self.begun.lock().unwrap()[at].0));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {
        panic!("a wait that is entered would be kept open by what begins in it");
    }

    fn exit(&self, _: &Id) {}

    fn try_close(&self, id: Id) -> bool {
        self.begun.lock().unwrap()[id.into_u64() as usize - 1].1 = true;
        true
    }
}

#[tokio::test(start_paused = true)]
async fn the_span_of_a_wait_tells_how_it_ended_and_ends_before_the_handler_runs() {
    for keys in [false, true] {
        let waits = Waits { keys, ..Waits::default() };
        let _listening = tracing::subscriber::set_default(waits.clone());
        let probe = Probe::new();
        let layer = LockLayer::new(LockClient::memory()).admission(false);
        let app = shop(layer.wait(ms(50)).retries(1), &probe);
        let first = spawn(&app, buy(SECRET));
        settle().await;
        assert_eq!(probe.inside(), 1);
        let refused = spawn(&app, buy(SECRET));
        assert_eq!(refused.await.unwrap().status, 409);
        let gone = spawn(&app, buy(SECRET));
        settle().await;
        gone.abort();
        assert!(gone.await.unwrap_err().is_cancelled());
        let begun = waits.begun.lock().unwrap().clone();
        assert!(begun.iter().all(|(_, ended)| *ended), "{begun:?}");
        let ends: Vec<_> = begun
            .iter()
            .map(|(fields, _)| (&*fields["lock.outcome"], fields.get("lock.tries").map(|t| &**t)))
            .collect();
        assert_eq!(ends, [("granted", Some("1")), ("refused", Some("2")), ("cancelled", None)]);
        let key = begun.iter().filter(|(fields, _)| fields.contains_key("lock.key")).count();
        assert_eq!(key, if keys { 3 } else { 0 });
        probe.let_through(1);
        assert_eq!(first.await.unwrap().status, 200);
    }
}
