//! The store of this process in the table of drivers.

use super::Memory;
use crate::backend::{ConnectError, Driver, Opening, Scheme, StoreUrl, opening};

/// `memory:`, or `memory:` and a name.
const MEMORY: Scheme = Scheme::new("memory");

/// Its line.
pub(crate) const DRIVERS: [Driver; 1] = [Driver::built_in(MEMORY, store)];

fn store(url: StoreUrl) -> Result<Opening, ConnectError> {
    let store = match url.path() {
        "" => Memory::new(),
        name => Memory::named(name),
    };
    Ok(opening(std::future::ready(Ok(store))))
}
