//! The shape that `#[async_trait]` leaves.

use proc_macro2::Ident;
use syn::{
    Block, Expr, GenericArgument, Pat, PathArguments, ReturnType, Signature, Stmt, Type,
    TypeParamBound,
};

use super::names::{self, Binding};

/// `T` of `-> Pin<Box<dyn Future<Output = T> + ..>>`.
pub(super) fn output(sig: &Signature) -> Option<&Type> {
    let ReturnType::Type(_, ty) = &sig.output else { return None };
    let Type::TraitObject(future) = argument(argument(ty, "Pin")?, "Box")? else { return None };
    future.bounds.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else { return None };
        let segment = bound.path.segments.last().filter(|segment| segment.ident == "Future")?;
        let PathArguments::AngleBracketed(args) = &segment.arguments else { return None };
        args.args.iter().find_map(|arg| match arg {
            GenericArgument::AssocType(output) if output.ident == "Output" => Some(&output.ty),
            _ => None,
        })
    })
}

fn argument<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let Type::Path(path) = ty else { return None };
    let segment = path.path.segments.last().filter(|segment| segment.ident == name)?;
    let PathArguments::AngleBracketed(args) = &segment.arguments else { return None };
    args.args.iter().find_map(|arg| match arg {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// The block of the `Box::pin(async move { .. })` that ends `block`.
pub(super) fn async_block(block: &mut Block) -> Option<&mut Block> {
    let Some(Stmt::Expr(Expr::Call(call), None)) = block.stmts.last_mut() else { return None };
    let Expr::Path(callee) = &*call.func else { return None };
    let mut names = callee.path.segments.iter().rev().map(|segment| &segment.ident);
    if names.next()? != "pin" || names.next()? != "Box" {
        return None;
    }
    match call.args.first_mut()? {
        Expr::Async(inner) => Some(&mut inner.block),
        _ => None,
    }
}

/// The block that the user wrote, inside of the block that async_trait made: the initialiser of
/// `let __ret: T = { .. }`, or of `let _: () = { .. }`. Nothing if another attribute has wrapped
/// it since; then the whole block is the body.
pub(super) fn user_body(block: &mut Block) -> Option<&mut Block> {
    block.stmts.iter_mut().find_map(|stmt| {
        let Stmt::Local(local) = stmt else { return None };
        let Pat::Type(typed) = &local.pat else { return None };
        let made = match &*typed.pat {
            Pat::Ident(pat) => pat.ident == "__ret",
            Pat::Wild(_) => true,
            _ => false,
        };
        match local.init.as_mut().map(|init| &mut *init.expr) {
            Some(Expr::Block(body)) if made => Some(&mut body.block),
            _ => None,
        }
    })
}

/// Collects what async_trait binds in front of the user's block: the arguments once more, with
/// their patterns, and `__self`.
pub(super) fn take_locals(
    block: &mut Block,
    bindings: &mut Vec<Binding>,
    receiver: &mut Option<Ident>,
) {
    for stmt in &mut block.stmts {
        let Stmt::Local(local) = stmt else { continue };
        if matches!(local.pat, Pat::Type(_)) {
            break;
        }
        if let (Pat::Ident(pat), Some(init)) = (&local.pat, &local.init)
            && matches!(&*init.expr, Expr::Path(path) if path.path.is_ident("self"))
        {
            *receiver = Some(pat.ident.clone());
        }
        names::take(&mut local.pat, &local.attrs, bindings);
    }
}

/// Whether the signature has the lifetime that async_trait adds to each.
pub(super) fn is_marked(sig: &Signature) -> bool {
    sig.generics.lifetimes().any(|param| param.lifetime.ident == "async_trait")
}

/// Whether async_trait made up the name: `__self`, or `__arg1` for an argument with a pattern.
pub(super) fn is_made_up(name: &Ident) -> bool {
    let name = name.to_string();
    name == "__self" || name.strip_prefix("__arg").is_some_and(|n| n.parse::<u32>().is_ok())
}
