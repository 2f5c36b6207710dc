//! The value of an `Idempotency-Key` header, which any client may send.

#![no_main]

libfuzzer_sys::fuzz_target!(|value: &[u8]| lock_tower::fuzzing::key_parser(value));
