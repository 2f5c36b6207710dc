//! The way from a URL to a store.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::url::{Scheme, StoreUrl, UrlError, UrlPart};
use super::{Backend, DynBackend, Fault};
use crate::key::KeyError;
use crate::limits::NAME_BYTES_MAX;

/// A store that URLs can name: their scheme, and how to connect.
///
/// Those of this crate are built in. One of your own is given to
/// [`ClientBuilder::driver`](crate::ClientBuilder::driver).
#[derive(Clone)]
pub struct Driver {
    scheme: Scheme,
    connect: Connect,
}

/// A store that is being connected to. What the URL says has been checked by then.
pub(crate) type Opening = Pin<Box<dyn Future<Output = Opened> + Send>>;

/// A store, or why there is none.
pub(crate) type Opened = Result<Arc<dyn DynBackend>, ConnectError>;

type BuiltIn = fn(StoreUrl) -> Result<Opening, ConnectError>;

#[derive(Clone)]
enum Connect {
    BuiltIn(BuiltIn),
    Given(Arc<dyn Fn(StoreUrl) -> Opening + Send + Sync>),
}

impl Driver {
    /// `connect` is called with each URL of this scheme, once it has been read.
    ///
    /// The store bounds its own I/O in time, and shows nothing of a
    /// [`Login`](super::url::Login) in an error.
    #[must_use]
    pub fn new<B, F, Fut>(scheme: Scheme, connect: F) -> Self
    where
        B: Backend,
        F: Fn(StoreUrl) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<B, ConnectError>> + Send + 'static,
    {
        let connect = move |url| opening(connect(url));
        Self { scheme, connect: Connect::Given(Arc::new(connect)) }
    }

    /// One of this crate's.
    pub(crate) const fn built_in(scheme: Scheme, connect: BuiltIn) -> Self {
        Self { scheme, connect: Connect::BuiltIn(connect) }
    }

    /// The scheme: the parts that its URLs may hold.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Checks what a URL of its scheme says; nothing is sent before the answer is polled.
    pub(crate) fn open(&self, url: StoreUrl) -> Result<Opening, ConnectError> {
        match &self.connect {
            Connect::BuiltIn(connect) => connect(url),
            Connect::Given(connect) => Ok(connect(url)),
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("scheme", &self.scheme.name()).finish_non_exhaustive()
    }
}

/// Type-erased, and on the heap: such futures are deep, and named in full take the caller's crate
/// to the compiler's limits.
pub(crate) fn opening<B: Backend>(
    connecting: impl Future<Output = Result<B, ConnectError>> + Send + 'static,
) -> Opening {
    Box::pin(async move { Ok(Arc::new(connecting.await?) as Arc<dyn DynBackend>) })
}

/// Stands in for a store that this build lacks. Its scheme says so, and no URL of it can be read.
#[allow(dead_code)] // in builds with all stores
pub(crate) fn no_store(url: StoreUrl) -> Result<Opening, ConnectError> {
    let reason = format!("this build has no store for `{}:`", url.scheme());
    Err(UrlError::new(UrlPart::Scheme, reason).into())
}

/// The reason why no client could be made.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No store of this build has such a URL. The URL is not repeated, as it may hold a password.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// A prefix was given that no key can be below, see
    /// [`ClientBuilder::prefix`](crate::ClientBuilder::prefix).
    #[error("no prefix of keys: {0}")]
    Prefix(KeyError),
    /// A label was given that is empty, too long, has a control character, or begins with `_`, see
    /// [`ClientBuilder::label`](crate::ClientBuilder::label).
    #[error(
        "the label has {bytes} bytes: it must have 1 to {NAME_BYTES_MAX}, no control character, and \
         no `_` in front"
    )]
    Label {
        /// The length of it.
        bytes: usize,
    },
    /// A pool of connections was given that this store would send nothing through.
    #[error("a pool that is of no use: {reason}")]
    Pools {
        /// The reason, and what would do instead.
        reason: String,
    },
    /// A [`Driver`] was given for a scheme that is taken: by this crate, or by another one.
    #[error("two drivers for the scheme `{scheme}:`")]
    SchemeTaken {
        /// The scheme of the driver that was given.
        scheme: &'static str,
    },
    /// A [`Driver`] was given for something that is no scheme, see [`Scheme::new`].
    #[error("`{scheme}` is no name of a scheme")]
    SchemeName {
        /// The scheme of the driver that was given.
        scheme: &'static str,
    },
    /// The store is connected to by tasks and timers of a Tokio runtime, and there is none here, or one
    /// without timers; or it is to be reached through a pool of the application, and the runtime here
    /// has no I/O. Connect inside of one that has them (`enable_all`); the client works on any executor
    /// from then on.
    #[error(
        "no Tokio runtime here with what this store needs to connect, timers, and I/O for a pool: \
         await `connect` in one that was built with `enable_all`"
    )]
    NoRuntime,
    /// The store refused or could not be reached.
    #[error(transparent)]
    Store(Fault),
}
