//! One member's claim, and what is asked of it. Whoever polls the claim of the quorum polls it, so
//! a member that hangs holds up nobody. A request to it is under way until it has answered.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;

use super::Members;
use super::membership::MembershipState;
use crate::backend::{
    Attempt, Enrolment, Fault, FaultKind, Grant, MemberClaim, Renewal, Withdrawal,
};
use crate::ground::{FAULT_PAUSES, Plus as _, clock};
use crate::token::TokenBlock;

/// A request of the quorum to a member.
#[derive(Debug)]
pub(super) enum Command {
    Attempt {
        clock: u64,
    },
    Renew {
        clock: u64,
    },
    Raise {
        to: u64,
    },
    /// Leave, and go on trying for so long.
    Withdraw {
        clock: u64,
        within: Duration,
    },
}

/// An answer of a member, or its news.
#[derive(Debug)]
pub(super) enum Event {
    Attempted(Result<Attempt, Fault>),
    Renewed(Result<Renewal, Fault>),
    Raised(u64, Result<bool, Fault>),
    /// Nothing of the claim is there any more.
    Left(Withdrawal),
    /// It could not be told to forget the claim, and is asked again.
    Stays(Fault),
    /// It could not be told within a lease.
    GaveUp(Fault),
    /// It pushed something.
    Changed,
}

/// A member's claim at work. It is polled for what it was asked, and when it was woken.
pub(super) struct Served {
    slot: Arc<Slot>,
    waker: Waker,
    serving: Pin<Box<dyn Future<Output = Infallible> + Send>>,
    /// The requests that it has not answered.
    owes: u32,
}

/// The waker of whoever waits for the members of a claim; none between two verbs.
#[derive(Debug, Default)]
pub(super) struct Waits(AtomicWaker);

/// The place where a served claim and the one who polls it meet.
#[derive(Debug)]
struct Slot {
    waits: Arc<Waits>,
    /// There is something to poll for.
    is_woken: AtomicBool,
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    /// Asked for, and not begun. One is enough: nothing but a withdrawal is asked for behind
    /// something else, and what was not begun before it need not be.
    next: Option<Command>,
    /// Taken before it is polled again.
    said: Option<Event>,
    /// The time when it was woken since the last poll, which may be long before the next.
    woken_at: Option<Instant>,
    /// The same for the poll under way: when what it finds has come.
    came_at: Option<Instant>,
}

impl Waits {
    pub(super) fn begin(&self, waker: &Waker) {
        self.0.register(waker);
    }

    pub(super) fn end(&self) {
        drop(self.0.take());
    }
}

impl Wake for Slot {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.line().woken_at = Some(clock::now());
        self.is_woken.store(true, Ordering::Release);
        self.waits.0.wake();
    }
}

impl Served {
    pub(super) fn new<B: Send + Sync + 'static>(
        members: &Arc<Members<B>>,
        member: usize,
        claim: impl MemberClaim,
        waits: Arc<Waits>,
    ) -> Self {
        let slot = Arc::new(Slot { waits, is_woken: false.into(), line: Mutex::default() });
        let place = AtMember { members: members.clone(), member, slot: slot.clone() };
        let serving = Box::pin(serve(place, claim));
        Self { waker: slot.clone().into(), slot, serving, owes: 0 }
    }

    /// Has it begin when it is polled next, after what is under way.
    pub(super) fn ask(&mut self, command: Command) {
        if self.slot.line().next.replace(command).is_none() {
            self.owes += 1;
        }
        self.slot.is_woken.store(true, Ordering::Release);
    }

    /// It is to be polled though nothing woke it.
    pub(super) fn is_to_look(&self) {
        self.slot.is_woken.store(true, Ordering::Release);
    }

    /// Whether it has something to do.
    pub(super) const fn is_busy(&self) -> bool {
        self.owes > 0
    }

    /// Polls it if there is something to poll for, until it says something; `None` if it does not
    /// yet.
    pub(super) fn poll(&mut self) -> Option<Event> {
        if !self.slot.is_woken.swap(false, Ordering::AcqRel) {
            return None;
        }
        self.slot.polls();
        let (serving, mut cx) = (self.serving.as_mut(), Context::from_waker(&self.waker));
        let polled = catch_unwind(AssertUnwindSafe(|| serving.poll(&mut cx).map(|it| match it {})));
        if polled.is_err() {
            // It is not polled again.
            self.owes = 0;
            return Some(Event::GaveUp(Fault::new(FaultKind::Transient, "a member panicked")));
        }
        let said = self.slot.line().said.take()?;
        self.slot.is_woken.store(true, Ordering::Release);
        self.owes -= u32::from(!matches!(said, Event::Stays(_) | Event::Changed));
        Some(said)
    }
}

