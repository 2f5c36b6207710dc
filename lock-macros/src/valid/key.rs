//! The rules of `key` and `keys`.

use proc_macro2::{Ident, Span};
use syn::{Expr, ExprLit, Index, Lit, LitStr, Member};

use crate::rules;
use crate::target::Target;
use crate::template::{self, Hole, Piece};

/// The keys that are locked.
pub(crate) enum Keys {
    /// The function's own path: it has no parameters and no `key`.
    Function,
    One(Key),
    /// `keys = [..]`
    List(Vec<Key>),
    /// `keys = expr`, whatever it iterates over.
    Iterated(Expr),
}

/// One key.
pub(crate) enum Key {
    Template(Vec<Part>),
    Expr(Expr),
}

/// A piece of a template with its values in place.
pub(crate) enum Part {
    Text(LitStr),
    Value(Expr),
}

pub(super) fn plan(
    key: Option<(Ident, Expr)>,
    keys: Option<(Ident, Expr)>,
    target: &Target,
) -> syn::Result<Keys> {
    match (key, keys) {
        (Some(_), Some((name, _))) => Err(syn::Error::new(name.span(), rules::KEY_AND_KEYS)),
        (Some((_, value)), None) => one(value, target).map(Keys::One),
        (None, Some((_, Expr::Array(list)))) if list.elems.is_empty() => {
            Err(syn::Error::new_spanned(list, rules::KEYS_EMPTY))
        }
        (None, Some((_, Expr::Array(list)))) => {
            let mut errors = super::Errors::default();
            let keys =
                list.elems.into_iter().filter_map(|key| errors.keep(one(key, target))).collect();
            errors.none()?;
            Ok(Keys::List(keys))
        }
        (None, Some((_, expr))) => Ok(Keys::Iterated(expr)),
        (None, None) if target.has_parameters() => {
            Err(syn::Error::new(Span::call_site(), rules::KEY_MISSING))
        }
        (None, None) => Ok(Keys::Function),
    }
}

pub(crate) fn one(value: Expr, target: &Target) -> syn::Result<Key> {
    match super::ungroup(value) {
        Expr::Lit(ExprLit { lit: Lit::Str(lit), .. }) => build(&lit, None, target),
        Expr::Tuple(tuple) => {
            let mut elems = tuple.elems.iter().cloned().map(super::ungroup);
            match elems.next() {
                Some(Expr::Lit(ExprLit { lit: Lit::Str(lit), .. })) => {
                    build(&lit, Some(elems.collect()), target)
                }
                _ => Err(syn::Error::new_spanned(tuple, rules::KEY_TUPLE)),
            }
        }
        expr => Ok(Key::Expr(expr)),
    }
}

/// Puts the values into the template. Only the tuple form has `values`.
fn build(lit: &LitStr, values: Option<Vec<Expr>>, target: &Target) -> syn::Result<Key> {
    let pieces = template::parse(lit)?;
    let refuse = |text: String| syn::Error::new(lit.span(), text);
    if pieces.is_empty() {
        return Err(refuse(rules::KEY_EMPTY.into()));
    }
    let bytes = template::text_bytes(&pieces);
    if bytes > rules::KEY_BYTES_MAX {
        return Err(refuse(rules::key_too_long(bytes)));
    }
    if let Some((first, second)) = template::shared_segment(&pieces) {
        return Err(refuse(rules::shared_segment(&first.to_string(), &second.to_string())));
    }
    let in_tuple = values.is_some();
    let mut values = Values::new(values.unwrap_or_default());
    let mut parts = Vec::new();
    for piece in pieces {
        parts.push(match piece {
            Piece::Text(text) => Part::Text(LitStr::new(&text, lit.span())),
            Piece::Hole(Hole::Path(names)) => Part::Value(argument(&names, lit, target)?),
            Piece::Hole(hole) if !in_tuple => {
                return Err(refuse(rules::positional(&hole.to_string())));
            }
            Piece::Hole(Hole::Index(index)) => Part::Value(values.at(index).map_err(refuse)?),
            Piece::Hole(Hole::Next) => Part::Value(values.next().map_err(refuse)?),
        });
    }
    match values.unused() {
        Some((index, value)) => Err(syn::Error::new_spanned(value, rules::hole_unused(index))),
        None => Ok(Key::Template(parts)),
    }
}

/// `a.b.0` as an expression, if `a` is an argument.
fn argument(names: &[String], lit: &LitStr, target: &Target) -> syn::Result<Expr> {
    // The literal's span makes the name mean what it means where the literal was written.
    let span = lit.span();
    let (root, fields) = names.split_first().expect("a path has a first name");
    let mut root = target
        .named(root)
        .ok_or_else(|| syn::Error::new(span, rules::unknown_name(root, &target.names())))?;
    // `self` is the exception: only the function's own token is its receiver.
    if !names[0].eq("self") {
        root.set_span(span);
    }
    let mut expr: Expr = syn::parse_quote!(#root);
    for field in fields {
        let member = match field.parse::<u32>() {
            Ok(index) => Member::Unnamed(Index { index, span }),
            Err(_) => {
                let mut name = syn::parse_str::<Ident>(field)?;
                name.set_span(span);
                Member::Named(name)
            }
        };
        expr = syn::parse_quote!(#expr.#member);
    }
    Ok(expr)
}

/// The values of the tuple form, each of which has exactly one place.
struct Values {
    values: Vec<(Expr, bool)>,
    next: usize,
}

impl Values {
    fn new(values: Vec<Expr>) -> Self {
        Self { values: values.into_iter().map(|value| (value, false)).collect(), next: 0 }
    }

    fn next(&mut self) -> Result<Expr, String> {
        self.next += 1;
        self.at(self.next - 1)
    }

    fn at(&mut self, index: usize) -> Result<Expr, String> {
        let count = self.values.len();
        match self.values.get_mut(index) {
            None => Err(rules::hole_count(index + 1, count)),
            Some((_, true)) => Err(rules::hole_twice(index)),
            Some((value, used)) => {
                *used = true;
                Ok(value.clone())
            }
        }
    }

    fn unused(&self) -> Option<(usize, &Expr)> {
        let at = self.values.iter().position(|(_, used)| !used)?;
        Some((at, &self.values[at].0))
    }
}
