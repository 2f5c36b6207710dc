//! What compiles, what is refused, and with which words.

#[test]
fn everything_the_docs_promise_compiles_and_every_refusal_has_its_text() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/pass/*.rs");
    cases.compile_fail("tests/fail/*.rs");
}
