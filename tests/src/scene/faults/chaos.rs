//! F10 to F14, F18 and F25 at random, judged by the history.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::*;
use crate::actor::Actor;
use crate::chance;
use crate::checker::Checker;

const CLIENTS: usize = 4;

/// How long faults happen at least.
const SPAN: Duration = ms(5_000);

/// The next fault of a client's link, and how long it stays: now and then for longer than what the
/// client holds lasts. Half of them are of the way to one server only.
fn fault(line: &Line) -> (Option<Snare>, Duration) {
    let span = ms(fastrand::u64(20..if fastrand::u8(..3) == 0 { 2_500 } else { 600 }));
    let which = Match::any().after(fastrand::u64(..6));
    let one = fastrand::bool().then(|| fastrand::usize(..));
    let snare = match fastrand::u8(..10) {
        0 => return (line.some(one, |proxy| proxy.cut()), ms(5)),
        1 => return (line.some(one, |proxy| proxy.reset()), ms(5)),
        2 => return (line.some(one, |proxy| proxy.refuse()), span),
        3 => return (line.some(one, |proxy| proxy.black_hole()), span),
        4 => {
            let there = |proxy: &Proxy| proxy.set(Direction::ToServer, Flow::BlackHole);
            return (line.some(one, there), span);
        }
        5 => {
            let back = |proxy: &Proxy| proxy.set(Direction::ToClient, Flow::BlackHole);
            return (line.some(one, back), span);
        }
        6 => line.trap(&which, Action::SwallowReply),
        7 => line.trap(&which, Action::DropRequest),
        8 => line.trap(&which, Action::HoldReply),
        _ => return (line.some(one, |proxy| proxy.drop_pushes(true)), span),
    };
    (Some(snare), span)
}

/// What the clients do, as far as it has come.
#[derive(Debug, Default)]
struct Use {
    ended: AtomicBool,
    grants: AtomicU64,
    losses: AtomicU64,
}

impl Use {
    /// Whether it says something: more grants than a client has links, and not all were lost.
    fn is_enough(&self) -> bool {
        let [grants, losses] = [&self.grants, &self.losses].map(|n| n.load(Ordering::SeqCst));
        grants > CLIENTS as u64 && losses < grants
    }
}

/// Takes keys and gives them back until told to end.
async fn use_locks(actor: Actor, keys: [String; 2], so_far: Arc<Use>) {
    while !so_far.ended.load(Ordering::SeqCst) {
        let key = &keys[fastrand::usize(..2)];
        let (guard, _) = actor.acquire(key, ms(fastrand::u64(100..3_000))).await;
        let Ok(guard) = guard else { continue };
        so_far.grants.fetch_add(1, Ordering::SeqCst);
        // Mostly short; the others see a link fail, and its end.
        let hold = ms(fastrand::u64(..if fastrand::u8(..12) == 0 { 2_000 } else { 8 }));
        if tokio::time::timeout(hold, guard.lost()).await.is_ok() {
            actor.lost(&guard).await;
            so_far.losses.fetch_add(1, Ordering::SeqCst);
        } else if guard.is_held() {
            assert!(actor.write(&guard).await || !guard.is_held(), "refused, and not told");
        }
        // `NotHeld` and `Unavailable` are answers too; the history has them.
        drop(actor.release(guard).await);
    }
}

/// F10 to F14, F18, F25 (V1, V2, V4, V6): clients behind links that fail in every way, at any
/// moment: no two of them hold a key at once, tokens grow, waits end, and nothing is left.
pub(crate) async fn links_that_fail_at_random_cost_no_exclusion_and_leave_nothing(
    stage: &mut Stage<'_>,
) {
    chance::begin();
    let (history, so_far) = (stage.history(), Arc::new(Use::default()));
    let (mut clients, mut users) = (Vec::new(), Vec::new());
    for nth in 0..CLIENTS {
        let client = stage.client(Tempo::Brisk).await;
        for task in 0..2 {
            let actor = history.actor(&format!("{nth}/{task}"), &client);
            let keys = ["k0", "k1"].map(|name| stage.key(name));
            users.push(tokio::spawn(use_locks(actor, keys, so_far.clone())));
        }
        clients.push(client);
    }
    let began = Instant::now();
    let trouble = async |line: &Line| {
        // A busy machine makes less of the time.
        while began.elapsed() < SPAN || !so_far.is_enough() {
            let (snare, span) = fault(line);
            tokio::time::sleep(span).await;
            drop(snare);
            line.resume();
            tokio::time::sleep(ms(fastrand::u64(..300))).await;
        }
    };
    let [a, b, c, d] = [0, 1, 2, 3].map(|nth| trouble(&clients[nth].line));
    tokio::join!(a, b, c, d);
    so_far.ended.store(true, Ordering::SeqCst);
    for user in users {
        user.await.expect("no panic");
    }
    let report = history.check(Checker::new().exclusive_but(ms(200)));
    assert_eq!(report.grants, so_far.grants.load(Ordering::SeqCst));
    stage.nothing_left(clients).await;
}
