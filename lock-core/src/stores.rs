//! The table of stores. A line brings one in: its drivers, by which URLs can name it, and what stands
//! in its place in a build without its feature. The line of its module is in lib.rs.
//!
//! A folder has `schemes.rs`, what its URLs may hold, and `driver.rs`, with `DRIVERS`. These two are
//! there without the feature, too, so that an error can name what is missing.

use crate::backend::Driver;

macro_rules! stores {
    ($($store:ident $(if $feature:meta)?),* $(,)?) => {
        // Its folders are those of the crate.
        #[path = "."]
        mod absent {
            $($(
                #[cfg(not($feature))]
                pub(super) mod $store {
                    pub(crate) mod driver;
                    mod schemes;
                }
            )?)*
        }

        $(
            $(#[cfg(not($feature))] use absent::$store;)?
            $(#[cfg($feature)])? use crate::$store;
        )*

        /// The drivers of each store of this crate.
        pub(crate) const STORES: &[&[Driver]] = &[$(&$store::driver::DRIVERS),*];
    };
}

stores! {
    memory,
    redis if feature = "redis",
    zookeeper if feature = "zookeeper",
    etcd if feature = "etcd",
    sql if any(feature = "sqlite", feature = "postgres", feature = "mysql"),
}
