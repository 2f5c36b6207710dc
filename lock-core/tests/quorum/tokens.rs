//! Tokens over majorities whose members have counted differently.

use lock_core::Key;
use lock_core::backend::{Attempt, Backend, Claim, ClaimId, FaultKind, MemberClaim, Terms};
use lock_core::memory::Memory;
use lock_core::test_util::{Act, Script, Verb};

use crate::{Stage, ms, short};

/// Far ahead of every clock.
const AHEAD: u64 = 1 << 52;

/// Somebody else used this store by itself, and its counter is far ahead.
async fn run_ahead(store: &Memory) {
    let terms = Terms::exclusive(ms(1_000));
    let mut claim = store.claim(&Key::new("k").unwrap(), ClaimId::from_bits(7), terms);
    assert!(matches!(claim.attempt().await, Ok(Attempt::Granted(_))));
    assert!(claim.raise(AHEAD).await.unwrap());
    // Kept: the store forgets the counter of a key that nobody uses, not the minimum token of all
    // keys.
    claim.withdraw().await.unwrap();
}

fn is_away(script: &Script, away: bool) {
    let act = if away { Act::Err(FaultKind::Transient) } else { Act::Ok };
    Verb::ALL.into_iter().for_each(|verb| script.always(verb, act));
}

#[tokio::test(start_paused = true)]
async fn every_later_majority_gives_greater_tokens() {
    for members in [3, 5] {
        for first_away in 0..members {
            for then_away in 0..members {
                let stage = Stage::of(members);
                run_ahead(&stage.stores[0]).await;
                is_away(&stage.scripts[first_away], true);
                for script in &stage.scripts {
                    // A renewal would count on by itself.
                    script.always(Verb::Renew, Act::Err(FaultKind::Transient));
                }
                let guard = stage.locks.lock("k").options(short()).await.unwrap();
                let before = guard.token();
                assert!(first_away == 0 || before.get() > AHEAD, "{before}");
                guard.release().await.unwrap();
                tokio::time::sleep(ms(2_000)).await;
                // Another process, which has seen no token, at another majority.
                let (other, scripts) = stage.another();
                is_away(&scripts[then_away], true);
                let guard = other.lock("k").options(short()).await.unwrap();
                let case = format!("{members}, away {first_away}, then {then_away}");
                assert!(guard.token() > before, "{case}: {} after {before}", guard.token());
                guard.release().await.unwrap();
            }
        }
    }
}
