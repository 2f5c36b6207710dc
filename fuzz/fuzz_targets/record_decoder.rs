//! A stored response, which a store may give back damaged or from another version.

#![no_main]

libfuzzer_sys::fuzz_target!(|record: &[u8]| lock_tower::fuzzing::record_decoder(record));
