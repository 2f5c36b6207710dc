//! What is refused, and with which words. What compiles is in `compiles/`.

#[test]
fn every_refusal_has_its_text() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/fail/*.rs");
}
