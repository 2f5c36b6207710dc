//! Sharing a key: readers beside each other, and permits. Where [`Capabilities::shared`] or
//! [`Capabilities::permits`](crate::backend::Capabilities) does not hold, nothing is checked.

use tokio::time::sleep;

use super::drive::{Asker, Case, Process, eventually, is_lost};
#[cfg(doc)]
use crate::backend::Capabilities;
use crate::backend::{Attempt, Claim, FaultKind, Grant, Mode, Renewal};
use crate::proto::lease::margin;
use crate::test_util::scripted::{Act, Verb};
use crate::test_util::subject::Subject;

const READER: Mode = Mode::Shared;
const WRITER: Mode = Mode::Exclusive;
const ONE_OF_TWO: Mode = Mode::Permit { of: 2 };

async fn shares(case: &Case<'_>) -> Option<Process> {
    let process = case.process().await;
    process.capabilities().shared.then_some(process)
}

async fn permits(case: &Case<'_>) -> Option<Process> {
    let process = case.process().await;
    process.capabilities().permits.then_some(process)
}

/// Over processes; each has tokens of its own, and all are listed with their mode.
pub async fn readers_hold_a_key_together_and_a_writer_alone(subject: &dyn Subject) {
    let case = Case::new(subject, "readers");
    let (Some(one), two) = (shares(&case).await, case.process().await) else { return };
    let mut first = one.claim_in(READER, "the first reader");
    let mut second = two.claim_in(READER, "the second reader");
    let tokens = [first.takes().await.tokens, second.takes().await.tokens];
    if one.capabilities().fencing {
        assert!(tokens[1].first() > tokens[0].last(), "{tokens:?}");
    }
    let seen = two.inspect().await;
    assert!(first.holds_in(&seen) && second.holds_in(&seen), "{seen:?}");
    assert!(seen.holders.iter().all(|holder| holder.mode == READER), "{seen:?}");
    let mut writer = two.claim_in(WRITER, "the writer");
    writer.is_blocked().await;
    let seen = one.inspect().await;
    assert!(seen.waiters.len() == 1 && seen.waiters[0].mode == WRITER, "{seen:?}");
    let what = "both readers learn that a writer waits";
    eventually(what, case.soon(), async || {
        first.renews().await.wanted && second.renews().await.wanted
    })
    .await;
    first.releases().await;
    writer.is_blocked().await;
    second.releases().await;
    let grant = writer.is_granted(case.soon()).await;
    if one.capabilities().fencing {
        assert!(grant.tokens.first() > tokens[1].last(), "{grant:?} after {tokens:?}");
    }
    let seen = one.inspect().await;
    assert!(writer.holds_in(&seen) && seen.holders.len() == 1, "{seen:?}");
    assert_eq!(seen.holders[0].mode, WRITER);
    let mut late = one.claim_in(READER, "the late reader");
    late.is_blocked().await;
    writer.releases().await;
    late.is_granted(case.soon()).await;
    late.releases().await;
    case.is_free(&one).await;
}

/// So a stream of readers starves no writer.
pub async fn a_reader_behind_a_writer_waits_for_it(subject: &dyn Subject) {
    let case = Case::new(subject, "reader behind a writer");
    let (Some(one), two) = (shares(&case).await, case.process().await) else { return };
    let mut first = one.claim_in(READER, "the first reader");
    let mut writer = two.claim_in(WRITER, "the writer");
    let mut late = one.claim_in(READER, "the late reader");
    first.takes().await;
    writer.is_blocked().await;
    late.is_blocked().await;
    first.releases().await;
    writer.is_granted(case.soon()).await;
    late.is_blocked().await;
    writer.releases().await;
    late.is_granted(case.soon()).await;
    late.releases().await;
    // One that gives up lets those in who were behind it.
    first = one.claim_in(READER, "the first reader");
    first.takes().await;
    writer = two.claim_in(WRITER, "the writer");
    writer.is_blocked().await;
    late = one.claim_in(READER, "the late reader");
    late.is_blocked().await;
    writer.leaves().await;
    late.is_granted(case.soon()).await;
    first.releases().await;
    late.renews().await;
    late.releases().await;
    case.is_free(&one).await;
}

