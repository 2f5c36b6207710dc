//! Judging: options and function become a [`Plan`], or every error that was found.

use proc_macro2::{Ident, Span};
use syn::{Expr, ExprLit, Lit, LitStr, Path};

use super::rules;
use crate::args::Args;
use crate::duration::{self, Time};
use crate::self_name::OwnType;
use crate::target::{Returns, Target};
use crate::valid::{self, Client, Errors, Key};

/// The code to generate, in parts; every rule has been checked.
pub(super) struct Plan {
    pub(super) krate: Path,
    pub(super) key: Key,
    pub(super) scope: Scope,
    pub(super) client: Client,
    pub(super) ttl: Option<Time>,
    pub(super) fingerprint: Vec<Expr>,
    pub(super) wait: Option<Time>,
    pub(super) on_unknown: Option<OnUnknown>,
    pub(super) guard: Option<Ident>,
    /// The argument that is a transaction.
    pub(super) tx: Option<Ident>,
    /// The function's path where it is not given, which is none of a method.
    pub(super) name: Option<LitStr>,
}

/// The owner of the keys.
pub(super) enum Scope {
    /// The word `global`.
    Global,
    Of(Key),
}

/// The choice where an earlier call left no outcome.
#[derive(Clone, Copy)]
pub(super) enum OnUnknown {
    Reexecute,
    Refuse,
}

#[derive(Default)]
struct Options {
    key: Option<Expr>,
    scope: Option<Expr>,
    client: Option<Expr>,
    ttl: Option<Time>,
    fingerprint: Vec<Expr>,
    wait: Option<Time>,
    on_unknown: Option<OnUnknown>,
    guard: Option<Ident>,
    tx: Option<Ident>,
    name: Option<LitStr>,
    krate: Option<Path>,
}

pub(super) fn plan(args: Args, target: &Target) -> syn::Result<Plan> {
    let mut errors = Errors::default();
    let associated =
        target.is_associated() || args.given.iter().any(|given| OwnType::is_said_in(&given.value));
    if associated && !args.say("name") {
        errors.add(syn::Error::new_spanned(&target.function.sig.ident, rules::NAME_MISSING));
    }
    let options = sort(args, target, &mut errors);
    let missing = |text| Err(syn::Error::new(Span::call_site(), text));
    let key = match options.key {
        Some(key) => valid::key::one(key, target),
        None => missing(rules::KEY_MISSING),
    };
    let key = errors.keep(key);
    let scope = match options.scope {
        Some(scope) => scope_of(scope, target),
        None => Err(syn::Error::new(Span::call_site(), rules::SCOPE_MISSING)),
    };
    let scope = errors.keep(scope);
    let client = errors.keep(valid::client::plan(options.client, target));
    if let Returns::Response = target.returns {
        errors.add(syn::Error::new_spanned(&target.function.sig.output, rules::RETURNS_OPAQUE));
    }
    errors.none()?;
    let (Some(key), Some(scope), Some(client)) = (key, scope, client) else {
        unreachable!("what is missing has left an error");
    };
    Ok(Plan {
        krate: options.krate.unwrap_or_else(|| syn::parse_quote!(::lock_core)),
        key,
        scope,
        client,
        ttl: options.ttl,
        fingerprint: options.fingerprint,
        wait: options.wait,
        on_unknown: options.on_unknown,
        guard: options.guard,
        tx: options.tx,
        name: options.name,
    })
}

fn sort(args: Args, target: &Target, errors: &mut Errors) -> Options {
    let mut options = Options::default();
    valid::each_once(args, target, errors, |name, value, errors| match name.to_string().as_str() {
        "key" => options.key = Some(value),
        "scope" => options.scope = Some(value),
        "client" => options.client = Some(value),
        option @ "ttl" => options.ttl = errors.keep(duration::parse(option, value)),
        option @ "wait" => options.wait = errors.keep(duration::parse(option, value)),
        "fingerprint" => {
            options.fingerprint = errors.keep(fingerprint(value)).unwrap_or_default();
        }
        "on_unknown" => options.on_unknown = errors.keep(on_unknown(&value)),
        "guard" => options.guard = errors.keep(valid::guard(&value)),
        "tx" => options.tx = errors.keep(tx(&value)),
        "name" => options.name = errors.keep(valid::name_text(value)),
        "crate" => options.krate = errors.keep(valid::krate(value)),
        other => unreachable!("`{other}` is refused by the parser"),
    });
    options
}

fn scope_of(value: Expr, target: &Target) -> syn::Result<Scope> {
    match &value {
        Expr::Path(path) if path.path.is_ident("global") => Ok(Scope::Global),
        _ => valid::key::one(value, target).map(Scope::Of),
    }
}

/// The values of `(a, b)`, or the one.
fn fingerprint(value: Expr) -> syn::Result<Vec<Expr>> {
    match value {
        Expr::Tuple(tuple) if tuple.elems.is_empty() => {
            Err(syn::Error::new_spanned(tuple, rules::FINGERPRINT_EMPTY))
        }
        Expr::Tuple(tuple) => Ok(tuple.elems.into_iter().collect()),
        one => Ok(vec![one]),
    }
}

fn on_unknown(value: &Expr) -> syn::Result<OnUnknown> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(lit), .. }) if lit.value() == "reexecute" => {
            Ok(OnUnknown::Reexecute)
        }
        Expr::Lit(ExprLit { lit: Lit::Str(lit), .. }) if lit.value() == "refuse" => {
            Ok(OnUnknown::Refuse)
        }
        other => Err(syn::Error::new_spanned(other, rules::ON_UNKNOWN)),
    }
}

fn tx(value: &Expr) -> syn::Result<Ident> {
    let name = match value {
        Expr::Path(path) => path.path.get_ident().filter(|name| *name != "self").cloned(),
        _ => None,
    };
    name.ok_or_else(|| syn::Error::new_spanned(value, rules::TX_NAME))
}
