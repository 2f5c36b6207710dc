//! The conformance suite, and that it finds a store out which connects where it is called.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use lock_core::Mode;
use lock_core::backend::io::Home;
use lock_core::test_util::{AnyBackend, BoxFuture, Subject, conformance};
use tests::blocked::alone;

use crate::server::Server;
use crate::store::{Lines, Served};

#[derive(Debug)]
struct OnLines(Server, Served, Mode);

impl OnLines {
    fn start(mode: Mode) -> Self {
        Self(Server::start(), Served::AtHome(Home::shared().expect("a thread")), mode)
    }
}

impl Subject for OnLines {
    fn open(&self) -> BoxFuture<'_, AnyBackend> {
        Box::pin(async { AnyBackend::new(Lines::at(self.0.addr(), self.1.clone())) })
    }

    fn mode(&self) -> Mode {
        self.2
    }

    fn slack(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn left_behind(&self) -> BoxFuture<'_, Vec<String>> {
        let left = self.0.keys();
        Box::pin(async move { left })
    }
}

lock_core::conformance_tests!([], OnLines::start(Mode::Exclusive));

/// A permit of one is a mutex.
mod of_one {
    use super::*;

    lock_core::conformance_tests!([], OnLines::start(Mode::Permit { of: 1 }));
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref().copied()).unwrap_or_default()
}

/// All else of the suite it passes, as nothing else blocks a runtime.
#[test]
fn a_store_that_connects_in_the_runtime_of_its_caller_is_found_out() {
    let trap = OnLines(Server::start(), Served::ByTheCaller, Mode::Exclusive);
    let played = AssertUnwindSafe(|| {
        let property = conformance::a_hold_goes_on_while_the_runtime_that_took_it_is_blocked(&trap);
        alone().block_on(property);
    });
    let panic = catch_unwind(played).expect_err("its hold ends with the runtime");
    let message = message(&*panic);
    assert!(message.contains("blocked"), "{message}");
    alone().block_on(async {
        conformance::one_claim_holds_a_key_at_a_time(&trap).await;
        conformance::a_renewed_lease_goes_on(&trap).await;
    });
}
