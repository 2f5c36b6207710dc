//! Without the feature `deadpool` no application has a pool: there is no value of its type.

use std::future::Future;

use redis::Value;

use super::request::{Request, WrongServer};

/// An application's own pool of connections. There is none without the feature `deadpool`.
#[derive(Debug, Clone)]
pub enum RedisPool {}

impl RedisPool {
    pub(in crate::redis) fn is_of_cluster(&self) -> bool {
        match *self {}
    }

    pub(in crate::redis) async fn send(&self, _: Request<'_>) -> Result<Value, WrongServer> {
        match *self {}
    }

    pub(in crate::redis) async fn send_to<F>(
        &self,
        _: Request<'_>,
        _: impl FnOnce(Option<String>) -> F,
        _: impl Future<Output = ()>,
    ) -> Result<Value, WrongServer>
    where
        F: Future<Output = Result<(), WrongServer>>,
    {
        match *self {}
    }

    pub(in crate::redis) fn forget_idle(&self) {
        match *self {}
    }
}
