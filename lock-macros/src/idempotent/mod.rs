//! `#[idempotent]`: the same parsing and templates as `#[distributed_lock]`, other options.
//!
//! - `plan`: options and function become a plan. `rules`: the texts of its refusals.
//! - `expand`: the code of a plan.

mod expand;
mod plan;
mod rules;

use proc_macro2::{Span, TokenStream};
use syn::parse::{ParseStream, Parser as _};

use crate::args::Args;
use crate::rules::{HAS_IDEMPOTENT, WITHOUT_IDEMPOTENT};
use crate::target::{Form, Target};

pub(crate) fn generate(args: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    if !HAS_IDEMPOTENT {
        return Err(syn::Error::new(Span::call_site(), WITHOUT_IDEMPOTENT));
    }
    let target = Target::parse(item, "idempotent", Form::AsyncOr(""))?;
    let args = (|input: ParseStream<'_>| Args::parse(input, &rules::OPTIONS)).parse2(args)?;
    let plan = plan::plan(args, &target)?;
    Ok(expand::expand(target, &plan))
}
