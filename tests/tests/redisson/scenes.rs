//! Every fault of the matrix, on this layout.

tests::scenes!(REDISSON);
