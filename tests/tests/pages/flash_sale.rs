//! The flash sale.
