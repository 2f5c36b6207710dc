//! Generating: the body is wrapped, everything else of the function stays.

pub(crate) mod call;
mod failure;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{Block, Stmt, parse_quote};

use self::failure::Failure;
use crate::self_name;
use crate::target::{Binding, Returns, Shape, Target};
use crate::valid::{OnLost, Plan};

/// The function with its body under the lock.
pub(crate) fn expand(mut target: Target, plan: &Plan) -> TokenStream {
    let stmts = std::mem::take(&mut target.body().stmts);
    let wrapped = wrap(stmts, &target, plan);
    target.body().stmts = wrapped;
    target.function.into_token_stream()
}

/// A name that the user's code can't see.
pub(crate) fn hidden(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// The statements that take the lock and run `body`.
///
/// The order matters. The call (client, keys, options) is evaluated while the arguments are only
/// borrowed. The outer `async move` takes the arguments to where the guard will live, and the inner
/// one takes them on. So whatever drops the function drops the arguments before the guard.
fn wrap(body: Vec<Stmt>, target: &Target, plan: &Plan) -> Vec<Stmt> {
    let krate = &plan.krate;
    let private = quote!(#krate::__private);
    let (call, held, locked) = (hidden("__call"), hidden("__held"), hidden("__locked"));
    let (handle, error) = (hidden("__handle"), hidden("__error"));
    let (value, lost) = (hidden("__value"), hidden("__lost"));

    let call_expr = call::expr(target, plan, &private);
    let failure = Failure { plan, returns: &target.returns, private: &private };
    let on_acquire = failure.acquire(&error);
    let on_busy = plan.on_busy.as_ref().map(|on_busy| &on_busy.expr);
    let options = quote!(#call_expr #on_busy);
    let body = user_block(body, target, plan.guard.as_ref(), &options, &handle);
    let success = failure.success(&value);
    let guarded = match plan.on_lost {
        OnLost::Cancel => {
            let on_lost = failure.lost(&lost);
            quote! {
                match #private::Cancelled::new(#held, #body).await {
                    ::core::result::Result::Ok(#value) => #success,
                    ::core::result::Result::Err(#lost) => #on_lost,
                }
            }
        }
        OnLost::Report => quote!({
            let #value = #private::Reported::new(#held, #body).await;
            #success
        }),
    };
    let bind_handle =
        plan.guard.is_some().then(|| quote!(let #handle = #private::Held::handle(&#held);));
    let result_type = failure.result_type();
    let under_lock = quote! {
        async move {
            #[allow(clippy::let_unit_value)]
            let #locked: #result_type = match #private::Acquire::acquire(#call).await {
                ::core::result::Result::Err(#error) => #on_acquire,
                ::core::result::Result::Ok(#held) => {
                    #bind_handle
                    #guarded
                }
            };
            #locked
        }
    };
    let value = match target.shape {
        Shape::Plain => quote!(#private::wait(#under_lock)),
        Shape::Async | Shape::Boxed { .. } => quote!(#under_lock.await),
    };
    let wrapped: Block = parse_quote!({
        let #call = #call_expr;
        #value
    });
    wrapped.stmts
}

/// The user's block as a future that owns the named arguments. `guard` is the user's name for
/// `handle`; `options` is what the attribute says, for what it uses.
pub(crate) fn user_block(
    body: Vec<Stmt>,
    target: &Target,
    guard: Option<&Ident>,
    options: &TokenStream,
    handle: &Ident,
) -> TokenStream {
    let receiver =
        target.receiver.as_ref().filter(|receiver| *receiver == "self").map(|receiver| {
            // Naming it is what captures it; `self` can't be bound again.
            quote!(let _ = &#receiver;)
        });
    let arguments = target.bindings.iter().map(|Binding { name, mutability, cfgs }| {
        // An argument that an option uses is not unused, even if the body does not mention it.
        let used = self_name::mentions(options.clone(), &[name.to_string()])
            .then(|| quote!(#(#cfgs)* let _ = &#name;));
        quote! {
            #(#cfgs)*
            #[allow(
                clippy::no_effect_underscore_binding,
                clippy::shadow_same,
                clippy::used_underscore_binding
            )]
            let #mutability #name = #name;
            #used
        }
    });
    let guard = guard.map(|guard| quote!(let #guard = #handle;));
    let (fake, result) = (hidden("__fake"), hidden("__result"));
    let ty = target.returns.body_type();
    // Tells the compiler what `return` and `?` yield before it reads them, as a signature would.
    let hint = matches!(target.returns, Returns::Value(_)).then(|| {
        quote! {
            if let ::core::option::Option::Some(#fake) = ::core::option::Option::None::<#ty> {
                return #fake;
            }
        }
    });
    // The `let` ends the body's temporaries while the arguments still live, as in a plain function.
    quote! {
        async move {
            #hint
            #receiver
            #(#arguments)*
            #guard
            #[allow(clippy::diverging_sub_expression, clippy::let_unit_value)]
            let #result: #ty = { #(#body)* };
            #[allow(unreachable_code)]
            #result
        }
    }
}
