//! Generating: the body becomes the work of an execution, everything else of the function stays.

use proc_macro2::TokenStream;
use quote::{ToTokens as _, quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Block, Stmt, parse_quote};

use super::plan::{OnUnknown, Plan, Scope};
use crate::duration::Time;
use crate::expand::{call, hidden, user_block};
use crate::target::Target;
use crate::valid::{Client, Key};

/// The function whose body runs once per key.
pub(super) fn expand(mut target: Target, plan: &Plan) -> TokenStream {
    let stmts = std::mem::take(&mut target.body().stmts);
    let wrapped = wrap(stmts, &target, plan);
    target.body().stmts = wrapped;
    target.function.into_token_stream()
}

/// The call is evaluated while the arguments are only borrowed; then the work takes them.
fn wrap(body: Vec<Stmt>, target: &Target, plan: &Plan) -> Vec<Stmt> {
    let krate = &plan.krate;
    let private = quote!(#krate::__private::idempotent);
    let (call, handle, result) = (hidden("__call"), hidden("__handle"), hidden("__result"));
    let call_expr = call_of(target, plan, &private);
    let body = user_block(body, target, plan.guard.as_ref(), &call_expr, &handle);
    let ty = target.returns.body_type();
    let values = quote_spanned!(ty.span()=> #private::values::<#ty>());
    let wrapped: Block = parse_quote!({
        let #call = #call_expr;
        #[allow(clippy::let_unit_value)]
        let #result: #ty = #private::run(#call, #values, move |#handle| #body).await;
        #result
    });
    wrapped.stmts
}

fn call_of(target: &Target, plan: &Plan, private: &TokenStream) -> TokenStream {
    let krate = &plan.krate;
    let shared = quote!(#krate::__private);
    let client = match &plan.client {
        Client::Given(expr) => {
            quote_spanned!(expr.span()=> #private::EngineSource::client(&(#expr)))
        }
        Client::State { value, ty } => {
            quote_spanned!(ty.span()=> #private::client_of_state::<#ty>(&#value))
        }
        Client::Global => quote!(#krate::idempotency::Idempotency::global()),
    };
    let scope = match &plan.scope {
        Scope::Global => quote!(::core::result::Result::Ok(#krate::idempotency::Scope::Global)),
        Scope::Of(scope) => {
            let scope = scope_of(scope, &shared);
            quote!(#private::scope(#scope))
        }
    };
    let key = call::key(&plan.key, &shared);
    let name = match &plan.name {
        Some(name) => quote!(#name),
        None => {
            let function = target.function.sig.ident.to_string();
            quote!(::core::concat!(::core::module_path!(), "::", #function))
        }
    };
    let fields =
        plan.fingerprint.iter().map(|value| quote_spanned!(value.span()=> .field(&(#value))));
    let ttl = plan.ttl.as_ref().map(|time| {
        let time = time_of(time);
        quote!(.ttl(#time))
    });
    let wait = plan.wait.as_ref().map(|time| {
        let time = time_of(time);
        quote!(.wait(#time))
    });
    let on_unknown = plan.on_unknown.map(|on_unknown| {
        let word = match on_unknown {
            OnUnknown::Reexecute => quote!(Reexecute),
            OnUnknown::Refuse => quote!(Refuse),
        };
        quote!(.on_unknown(#krate::idempotency::OnUnknown::#word))
    });
    let tx = plan.tx.as_ref().map(|tx| quote_spanned!(tx.span()=> .tx(&#tx)));
    quote! {
        #private::Call::new(#client, #scope, #key, #name) #(#fields)* #ttl #wait #on_unknown #tx
    }
}

/// An expression may be a `Scope`; a template never is.
fn scope_of(scope: &Key, shared: &TokenStream) -> TokenStream {
    match scope {
        Key::Expr(expr) if call::is_place(expr) => {
            quote_spanned!(expr.span()=> ::core::clone::Clone::clone(&#expr))
        }
        Key::Expr(expr) => quote_spanned!(expr.span()=> #expr),
        template => call::key(template, shared),
    }
}

fn time_of(time: &Time) -> TokenStream {
    match time {
        Time::Expr(expr) => quote_spanned!(expr.span()=> #expr),
        Time::Literal(duration) => call::duration_tokens(*duration),
    }
}
