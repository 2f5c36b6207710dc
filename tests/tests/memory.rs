//! Every fault of the matrix that the store in this process can suffer.

tests::scenes!(MEMORY);
