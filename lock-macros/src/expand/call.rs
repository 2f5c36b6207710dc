//! The call: which locks, from which client, with which bounds.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::Expr;
use syn::spanned::Spanned as _;

use super::hidden;
use crate::duration::Time;
use crate::target::Target;
use crate::valid::{Client, Key, Keys, Part, Plan, Sharing};

/// The expression of the call; with `when`, of an `Option` of one.
pub(super) fn expr(target: &Target, plan: &Plan, private: &TokenStream) -> TokenStream {
    let client = client(&plan.client, plan, private);
    let keys = keys(&plan.keys, target, private);
    let options = [
        plan.sharing.as_ref().map(sharing),
        plan.wait.as_ref().map(|time| time_option("with_wait", time)),
        plan.retries.as_ref().map(|value| option("with_retries", value)),
        plan.lease.as_ref().map(|time| time_option("with_lease", time)),
        plan.hold.as_ref().map(|time| time_option("with_hold_limit", time)),
        plan.min_hold.as_ref().map(|time| time_option("with_min_hold", time)),
        plan.admission.as_ref().map(|value| option("with_admission", value)),
        plan.reentrant.as_ref().map(|value| option("with_reentrant", value)),
        Some(name(plan, target, private)),
    ];
    let options = options.into_iter().flatten();
    let (of, chosen) = (hidden("__client"), hidden("__options"));
    let call = quote!({
        let #of = #client;
        let #chosen = #private::options(#of.as_ref()) #(#options)*;
        #private::Call::new(#of, #keys, #chosen)
    });
    match &plan.when {
        None => call,
        // A `let` takes every expression without parentheses; an `if` does not.
        Some(when) => {
            let locks = hidden("__when");
            quote!({
                let #locks: ::core::primitive::bool = #when;
                if #locks {
                    ::core::option::Option::Some(#call)
                } else {
                    ::core::option::Option::None
                }
            })
        }
    }
}

fn option(name: &str, value: &Expr) -> TokenStream {
    let name = proc_macro2::Ident::new(name, proc_macro2::Span::mixed_site());
    quote_spanned!(value.span()=> .#name(#value))
}

fn sharing(sharing: &Sharing) -> TokenStream {
    match sharing {
        Sharing::Shared => quote!(.shared()),
        Sharing::Permits(of) => option("permits", of),
    }
}

fn name(plan: &Plan, target: &Target, private: &TokenStream) -> TokenStream {
    match &plan.name {
        Some(name) => quote!(.with_name(#name)),
        None => {
            let function = target.function.sig.ident.to_string();
            let path = quote!(::core::concat!(::core::module_path!(), "::", #function));
            quote!(.with_name(#private::function_name(#path)))
        }
    }
}

fn time_option(name: &str, time: &Time) -> TokenStream {
    match time {
        Time::Expr(expr) => option(name, expr),
        Time::Literal(duration) => {
            let name = proc_macro2::Ident::new(name, proc_macro2::Span::mixed_site());
            let duration = duration_tokens(*duration);
            quote!(.#name(#duration))
        }
    }
}

pub(crate) fn duration_tokens(duration: Duration) -> TokenStream {
    let (secs, nanos) = (duration.as_secs(), duration.subsec_nanos());
    quote!(::core::time::Duration::new(#secs, #nanos))
}

fn client(client: &Client, plan: &Plan, private: &TokenStream) -> TokenStream {
    let krate = &plan.krate;
    match client {
        Client::Given(expr) => {
            quote_spanned!(expr.span()=> #private::ClientSource::client(&(#expr)))
        }
        Client::State { value, ty } => {
            quote_spanned!(ty.span()=> #private::client_of_state::<#ty>(&#value))
        }
        Client::Global => quote!(#krate::LockClient::global()),
    }
}

fn keys(keys: &Keys, target: &Target, private: &TokenStream) -> TokenStream {
    match keys {
        Keys::One(key_plan) => {
            let key = key(key_plan, private);
            quote!(#private::OneKey::new(#key))
        }
        Keys::List(list) => {
            let list = list.iter().map(|one| key(one, private));
            quote!(#private::KeySet::collect([#(#list),*]))
        }
        Keys::Iterated(expr) => quote_spanned!(expr.span()=> #private::KeySet::collect(#expr)),
        Keys::Function => {
            let name = target.function.sig.ident.to_string();
            quote!(#private::OneKey::new(#private::function_key(::core::module_path!(), #name)))
        }
    }
}

/// An expression of `Result<Key, KeyError>`.
pub(crate) fn key(key: &Key, private: &TokenStream) -> TokenStream {
    match key {
        // The body owns the arguments, so a key that is one, or a part of one, must not take it.
        Key::Expr(expr) if is_place(expr) => {
            quote_spanned!(expr.span()=> #private::key(::core::clone::Clone::clone(&#expr)))
        }
        Key::Expr(expr) => quote_spanned!(expr.span()=> #private::key(#expr)),
        Key::Template(parts) => {
            let parts = parts.iter().map(|part| match part {
                Part::Text(text) => quote!(.text(#text)),
                Part::Value(value) => quote_spanned!(value.span()=> .value(&(#value))),
            });
            quote!(#private::KeyParts::new() #(#parts)* .finish())
        }
    }
}

pub(crate) fn is_place(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) => true,
        Expr::Field(field) => is_place(&field.base),
        _ => false,
    }
}
