//! Every fault of the matrix, on this layout.

tests::scenes!(ZOOKEEPER_QUORUM);
