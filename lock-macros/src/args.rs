//! Parsing: the attribute's text as a list of `option = value`, not judged yet.

use proc_macro2::Ident;
use syn::ext::IdentExt as _;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Token};

use crate::rules;

/// One `option = value`.
pub(crate) struct Given {
    pub(crate) name: Ident,
    pub(crate) value: Expr,
}

/// The options in the order in which they were written.
pub(crate) struct Args {
    pub(crate) given: Vec<Given>,
}

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut given = Vec::new();
        while !input.is_empty() {
            given.push(input.parse()?);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(Self { given })
    }
}

impl Parse for Given {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        // `crate` is a keyword, and so not an `Ident` to syn's plain parser.
        let name =
            Ident::parse_any(input).map_err(|e| syn::Error::new(e.span(), rules::OPTION_FORM))?;
        if !rules::OPTIONS.iter().any(|option| name == option) {
            return Err(syn::Error::new(name.span(), rules::unknown_option(&name.to_string())));
        }
        if !input.peek(Token![=]) {
            return Err(syn::Error::new(name.span(), rules::OPTION_FORM));
        }
        input.parse::<Token![=]>()?;
        Ok(Self { name, value: input.parse()? })
    }
}
