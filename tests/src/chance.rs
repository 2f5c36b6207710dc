//! The chance in tests: all draws follow from one seed, so that a change fails by what it did.

/// The seed of tests that nobody gives another one.
const SEED: u64 = 27;

/// The seed of this run: `./tests/run` prints it, and `--seed` gives another.
///
/// # Panics
///
/// If `TESTS_SEED` is no number.
#[must_use]
pub fn seed() -> u64 {
    std::env::var("TESTS_SEED").map_or(SEED, |seed| seed.parse().expect("TESTS_SEED: a number"))
}

/// Has what this thread draws from `fastrand` follow from the seed: what a test with a runtime of
/// one thread draws, and what the product does there.
pub fn begin() {
    fastrand::seed(seed());
}

/// Whether this is `./tests/run --all`, which has the time for the whole length of a test.
#[must_use]
pub fn is_everything_run() -> bool {
    std::env::var_os("TESTS_ALL").is_some()
}
