//! Which hold something is about.

use std::sync::Arc;

use crate::engine::key::KeyCell;
use crate::key::Key;
use crate::token::FencingToken;

/// A hold by its key and its token. It keeps nothing locked.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) cell: Arc<KeyCell>,
    pub(super) token: u64,
}

impl View {
    pub(super) fn key(&self) -> &Key {
        self.cell.key()
    }

    pub(super) fn token(&self) -> FencingToken {
        FencingToken::new(self.token)
    }
}
