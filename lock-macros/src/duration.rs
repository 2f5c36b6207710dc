//! Durations: literals are judged at compile time, anything else is an expression.

use std::time::Duration;

use syn::{Expr, ExprLit, Lit, UnOp};

use crate::rules;

/// The value of `wait`, `lease`, `hold`, `min_hold` or `ttl`.
pub(crate) enum Time {
    Literal(Duration),
    Expr(Expr),
}

pub(crate) fn parse(option: &str, value: Expr) -> syn::Result<Time> {
    match &value {
        Expr::Lit(ExprLit { lit: Lit::Str(lit), .. }) => text(option, &lit.value())
            .map(Time::Literal)
            .map_err(|e| syn::Error::new(lit.span(), e)),
        Expr::Lit(lit) => Err(syn::Error::new_spanned(lit, rules::duration_unit(option))),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => {
            Err(syn::Error::new_spanned(unary, rules::duration_negative(option)))
        }
        _ => Ok(Time::Expr(value)),
    }
}

fn text(option: &str, text: &str) -> Result<Duration, String> {
    let trimmed = text.trim();
    if trimmed.starts_with('-') {
        return Err(rules::duration_negative(option));
    }
    if !trimmed.is_empty() && trimmed.bytes().all(|b| b.is_ascii_digit()) {
        return Err(rules::duration_unit(option));
    }
    let duration = humantime::parse_duration(trimmed)
        .map_err(|why| rules::duration_text(option, text, &why.to_string()))?;
    if duration.is_zero() {
        return Err(rules::duration_zero(option));
    }
    if duration < rules::shortest(option).0 {
        return Err(rules::duration_too_short(option));
    }
    if duration > rules::longest(option).0 {
        return Err(rules::duration_too_long(option));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        assert_eq!(text("wait", "2s").unwrap(), Duration::from_secs(2));
        assert_eq!(text("wait", " 1m 30s ").unwrap(), Duration::from_secs(90));
        assert_eq!(text("wait", "250ms").unwrap(), Duration::from_millis(250));
    }

    #[test]
    fn what_is_too_short_for_an_option_is_refused() {
        for (option, short, good) in [("hold", "1ns", "1ms"), ("ttl", "999ms", "1s")] {
            assert!(text(option, short).unwrap_err().contains("at least"), "{option}");
            assert!(text(option, good).is_ok(), "{option}");
        }
        assert!(text("wait", "1ns").is_ok());
    }

    #[test]
    fn no_unit_no_time_and_no_sense_are_refused() {
        for bad in
            ["2", "", "0s", "0ms", "-1s", "2 parsecs", "soon", "25h", "99999999999999999999s"]
        {
            assert!(text("wait", bad).is_err(), "{bad} should be refused");
        }
    }
}
