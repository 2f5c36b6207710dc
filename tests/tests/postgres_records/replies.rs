//! A commit whose answer is lost: the server has it, and the client hears nothing.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use futures_util::future::join_all;
use lock_core::idempotency::{CommitError, Idempotency, Tx, TxError, TxSeat};
use lock_core::sql::SqlRecords;
use lock_tower::IdempotencyLayer;
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, Postgres};
use tests::executions::{begin, replay, run};
use tests::proxy::{Action, Match, Proxy, Trap};
use tests::wait::{eventually, within};
use tower::ServiceExt as _;

use crate::payments::{paid, pay};
use crate::support::{SECRET, Shop};

/// An application whose transactions go over one link, and its records over another.
struct Links {
    shop: Shop,
    transactions: Proxy,
    records: Proxy,
    pool: PgPool,
    once: Idempotency,
}

impl Links {
    async fn new() -> Self {
        let shop = Shop::new().await;
        let [transactions, records] = [(); 2].map(|()| Proxy::postgres(shop.server.addr()));
        let through = |proxy: &Proxy| {
            let options = shop.options().port(proxy.addr().port());
            PgPoolOptions::new().max_connections(2).connect_lazy_with(options)
        };
        let (pool, beside) = (through(&transactions), through(&records));
        let beside = SqlRecords::beside(&beside).await.expect("a table");
        let once = Idempotency::new("tests", shop.locks.clone(), beside).with_secret(SECRET);
        Self { shop, transactions, records, pool, once }
    }
}

fn commit() -> Match {
    Match::verb("QUERY").containing("COMMIT")
}

/// The records say that it was committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_reply_is_lost_is_looked_up_and_is_one() {
    let links = Links::new().await;
    let execution = run(&links.once, "k").await;
    let mut tx = links.pool.begin().await.expect("a transaction");
    pay(&mut tx).await;
    let trap = links.transactions.trap(commit(), Action::SwallowReply);
    execution.commit(tx, paid()).await.expect("it is found out");
    assert!(trap.has_sprung());
    assert_eq!((links.shop.payments().await, replay(&links.once, "k").await), (1, paid()));
    assert_eq!(links.once.stats().executed, 1);
}

/// The server never had it: it ends the transaction with its connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_never_arrived_is_known_to_be_none_and_a_retry_runs() {
    let links = Links::new().await;
    let execution = run(&links.once, "k").await;
    let mut tx = links.pool.begin().await.expect("a transaction");
    pay(&mut tx).await;
    let trap = links.transactions.trap(commit(), Action::DropRequest);
    let error = execution.commit(tx, paid()).await.expect_err("it never arrived");
    assert!(trap.has_sprung());
    assert!(matches!(error, CommitError::NotCommitted { .. }), "{error:?}");
    assert_eq!(links.shop.payments().await, 0);
    let retry = within("a retry", run(&links.once, "k")).await;
    assert_eq!(retry.replaced(), None, "the first one is known to have done nothing");
    let mut tx = links.pool.begin().await.expect("a transaction");
    pay(&mut tx).await;
    retry.commit(tx, paid()).await.expect("a commit");
    assert_eq!((links.shop.payments().await, replay(&links.once, "k").await), (1, paid()));
}

/// Neither the commit nor the question what became of it is answered: it is not known, and said so,
/// and whoever asks later is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_of_which_nothing_can_be_learned_is_unknown_and_a_retry_is_told() {
    for (action, happened) in [(Action::HoldReply, true), (Action::HoldRequest, false)] {
        let links = Links::new().await;
        let execution = run(&links.once, "k").await;
        let mut tx = links.pool.begin().await.expect("a transaction");
        pay(&mut tx).await;
        let trap = links.transactions.trap(commit(), action);
        let committing = tokio::spawn(execution.commit(tx, paid()));
        trap.sprung().await;
        links.records.refuse();
        links.records.cut();
        links.transactions.refuse();
        links.transactions.cut();
        let error = within("its end", committing).await.expect("no panic");
        let error = error.expect_err("nothing is known");
        assert!(error.is_unknown() && !error.is_stale(), "{error:?}");
        // The first execution finds out as soon as it can, and lets go of the key.
        links.records.resume();
        links.transactions.resume();
        if happened {
            assert_eq!(within("an outcome", replay(&links.once, "k")).await, paid());
        } else {
            let retry = within("a retry", run(&links.once, "k")).await;
            let mut tx = links.pool.begin().await.expect("a transaction");
            pay(&mut tx).await;
            retry.commit(tx, paid()).await.expect("a commit");
        }
        assert_eq!(links.shop.payments().await, 1, "{action:?}");
        eventually("no lock is held", || links.once.locks().stats().keys == 0).await;
    }
}

