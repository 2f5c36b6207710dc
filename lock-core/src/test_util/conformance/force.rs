//! Having the key taken away. Where [`Capabilities::force_release`](crate::backend::Capabilities) does not
//! hold, trying is refused and nothing else is checked; where `force_acquire` does not, nothing is.

use tokio::time::timeout;

use super::drive::{Case, Process, eventually, is_lost};
use crate::backend::{Backend, Claim, FaultKind, Mode, Renewal};
use crate::test_util::scripted::{Act, Verb};
use crate::test_util::subject::Subject;

/// Whether there is something to check; if not, trying must be refused.
async fn is_promised(process: &Process) -> bool {
    if process.capabilities().force_release {
        return true;
    }
    match process.backend.force_release(&process.key).await {
        Err(fault) if fault.kind() == FaultKind::Refused => false,
        answer => panic!("a forced release is not promised, yet trying gave {answer:?}"),
    }
}

/// Like a release, but the holder has not agreed. Both are told where pushes are promised. The old
/// holder has nothing any more, and the next one's tokens are greater.
pub async fn a_key_is_taken_from_its_holder_and_handed_to_the_next(subject: &dyn Subject) {
    let case = Case::new(subject, "taking away");
    let (one, two, three) = (case.process().await, case.process().await, case.process().await);
    if !is_promised(&one).await {
        return;
    }
    three.forces_nobody().await;
    let (mut old, mut next) = (one.claim("the old"), two.claim("the next"));
    let mut last = one.claim("the last");
    let before = old.takes().await;
    next.is_blocked().await;
    last.is_blocked().await;
    if one.capabilities().push {
        // So that it has no other news than what comes next.
        drop(timeout(case.soon(), old.claim.changed()).await);
    }
    eventually("another waits", case.soon(), async || old.renews().await.wanted).await;
    three.forces().await;
    if one.capabilities().push {
        old.is_told(case.soon(), "the old holder was not told").await;
        next.is_told(case.soon(), "the next holder was not told").await;
    }
    assert_eq!(old.renewal().await, Renewal::Lost, "it was taken away");
    let grant = next.is_granted(case.soon()).await;
    assert!(!one.capabilities().fencing || grant.tokens.first() > before.tokens.last());
    old.leaves().await;
    assert!(next.holds_in(&three.inspect().await), "the old holder's farewell is not its own");
    next.renews().await;
    last.is_blocked().await;
    next.releases().await;
    last.is_granted(case.soon()).await;
    last.releases().await;
    case.is_free(&one).await;
}

/// At once, and nothing is left of it; the tokens go on.
pub async fn a_key_that_was_taken_away_with_nobody_in_line_is_free(subject: &dyn Subject) {
    let case = Case::new(subject, "taking away all");
    let (one, two) = (case.process().await, case.process().await);
    if !is_promised(&one).await {
        return;
    }
    let mut old = one.claim("the old");
    let before = old.takes().await;
    two.forces().await;
    two.forces_nobody().await;
    case.is_free(&two).await;
    let mut new = two.unqueued("the new");
    let grant = case.takes(&two, &mut new).await;
    assert!(!one.capabilities().fencing || grant.tokens.first() > before.tokens.last());
    assert_eq!(old.renewal().await, Renewal::Lost, "it was taken away");
    old.leaves().await;
    new.renews().await;
    new.releases().await;
    case.is_free(&one).await;
}

/// The one who takes the key has it ahead of the line, again where the reply is lost, and under
/// tokens of its own. The old holder has nothing any more, and those who wait come next.
pub async fn a_key_is_taken_from_its_holder_ahead_of_the_line(subject: &dyn Subject) {
    let case = Case::new(subject, "taking over");
    let (one, two) = (case.process().await, case.process().await);
    let (three, script) = case.process().await.scripted();
    if !one.capabilities().force_acquire {
        return;
    }
    let (mut old, mut next) = (one.claim("the old"), two.claim("the next"));
    let before = old.takes().await;
    next.is_blocked().await;
    if one.capabilities().push {
        // So that it has no other news than what comes next.
        drop(timeout(case.soon(), old.claim.changed()).await);
    }
    eventually("another waits", case.soon(), async || old.renews().await.wanted).await;
    let mut taker = three.forcer("the taker");
    script.next(Verb::Attempt, Act::Lost);
    is_lost(taker.claim.attempt().await);
    let grant = taker.takes().await;
    assert!(!one.capabilities().fencing || grant.tokens.first() > before.tokens.last());
    if one.capabilities().push {
        old.is_told(case.soon(), "the old holder was not told").await;
    }
    assert_eq!(old.renewal().await, Renewal::Lost, "it was taken away");
    old.leaves().await;
    next.is_blocked().await;
    assert!(taker.holds_in(&two.inspect().await), "the old holder's farewell is not its own");
    taker.renews().await;
    taker.releases().await;
    let after = next.is_granted(case.soon()).await;
    assert!(!one.capabilities().fencing || after.tokens.first() > grant.tokens.last());
    next.releases().await;
    case.is_free(&one).await;
}

/// A free key is had as any, and one that many hold together is taken from all of them.
pub async fn a_key_is_taken_from_all_who_share_it(subject: &dyn Subject) {
    let case = Case::new(subject, "taking over all");
    let (one, two) = (case.process().await, case.process().await);
    if !one.capabilities().force_acquire {
        return;
    }
    let mut first = two.forcer("the first");
    first.takes().await;
    first.releases().await;
    case.is_free(&one).await;
    for mode in [Mode::Shared, Mode::Permit { of: 2 }] {
        let is_served = match mode {
            Mode::Shared => one.capabilities().shared,
            _ => one.capabilities().permits,
        };
        if !is_served {
            continue;
        }
        let names = ["one of two", "the other"];
        let mut holders = names.map(|name| one.claim_in(mode, name));
        for holder in &mut holders {
            holder.takes().await;
        }
        let mut taker = two.forcer("the taker");
        taker.takes().await;
        for holder in &mut holders {
            assert_eq!(holder.renewal().await, Renewal::Lost, "it was taken away");
        }
        let mut behind = one.claim_in(mode, "one behind it");
        behind.is_blocked().await;
        taker.releases().await;
        behind.is_granted(case.soon()).await;
        behind.releases().await;
        for mut holder in holders {
            holder.leaves().await;
        }
        case.is_free(&one).await;
    }
}
