//! The return type of the function, as far as a macro can see.

use quote::ToTokens as _;
use syn::visit_mut::{self, VisitMut};
use syn::{ReturnType, Signature, Type, TypeParamBound, parse_quote, parse_quote_spanned};

/// The return type of the function.
pub(crate) enum Returns {
    /// A type. Where it had `impl Trait` inside, it has `_`.
    Value(Box<Type>),
    /// `impl IntoResponse`: the body's own type, or a response about the lock.
    Response,
}

impl Returns {
    pub(crate) fn of_signature(sig: &Signature) -> Self {
        match &sig.output {
            // The function's name is what an error about the missing type should point at.
            ReturnType::Default => {
                Self::Value(Box::new(parse_quote_spanned!(sig.ident.span()=> ())))
            }
            ReturnType::Type(_, ty) => Self::of((**ty).clone()),
        }
    }

    pub(crate) fn of(mut ty: Type) -> Self {
        if let Type::ImplTrait(opaque) = &ty
            && opaque.bounds.iter().any(is_into_response)
        {
            return Self::Response;
        }
        Erase.visit_type_mut(&mut ty);
        Self::Value(Box::new(ty))
    }

    /// The type of the body, for a `let`; `_` where it has no name.
    pub(crate) fn body_type(&self) -> Type {
        match self {
            Self::Value(ty) => (**ty).clone(),
            Self::Response => parse_quote!(_),
        }
    }
}

fn is_into_response(bound: &TypeParamBound) -> bool {
    matches!(bound, TypeParamBound::Trait(bound)
        if bound.path.segments.last().is_some_and(|segment| segment.ident == "IntoResponse"))
}

struct Erase;

impl VisitMut for Erase {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        match ty {
            Type::ImplTrait(_) => *ty = parse_quote_spanned!(first_span(ty)=> _),
            _ => visit_mut::visit_type_mut(self, ty),
        }
    }
}

fn first_span(ty: &Type) -> proc_macro2::Span {
    ty.to_token_stream().into_iter().next().map_or_else(proc_macro2::Span::call_site, |t| t.span())
}
