//! Attempts of an application that has been blocked since.

use std::time::Duration;

use lock_core::backend::{Claim as _, Withdrawal};
use lock_core::redis::Redis;
use tests::proxy::{Action, Match, Proxy};
use tests::redis::RedisServer;
use tests::wait::eventually;

use crate::application::{Application, alone, claim, conduct};

/// The time that a request may take, and some more.
const GIVEN_UP: Duration = Duration::from_millis(2_200);

/// V6: an attempt that was not answered is withdrawn by the conductor while the application is
/// blocked, and takes effect later still. That is undone behind it, over its connection, however
/// late that is, and whatever becomes of the application.
#[test]
fn an_attempt_that_takes_effect_after_its_withdrawal_is_undone_behind_it() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let url = proxy.url();
    let attempt = proxy.trap(Match::verb("EVALSHA").containing("lock:{k}"), Action::HoldRequest);
    // The server knows the script.
    alone().block_on(async {
        let others = Redis::connect(&server.url(), None).await.expect("a server");
        let answer = claim(&others, "other", None).attempt().await;
        assert!(answer.is_ok(), "{answer:?}");
    });
    let (mut claim, application) = Application::blocked_after(async move || {
        let backend = Redis::connect(&url, None).await.expect("a server");
        let mut claim = claim(&backend, "k", None);
        assert!(claim.attempt().await.expect_err("no answer").is_transient());
        claim
    });
    let token = || server.highest_token("lock:{k}");
    conduct(async {
        assert_eq!(claim.withdraw().await.expect("an answer"), Withdrawal::NotHeld);
        // Whoever waits for an answer over its connection has given that up.
        tokio::time::sleep(GIVEN_UP).await;
        let before = token();
        attempt.release();
        let is_undone = || token() > before && server.key("lock:{k}").is_none();
        eventually("the attempt takes effect and is undone", is_undone).await;
    });
    application.let_go();
}