/// Up to the next writer; pushed where that is promised.
pub async fn readers_that_stand_together_are_let_in_together(subject: &dyn Subject) {
    let case = Case::new(subject, "readers together");
    let (Some(one), two) = (shares(&case).await, case.process().await) else { return };
    let mut writer = one.claim_in(WRITER, "the writer");
    writer.takes().await;
    let mut readers = Vec::new();
    for process in [&one, &two, &two] {
        let mut reader = process.claim_in(READER, "a reader");
        reader.is_blocked().await;
        readers.push(reader);
    }
    let mut last = two.claim_in(WRITER, "the last writer");
    let mut behind = one.claim_in(READER, "the reader behind it");
    last.is_blocked().await;
    behind.is_blocked().await;
    writer.releases().await;
    for reader in &mut readers {
        if one.capabilities().push {
            reader.is_told(case.soon(), "a reader was not told").await;
        }
        reader.is_granted(case.soon()).await;
    }
    behind.is_blocked().await;
    for reader in &mut readers {
        last.is_blocked().await;
        reader.releases().await;
    }
    last.is_granted(case.soon()).await;
    last.releases().await;
    behind.is_granted(case.soon()).await;
    behind.releases().await;
    case.is_free(&one).await;
}

/// Others that renew keep theirs, and who waits for all of them is granted then.
pub async fn a_dead_holder_among_others_frees_its_share_at_its_lease_end(subject: &dyn Subject) {
    let case = Case::new(subject, "dead share");
    for mode in [READER, ONE_OF_TWO] {
        let case = case.other(usize::from(mode == READER));
        let (one, two, three) = (case.process().await, case.process().await, case.process().await);
        let promised = one.capabilities();
        if !(if mode == READER { promised.shared } else { promised.permits }) {
            continue;
        }
        let mut living = one.claim_in(mode, "the living");
        let mut dead = two.claim_in_for(mode, case.lease(), "the dead");
        living.takes().await;
        dead.takes().await;
        let wants = if mode == READER { WRITER } else { mode };
        let mut next = three.claim_in(wants, "the next");
        next.is_blocked().await;
        drop(dead);
        two.dies(subject);
        if mode == READER {
            let what = "the dead one's share is free";
            eventually(what, case.a_lease_later(), async || {
                three.inspect().await.holders.len() == 1
            })
            .await;
            living.renews().await;
            next.is_blocked().await;
            living.releases().await;
            next.is_granted(case.soon()).await;
        } else {
            next.is_granted(case.a_lease_later()).await;
            living.renews().await;
            living.releases().await;
        }
        next.releases().await;
        case.is_free(&three).await;
    }
}

/// Before it was withdrawn: it holds the key beside those who stood behind it, in the place that it
/// had.
pub async fn a_downgrade_lets_readers_in_and_no_writer(subject: &dyn Subject) {
    let case = Case::new(subject, "downgrade");
    let (Some(one), two) = (shares(&case).await, case.process().await) else { return };
    let mut holder = one.claim_in(WRITER, "the holder");
    let before = holder.takes().await;
    let mut reader = two.claim_in(READER, "the reader");
    let mut writer = two.claim_in(WRITER, "the writer");
    reader.is_blocked().await;
    writer.is_blocked().await;
    holder.downgrades().await;
    let seen = one.inspect().await;
    assert!(holder.holds_in(&seen), "{seen:?}");
    reader.is_granted(case.soon()).await;
    assert!(holder.renews().await.wanted, "a writer waits");
    writer.is_blocked().await;
    let seen = two.inspect().await;
    assert!(seen.holders.iter().all(|holder| holder.mode == READER), "{seen:?}");
    reader.releases().await;
    writer.is_blocked().await;
    holder.releases().await;
    let grant = writer.is_granted(case.soon()).await;
    assert!(!one.capabilities().fencing || grant.tokens.first() > before.tokens.last());
    writer.releases().await;
    case.is_free(&one).await;
}

