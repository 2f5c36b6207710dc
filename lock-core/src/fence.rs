//! Whoever carries a token has it checked in a transaction, see [`Fences`].

use sqlx::{Connection, Transaction};

use crate::engine::LockHandle;
use crate::key::{IntoKey, Key};
use crate::sql::{FenceDialect, FenceError, Fences};
use crate::token::FencingToken;

impl LockHandle {
    /// Lets the transaction go on, unless the lock is lost or a later holder has written the
    /// resource: then nothing that this one writes may be committed. See
    /// [`Fences`] for what that promises, and for the table, which is `lock_fences`
    /// here. The lock may be one of any store.
    ///
    /// Call it first in the transaction, so that what is read behind it is not old. It may be
    /// called for several resources. Always in the same order, as their rows stay locked until the
    /// end of the transaction.
    ///
    /// # Errors
    ///
    /// [`FenceError::NotHeld`] where the lock is lost by this process's own clock, or released:
    /// nothing was sent. [`FenceError::Stale`] where a later holder has written. The others say what the
    /// database lacks. Whichever it is, roll the transaction back, as by dropping it.
    ///
    /// # Cancel safety
    ///
    /// The check may have been made, or not: roll the transaction back.
    pub async fn fence<D: FenceDialect>(
        &self,
        tx: &mut Transaction<'_, D>,
        resource: impl IntoKey,
    ) -> Result<(), FenceError> {
        let resource = self.may_write(resource.into_key()?)?;
        Fences::default().check_key(tx, self.token(), resource).await
    }

    /// As [`fence`](Self::fence), for a function that is handed the connection of a transaction.
    ///
    /// # Errors
    ///
    /// As [`fence`](Self::fence); [`FenceError::NoTransaction`] where none is open on it that sqlx
    /// knows of.
    ///
    /// # Cancel safety
    ///
    /// As [`fence`](Self::fence).
    pub async fn fence_on<C>(
        &self,
        connection: &mut C,
        resource: impl IntoKey,
    ) -> Result<(), FenceError>
    where
        C: Connection,
        C::Database: FenceDialect<Connection = C>,
    {
        let resource = self.may_write(resource.into_key()?)?;
        Fences::default().check_key_on::<C::Database>(connection, self.token(), resource).await
    }

    /// The resource, unless the lock is lost by this process's own clock.
    fn may_write(&self, resource: Key) -> Result<Key, FenceError> {
        if self.is_held() {
            return Ok(resource);
        }
        let (key, token, lost) = (self.key().clone(), self.token(), self.why_lost());
        Err(FenceError::NotHeld { resource, key, token, lost })
    }
}

impl FencingToken {
    /// As [`LockHandle::fence`], for a service that was sent the token alone. It does not know
    /// whether the lock is held still, only whether a later holder has written.
    ///
    /// # Errors
    ///
    /// As [`Fences::check`].
    ///
    /// # Cancel safety
    ///
    /// As [`Fences::check`].
    pub async fn fence<D: FenceDialect>(
        self,
        tx: &mut Transaction<'_, D>,
        resource: impl IntoKey,
    ) -> Result<(), FenceError> {
        Fences::default().check(tx, self, resource).await
    }
}
