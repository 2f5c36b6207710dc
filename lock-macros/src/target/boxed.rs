//! The shape that `#[async_trait]` leaves.

use proc_macro2::Ident;
use syn::{
    Block, Expr, FnArg, GenericArgument, Pat, PatType, Path, PathArguments, ReturnType, Signature,
    Stmt, Type, TypeParamBound,
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

/// The block of the `Box::pin(async move { .. })` that all of `block` is.
pub(super) fn async_block(block: &mut Block) -> Option<&mut Block> {
    match block.stmts.as_mut_slice() {
        [only] => pinned(only),
        _ => None,
    }
}

/// Whether `block` does something itself and ends in such a future.
pub(super) fn is_boxed_in_part(block: &mut Block) -> bool {
    block.stmts.len() > 1 && block.stmts.last_mut().and_then(pinned).is_some()
}

fn pinned(stmt: &mut Stmt) -> Option<&mut Block> {
    let Stmt::Expr(Expr::Call(call), None) = stmt else { return None };
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
/// `let __ret: T = { .. }`, or of `let _: () = { .. }`.
///
/// Nothing if the block is of any other form, as when another attribute has wrapped it since, or
/// it was written by hand. Then the whole block is the body: what is outside of it would run
/// without the lock. Around the user's block async_trait has only moves of the arguments.
pub(super) fn user_body<'b>(block: &'b mut Block, sig: &Signature) -> Option<&'b mut Block> {
    let stmts = block.stmts.as_mut_slice();
    let valued = matches!(&*stmts, [hint, .., end] if is_hint(hint) && is_ret(end));
    let (made, moves) = match valued {
        true => stmts.split_last_mut()?.1.split_first_mut()?.1.split_last_mut()?,
        false => stmts.split_last_mut()?,
    };
    let made = if valued { ret_block(made)? } else { unit_block(made)? };
    let moved = sig.inputs.iter().filter(|arg| is_moved(arg)).count();
    (moves.len() == moved && moves.iter().all(is_move)).then_some(made)
}

/// Whether async_trait moves the argument into a local.
pub(super) fn is_moved(arg: &FnArg) -> bool {
    match arg {
        FnArg::Receiver(_) => true,
        FnArg::Typed(arg) => !matches!(*arg.ty, Type::Reference(_)),
    }
}

/// `if let Some(__ret) = None::<T> { return __ret; }`
fn is_hint(stmt: &Stmt) -> bool {
    let Stmt::Expr(Expr::If(hint), _) = stmt else { return false };
    let Expr::Let(condition) = &*hint.cond else { return false };
    let ends_in = |path: &Path, name| path.segments.last().is_some_and(|last| last.ident == name);
    matches!(&*condition.pat, Pat::TupleStruct(pat) if ends_in(&pat.path, "Some"))
        && matches!(&*condition.expr, Expr::Path(none) if ends_in(&none.path, "None"))
        && hint.else_branch.is_none()
}

/// `__ret`
fn is_ret(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Expr(Expr::Path(value), None) if value.path.is_ident("__ret"))
}

fn ret_block(stmt: &mut Stmt) -> Option<&mut Block> {
    made_block(stmt, |typed| matches!(&*typed.pat, Pat::Ident(pat) if pat.ident == "__ret"))
}

fn unit_block(stmt: &mut Stmt) -> Option<&mut Block> {
    made_block(stmt, |typed| {
        matches!(&*typed.pat, Pat::Wild(_))
            && matches!(&*typed.ty, Type::Tuple(unit) if unit.elems.is_empty())
    })
}

fn made_block(stmt: &mut Stmt, is_made: impl Fn(&PatType) -> bool) -> Option<&mut Block> {
    let Stmt::Local(local) = stmt else { return None };
    let Pat::Type(typed) = &local.pat else { return None };
    match &mut *local.init.as_mut()?.expr {
        Expr::Block(body) if body.label.is_none() && is_made(typed) => Some(&mut body.block),
        _ => None,
    }
}

/// `let __self = self`, `let x = x`, or `let (a, b) = { let __arg1 = __arg1; __arg1 }`, which older
/// ones write as `let (a, b) = __arg1`.
fn is_move(stmt: &Stmt) -> bool {
    let Stmt::Local(local) = stmt else { return false };
    match local.init.as_ref().map(|init| &*init.expr) {
        Some(Expr::Path(value)) => value.path.get_ident().is_some_and(|value| {
            let same = matches!(&local.pat, Pat::Ident(pat) if pat.ident == *value);
            same || value == "self" || is_made_up(value)
        }),
        Some(Expr::Block(moved)) => match moved.block.stmts.as_slice() {
            [first, Stmt::Expr(Expr::Path(value), None)] => {
                is_move(first) && value.path.get_ident().is_some_and(is_made_up)
            }
            _ => false,
        },
        _ => false,
    }
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
