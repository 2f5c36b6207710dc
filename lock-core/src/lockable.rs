//! The keys of a builder, one or several, and what its caller has in hand then.

use std::future::Future;

use crate::engine::{
    Acquire, KeySet, LockGuard, LockHandle, LockScope, Lost, MultiAcquire, MultiLockGuard,
    MultiLockHandle, MultiLost, OneKey, Plan,
};
use crate::error::{AcquireError, LostError, ReleaseError};

/// The keys that a [`LockBuilder`](crate::LockBuilder) locks, one or several, and what its caller
/// has in hand then. There are two types of them, and no others: [`OneKey`] and [`KeySet`].
pub trait Lockable: sealed::Sealed {
    /// The guard of the lock, or of all of the locks.
    type Guard: Held<Handle = Self::Handle>;
    /// A view of what is held, which can be cloned and cannot release.
    type Handle: Clone;
    /// The future that waits for the guard.
    type Acquire: Future<Output = Result<Self::Guard, AcquireError>> + Send;

    #[doc(hidden)]
    fn begin(self, plan: Plan) -> Self::Acquire;
}

impl Lockable for OneKey {
    type Guard = LockGuard;
    type Handle = LockHandle;
    type Acquire = Acquire;

    #[inline]
    fn begin(self, plan: Plan) -> Acquire {
        Acquire::new(plan, self.0)
    }
}

impl Lockable for KeySet {
    type Guard = MultiLockGuard;
    type Handle = MultiLockHandle;
    type Acquire = MultiAcquire;

    fn begin(self, plan: Plan) -> MultiAcquire {
        MultiAcquire::new(plan, self)
    }
}

/// One guard, or several that are one: what work that runs under a lock needs of them.
pub trait Held: sealed::Sealed {
    /// A view that cannot release.
    type Handle;
    /// Resolves when one of the locks is lost.
    type Lost: Future<Output = LostError> + Unpin;

    /// A view of what is held.
    fn handle(&self) -> Self::Handle;
    /// Resolves when one of the locks is lost.
    fn lost(&self) -> Self::Lost;
    /// Why one of the locks is lost; `None` while all are good, and after their release.
    fn why_lost(handle: &Self::Handle) -> Option<LostError>;
    /// Gives all up, and waits for the answers.
    fn release(self) -> impl Future<Output = Result<(), ReleaseError>> + Send;

    #[doc(hidden)]
    fn scope_in(&self, outer: Option<LockScope>) -> Option<LockScope>;
}

impl Held for LockGuard {
    type Handle = LockHandle;
    type Lost = Lost;

    fn handle(&self) -> LockHandle {
        self.handle()
    }

    fn lost(&self) -> Lost {
        (**self).lost()
    }

    fn why_lost(handle: &LockHandle) -> Option<LostError> {
        handle.why_lost()
    }

    fn release(self) -> impl Future<Output = Result<(), ReleaseError>> + Send {
        self.release()
    }

    fn scope_in(&self, outer: Option<LockScope>) -> Option<LockScope> {
        Some(self.scope_in(outer))
    }
}

impl Held for MultiLockGuard {
    type Handle = MultiLockHandle;
    type Lost = MultiLost;

    fn handle(&self) -> MultiLockHandle {
        self.handle()
    }

    fn lost(&self) -> MultiLost {
        (**self).lost()
    }

    fn why_lost(handle: &MultiLockHandle) -> Option<LostError> {
        handle.why_lost()
    }

    fn release(self) -> impl Future<Output = Result<(), ReleaseError>> + Send {
        self.release()
    }

    fn scope_in(&self, outer: Option<LockScope>) -> Option<LockScope> {
        self.scope_in(outer)
    }
}

mod sealed {
    use super::{KeySet, LockGuard, MultiLockGuard, OneKey};

    pub trait Sealed {}
    impl Sealed for OneKey {}
    impl Sealed for KeySet {}
    impl Sealed for LockGuard {}
    impl Sealed for MultiLockGuard {}
}
