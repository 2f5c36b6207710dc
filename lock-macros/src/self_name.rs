//! `self` under another name: `#[async_trait]` moves the receiver into a local, and what the
//! attribute's options say about `self` has to follow. And [`OwnType`], the search for `Self`.

use proc_macro2::{Group, Ident, Spacing, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::visit::{self, Visit};
use syn::{Expr, Item, ItemFn, Macro};

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

/// The search for `Self`, which only a function that belongs to a type or trait can say.
#[derive(Default)]
pub(crate) struct OwnType {
    found: bool,
}

impl OwnType {
    pub(crate) fn is_said_by(function: &ItemFn) -> bool {
        let mut search = Self::default();
        search.visit_item_fn(function);
        search.found
    }

    pub(crate) fn is_said_in(expr: &Expr) -> bool {
        let mut search = Self::default();
        search.visit_expr(expr);
        search.found
    }
}

impl<'ast> Visit<'ast> for OwnType {
    // An item in the body has a `Self` of its own, and can't say that of the function.
    fn visit_item(&mut self, _: &'ast Item) {}

    fn visit_ident(&mut self, name: &'ast Ident) {
        self.found |= name == "Self";
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.found |= mentions(call.tokens.clone(), &["Self".to_owned()]);
        visit::visit_macro(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;
    use syn::parse_quote;

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

    #[test]
    fn self_is_found_where_it_is_that_of_the_function() {
        let said = |function: ItemFn| OwnType::is_said_by(&function);
        assert!(said(parse_quote!(
            async fn f() -> Result<Self, E> {
                make()
            }
        )));
        assert!(said(parse_quote!(
            async fn f(of: &[Self]) {}
        )));
        assert!(said(parse_quote!(
            async fn f<T: From<Self>>() {}
        )));
        assert!(said(parse_quote!(
            async fn f() {
                <Self as Trait>::make()
            }
        )));
        assert!(said(parse_quote!(
            async fn f() {
                vec![Self::N]
            }
        )));
        assert!(!said(parse_quote!(
            async fn f() {
                struct A;
                impl A {
                    fn new() -> Self {
                        A
                    }
                }
            }
        )));
        assert!(!said(parse_quote!(
            async fn f(of: SelfMade) {
                of.run()
            }
        )));
        assert!(OwnType::is_said_in(&parse_quote!(Self::client())));
        assert!(!OwnType::is_said_in(&parse_quote!(self::client())));
    }
}
