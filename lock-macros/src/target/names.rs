//! The names that patterns bind.

use proc_macro2::Ident;
use syn::visit_mut::VisitMut;
use syn::{Attribute, Pat, PatIdent, Token};

/// A name that the body owns.
pub(crate) struct Binding {
    pub(crate) name: Ident,
    pub(crate) mutability: Option<Token![mut]>,
    /// `#[cfg(..)]` of the argument, which the compiler has not judged yet.
    pub(crate) cfgs: Vec<Attribute>,
}

/// Collects what `pat` binds, and takes the `mut` out of it. The name is bound again, with the
/// `mut`, where the body starts; here it would be reported as needlessly mutable.
pub(crate) fn take(pat: &mut Pat, attrs: &[Attribute], bindings: &mut Vec<Binding>) {
    let cfgs = attrs.iter().filter(|attr| attr.path().is_ident("cfg")).cloned().collect();
    Names { cfgs, bindings }.visit_pat_mut(pat);
}

struct Names<'a> {
    cfgs: Vec<Attribute>,
    bindings: &'a mut Vec<Binding>,
}

impl VisitMut for Names<'_> {
    fn visit_pat_ident_mut(&mut self, pat: &mut PatIdent) {
        // `ref mut` is about the reference, not about the name.
        let mutability = if pat.by_ref.is_some() { None } else { pat.mutability.take() };
        // An argument overrides a name that was seen before: async_trait binds its arguments again.
        self.bindings.retain(|binding| binding.name != pat.ident);
        self.bindings.push(Binding {
            name: pat.ident.clone(),
            mutability,
            cfgs: self.cfgs.clone(),
        });
        if let Some((_, inner)) = &mut pat.subpat {
            self.visit_pat_mut(inner);
        }
    }

    // Expressions in patterns bind nothing.
    fn visit_expr_mut(&mut self, _: &mut syn::Expr) {}
}
