//! From a URL to a store.

use super::target::Target;
use crate::backend::{ConnectError, Fault, FaultKind, Opening, StoreUrl};

pub(in crate::sql) fn store(url: StoreUrl) -> Result<Opening, ConnectError> {
    let target = Target::of(&url)?;
    let fault = Fault::new(FaultKind::Refused, format!("{target:?} comes with the next commit"));
    Ok(Box::pin(std::future::ready(Err(ConnectError::Store(fault)))))
}
