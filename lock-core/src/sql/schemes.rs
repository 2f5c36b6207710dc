//! What the URLs of databases may hold. Here without their features too, so that an error can name
//! what is missing.

use crate::backend::Scheme;

/// A file, or a database in this process.
pub(crate) const SQLITE: Scheme = Scheme::new("sqlite")
    .with_file()
    .with_params(&["table", "create"])
    .behind(("sqlite", cfg!(feature = "sqlite")), ("sqlite", cfg!(feature = "sqlite")));
