//! The type-erased twins of [`Backend`] and [`Claim`], so that the public face needs no type
//! parameter. Each verb costs one allocation, which a round trip outweighs. A request has its claim
//! with it, and gives it back with the answer: so it needs no second one to be kept by itself.

use std::cell::Cell;
use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::{
    Attempt, Backend, BoxFuture, Capabilities, Change, Claim, ClaimId, Fault, Follower, Inspection,
    Renewal, Terms, Withdrawal,
};
use crate::key::Key;
use crate::view::{Holder, KeyList};

/// A request of a claim, and the claim that it is for.
pub(crate) type Request<A> = BoxFuture<'static, (Box<dyn DynClaim>, Result<A, Fault>)>;

/// A claim that listens for a change. It goes on to, whatever else is done for its key meanwhile,
/// until it is to be asked.
pub(crate) struct Listening(BoxFuture<'static, (Box<dyn DynClaim>, Option<Change>)>);

thread_local! {
    /// The `Listening` that this thread polls next is to give its claim back.
    static IS_STOPPED: Cell<bool> = const { Cell::new(false) };
}

impl Listening {
    /// The claim comes back with the change.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<(Box<dyn DynClaim>, Option<Change>)> {
        self.0.as_mut().poll(cx)
    }

    /// Gives the claim back, which listens no more.
    pub(crate) fn stop(mut self) -> Option<Box<dyn DynClaim>> {
        struct Stopped;
        impl Drop for Stopped {
            fn drop(&mut self) {
                IS_STOPPED.set(false);
            }
        }
        IS_STOPPED.set(true);
        let _stopped = Stopped;
        match self.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready((claim, _)) => Some(claim),
            Poll::Pending => None,
        }
    }
}

/// [`Backend`], type-erased.
pub(crate) trait DynBackend: Send + Sync + Debug + 'static {
    fn capabilities(&self) -> Capabilities;
    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> Box<dyn DynClaim>;
    fn candidate(
        &self,
        key: &Key,
        id: ClaimId,
        terms: Terms,
        value: &Arc<str>,
    ) -> Box<dyn DynClaim>;
    fn forced(&self, key: &Key, id: ClaimId, terms: Terms) -> Box<dyn DynClaim>;
    fn follow(&self, key: &Key, lease: Duration) -> Box<dyn Follower>;
    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Inspection, Fault>>;
    fn holder<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Holder>, Fault>>;
    fn request_revoke<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<bool, Fault>>;
    fn force_release<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<bool, Fault>>;
    fn list<'a>(
        &'a self,
        within: Option<&'a Key>,
        max: usize,
    ) -> BoxFuture<'a, Result<KeyList, Fault>>;
    fn requests(&self) -> u64;

    /// The prefix that all keys are below at the store.
    fn prefix(&self) -> Option<&Key> {
        None
    }
}

/// [`Claim`], type-erased.
pub(crate) trait DynClaim: Send + 'static {
    fn attempt(self: Box<Self>) -> Request<Attempt>;
    fn changed(self: Box<Self>) -> Listening;
    fn renew(self: Box<Self>) -> Request<Renewal>;
    fn downgrade(self: Box<Self>) -> Request<Renewal>;
    fn withdraw(self: Box<Self>) -> Request<Withdrawal>;
}

impl<B: Backend> DynBackend for B {
    fn capabilities(&self) -> Capabilities {
        Backend::capabilities(self)
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> Box<dyn DynClaim> {
        Box::new(Backend::claim(self, key, id, terms))
    }

    fn candidate(
        &self,
        key: &Key,
        id: ClaimId,
        terms: Terms,
        value: &Arc<str>,
    ) -> Box<dyn DynClaim> {
        Box::new(Backend::candidate(self, key, id, terms, value))
    }

    fn forced(&self, key: &Key, id: ClaimId, terms: Terms) -> Box<dyn DynClaim> {
        Box::new(Backend::forced(self, key, id, terms))
    }

    fn follow(&self, key: &Key, lease: Duration) -> Box<dyn Follower> {
        Backend::follow(self, key, lease)
    }

    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Inspection, Fault>> {
        Box::pin(Backend::inspect(self, key))
    }

    fn holder<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Option<Holder>, Fault>> {
        Box::pin(Backend::holder(self, key))
    }

    fn request_revoke<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<bool, Fault>> {
        Box::pin(Backend::request_revoke(self, key))
    }

    fn force_release<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<bool, Fault>> {
        Box::pin(Backend::force_release(self, key))
    }

    fn list<'a>(
        &'a self,
        within: Option<&'a Key>,
        max: usize,
    ) -> BoxFuture<'a, Result<KeyList, Fault>> {
        Box::pin(Backend::list(self, within, max))
    }

    fn requests(&self) -> u64 {
        Backend::requests(self)
    }
}

impl<C: Claim> DynClaim for C {
    fn attempt(mut self: Box<Self>) -> Request<Attempt> {
        Box::pin(async move {
            let answer = Claim::attempt(&mut *self).await;
            (self as Box<dyn DynClaim>, answer)
        })
    }

    fn changed(mut self: Box<Self>) -> Listening {
        Listening(Box::pin(async move {
            let change = {
                let mut changed = pin!(Claim::changed(&mut *self));
                let change = poll_fn(|cx| match IS_STOPPED.get() {
                    true => Poll::Ready(None),
                    false => changed.as_mut().poll(cx).map(Some),
                });
                change.await
            };
            (self as Box<dyn DynClaim>, change)
        }))
    }

    fn renew(mut self: Box<Self>) -> Request<Renewal> {
        Box::pin(async move {
            let answer = Claim::renew(&mut *self).await;
            (self as Box<dyn DynClaim>, answer)
        })
    }

    fn downgrade(mut self: Box<Self>) -> Request<Renewal> {
        Box::pin(async move {
            let answer = Claim::downgrade(&mut *self).await;
            (self as Box<dyn DynClaim>, answer)
        })
    }

    fn withdraw(mut self: Box<Self>) -> Request<Withdrawal> {
        Box::pin(async move {
            let answer = Claim::withdraw(&mut *self).await;
            (self as Box<dyn DynClaim>, answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Changes at the second look.
    #[derive(Debug, Default)]
    struct Second(Arc<AtomicU32>);

    impl Claim for Second {
        async fn attempt(&mut self) -> Result<Attempt, Fault> {
            unreachable!("nobody asks")
        }

        async fn changed(&mut self) -> Change {
            poll_fn(|_| match self.0.fetch_add(1, Ordering::Relaxed) {
                0 => Poll::Pending,
                _ => Poll::Ready(Change::Here),
            })
            .await
        }

        async fn renew(&mut self) -> Result<Renewal, Fault> {
            unreachable!("nobody asks")
        }

        async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
            unreachable!("nobody asks")
        }
    }

    #[test]
    fn one_that_is_stopped_gives_its_claim_back_unasked_and_the_next_listens() {
        let looks = Arc::<AtomicU32>::default();
        let claim: Box<dyn DynClaim> = Box::new(Second(looks.clone()));
        let mut cx = Context::from_waker(Waker::noop());
        let mut listening = claim.changed();
        assert!(listening.poll(&mut cx).is_pending());
        let claim = listening.stop().expect("the claim");
        assert_eq!(looks.load(Ordering::Relaxed), 1);
        let Poll::Ready((_, change)) = claim.changed().poll(&mut cx) else {
            panic!("it has changed")
        };
        assert_eq!(change, Some(Change::Here));
    }
}
