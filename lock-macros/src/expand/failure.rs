//! The function's value when the lock was not had, or not kept.

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::Type;
use syn::spanned::Spanned as _;

use crate::target::Returns;
use crate::valid::{OnBusy, Plan};

pub(super) struct Failure<'a> {
    pub(super) plan: &'a Plan,
    pub(super) returns: &'a Returns,
    pub(super) private: &'a TokenStream,
}

impl Failure<'_> {
    /// The type of the function's value, as far as it can be written down.
    pub(super) fn result_type(&self) -> TokenStream {
        let private = self.private;
        match self.returns {
            Returns::Value(ty) => quote!(#ty),
            Returns::Response => quote!(#private::Answer<_>),
        }
    }

    /// The body's value as the function's.
    pub(super) fn success(&self, value: &Ident) -> TokenStream {
        let private = self.private;
        match self.returns {
            Returns::Value(_) => quote!(#value),
            Returns::Response => quote!(#private::Answer::Body(#value)),
        }
    }

    /// The lock was not acquired: `error` is the `AcquireError`.
    pub(super) fn acquire(&self, error: &Ident) -> TokenStream {
        match &self.plan.on_busy {
            Some(on_busy) => self.answered(on_busy, quote!(#error)),
            None => self.converted(quote!(#error)),
        }
    }

    /// The lock was lost and the body dropped: `lost` is the `LostError`.
    pub(super) fn lost(&self, lost: &Ident) -> TokenStream {
        let krate = &self.plan.krate;
        let error = quote!(#krate::AcquireError::Lost(#lost));
        match &self.plan.on_busy {
            // The arguments went into the body, and are gone with it.
            Some(on_busy) if !on_busy.uses_arguments => self.answered(on_busy, error),
            _ => self.converted(error),
        }
    }

    fn answered(&self, on_busy: &OnBusy, error: TokenStream) -> TokenStream {
        let private = self.private;
        let expr = &on_busy.expr;
        let value = if on_busy.called {
            let ty = match self.returns {
                Returns::Value(ty) => quote!(#ty),
                Returns::Response => quote!(_),
            };
            quote_spanned!(expr.span()=> #private::answer::<#ty, _>(#expr, #error))
        } else {
            quote!({
                let _ = #error;
                #expr
            })
        };
        match self.returns {
            Returns::Value(_) => value,
            Returns::Response => quote!(#private::Answer::failed(#value)),
        }
    }

    fn converted(&self, error: TokenStream) -> TokenStream {
        let private = self.private;
        match self.returns {
            Returns::Value(ty) => from_lock_error(ty, private, &error),
            Returns::Response => quote!(#private::Answer::failed(#error)),
        }
    }
}

fn from_lock_error(ty: &Type, private: &TokenStream, error: &TokenStream) -> TokenStream {
    quote_spanned! {ty.span()=>
        <#ty as #private::FromLockError>::from_lock_error(#error)
    }
}