/// The connection was another's inside of the transaction, whose writes were lost with its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_is_given_up_at_its_beginning_is_nobodys_later() {
    let links = Links::new().await;
    let pool = PgPoolOptions::new().max_connections(1).min_connections(1);
    let options = links.shop.options().port(links.transactions.addr().port());
    let pool = pool.connect_with(options).await.expect("a server");
    let mut tx = Tx::of(&pool);
    assert!(tx.take_seat(TxSeat::new()));
    let begin = Match::verb("QUERY").containing("BEGIN");
    let trap = links.transactions.trap(begin, Action::HoldReply);
    {
        let opening = tx.open();
        tokio::select! {
            biased;
            opened = opening => panic!("{:?}", opened.map(drop)),
            () = trap.sprung() => {}
        }
    }
    drop(trap);
    let pays = sqlx::query("INSERT INTO payments (amount) VALUES (5)");
    within("a connection", pays.execute(&pool)).await.expect("a payment");
    assert_eq!(links.shop.payments().await, 1, "it is seen by others");
    // And another one is begun by the same `Tx`.
    pay(within("a connection", tx.open()).await.expect("a transaction")).await;
    within("its end", tx.roll_back()).await.expect("a rollback");
    assert_eq!(links.shop.payments().await, 1);
}

async fn refuse(mut tx: Tx<Postgres>) -> Result<StatusCode, TxError> {
    pay(tx.open().await?).await;
    Ok(StatusCode::UNPROCESSABLE_ENTITY)
}

/// The rollback is not answered, and its connection is not broken: the caller has the answer all the
/// same, and a retry the record.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollback_that_is_not_answered_holds_up_neither_the_caller_nor_the_key() {
    let links = Links::new().await;
    let layer = IdempotencyLayer::new(links.once.clone()).global_scope();
    let app = Router::new().route("/refuse", post(refuse)).route_layer(layer);
    let app = app.with_state(links.pool.clone());
    let rollback = Match::verb("QUERY").containing("ROLLBACK");
    let trap = links.transactions.trap(rollback, Action::HoldReply);
    for is_replay in [false, true] {
        let request = Request::post("/refuse").header("idempotency-key", "k");
        let request = request.body(Body::empty()).expect("a request");
        let answer = within("an answer", app.clone().oneshot(request)).await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(answer.headers().contains_key("idempotent-replayed"), is_replay);
    }
    assert!(trap.has_sprung());
    eventually("no lock is held", || links.once.locks().stats().keys == 0).await;
}

/// Neither the statement that completes the record nor the commit is answered, and no connection
/// breaks: the caller is told, and what became of it is found out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_not_answered_holds_up_neither_the_caller_nor_the_key() {
    let completes = Match::verb("BIND").containing(paid());
    for (of, action, is_paid) in
        [(completes, Action::HoldRequest, false), (commit(), Action::HoldReply, true)]
    {
        let links = Links::new().await;
        let execution = run(&links.once, "k").await;
        let mut tx = links.pool.begin().await.expect("a transaction");
        pay(&mut tx).await;
        let trap = links.transactions.trap(of, action);
        let end = within("an answer", execution.commit(tx, paid())).await;
        assert!(trap.has_sprung());
        assert_eq!(end.is_ok(), is_paid, "{end:?}");
        assert!(is_paid || matches!(end, Err(CommitError::Complete(_))), "{end:?}");
        // The server has the transaction still, until its connection ends.
        links.transactions.cut();
        eventually("no lock is held", || links.once.locks().stats().keys == 0).await;
        if is_paid {
            assert_eq!(replay(&links.once, "k").await, paid());
        } else {
            drop(within("a retry", run(&links.once, "k")).await);
        }
        assert_eq!(links.shop.payments().await, i64::from(is_paid));
    }
}

/// Statements that are not answered, on connections that do not break, use up no pool.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_statement_was_given_up_gives_its_place_to_another() {
    let links = Links::new().await;
    let traps = [(); 4].map(|()| links.records.trap(Match::verb("BIND"), Action::HoldReply));
    let asked = ["0", "1", "2", "3"].map(|key| begin(&links.once, key));
    for answer in join_all(asked).await {
        answer.expect_err("nothing is answered");
    }
    assert!(traps.iter().all(Trap::has_sprung));
    drop(run(&links.once, "k").await);
}
