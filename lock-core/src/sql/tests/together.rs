use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::fake::{Fake, Fate, NOW, Server};
use crate::backend::io::Home;
use crate::backend::register::{Place, Turn, reserve};
use crate::backend::{Attempt, Claim as _, ClaimId, Fault, Grant, Manner, Mode, Terms, Withdrawal};
use crate::ground::{Plus as _, clock};
use crate::key::Key;
use crate::proto::lease::drift;
use crate::sql::claim::LeaseClaim;
use crate::sql::dialect::Ask;
use crate::sql::row::{Entry, With};
use crate::sql::store::{REQUEST, Store};
use crate::sql::together::{COMING_WITHIN, PATIENCE};

pub(super) const LEASE: Duration = Duration::from_secs(9);

pub(super) const A: u128 = 0xA;
pub(super) const B: u128 = 0xB;
pub(super) const C: u128 = 0xC;
const D: u128 = 0xD;
/// The claim that comes behind A's.
const A2: u128 = 0xA2;

pub(super) fn key() -> Key {
    Key::new("k").unwrap()
}

pub(super) fn id(claim: u128) -> ClaimId {
    ClaimId::from_bits(claim)
}

fn place(claim: u128) -> Place<With> {
    let with = With { about: "".into(), value: None };
    let due = Some(NOW + LEASE);
    Place { claim: id(claim), mode: Mode::Exclusive, lease: LEASE, tokens_max: 1, due, with }
}

/// A row that the first of these holds, and for which the others wait.
pub(super) fn held_by(claims: &[u128]) -> Arc<Server> {
    let mint = |last, count| reserve(last, 7, count);
    let turn = Turn { now: NOW, mint: &mint, wake: &|_| {}, may_grant: true };
    let mut entry = Entry::default();
    for claim in claims {
        entry.attempt(place(*claim), true, &turn).unwrap();
    }
    Server::of(&entry)
}

/// The claims of a row: those that hold, and the line.
fn stands(server: &Server) -> (Vec<ClaimId>, Vec<ClaimId>) {
    let entry = server.entry();
    let held = entry.granted().iter().map(|owner| owner.place.claim).collect();
    (held, entry.line().map(|place| place.claim).collect())
}

fn ids(claims: &[u128]) -> Vec<ClaimId> {
    claims.iter().copied().map(id).collect()
}

pub(super) fn process(server: &Arc<Server>) -> Arc<Store<Fake>> {
    Store::start(Fake::of(server), Home::shared().unwrap())
}

/// The claim that comes behind A's, which has not asked yet.
fn new_claim(store: &Arc<Store<Fake>>) -> LeaseClaim<Fake> {
    LeaseClaim::new(store.clone(), &key(), id(A2), Terms::exclusive(LEASE), None)
}

fn soon() -> Instant {
    clock::now().plus(REQUEST)
}

async fn attempt_by(
    store: Arc<Store<Fake>>,
    claim: u128,
    manner: Manner,
    by: Instant,
) -> Result<Attempt, Fault> {
    let about = "".into();
    let ask = Ask { key: key(), claim: id(claim), lease: LEASE, tokens_max: 1, about };
    Ok(store.attempt(ask, place(claim), manner, true, by).await?.0)
}

pub(super) async fn attempt(store: Arc<Store<Fake>>, claim: u128) -> Result<Attempt, Fault> {
    attempt_by(store, claim, Manner::Queues, soon()).await
}

pub(super) async fn withdraw(store: Arc<Store<Fake>>, claim: u128) -> Result<Withdrawal, Fault> {
    store.withdraw(key(), id(claim), false, false, soon()).await
}

/// Has a request go on as far as it can.
async fn sent<T: Send + 'static>(
    request: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let task = tokio::spawn(request);
    settled().await;
    task
}

async fn settled() {
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
}

