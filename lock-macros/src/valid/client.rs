//! The source of the client.

use syn::{Expr, GenericArgument, Pat, PathArguments, Type};

use crate::rules;
use crate::target::Target;

/// The source of the client.
pub(crate) enum Client {
    /// `client = expr`
    Given(Expr),
    /// The one `State(name): State<S>` argument, through `FromRef`.
    State { value: Expr, ty: Box<Type> },
    /// The installed one.
    Global,
}

pub(crate) fn plan(given: Option<Expr>, target: &Target) -> syn::Result<Client> {
    if let Some(expr) = given {
        return Ok(Client::Given(expr));
    }
    let states: Vec<_> =
        target.typed_args().filter_map(|(pat, ty)| Some((pat, ty, state_of(ty)?))).collect();
    let (pat, _, inner) = match states.as_slice() {
        [] => return Ok(Client::Global),
        [one] => *one,
        [_, second, ..] => return Err(syn::Error::new_spanned(second.1, rules::STATES)),
    };
    if !rules::HAS_AXUM {
        return Err(syn::Error::new_spanned(inner, rules::STATE_WITHOUT_AXUM));
    }
    let value =
        state_value(pat).ok_or_else(|| syn::Error::new_spanned(pat, rules::STATE_PATTERN))?;
    Ok(Client::State { value, ty: Box::new(inner.clone()) })
}

/// `S` of axum's `State<S>`, which a macro can only tell by its name.
fn state_of(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let segment = path.path.segments.last().filter(|segment| segment.ident == "State")?;
    let PathArguments::AngleBracketed(args) = &segment.arguments else { return None };
    match args.args.first() {
        Some(GenericArgument::Type(inner)) if args.args.len() == 1 => Some(inner),
        _ => None,
    }
}

/// The state as an expression: `state` of `State(state)`, `state.0` of `state: State<_>`.
fn state_value(pat: &Pat) -> Option<Expr> {
    match pat {
        Pat::Ident(name) => {
            let name = &name.ident;
            Some(syn::parse_quote!(#name.0))
        }
        Pat::TupleStruct(state) => match state.elems.first() {
            Some(Pat::Ident(inner)) if state.elems.len() == 1 => {
                let name = &inner.ident;
                Some(syn::parse_quote!(#name))
            }
            _ => None,
        },
        _ => None,
    }
}
