//! Judging: options and function become a [`Plan`], or every error that was found.
//!
//! - `client`: the source of the client. `key`: the rules of `key` and `keys`.
//! - `uses`: the search for arguments in an expression.

pub(crate) mod client;
pub(crate) mod key;
mod uses;

use std::ops::RangeInclusive;

use proc_macro2::Ident;
use syn::{Expr, ExprLit, Lit, LitStr, Path, UnOp};

pub(crate) use self::client::Client;
pub(crate) use self::key::{Key, Keys, Part};
use crate::args::{Args, Given};
use crate::duration::{self, Time};
use crate::rules;
use crate::self_name;
use crate::target::{Returns, Target};

/// The code to generate, in parts; every rule has been checked.
pub(crate) struct Plan {
    pub(crate) krate: Path,
    pub(crate) keys: Keys,
    pub(crate) client: Client,
    pub(crate) sharing: Option<Sharing>,
    pub(crate) wait: Option<Time>,
    pub(crate) retries: Option<Expr>,
    pub(crate) lease: Option<Time>,
    pub(crate) hold: Option<Time>,
    pub(crate) min_hold: Option<Time>,
    pub(crate) admission: Option<Expr>,
    /// The function's path where it is not given.
    pub(crate) name: Option<LitStr>,
    pub(crate) guard: Option<Ident>,
    pub(crate) on_busy: Option<OnBusy>,
    pub(crate) on_lost: OnLost,
    pub(crate) when: Option<Expr>,
    pub(crate) reentrant: Option<Expr>,
}

/// The others who may hold the lock beside the function; nobody where it is not given.
pub(crate) enum Sharing {
    /// Any number of others who share it.
    Shared,
    /// So many in all.
    Permits(Expr),
}

/// The value to return when the lock was not had, or what makes it.
pub(crate) struct OnBusy {
    pub(crate) expr: Expr,
    /// A closure or a path is called with the error; anything else is the value.
    pub(crate) called: bool,
    /// It uses an argument, and so can't run once the body owned the arguments.
    pub(crate) uses_arguments: bool,
}

/// The fate of the body when the lock is lost.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum OnLost {
    Cancel,
    Report,
}

#[derive(Default)]
struct Options {
    key: Option<(Ident, Expr)>,
    keys: Option<(Ident, Expr)>,
    client: Option<Expr>,
    shared: Option<Ident>,
    permits: Option<(Ident, Expr)>,
    wait: Option<Time>,
    retries: Option<Expr>,
    lease: Option<Time>,
    hold: Option<Time>,
    min_hold: Option<(Ident, Time)>,
    admission: Option<Expr>,
    name: Option<LitStr>,
    guard: Option<Ident>,
    on_busy: Option<Expr>,
    on_lost: Option<OnLost>,
    when: Option<Expr>,
    reentrant: Option<Expr>,
    krate: Option<Path>,
}

pub(crate) fn plan(args: Args, target: &Target) -> syn::Result<Plan> {
    let mut errors = Errors::default();
    let options = sort(args, target, &mut errors);
    if let Some((name, _)) = &options.min_hold
        && (options.shared.is_some() || options.keys.is_some())
    {
        errors.add(syn::Error::new(name.span(), rules::MIN_HOLD_ALONE));
    }
    let keys = errors.keep(key::plan(options.key, options.keys, target));
    // A client that was given but refused has its error there; the state is not asked in its place.
    let client = errors.keep(client::plan(options.client, target));
    if matches!(target.returns, Returns::Response) && !rules::HAS_AXUM {
        let output = &target.function.sig.output;
        errors.add(syn::Error::new_spanned(output, rules::RESPONSE_WITHOUT_AXUM));
    }
    let sharing = errors.keep(sharing(options.shared, options.permits));
    let on_busy = options.on_busy.map(|expr| OnBusy {
        called: is_called(&expr),
        uses_arguments: uses_arguments(&expr, target),
        expr,
    });
    errors.none()?;
    let (Some(keys), Some(client), Some(sharing)) = (keys, client, sharing) else {
        unreachable!("what is missing has left an error");
    };
    Ok(Plan {
        krate: options.krate.unwrap_or_else(|| syn::parse_quote!(::lock_core)),
        keys,
        client,
        sharing,
        wait: options.wait,
        retries: options.retries,
        lease: options.lease,
        hold: options.hold,
        min_hold: options.min_hold.map(|(_, time)| time),
        admission: options.admission,
        name: options.name,
        guard: options.guard,
        on_busy,
        on_lost: options.on_lost.unwrap_or(OnLost::Cancel),
        when: options.when,
        reentrant: options.reentrant,
    })
}

fn sort(args: Args, target: &Target, errors: &mut Errors) -> Options {
    let mut options = Options::default();
    each_once(args, target, errors, |name, value, errors| match name.to_string().as_str() {
        "key" => options.key = Some((name, value)),
        "keys" => options.keys = Some((name, value)),
        "client" => options.client = Some(value),
        "shared" => options.shared = Some(name),
        "permits" => options.permits = Some((name, value)),
        option @ "wait" => options.wait = errors.keep(duration::parse(option, value)),
        option @ "lease" => options.lease = errors.keep(duration::parse(option, value)),
        option @ "hold" => options.hold = errors.keep(duration::parse(option, value)),
        option @ "min_hold" => {
            let time = errors.keep(duration::parse(option, value));
            options.min_hold = time.map(|time| (name, time));
        }
        option @ "admission" => options.admission = errors.keep(boolean(option, value)),
        "name" => options.name = errors.keep(name_text(value)),
        "retries" => {
            let retries = whole(value, 0..=rules::RETRIES_MAX, rules::RETRIES);
            options.retries = errors.keep(retries);
        }
        "guard" => options.guard = errors.keep(guard(&value)),
        "on_busy" => options.on_busy = Some(value),
        "on_lost" => options.on_lost = errors.keep(on_lost(&value)),
        "when" => options.when = Some(value),
        // The function has its form already.
        rules::BLOCKING => {}
        option @ "reentrant" => options.reentrant = errors.keep(boolean(option, value)),
        "crate" => options.krate = errors.keep(krate(value)),
        other => unreachable!("`{other}` is refused by the parser"),
    });
    options
}