pub(super) fn grant(answer: Result<Attempt, Fault>) -> Grant {
    match answer {
        Ok(Attempt::Granted(grant)) => grant,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_withdrawal_and_the_next_attempt_are_written_at_once() {
    let server = held_by(&[A, B, C, D]);
    let store = process(&server);
    let (go, waits) = Fate::waits();
    server.next_read(waits);
    let leaves = sent(withdraw(store.clone(), A)).await;
    let comes = sent(attempt(store.clone(), A2)).await;
    go.send(()).unwrap();
    assert_eq!(leaves.await.unwrap().unwrap(), Withdrawal::Released);
    assert!(matches!(comes.await.unwrap(), Ok(Attempt::Blocked { ahead: Some(3), .. })));
    assert_eq!(stands(&server), (ids(&[B]), ids(&[C, D, A2])));
    assert_eq!((server.reads(), server.swaps(), server.takes(), server.told()), (1, 1, 0, 1));
    assert!(!store.turns.is_led(&key()), "nothing is left behind");
}

/// The thread that asks for both was stopped in between.
#[tokio::test(start_paused = true)]
async fn a_withdrawal_waits_for_the_attempt_of_a_claim_that_was_made_before() {
    let server = held_by(&[A, B, C, D]);
    let store = process(&server);
    let mut next = new_claim(&store);
    let leaves = sent(withdraw(store.clone(), A)).await;
    assert_eq!((server.reads(), server.swaps()), (1, 0));
    assert!(matches!(next.attempt().await, Ok(Attempt::Blocked { ahead: Some(3), .. })));
    assert_eq!(leaves.await.unwrap().unwrap(), Withdrawal::Released);
    assert_eq!(stands(&server), (ids(&[B]), ids(&[C, D, A2])));
    assert_eq!((server.reads(), server.swaps(), server.takes(), server.told()), (1, 1, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_withdrawal_waits_for_a_moment_and_for_nobody_who_is_gone_or_has_asked() {
    for (is_gone, waited) in [(false, COMING_WITHIN), (true, Duration::ZERO)] {
        let server = held_by(&[A, B, C]);
        let store = process(&server);
        let next = new_claim(&store);
        let began = clock::now();
        let leaves = sent(withdraw(store.clone(), A)).await;
        let next = Some(next).filter(|_| !is_gone);
        assert_eq!(leaves.await.unwrap().unwrap(), Withdrawal::Released);
        let took = clock::now().saturating_duration_since(began);
        assert!(waited <= took && took <= waited + Duration::from_millis(1), "{took:?}");
        drop(next);
        let began = clock::now();
        assert_eq!(withdraw(store, B).await.unwrap(), Withdrawal::Released);
        assert_eq!(clock::now(), began, "nobody is coming any more");
    }
}

/// Nobody would go along with it.
#[tokio::test(start_paused = true)]
async fn a_withdrawal_that_goes_by_itself_waits_for_nobody() {
    let server = held_by(&[A, B]);
    let store = process(&server);
    let (_stuck, waits) = Fate::waits();
    server.next_read(waits);
    let _leads = sent(attempt(store.clone(), C)).await;
    let _next = new_claim(&store);
    let began = clock::now();
    assert_eq!(withdraw(store, A).await.unwrap(), Withdrawal::Released);
    let took = clock::now().saturating_duration_since(began);
    assert!(PATIENCE <= took && took < PATIENCE + COMING_WITHIN, "{took:?}");
}

/// A holder in strict order passes the key on only if it is told that others want it.
#[tokio::test(start_paused = true)]
async fn of_four_processes_none_is_out_of_the_line_when_another_is_granted_the_key() {
    let server = held_by(&[A, B, C, D]);
    let processes = [(); 4].map(|()| process(&server));
    let mut claims = [A, B, C, D];
    for round in 1..=100 {
        for (process, claim) in processes.iter().zip(&mut claims) {
            let next = *claim + 0x100;
            let leaves = withdraw(process.clone(), *claim);
            let (left, come) = tokio::join!(leaves, attempt(process.clone(), next));
            assert_eq!(left.unwrap(), Withdrawal::Released);
            assert!(matches!(come, Ok(Attempt::Blocked { .. })));
            *claim = next;
            let (held, line) = stands(&server);
            assert_eq!((held.len(), line.len()), (1, 3), "round {round}");
        }
    }
    assert_eq!((server.reads(), server.swaps(), server.takes()), (400, 400, 0));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_others_came_before_is_made_anew_for_all() {
    let server = held_by(&[A, B]);
    let store = process(&server);
    let (go, waits) = Fate::waits();
    server.next_read(waits);
    let leaves = sent(withdraw(store.clone(), A)).await;
    let comes = sent(attempt(store.clone(), A2)).await;
    server.touch();
    go.send(()).unwrap();
    assert_eq!(leaves.await.unwrap().unwrap(), Withdrawal::Released);
    assert!(matches!(comes.await.unwrap(), Ok(Attempt::Blocked { .. })));
    assert_eq!(stands(&server), (ids(&[B]), ids(&[A2])));
    assert_eq!((server.reads(), server.swaps()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn behind_a_read_that_failed_the_next_leads() {
    let server = held_by(&[A, B]);
    let store = process(&server);
    let (go, waits) = Fate::waits();
    server.next_swap(waits);
    let first = sent(attempt(store.clone(), C)).await;
    let second = sent(attempt(store.clone(), D)).await;
    let third = sent(withdraw(store.clone(), A)).await;
    server.next_read(Fate::fails());
    go.send(()).unwrap();
    assert!(matches!(first.await.unwrap(), Ok(Attempt::Blocked { .. })));
    assert!(second.await.unwrap().is_err());
    assert_eq!(third.await.unwrap().unwrap(), Withdrawal::Released);
    assert_eq!(stands(&server), (ids(&[B]), ids(&[C])));
    assert!(!store.turns.is_led(&key()));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_came_too_late_leaves_none_in_doubt() {
    let server = held_by(&[A, B]);
    let store = process(&server);
    let (go, waits) = Fate::waits();
    server.next_read(waits);
    server.next_read(Fate::fails());
    let leaves = sent(withdraw(store.clone(), A)).await;
    let comes = sent(attempt(store.clone(), A2)).await;
    server.touch();
    go.send(()).unwrap();
    assert!(leaves.await.unwrap().is_err());
    assert!(matches!(comes.await.unwrap(), Ok(Attempt::Blocked { .. })));
    assert_eq!(stands(&server), (ids(&[A]), ids(&[B, A2])));
}

#[tokio::test(start_paused = true)]
async fn what_became_of_a_write_is_told_to_all() {
    let server = held_by(&[A, B]);
    let store = process(&server);
    let (go, waits) = Fate::waits();
    server.next_read(waits);
    server.next_swap(Fate::fails());
    let leaves = sent(withdraw(store.clone(), A)).await;
    let comes = sent(attempt(store.clone(), A2)).await;
    go.send(()).unwrap();
    assert!(!leaves.await.unwrap().unwrap_err().is_unsent());
    assert!(!comes.await.unwrap().unwrap_err().is_unsent());
    assert_eq!(stands(&server), (ids(&[A]), ids(&[B])));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_never_sent_fails_its_leader_alone() {
    let server = held_by(&[A, B]);
    let store = process(&server);
    let (go, waits) = Fate::waits();
    server.next_read(waits);
    server.next_swap(Fate::fails_unsent());
    let leaves = sent(withdraw(store.clone(), A)).await;
    let comes = sent(attempt(store.clone(), A2)).await;
    go.send(()).unwrap();
    assert!(leaves.await.unwrap().unwrap_err().is_unsent());
    assert!(matches!(comes.await.unwrap(), Ok(Attempt::Blocked { .. })));
    assert_eq!(stands(&server), (ids(&[A]), ids(&[B, A2])));
}

#[tokio::test(start_paused = true)]
async fn behind_a_write_that_came_too_late_none_waits_for_a_read_that_hangs() {
    let server = held_by(&[A, B]);
    let store = process(&server);
    let (go, waits) = Fate::waits();
    let (_hangs, read_waits) = Fate::waits();
    server.next_read(waits);
    server.next_read(read_waits);
    let _comes = sent(attempt(store.clone(), C)).await;
    let leaves = sent(withdraw(store.clone(), A)).await;
    server.touch();
    let began = clock::now();
    go.send(()).unwrap();
    assert_eq!(leaves.await.unwrap().unwrap(), Withdrawal::Released);
    assert!(clock::now() <= began.plus(PATIENCE * 2), "{:?}", began.elapsed());
    assert_eq!(stands(&server), (ids(&[B]), vec![]));
}

/// It may have been free when the try began, and not yet when the row was read.
#[tokio::test(start_paused = true)]
async fn a_try_goes_along_with_nobody() {
    let server = held_by(&[A]);
    let store = process(&server);
    let (go, waits) = Fate::waits();
    server.next_read(waits);
    let leaves = sent(withdraw(store.clone(), A)).await;
    let tries = attempt_by(store.clone(), B, Manner::Tries, soon()).await;
    assert!(matches!(tries, Ok(Attempt::Blocked { .. })));
    assert_eq!(server.reads(), 2);
    go.send(()).unwrap();
    assert_eq!(leaves.await.unwrap().unwrap(), Withdrawal::Released);
}

#[tokio::test(start_paused = true)]
async fn behind_a_leader_that_is_gone_the_next_leads() {
    let server = held_by(&[A, B]);
    let store = process(&server);
    let (_go, waits) = Fate::waits();
    server.next_read(waits);
    let mut leaves = Box::pin(withdraw(store.clone(), A));
    assert!(poll_once(leaves.as_mut()).is_pending());
    let gone = sent(attempt(store.clone(), C)).await;
    let comes = sent(attempt(store.clone(), A2)).await;
    gone.abort();
    settled().await;
    drop(leaves);
    assert!(matches!(comes.await.unwrap(), Ok(Attempt::Blocked { .. })));
    assert_eq!(stands(&server), (ids(&[A]), ids(&[B, A2])));
    assert!(!store.turns.is_led(&key()));
}

#[tokio::test(start_paused = true)]
async fn with_a_leader_that_is_gone_in_the_middle_of_its_write_all_are_in_doubt() {
    let server = held_by(&[A, B]);
    let store = process(&server);
    let (go, read_waits) = Fate::waits();
    let (_go, write_waits) = Fate::waits();
    server.next_read(read_waits);
    server.next_swap(write_waits);
    let mut leaves = Box::pin(withdraw(store.clone(), A));
    assert!(poll_once(leaves.as_mut()).is_pending());
    let comes = sent(attempt(store.clone(), A2)).await;
    go.send(()).unwrap();
    assert!(poll_once(leaves.as_mut()).is_pending());
    let behind = sent(attempt(store.clone(), C)).await;
    drop(leaves);
    assert!(!comes.await.unwrap().unwrap_err().is_unsent());
    // It was written all the same.
    assert!(matches!(behind.await.unwrap(), Ok(Attempt::Blocked { .. })));
    assert_eq!(stands(&server), (ids(&[B]), ids(&[A2, C])));
}

#[tokio::test(start_paused = true)]
async fn one_that_goes_along_has_its_own_time_and_takes_no_effect_behind_it() {
    let server = held_by(&[A, B]);
    let store = process(&server);
    let (go, waits) = Fate::waits();
    server.next_read(waits);
    let leaves = sent(withdraw(store.clone(), A)).await;
    let (go_on, write_waits) = Fate::waits();
    server.next_swap(write_waits);
    let by = clock::now().plus(PATIENCE / 4);
    let comes = sent(attempt_by(store.clone(), A2, Manner::Queues, by)).await;
    go.send(()).unwrap();
    settled().await;
    // It was taken along, and the answer to that write is long in coming.
    let fault = comes.await.unwrap().unwrap_err();
    assert!(clock::now() >= by && !fault.is_unsent());
    go_on.send(()).unwrap();
    assert_eq!(leaves.await.unwrap().unwrap(), Withdrawal::Released);
    assert_eq!(stands(&server), (ids(&[B]), ids(&[A2])), "it was sent before");

    let server = held_by(&[A, B]);
    let store = process(&server);
    let (go, waits) = Fate::waits();
    server.next_read(waits);
    let leaves = sent(withdraw(store.clone(), A)).await;
    let (go_on, read_waits) = Fate::waits();
    server.next_read(read_waits);
    let by = clock::now().plus(PATIENCE / 4);
    let comes = sent(attempt_by(store.clone(), A2, Manner::Queues, by)).await;
    server.touch();
    go.send(()).unwrap();
    // Its first write came too late, and the read for the second one is long in coming.
    assert!(comes.await.unwrap().is_err());
    go_on.send(()).unwrap();
    assert_eq!(leaves.await.unwrap().unwrap(), Withdrawal::Released);
    assert_eq!(stands(&server), (ids(&[B]), vec![]));
}

#[tokio::test(start_paused = true)]
async fn behind_a_read_that_hangs_one_goes_by_itself() {
    let server = held_by(&[A, B]);
    let store = process(&server);
    let (go, waits) = Fate::waits();
    server.next_read(waits);
    let leaves = sent(withdraw(store.clone(), A)).await;
    let comes = attempt(store.clone(), A2).await;
    assert!(matches!(comes, Ok(Attempt::Blocked { .. })));
    assert_eq!(stands(&server), (ids(&[A]), ids(&[B, A2])));
    go.send(()).unwrap();
    assert_eq!(leaves.await.unwrap().unwrap(), Withdrawal::Released);
    assert_eq!(stands(&server), (ids(&[B]), ids(&[A2])));
}

#[tokio::test(start_paused = true)]
async fn a_row_that_was_read_before_is_no_answer_unless_it_is_written() {
    let server = held_by(&[A, B]);
    let store = process(&server);
    let (go, waits) = Fate::waits();
    server.next_read(waits);
    // Nothing changes by it, so nothing is written.
    let stands_there = sent(withdraw(store.clone(), D)).await;
    tokio::time::advance(Duration::from_millis(1)).await;
    let again = sent(attempt(store.clone(), A)).await;
    go.send(()).unwrap();
    assert_eq!(stands_there.await.unwrap().unwrap(), Withdrawal::NotHeld);
    assert!(grant(again.await.unwrap()).wanted);
    assert_eq!((server.reads(), server.swaps()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_lease_counts_from_the_read_that_it_is_of() {
    let server = held_by(&[A]);
    let store = process(&server);
    let (go, waits) = Fate::waits();
    server.next_read(waits);
    let leaves = sent(withdraw(store.clone(), A)).await;
    let late = Duration::from_millis(100);
    tokio::time::advance(late).await;
    let comes = sent(attempt(store.clone(), A2)).await;
    go.send(()).unwrap();
    assert_eq!(leaves.await.unwrap().unwrap(), Withdrawal::Released);
    // And what the clock of the database may be faster by.
    assert_eq!(grant(comes.await.unwrap()).valid_for, LEASE - late - drift(late));
    assert_eq!((server.reads(), server.swaps()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn each_is_answered_by_what_the_row_says_in_the_end() {
    let server = held_by(&[A]);
    let store = process(&server);
    let (go, waits) = Fate::waits();
    server.next_read(waits);
    let comes = sent(attempt(store.clone(), A2)).await;
    let leaves = sent(withdraw(store.clone(), A)).await;
    let behind = sent(attempt(store.clone(), B)).await;
    go.send(()).unwrap();
    assert_eq!(leaves.await.unwrap().unwrap(), Withdrawal::Released);
    let Grant { handed_on, wanted, .. } = grant(comes.await.unwrap());
    assert!(handed_on && wanted);
    assert!(matches!(behind.await.unwrap(), Ok(Attempt::Blocked { ahead: Some(1), .. })));
    assert_eq!((server.reads(), server.swaps(), server.told()), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn one_in_doubt_has_the_row_written_whoever_leads() {
    let server = held_by(&[A, B]);
    let store = process(&server);
    let (go, waits) = Fate::waits();
    server.next_read(waits);
    let one = sent(withdraw(store.clone(), D)).await;
    let in_doubt = store.clone();
    let other = sent(async move { in_doubt.withdraw(key(), id(C), false, true, soon()).await });
    let other = other.await;
    go.send(()).unwrap();
    for answer in [one.await, other.await] {
        assert_eq!(answer.unwrap().unwrap(), Withdrawal::NotHeld);
    }
    assert_eq!((server.reads(), server.swaps()), (1, 1));
}

fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}