/// The first one behind the holder is a writer: it waits until the reader is gone.
pub async fn a_downgrade_before_a_writer_keeps_the_key(subject: &dyn Subject) {
    let case = Case::new(subject, "downgrade before a writer");
    let (Some(one), two) = (shares(&case).await, case.process().await) else { return };
    let mut holder = one.claim_in(WRITER, "the holder");
    holder.takes().await;
    let mut writer = two.claim_in(WRITER, "the writer");
    writer.is_blocked().await;
    holder.downgrades().await;
    let mut reader = two.claim_in(READER, "the reader");
    reader.is_blocked().await;
    writer.is_blocked().await;
    holder.renews().await;
    holder.releases().await;
    writer.is_granted(case.soon()).await;
    writer.releases().await;
    reader.is_granted(case.soon()).await;
    reader.releases().await;
    case.is_free(&one).await;
}

/// And one that holds nothing gets nothing.
pub async fn a_downgrade_whose_reply_was_lost_can_be_repeated(subject: &dyn Subject) {
    let case = Case::new(subject, "lost downgrade");
    let (Some(one), two) = (shares(&case).await, case.process().await) else { return };
    let (process, script) = one.scripted();
    let mut unlucky = process.claim_in(WRITER, "the unlucky");
    let mut reader = two.claim_in(READER, "the reader");
    unlucky.takes().await;
    script.next(Verb::Downgrade, Act::Lost);
    is_lost(unlucky.claim.downgrade().await);
    reader.takes().await;
    unlucky.downgrades().await;
    unlucky.renews().await;
    unlucky.releases().await;
    assert_eq!(unlucky.downgrade().await, Renewal::Lost, "it holds nothing");
    reader.renews().await;
    reader.releases().await;
    // One that is withdrawn unasked leaves nothing of either mode.
    unlucky = process.claim_in(WRITER, "the unlucky");
    unlucky.takes().await;
    script.next(Verb::Downgrade, Act::Lost);
    is_lost(unlucky.claim.downgrade().await);
    unlucky.releases().await;
    case.is_free(&two).await;
}

/// It is not taken for one that holds the key beside others.
pub async fn a_downgrade_after_the_lease_ended_is_lost(subject: &dyn Subject) {
    let case = Case::new(subject, "late downgrade");
    let Some(one) = shares(&case).await else { return };
    let mut holder = one.claim_in_for(WRITER, case.lease(), "the holder");
    holder.takes().await;
    sleep(case.lease() + margin(case.lease())).await;
    let mut next = one.claim_in(WRITER, "the next");
    next.is_granted(case.a_lease_later()).await;
    assert_eq!(holder.downgrade().await, Renewal::Lost, "its lease is over");
    next.renews().await;
    next.releases().await;
    case.is_free(&one).await;
}

async fn waits(claim: &mut Asker) -> bool {
    matches!(claim.attempt().await, Attempt::Blocked { .. })
}

/// Their numbers are below the limit, no two are the same, and one that is given back is given to
/// the next.
pub async fn no_more_permits_are_given_than_there_are(subject: &dyn Subject) {
    let case = Case::new(subject, "permits");
    let (Some(one), two) = (permits(&case).await, case.process().await) else { return };
    let of_three = Mode::Permit { of: 3 };
    let mut held: Vec<(Asker, Grant)> = Vec::new();
    for process in [&one, &two, &one] {
        let mut claim = process.claim_in(of_three, "one of three");
        let grant = claim.takes().await;
        assert!(grant.slot < 3, "{grant:?}");
        for (_, other) in &held {
            assert_ne!(grant.slot, other.slot, "two have one number");
            let later = grant.tokens.first() > other.tokens.last();
            assert!(!one.capabilities().fencing || later, "{grant:?} after {other:?}");
        }
        held.push((claim, grant));
    }
    let seen = two.inspect().await;
    assert_eq!(seen.holders.len(), 3, "{seen:?}");
    assert!(seen.holders.iter().all(|holder| holder.mode == of_three), "{seen:?}");
    let mut next = two.claim_in(of_three, "the next");
    let mut last = one.claim_in(of_three, "the last");
    assert!(waits(&mut next).await && waits(&mut last).await);
    let (mut middle, freed) = held.swap_remove(1);
    middle.releases().await;
    let grant = next.is_granted(case.soon()).await;
    assert_eq!(grant.slot, freed.slot, "the only one that is free");
    assert!(waits(&mut last).await);
    for (claim, _) in &mut held {
        claim.renews().await;
        claim.releases().await;
    }
    last.is_granted(case.soon()).await;
    last.releases().await;
    next.releases().await;
    case.is_free(&one).await;
}

