//! Parsing: an attribute's text as a list of `option = value` and bare words, not judged yet.

use proc_macro2::Ident;
use syn::ext::IdentExt as _;
use syn::parse::ParseStream;
use syn::{Expr, Token, parse_quote_spanned};

use crate::rules;

/// One `option = value`. The value of a bare word is `true`.
pub(crate) struct Given {
    pub(crate) name: Ident,
    pub(crate) value: Expr,
}

/// The options in the order in which they were written.
pub(crate) struct Args {
    pub(crate) given: Vec<Given>,
}

impl Args {
    /// Reads the options of an attribute that has these.
    pub(crate) fn parse(input: ParseStream<'_>, options: &[&str]) -> syn::Result<Self> {
        let mut given = Vec::new();
        while !input.is_empty() {
            given.push(Given::parse(input, options)?);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(Self { given })
    }
}

impl Args {
    /// Whether this word was given.
    pub(crate) fn say(&self, word: &str) -> bool {
        self.given.iter().any(|given| given.name == word)
    }
}

impl Given {
    fn parse(input: ParseStream<'_>, options: &[&str]) -> syn::Result<Self> {
        // `crate` is a keyword, and so not an `Ident` to syn's plain parser.
        let name =
            Ident::parse_any(input).map_err(|e| syn::Error::new(e.span(), rules::OPTION_FORM))?;
        if !options.iter().any(|option| name == option) {
            let unknown = rules::unknown_option(&name.to_string(), options);
            return Err(syn::Error::new(name.span(), unknown));
        }
        let is_bare = !input.peek(Token![=]);
        if rules::BARE.iter().any(|word| name == word) {
            if !is_bare {
                return Err(syn::Error::new(name.span(), rules::not_bare(&name.to_string())));
            }
            let value = parse_quote_spanned!(name.span()=> true);
            return Ok(Self { name, value });
        }
        if is_bare {
            return Err(syn::Error::new(name.span(), rules::OPTION_FORM));
        }
        input.parse::<Token![=]>()?;
        Ok(Self { name, value: input.parse()? })
    }
}
