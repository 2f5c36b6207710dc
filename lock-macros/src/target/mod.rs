//! The item that the attribute stands on: the function, what its body can name, and where the body
//! is.
//!
//! - `names`: the names that patterns bind. `returns`: the return type.
//! - `boxed`: the shape that `#[async_trait]` leaves.

mod boxed;
mod names;
mod returns;

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens as _;
use syn::ext::IdentExt as _;
use syn::{Block, FnArg, GenericParam, Item, ItemFn, Pat, Signature, Type};

pub(crate) use self::names::Binding;
pub(crate) use self::returns::Returns;
use crate::self_name::OwnType;
use crate::{rules, self_name};

/// The function and what was found out about it.
pub(crate) struct Target {
    pub(crate) function: ItemFn,
    pub(crate) shape: Shape,
    /// The named arguments, which the body owns and must be dropped with.
    pub(crate) bindings: Vec<Binding>,
    /// How the receiver is called where the key is evaluated: `self`, or async_trait's `__self`.
    pub(crate) receiver: Option<Ident>,
    /// Constant generics, which a key may name too.
    pub(crate) constants: Vec<Ident>,
    pub(crate) returns: Returns,
}

/// The form that the function must have.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// Async, else refused with this hint.
    AsyncOr(&'static str),
    /// Plain, as its thread stands still while it waits.
    Blocking,
}

/// The place of the body.
pub(crate) enum Shape {
    /// `fn f(..) { body }`, which blocks its thread.
    Plain,
    /// `async fn f(..) { body }`
    Async,
    /// `fn f(..) -> Pin<Box<dyn Future<..>>> { Box::pin(async move { .. }) }`, which is what
    /// `#[async_trait]` has made of an `async fn` by the time an attribute of the method runs.
    /// `rebound` if the arguments are bound again in front of the user's own block.
    Boxed { rebound: bool },
}

impl Target {
    /// Reads what `attribute` stands on.
    pub(crate) fn parse(item: TokenStream, attribute: &str, form: Form) -> syn::Result<Self> {
        let mut function = parse_function(item, attribute)?;
        let constants = function
            .sig
            .generics
            .params
            .iter()
            .filter_map(|param| match param {
                GenericParam::Const(param) => Some(param.ident.clone()),
                _ => None,
            })
            .collect();
        let returns = Returns::of_signature(&function.sig);
        let (shape, returns) = match (form, function.sig.asyncness) {
            (Form::AsyncOr(_), Some(_)) => (Shape::Async, returns),
            (Form::AsyncOr(hint), None) => {
                let output = boxed::output(&function.sig).cloned();
                let in_part = boxed::is_boxed_in_part(&mut function.block);
                match (output, boxed::async_block(&mut function.block)) {
                    (Some(output), Some(block)) => {
                        let rebound = boxed::user_body(block, &function.sig).is_some();
                        (Shape::Boxed { rebound }, Returns::of(output))
                    }
                    (Some(_), None) if in_part => {
                        let refusal = rules::boxed_in_part(attribute);
                        return Err(syn::Error::new_spanned(&function.block.stmts[0], refusal));
                    }
                    _ => {
                        let refusal = rules::not_async(attribute) + hint;
                        return Err(syn::Error::new_spanned(function.sig.fn_token, refusal));
                    }
                }
            }
            (Form::Blocking, Some(asyncness)) => {
                return Err(syn::Error::new_spanned(asyncness, rules::NOT_BLOCKING));
            }
            (Form::Blocking, None) if returns_future(&function.sig) => {
                return Err(syn::Error::new_spanned(&function.sig.output, rules::BLOCKING_FUTURE));
            }
            (Form::Blocking, None) => (Shape::Plain, returns),
        };
        let rebound = matches!(shape, Shape::Boxed { rebound: true });
        let mut bindings = Vec::new();
        let mut receiver = None;
        for arg in &mut function.sig.inputs {
            match arg {
                FnArg::Receiver(arg) => receiver = Some(Ident::new("self", arg.self_token.span)),
                // The local has its name.
                arg if rebound && boxed::is_moved(arg) => {}
                FnArg::Typed(arg) => names::take(&mut arg.pat, &arg.attrs, &mut bindings),
            }
        }
        if rebound && let Some(block) = boxed::async_block(&mut function.block) {
            boxed::take_locals(block, &mut bindings, &mut receiver);
        }
        Ok(Self { function, shape, bindings, receiver, constants, returns })
    }

    /// The block that is to run under the lock. It is to be replaced by one that does so.
    pub(crate) fn body(&mut self) -> &mut Block {
        match self.shape {
            Shape::Plain | Shape::Async => &mut self.function.block,
            Shape::Boxed { rebound } => {
                let ItemFn { sig, block, .. } = &mut self.function;
                let block = boxed::async_block(block).expect("seen by parse");
                if rebound { boxed::user_body(block, sig).expect("seen by parse") } else { block }
            }
        }
    }

    /// Arguments by type, for the search for `State`.
    pub(crate) fn typed_args(&self) -> impl Iterator<Item = (&Pat, &Type)> {
        self.function.sig.inputs.iter().filter_map(|arg| match arg {
            FnArg::Typed(arg) => Some((&*arg.pat, &*arg.ty)),
            FnArg::Receiver(_) => None,
        })
    }

    /// The argument, receiver or constant that a key calls `name`.
    pub(crate) fn named(&self, name: &str) -> Option<Ident> {
        if name == "self" {
            return self.receiver.clone();
        }
        let name = name.trim_start_matches("r#");
        self.arguments().find(|known| known.unraw() == name).cloned()
    }

    /// Everything that a key can name.
    pub(crate) fn names(&self) -> Vec<String> {
        let receiver = self.receiver.iter().map(|_| "self".to_owned());
        receiver.chain(self.arguments().map(Ident::to_string)).collect()
    }

    fn arguments(&self) -> impl Iterator<Item = &Ident> {
        let boxed = matches!(self.shape, Shape::Boxed { .. });
        let arguments = self.bindings.iter().map(|binding| &binding.name);
        arguments.chain(&self.constants).filter(move |name| !(boxed && boxed::is_made_up(name)))
    }

    /// Whether the function belongs to a type or trait, as far as it says so itself. A macro sees
    /// nothing around it.
    pub(crate) fn is_associated(&self) -> bool {
        self.receiver.is_some()
            || boxed::is_marked(&self.function.sig)
            || OwnType::is_said_by(&self.function)
    }

    /// Whether the body can tell one call from another.
    pub(crate) fn has_parameters(&self) -> bool {
        !self.function.sig.inputs.is_empty()
    }
}

/// Whether the return type names a future. A macro sees names only.
fn returns_future(sig: &Signature) -> bool {
    let futures = ["Future", "BoxFuture", "LocalBoxFuture"].map(str::to_owned);
    self_name::mentions(sig.output.to_token_stream(), &futures)
}

fn parse_function(item: TokenStream, attribute: &str) -> syn::Result<ItemFn> {
    match syn::parse2::<ItemFn>(item.clone()) {
        Ok(function) => Ok(function),
        Err(error) => Err(match syn::parse2::<syn::TraitItemFn>(item.clone()) {
            Ok(declared) => syn::Error::new_spanned(declared.sig, rules::no_body(attribute)),
            // A function that syn can't read has an error of its own, which says more than ours.
            Err(_) => match syn::parse2::<Item>(item.clone()) {
                Ok(_) => syn::Error::new_spanned(item, rules::not_a_function(attribute)),
                Err(_) => error,
            },
        }),
    }
}
