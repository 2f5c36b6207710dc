//! The source of the client.

use std::sync::Arc;

use crate::LockClient;

/// The value of `client = expr`: a [`LockClient`], or an `Option`, a reference or an `Arc` of one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a lock client",
    label = "expected `LockClient`, or an `Option`, a reference or an `Arc` of one"
)]
pub trait ClientSource {
    /// The client, if there is one.
    fn client(&self) -> Option<LockClient>;
}

impl ClientSource for LockClient {
    fn client(&self) -> Option<LockClient> {
        Some(self.clone())
    }
}

impl<C: ClientSource + ?Sized> ClientSource for &C {
    fn client(&self) -> Option<LockClient> {
        (**self).client()
    }
}

impl<C: ClientSource + ?Sized> ClientSource for Arc<C> {
    fn client(&self) -> Option<LockClient> {
        (**self).client()
    }
}

impl<C: ClientSource> ClientSource for Option<C> {
    fn client(&self) -> Option<LockClient> {
        self.as_ref().and_then(ClientSource::client)
    }
}