/// It is no time-out and nothing to try again: both say so until those who said otherwise are gone.
pub async fn another_limit_is_refused_while_permits_are_in_use(subject: &dyn Subject) {
    let case = Case::new(subject, "another limit");
    let (Some(one), two) = (permits(&case).await, case.process().await) else { return };
    let mut holders =
        [one.claim_in(ONE_OF_TWO, "one of two"), two.claim_in(ONE_OF_TWO, "the other")];
    // With one left, and with none.
    for holder in &mut holders {
        holder.takes().await;
        for of in [1, 9] {
            let mode = Mode::Permit { of };
            let (waits, tries) =
                (two.claim_in(mode, "it waits"), two.unqueued_in(mode, "it tries"));
            for mut other in [waits, tries] {
                match other.claim.attempt().await {
                    Err(fault)
                        if fault.kind() == FaultKind::OtherLimit(2) && !fault.is_transient() => {}
                    answer => panic!("of two, yet one of {of} was answered {answer:?}"),
                }
                other.leaves().await;
            }
        }
    }
    let seen = two.inspect().await;
    assert!(seen.waiters.is_empty() && seen.holders.len() == 2, "{seen:?}");
    for holder in &mut holders {
        holder.renews().await;
        holder.releases().await;
    }
    case.is_free(&one).await;
    let mut other = two.claim_in(Mode::Permit { of: 9 }, "one of nine");
    other.is_granted(case.soon()).await;
    other.releases().await;
    case.is_free(&one).await;
}

/// Nor in its number.
pub async fn a_permit_whose_reply_was_lost_is_given_once(subject: &dyn Subject) {
    let case = Case::new(subject, "lost permit");
    let (Some(one), two) = (permits(&case).await, case.process().await) else { return };
    let (process, script) = one.scripted();
    let mut unlucky = process.claim_in(ONE_OF_TWO, "the unlucky");
    script.next(Verb::Attempt, Act::Lost);
    is_lost(unlucky.claim.attempt().await);
    let slot = unlucky.takes().await.slot;
    let mut other = two.claim_in(ONE_OF_TWO, "the other");
    assert_ne!(other.takes().await.slot, slot);
    let seen = two.inspect().await;
    assert_eq!(seen.holders.len(), 2, "{seen:?}");
    let mut third = two.claim_in(ONE_OF_TWO, "the third");
    assert!(waits(&mut third).await);
    third.leaves().await;
    other.releases().await;
    unlucky.renews().await;
    unlucky.releases().await;
    case.is_free(&two).await;
}

/// All of them, as an operator who asks for a key wants the key.
pub async fn all_who_share_a_key_are_asked_and_lose_it_together(subject: &dyn Subject) {
    let case = Case::new(subject, "all asked");
    for mode in [READER, ONE_OF_TWO] {
        let case = case.other(usize::from(mode == READER));
        let (one, two) = (case.process().await, case.process().await);
        let promised = one.capabilities();
        if !(if mode == READER { promised.shared } else { promised.permits }) {
            continue;
        }
        let mut first = one.claim_in(mode, "the first");
        let mut second = two.claim_in(mode, "the second");
        first.takes().await;
        second.takes().await;
        if promised.revocation {
            assert!(two.asks_to_give_up().await);
            let what = "both are asked to give the key up";
            eventually(what, case.soon(), async || {
                first.renews().await.revoke_requested && second.renews().await.revoke_requested
            })
            .await;
        }
        if promised.force_release {
            one.forces().await;
            assert_eq!(first.renewal().await, Renewal::Lost, "it was taken away");
            assert_eq!(second.renewal().await, Renewal::Lost, "it was taken away");
            first.leaves().await;
            second.leaves().await;
        } else {
            first.releases().await;
            second.releases().await;
        }
        case.is_free(&one).await;
    }
}
