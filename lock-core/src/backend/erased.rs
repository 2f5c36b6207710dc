//! The type-erased twins of [`Backend`] and [`Claim`], so that the public face needs no type
//! parameter. Each verb costs one allocation, which a round trip outweighs.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use super::{
    Attempt, Backend, Change, Claim, ClaimId, Fault, Inspection, Promises, Renewal, Terms,
    Withdrawal,
};
use crate::key::Key;

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// [`Backend`], type-erased.
pub(crate) trait DynBackend: Send + Sync + Debug + 'static {
    fn promises(&self) -> Promises;
    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> Box<dyn DynClaim>;
    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Inspection, Fault>>;
    fn request_revoke<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<bool, Fault>>;
    fn force_release<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<bool, Fault>>;
    fn requests(&self) -> u64;
}

/// [`Claim`], type-erased.
pub(crate) trait DynClaim: Send + 'static {
    fn attempt(&mut self) -> BoxFuture<'_, Result<Attempt, Fault>>;
    fn changed(&mut self) -> BoxFuture<'_, Change>;
    fn renew(&mut self) -> BoxFuture<'_, Result<Renewal, Fault>>;
    fn withdraw(&mut self) -> BoxFuture<'_, Result<Withdrawal, Fault>>;
}

impl<B: Backend> DynBackend for B {
    fn promises(&self) -> Promises {
        Backend::promises(self)
    }

    fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> Box<dyn DynClaim> {
        Box::new(Backend::claim(self, key, id, terms))
    }

    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Inspection, Fault>> {
        Box::pin(Backend::inspect(self, key))
    }

    fn request_revoke<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<bool, Fault>> {
        Box::pin(Backend::request_revoke(self, key))
    }

    fn force_release<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<bool, Fault>> {
        Box::pin(Backend::force_release(self, key))
    }

    fn requests(&self) -> u64 {
        Backend::requests(self)
    }
}

impl<C: Claim> DynClaim for C {
    fn attempt(&mut self) -> BoxFuture<'_, Result<Attempt, Fault>> {
        Box::pin(Claim::attempt(self))
    }

    fn changed(&mut self) -> BoxFuture<'_, Change> {
        Box::pin(Claim::changed(self))
    }

    fn renew(&mut self) -> BoxFuture<'_, Result<Renewal, Fault>> {
        Box::pin(Claim::renew(self))
    }

    fn withdraw(&mut self) -> BoxFuture<'_, Result<Withdrawal, Fault>> {
        Box::pin(Claim::withdraw(self))
    }
}
