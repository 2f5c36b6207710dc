//! Links that fail at random, judged by the history.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tests::proxy::{Action, Direction, Flow, Match, Proxy, Trap};
use tests::wait::eventually;

use crate::contention::*;
use crate::support::*;

/// How long faults happen.
const SPAN: Duration = ms(4_000);

/// The next fault of a link, and how long it stays: now and then for longer than a session lasts.
fn fault(link: &Proxy) -> (Option<Trap>, Duration) {
    let verbs = ["CREATE", "GETCHILDREN", "GETDATA", "DELETE", "SETDATA", "MULTI", "MULTI"];
    let which = Match::verb(verbs[fastrand::usize(..verbs.len())]);
    let span = ms(fastrand::u64(20..if fastrand::u8(..4) == 0 { 3_000 } else { 600 }));
    match fastrand::u8(..9) {
        0 => link.cut(),
        1 => link.reset(),
        2 => link.refuse(),
        3 => link.black_hole(),
        4 => link.set(Direction::ToClient, Flow::BlackHole),
        5 => link.drop_pushes(true),
        6 => return (Some(link.trap(which, Action::SwallowReply)), span),
        7 => return (Some(link.trap(which, Action::DropRequest)), span),
        _ => return (Some(link.trap(which, Action::HoldReply)), span),
    }
    (None, span)
}

/// F10 to F14, F41 (V1, V2, V4, V6): no two clients hold a key at once, tokens grow, waits end, and
/// nothing is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_that_fail_at_random_cost_no_exclusion_and_leave_nothing() {
    let servers = Servers::start().await;
    let (contention, links) = Contention::behind(&servers).await;
    let (start, mut trouble) = (Instant::now(), Vec::new());
    for link in &links {
        let link = Arc::clone(link);
        trouble.push(tokio::spawn(async move {
            while start.elapsed() < SPAN {
                let (trap, span) = fault(&link);
                tokio::time::sleep(span).await;
                drop(trap);
                link.resume();
                tokio::time::sleep(ms(fastrand::u64(..800))).await;
            }
        }));
    }
    for one in trouble {
        one.await.expect("no panic");
    }
    contention.goes_on("when all links are whole again").await;
    let report = contention.end().await;
    println!("{report:?}");
    eventually("nothing is left", || servers.left().is_empty()).await;
}
