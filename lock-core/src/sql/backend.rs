//! The face of a store of databases for clients: the same for each dialect.

/// A type for the store of a dialect, and one for its claims.
macro_rules! backend {
    (
        $(#[$about:meta])* $name:ident,
        $(#[$about_claim:meta])* $claim:ident,
        $dialect:ty, $lease_min:expr
    ) => {
        $(#[$about])*
        #[derive(Clone)]
        pub struct $name {
            pub(super) store: Arc<Store<$dialect>>,
        }

        $(#[$about_claim])*
        #[derive(Debug)]
        pub struct $claim(LeaseClaim<$dialect>);

        impl $name {
            /// Deletes the rows that nobody has used for `idle`, looking at a hundred at a time, and
            /// says how many. The store does so by itself every hour, for rows that are idle for an hour.
            /// Tokens go on to grow: a new row begins at the clock, and a row that is ahead of it
            /// stays.
            ///
            /// # Errors
            ///
            /// A [`Fault`] of the database.
            ///
            /// # Cancel safety
            ///
            /// A sweep that has begun runs to its end.
            pub async fn sweep(&self, idle: Duration) -> Result<u64, Fault> {
                let store = self.store.clone();
                let task = self.store.home.spawn(async move {
                    Store::sweep(Arc::downgrade(&store), idle).await
                });
                task.await.unwrap_or(Ok(0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }

        impl Backend for $name {
            type Claim = $claim;

            fn capabilities(&self) -> Capabilities {
                Capabilities {
                    fencing: true,
                    fifo: true,
                    push: true,
                    revocation: true,
                    force_release: true,
                    force_acquire: true,
                    listing: true,
                    shared: true,
                    permits: true,
                    election: true,
                    lease_min: $lease_min,
                    ..Capabilities::none()
                }
            }

            fn claim(&self, key: &Key, id: ClaimId, terms: Terms) -> $claim {
                $claim(LeaseClaim::new(self.store.clone(), key, id, terms, None))
            }

            fn candidate(&self, key: &Key, id: ClaimId, terms: Terms, value: &Arc<str>) -> $claim {
                let value = Some(value.clone());
                $claim(LeaseClaim::new(self.store.clone(), key, id, terms, value))
            }

            fn forced(&self, key: &Key, id: ClaimId, terms: Terms) -> $claim {
                $claim(LeaseClaim::new(self.store.clone(), key, id, terms, None).forcing())
            }

            fn follow(&self, key: &Key, lease: Duration) -> Box<dyn Follower> {
                Box::new(LeaseFollower::new(self.store.clone(), key, lease))
            }

            async fn inspect(&self, key: &Key) -> Result<Inspection, Fault> {
                let key = key.clone();
                let ask = |store: Arc<Store<$dialect>>, by| async move {
                    store.inspect(key, by).await
                };
                self.store.ask(Budget::of(REQUEST), ask).await
            }

            async fn list(&self, within: Option<&Key>, max: usize) -> Result<KeyList, Fault> {
                let within = within.cloned();
                let ask = |store: Arc<Store<$dialect>>, by| async move {
                    store.list(within, max, by).await
                };
                self.store.ask(Budget::of(REQUEST), ask).await
            }

            async fn request_revoke(&self, key: &Key) -> Result<bool, Fault> {
                let key = key.clone();
                let ask = |store: Arc<Store<$dialect>>, by| async move {
                    store.request_revoke(key, by).await
                };
                self.store.ask(Budget::of(REQUEST), ask).await
            }

            async fn force_release(&self, key: &Key) -> Result<bool, Fault> {
                let key = key.clone();
                let ask = |store: Arc<Store<$dialect>>, by| async move {
                    store.force_release(key, by).await
                };
                self.store.ask(Budget::of(REQUEST), ask).await
            }

            fn requests(&self) -> u64 {
                self.store.dialect.requests()
            }
        }

        impl Claim for $claim {
            async fn attempt(&mut self) -> Result<Attempt, Fault> {
                self.0.attempt().await
            }

            async fn changed(&mut self) -> Change {
                self.0.changed().await
            }

            async fn renew(&mut self) -> Result<Renewal, Fault> {
                self.0.renew().await
            }

            async fn downgrade(&mut self) -> Result<Renewal, Fault> {
                self.0.downgrade().await
            }

            async fn withdraw(&mut self) -> Result<Withdrawal, Fault> {
                self.0.withdraw().await
            }
        }
    };
}
pub(in crate::sql) use backend;

pub(in crate::sql) use std::fmt;
pub(in crate::sql) use std::sync::Arc;
pub(in crate::sql) use std::time::Duration;

pub(in crate::sql) use crate::backend::{
    Attempt, Backend, Capabilities, Change, Claim, ClaimId, Fault, Follower, Renewal, Terms,
    Withdrawal,
};
pub(in crate::sql) use crate::key::Key;
pub(in crate::sql) use crate::sql::claim::LeaseClaim;
pub(in crate::sql) use crate::sql::follower::LeaseFollower;
pub(in crate::sql) use crate::sql::store::{Budget, REQUEST, Store};
pub(in crate::sql) use crate::view::{Inspection, KeyList};
