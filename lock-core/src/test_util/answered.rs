//! The answer to a question, as the engine gets it.

/// How often in a row a request may go without an answer, the last of which fails.
pub(super) const ASKED_MAX: u32 = 3;

/// The answer to a question. A store that does not answer in time is asked again, as the engine does. A
/// macro, as nobody can say of a closure that its future may be sent.
macro_rules! answered {
    ($what:expr, $ask:expr) => {{
        let mut asked = 1;
        loop {
            match $ask.await {
                Err(fault)
                    if fault.is_transient() && asked < $crate::test_util::answered::ASKED_MAX =>
                {
                    asked += 1;
                }
                answer => break answer.unwrap_or_else(|fault| panic!("{}: {fault}", $what)),
            }
        }
    }};
}
pub(super) use answered;
