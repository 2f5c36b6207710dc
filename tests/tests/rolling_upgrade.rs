//! A fleet that is upgraded one process at a time: processes of today and of each layout that was
//! released, on one key. None was released yet, so those of today take turns among themselves.
//!
//! With a release the scripts of its layout are frozen beside this file. A process of that layout
//! calls them by itself, as the build of then did, and has its line in [`LAYOUTS`].

#![allow(clippy::disallowed_methods)]

use std::time::Duration;

use futures_util::future::BoxFuture;
use lock_core::{LockClient, LockGuard, LockOptions};
use tests::redis::RedisServer;
use tests::resource::patient;
use tests::wait::within;
use tokio::task::JoinSet;

const ROUNDS: u32 = 40;
const LEASE: Duration = Duration::from_secs(30);
const WAIT: Duration = Duration::from_secs(9);

/// The layouts that are served, by name: that of today, and each that was released.
const LAYOUTS: [(&str, Start); 1] = [("of today", Today::start)];

/// Connects a process to the server at this URL.
type Start = fn(String) -> BoxFuture<'static, Box<dyn Process>>;

/// A process that takes the key `k`, and gives it back, by turns.
trait Process: Send {
    fn acquire(&mut self) -> BoxFuture<'_, ()>;

    fn release(&mut self) -> BoxFuture<'_, ()>;
}

struct Today {
    locks: LockClient,
    guard: Option<LockGuard>,
}

impl Today {
    fn start(url: String) -> BoxFuture<'static, Box<dyn Process>> {
        Box::pin(async move {
            let options = LockOptions::new().with_lease(LEASE).with_wait(WAIT);
            let locks = LockClient::builder(url).defaults(options).connect().await;
            Box::new(Self { locks: locks.expect("a client"), guard: None }) as Box<dyn Process>
        })
    }
}

impl Process for Today {
    fn acquire(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.guard = Some(self.locks.lock("k").acquire().await.expect("its turn"));
        })
    }

    fn release(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let guard = self.guard.take().expect("a hold");
            guard.release().await.expect("a held lock");
        })
    }
}

#[tokio::test]
async fn processes_of_each_layout_and_of_today_take_turns_and_are_never_inside_together() {
    for (layout, start) in LAYOUTS {
        let server = RedisServer::start();
        let mut tasks = JoinSet::new();
        for start in [Today::start as Start, start, Today::start, start] {
            let mut process = start(server.url()).await;
            let mut counter = patient(&server.url()).await.unwrap();
            tasks.spawn(async move {
                let mut overlaps = 0;
                for _ in 0..ROUNDS {
                    within("its turn", process.acquire()).await;
                    let mut count = redis::cmd("INCR");
                    let inside: i64 = count.arg("inside").query_async(&mut counter).await.unwrap();
                    overlaps += u32::from(inside != 1);
                    redis::cmd("DECR").arg("inside").exec_async(&mut counter).await.unwrap();
                    process.release().await;
                }
                overlaps
            });
        }
        while let Some(overlaps) = tasks.join_next().await {
            assert_eq!(overlaps.unwrap(), 0, "a finding of safety: beside the layout {layout}");
        }
        assert_eq!(server.command::<Option<String>>(&["GET", "lock:{k}"]), None);
    }
}