/// Ends what these have to do, though nobody wants to know.
pub(super) async fn finish(mut rest: Vec<Served>, waits: Arc<Waits>) {
    poll_fn(|cx| {
        waits.begin(cx.waker());
        rest.retain_mut(|served| {
            while served.is_busy() && served.poll().is_some() {}
            served.is_busy()
        });
        if rest.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl Slot {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn polls(&self) {
        let mut line = self.line();
        line.came_at = line.woken_at.take();
    }

    fn came_at(&self) -> Instant {
        self.line().came_at.unwrap_or_else(clock::now)
    }

    /// Something is asked for behind what is under way, which can only be a withdrawal.
    fn is_given_up(&self) -> bool {
        self.line().next.is_some()
    }

    /// The next request. Whoever asks polls.
    async fn command(&self) -> Command {
        poll_fn(|_| self.line().next.take().map_or(Poll::Pending, Poll::Ready)).await
    }

    /// Says it, and waits until it is heard: whoever hears it polls again.
    async fn say(&self, said: Event) {
        self.line().said = Some(said);
        poll_fn(|_| if self.line().said.is_none() { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

/// A member of a quorum, as the place of a claim.
#[derive(Debug)]
struct AtMember<B> {
    members: Arc<Members<B>>,
    member: usize,
    slot: Arc<Slot>,
}

/// Serves commands in their order.
async fn serve<B>(place: AtMember<B>, mut claim: impl MemberClaim) -> Infallible {
    let (member, slot) = (place.member, &*place.slot);
    // Something was asked since the last push: the claim may have something to tell.
    let mut listens = false;
    // The member could not be asked: it is told of when it can.
    let mut unready = false;
    loop {
        let command = tokio::select! {
            biased;
            command = slot.command() => command,
            _ = claim.changed(), if listens => {
                listens = false;
                slot.say(Event::Changed).await;
                continue;
            }
            () = place.is_good(), if unready => {
                unready = false;
                slot.say(Event::Changed).await;
                continue;
            }
        };
        let mut is_asked = true;
        let said = match command {
            Command::Attempt { clock } => {
                let answer;
                (answer, is_asked) = place.attempt(&mut claim, clock).await;
                let is_good = |membership: &Arc<MembershipState>| membership.good(member).is_some();
                unready = answer.is_err() && place.membership().is_some_and(|it| !is_good(it));
                Event::Attempted(answer)
            }
            Command::Renew { clock } => {
                claim.count_from(clock);
                Event::Renewed(place.ask(claim.renew()).await)
            }
            Command::Raise { to } => Event::Raised(to, place.ask(claim.raise(to)).await),
            Command::Withdraw { clock, within } => {
                unready = false;
                claim.count_from(place.clock(clock));
                let until = clock::now().plus(within);
                leave(&place, &mut claim, until).await
            }
        };
        // A claim tells its news until it is asked. Where it can't be asked, this would hear the
        // same for ever.
        listens = is_asked && !matches!(said, Event::Left(_) | Event::GaveUp(_));
        slot.say(said).await;
    }
}

impl<B> AtMember<B> {
    fn membership(&self) -> Option<&Arc<MembershipState>> {
        self.members.membership.as_ref()
    }

    /// Runs a request to its end, and notes whether the store has answered.
    async fn ask<T>(&self, request: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let health = &self.members.health[self.member];
        let sent = clock::now();
        health.asked(sent);
        let answer = request.await;
        // A refusal is an answer as well.
        let silent = |fault: &Fault| fault.kind() == FaultKind::Transient;
        if answer.as_ref().is_err_and(silent) {
            // It may be gone, or started anew: found out and mended though nobody asks again.
            if let Some(membership) = self.membership()
                && let Some(enrolment) = membership.good(self.member)
            {
                membership.unsee(self.member, &enrolment);
            }
        } else {
            health.answered();
            if let Some(membership) = self.membership() {
                membership.seats[self.member].answers(sent, self.slot.came_at());
            }
        }
        answer
    }

    async fn is_good(&self) {
        match self.membership() {
            Some(membership) => membership.is_good(self.member).await,
            None => std::future::pending().await,
        }
    }

    /// Attempts where the member may be asked, and once more if it says that it must be probed
    /// first: its connection is a new one. Also whether the claim was asked.
    async fn attempt(
        &self,
        claim: &mut impl MemberClaim,
        clock: u64,
    ) -> (Result<Attempt, Fault>, bool) {
        let Some(membership) = self.membership() else {
            claim.count_from(clock);
            return (self.ask(claim.attempt()).await, true);
        };
        let mut unready = None;
        for _ in 0..2 {
            let enrolment = match membership.admit(self.member).await {
                Ok(enrolment) => enrolment,
                Err(fault) => return (Err(fault), unready.is_some()),
            };
            // It may be long since it was asked for. Begun now, it would have the key here for the
            // moment until the withdrawal behind it.
            if self.slot.is_given_up() {
                let what = "the attempt was given up before it began";
                let fault = Fault::new(FaultKind::Transient, what).unsent();
                return (Err(fault), unready.is_some());
            }
            claim.count_from(above(&enrolment, clock));
            let answer = match self.ask(claim.attempt()).await {
                Err(fault) if fault.kind() == FaultKind::Unready => {
                    membership.unsee(self.member, &enrolment);
                    unready = Some(fault);
                    continue;
                }
                Ok(Attempt::Granted(_)) if !membership.is_still(self.member, &enrolment) => {
                    let what = "a member lost its data while it was asked";
                    Err(Fault::new(FaultKind::Unready, what))
                }
                Ok(Attempt::Granted(grant)) => cut(grant, &enrolment).map(Attempt::Granted),
                answer => answer,
            };
            return (answer, true);
        }
        let unready = unready.unwrap_or_else(|| Fault::new(FaultKind::Unready, "it was not seen"));
        (Err(unready), true)
    }

    /// The end of a block of tokens that the member reserves.
    fn clock(&self, clock: u64) -> u64 {
        let token_min =
            self.membership().map_or(0, |membership| membership.seats[self.member].token_min());
        clock.max(token_min + 1)
    }
}

fn token_min(enrolment: &Enrolment) -> u64 {
    enrolment.token_min.unwrap_or(0)
}

fn above(enrolment: &Enrolment, clock: u64) -> u64 {
    clock.max(token_min(enrolment) + 1)
}

/// A member that was restored may remember less of a key than its minimum token: its tokens begin
/// there.
fn cut(grant: Grant, enrolment: &Enrolment) -> Result<Grant, Fault> {
    let (Some(first), Some(last)) = (grant.tokens.first(), grant.tokens.last()) else {
        return Ok(grant);
    };
    let tokens = TokenBlock::new(first.max(token_min(enrolment) + 1), last);
    if tokens.left() == 0 {
        let what = "a member holds the key for this claim by a grant that it had lost";
        return Err(Fault::new(FaultKind::Unready, what));
    }
    Ok(Grant { tokens, ..grant })
}

/// Withdraws, again and again for as long as the lease may last.
async fn leave<B>(place: &AtMember<B>, claim: &mut impl MemberClaim, until: Instant) -> Event {
    let (mut failures, mut may_have_run) = (0, false);
    loop {
        match place.ask(claim.withdraw()).await {
            // An earlier try took effect, and only its answer was lost.
            Ok(_) if may_have_run => return Event::Left(Withdrawal::Released),
            Ok(withdrawal) => return Event::Left(withdrawal),
            Err(fault) if !fault.is_transient() || clock::now() >= until => {
                return Event::GaveUp(fault);
            }
            Err(fault) => {
                failures += 1;
                may_have_run |= !fault.is_unsent();
                place.slot.say(Event::Stays(fault)).await;
            }
        }
        clock::alarm_in(FAULT_PAUSES.pause(failures, clock::random_bits())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Change, Claim};

    /// Has something to tell until it is asked, which it never is.
    struct Insistent;

    impl Claim for Insistent {
        async fn attempt(&mut self) -> Result<Attempt, Fault> {
            unreachable!("nobody has probed the member")
        }

        async fn changed(&mut self) -> Change {
            Change::Elsewhere
        }

        async fn renew(&mut self) -> Result<Renewal, Fault> {
            unreachable!("it holds nothing")
        }

        async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
            Ok(Withdrawal::NotHeld)
        }
    }

    impl MemberClaim for Insistent {
        fn count_from(&mut self, _: u64) {}

        async fn raise(&mut self, _: u64) -> Result<bool, Fault> {
            unreachable!("it holds nothing")
        }
    }

    /// Was not to be reached once, and holds nothing.
    struct OutOfReach(Vec<Fault>);

    impl Claim for OutOfReach {
        async fn attempt(&mut self) -> Result<Attempt, Fault> {
            unreachable!("it is withdrawn")
        }

        async fn changed(&mut self) -> Change {
            std::future::pending().await
        }

        async fn renew(&mut self) -> Result<Renewal, Fault> {
            unreachable!("it is withdrawn")
        }

        async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
            self.0.pop().map_or(Ok(Withdrawal::NotHeld), Err)
        }
    }

    impl MemberClaim for OutOfReach {
        fn count_from(&mut self, _: u64) {}

        async fn raise(&mut self, _: u64) -> Result<bool, Fault> {
            unreachable!("it is withdrawn")
        }
    }

    /// What was never sent has released nothing.
    #[tokio::test(start_paused = true)]
    async fn a_claim_found_gone_was_released_only_if_a_try_was_sent() {
        let sent = || Fault::new(FaultKind::Transient, "no answer");
        let unsent = || sent().unsent();
        for (faults, expected) in [
            (vec![], Withdrawal::NotHeld),
            (vec![unsent(), unsent()], Withdrawal::NotHeld),
            (vec![sent()], Withdrawal::Released),
            (vec![unsent(), sent()], Withdrawal::Released),
            (vec![sent(), unsent()], Withdrawal::Released),
        ] {
            let members = Members::new(vec![()], None, Duration::from_secs(9));
            let waits = Arc::new(Waits::default());
            let claim = OutOfReach(faults.clone());
            let mut served = Served::new(&members.into(), 0, claim, waits.clone());
            served.ask(Command::Withdraw { clock: 1, within: Duration::from_secs(60) });
            let left = poll_fn(|cx| {
                waits.begin(cx.waker());
                loop {
                    match served.poll() {
                        Some(Event::Stays(_)) => {}
                        Some(event) => return Poll::Ready(event),
                        None => return Poll::Pending,
                    }
                }
            });
            let left = left.await;
            assert!(
                matches!(left, Event::Left(withdrawal) if withdrawal == expected),
                "{faults:?}: {left:?}"
            );
        }
    }

    /// The driver of the key would go round for it, and let nothing else run.
    #[tokio::test(start_paused = true)]
    async fn a_claim_that_could_not_be_asked_is_not_heard_until_it_was() {
        let membership = MembershipState::new(&["a".to_owned()], |_| {});
        let members = Members::new(vec![()], Some(membership.into()), Duration::from_secs(9));
        let waits = Arc::new(Waits::default());
        let mut served = Served::new(&members.into(), 0, Insistent, waits.clone());
        served.ask(Command::Attempt { clock: 1 });
        let mut says = async || {
            poll_fn(|cx| {
                waits.begin(cx.waker());
                served.poll().map_or(Poll::Pending, Poll::Ready)
            })
            .await
        };
        assert!(matches!(says().await, Event::Attempted(Err(_))));
        let more = tokio::time::timeout(Duration::from_secs(60), says()).await;
        assert!(more.is_err(), "{more:?}");
    }
}
