//! A process that holds locks on command, to be frozen and killed by tests; see
//! [`tests::worker::program`].

/// One thread, so that `block` blocks everything that the client does.
#[tokio::main(flavor = "current_thread")]
async fn main() {
    tests::worker::program::run(std::env::args_os()).await;
}
