//! `self` under another name: `#[async_trait]` moves the receiver into a local, and what the
//! attribute's options say about `self` has to follow.

use proc_macro2::{Group, Ident, Spacing, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::Expr;

/// `expr` with `receiver` for `self`. Works on tokens, so that it reaches into macro calls.
pub(crate) fn rename(expr: Expr, receiver: Option<&Ident>) -> Expr {
    match receiver {
        Some(receiver) if receiver != "self" => {
            let tokens = replace(expr.to_token_stream(), receiver);
            syn::parse2(tokens).unwrap_or(expr)
        }
        _ => expr,
    }
}

fn replace(tokens: TokenStream, receiver: &Ident) -> TokenStream {
    let mut tokens = tokens.into_iter().peekable();
    let mut replaced = TokenStream::new();
    while let Some(token) = tokens.next() {
        // `self::name` is a path into the module.
        let is_path = matches!(tokens.peek(), Some(TokenTree::Punct(punct))
            if punct.as_char() == ':' && punct.spacing() == Spacing::Joint);
        replaced.extend([match token {
            TokenTree::Ident(ident) if ident == "self" && !is_path => {
                let mut renamed = receiver.clone();
                renamed.set_span(receiver.span().located_at(ident.span()));
                TokenTree::Ident(renamed)
            }
            TokenTree::Group(group) => {
                let mut inside = Group::new(group.delimiter(), replace(group.stream(), receiver));
                inside.set_span(group.span());
                TokenTree::Group(inside)
            }
            other => other,
        }]);
    }
    replaced
}

/// Whether `tokens` say one of `names` at any depth, be it inside of a format string.
pub(crate) fn mentions(tokens: TokenStream, names: &[String]) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => names.iter().any(|name| ident == name),
        TokenTree::Group(group) => mentions(group.stream(), names),
        TokenTree::Literal(literal) => {
            let text = literal.to_string();
            names.iter().any(|name| text.contains(&format!("{{{name}")))
        }
        TokenTree::Punct(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    #[test]
    fn self_is_renamed_wherever_it_is_the_receiver() {
        let receiver = Ident::new("__self", proc_macro2::Span::call_site());
        let renamed = replace(quote!(f(self.a, vec![self], self::b, &self)), &receiver);
        let expected = quote!(f(__self.a, vec![__self], self::b, &__self));
        assert_eq!(renamed.to_string(), expected.to_string());
    }

    #[test]
    fn a_name_is_found_in_groups_and_format_strings() {
        let names = ["sku".to_owned()];
        assert!(mentions(quote!(|e| busy(&sku, e)), &names));
        assert!(mentions(quote!(|_| format!("no {sku:?}")), &names));
        assert!(!mentions(quote!(|_| "sku"), &names));
    }
}