/// Gives each value to `put`, which knows its place; an option's second value is an error.
pub(crate) fn each_once(
    args: Args,
    target: &Target,
    errors: &mut Errors,
    mut put: impl FnMut(Ident, Expr, &mut Errors),
) {
    let mut seen = Vec::new();
    for Given { name, value } in args.given {
        if seen.contains(&name) {
            errors.add(syn::Error::new(name.span(), rules::twice(&name.to_string())));
            continue;
        }
        seen.push(name.clone());
        // `self` has another name where async_trait has rewritten the function.
        put(name, self_name::rename(ungroup(value), target.receiver.as_ref()), errors);
    }
}

/// Takes off parentheses, and the invisible group in which a `macro_rules` macro hands on an
/// expression.
pub(crate) fn ungroup(value: Expr) -> Expr {
    match value {
        Expr::Group(group) => ungroup(*group.expr),
        Expr::Paren(paren) => ungroup(*paren.expr),
        other => other,
    }
}

fn sharing(shared: Option<Ident>, permits: Option<(Ident, Expr)>) -> syn::Result<Option<Sharing>> {
    match (shared, permits) {
        (Some(_), Some((name, _))) => Err(syn::Error::new(name.span(), rules::SHARED_AND_PERMITS)),
        (Some(_), None) => Ok(Some(Sharing::Shared)),
        (None, Some((_, value))) => {
            let permits = whole(value, 1..=rules::PERMITS_MAX, rules::PERMITS)?;
            Ok(Some(Sharing::Permits(permits)))
        }
        (None, None) => Ok(None),
    }
}

/// A number whose literal is within the bounds; an expression is judged by the acquire.
fn whole(value: Expr, bounds: RangeInclusive<u32>, rule: &str) -> syn::Result<Expr> {
    let refused = match &value {
        Expr::Lit(ExprLit { lit: Lit::Int(lit), .. }) => {
            lit.base10_parse().map_or(true, |number| !bounds.contains(&number))
        }
        Expr::Lit(_) => true,
        Expr::Unary(unary) => matches!(unary.op, UnOp::Neg(_)),
        _ => false,
    };
    if refused { Err(syn::Error::new_spanned(value, rule)) } else { Ok(value) }
}

pub(crate) fn name_text(value: Expr) -> syn::Result<LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(lit), .. }) if is_name(&lit.value()) => Ok(lit),
        other => Err(syn::Error::new_spanned(other, rules::NAME)),
    }
}

fn is_name(text: &str) -> bool {
    text.len() <= rules::NAME_BYTES_MAX && !text.contains(char::is_control)
}

fn boolean(option: &str, value: Expr) -> syn::Result<Expr> {
    match &value {
        Expr::Lit(ExprLit { lit: Lit::Bool(_), .. }) => Ok(value),
        Expr::Lit(_) => Err(syn::Error::new_spanned(value, rules::not_a_bool(option))),
        _ => Ok(value),
    }
}

pub(crate) fn guard(value: &Expr) -> syn::Result<Ident> {
    match value {
        Expr::Path(path) => path.path.get_ident().filter(|name| *name != "self").cloned(),
        _ => None,
    }
    .ok_or_else(|| syn::Error::new_spanned(value, rules::GUARD_NAME))
}

/// A closure, or the path of a function; a constant has a name in capitals.
fn is_called(on_busy: &Expr) -> bool {
    match on_busy {
        Expr::Closure(_) => true,
        Expr::Path(path) => path.path.segments.last().is_some_and(|last| {
            let name = last.ident.to_string();
            let is_constant = name.len() > 1 && !name.contains(|c: char| c.is_lowercase());
            !is_constant
        }),
        _ => false,
    }
}

fn on_lost(value: &Expr) -> syn::Result<OnLost> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(lit), .. }) if lit.value() == "cancel" => {
            Ok(OnLost::Cancel)
        }
        Expr::Lit(ExprLit { lit: Lit::Str(lit), .. }) if lit.value() == "report" => {
            Ok(OnLost::Report)
        }
        other => Err(syn::Error::new_spanned(other, rules::ON_LOST)),
    }
}

pub(crate) fn krate(value: Expr) -> syn::Result<Path> {
    match value {
        Expr::Path(path) if path.qself.is_none() => Ok(path.path),
        other => Err(syn::Error::new_spanned(other, rules::CRATE_PATH)),
    }
}

fn uses_arguments(expr: &Expr, target: &Target) -> bool {
    let names = target.bindings.iter().map(|binding| &binding.name).chain(&target.receiver);
    uses::uses(expr, names.map(Ident::to_string).collect())
}

/// The errors found so far: all are shown at once.
#[derive(Default)]
pub(crate) struct Errors(Option<syn::Error>);

impl Errors {
    pub(crate) fn add(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            none => *none = Some(error),
        }
    }

    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    pub(crate) fn none(self) -> syn::Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}
