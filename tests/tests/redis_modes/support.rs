//! Helpers that the tests of this binary share: claims at the seam, one request at a time.

use std::time::Duration;

use lock_core::Key;
use lock_core::Mode;
use lock_core::backend::{
    Attempt, Backend, Claim, ClaimId, Fault, Grant, Renewal, Terms, Withdrawal,
};
use lock_core::redis::Redis;
use tests::redis::{RedisOptions, RedisServer};
pub(crate) use tests::support::ms;
pub(crate) use tests::wait::within;

pub(crate) const READER: Mode = Mode::Shared;
pub(crate) const WRITER: Mode = Mode::Exclusive;

pub(crate) const LOCK: &str = "lock:{k}";
pub(crate) const QUEUE: &str = "lock:{k}:queue";
pub(crate) const DUE: &str = "lock:{k}:due";
pub(crate) const HELD: &str = "lock:{k}:held";
pub(crate) const SLOTS: &str = "lock:{k}:slots";

/// A lease that does not end while a test looks on.
pub(crate) const LONG: Duration = ms(60_000);

pub(crate) fn of(of: u32) -> Mode {
    Mode::Permit { of }
}

pub(crate) async fn store(server: &RedisServer) -> Redis {
    Redis::connect(&server.url(), None).await.expect("a server that answers")
}

/// A server whose clock a test can move.
pub(crate) fn server() -> RedisServer {
    RedisServer::with(RedisOptions::new().movable_clock())
}

/// The answer to a verb, asked again after a fault that passes, as the engine does. Behind a cut the
/// client may not have heard yet that its connection has ended.
macro_rules! answered {
    ($asked:expr) => {
        within("an answer", async {
            loop {
                match $asked.await {
                    Err(fault) if fault.is_transient() => {}
                    answer => return answer.unwrap(),
                }
            }
        })
        .await
    };
}
pub(crate) use answered;

/// A claim on `k`, asked as the engine asks one.
pub(crate) struct Asker {
    pub(crate) claim: <Redis as Backend>::Claim,
    pub(crate) id: String,
}

pub(crate) fn claim(store: &Redis, mode: Mode) -> Asker {
    claim_for(store, mode, LONG)
}

pub(crate) fn claim_for(store: &Redis, mode: Mode, lease: Duration) -> Asker {
    claim_on(store, "k", mode, lease)
}

pub(crate) fn claim_on(store: &Redis, key: &str, mode: Mode, lease: Duration) -> Asker {
    let id = ClaimId::from_bits(fastrand::u128(..));
    let terms = Terms { mode, tokens_max: 16, ..Terms::exclusive(lease) };
    let claim = store.claim(&Key::new(key).unwrap(), id, terms);
    Asker { claim, id: id.to_string() }
}

impl Asker {
    pub(crate) async fn attempt(&mut self) -> Result<Attempt, Fault> {
        self.claim.attempt().await
    }

    pub(crate) async fn takes(&mut self) -> Grant {
        match answered!(self.attempt()) {
            Attempt::Granted(grant) => grant,
            blocked => panic!("{blocked:?}"),
        }
    }

    /// How many are ahead, and when it is to ask again.
    pub(crate) async fn waits(&mut self) -> (u32, Duration) {
        match answered!(self.attempt()) {
            Attempt::Blocked { ahead, recheck } => (ahead.unwrap(), recheck),
            granted => panic!("{granted:?}"),
        }
    }

    /// It was pushed the key: no request is needed to know that.
    pub(crate) async fn is_handed(&mut self, store: &Redis) -> Grant {
        within("a push", self.claim.changed()).await;
        let asked = store.requests();
        let grant = self.takes().await;
        assert!(grant.handed_on && store.requests() == asked, "{grant:?}");
        grant
    }

    pub(crate) async fn renews(&mut self) -> Grant {
        match answered!(self.claim.renew()) {
            Renewal::Held(grant) => grant,
            Renewal::Lost => panic!("it is lost"),
        }
    }

    pub(crate) async fn is_lost(&mut self) {
        assert_eq!(answered!(self.claim.renew()), Renewal::Lost);
    }

    pub(crate) async fn downgrades(&mut self) -> Grant {
        match answered!(self.claim.downgrade()) {
            Renewal::Held(grant) => grant,
            Renewal::Lost => panic!("it is lost"),
        }
    }

    pub(crate) async fn releases(&mut self) {
        assert_eq!(answered!(self.claim.withdraw()), Withdrawal::Released);
    }

    pub(crate) async fn leaves(&mut self) {
        assert_eq!(answered!(self.claim.withdraw()), Withdrawal::NotHeld);
    }
}

/// All keys at the server but the clock.
pub(crate) fn keys(server: &RedisServer) -> Vec<String> {
    let keys = server.keys().into_iter().filter(|key| !key.is_clock());
    keys.map(|key| key.name).collect()
}

/// How long a key lives still.
pub(crate) fn left(server: &RedisServer, name: &str) -> Duration {
    let key = server.key(name).unwrap_or_else(|| panic!("there is no {name}"));
    ms(key.ttl_ms.expect("an end"))
}

/// The request of a client of another library.
pub(crate) fn sets_if_absent(server: &RedisServer) -> bool {
    server.command::<Option<String>>(&["SET", LOCK, "theirs", "NX", "PX", "60000"]).is_some()
}
