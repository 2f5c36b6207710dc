//! The search for arguments in an expression, which can't use one once the body owns them.

use syn::visit::{self, Visit};
use syn::{Expr, ExprClosure, ExprPath, Macro, Pat, PatIdent};

use crate::self_name;

/// Whether `expr` uses one of `names` from around it. Names that its closures bind are their own,
/// and so are fields and methods.
pub(super) fn uses(expr: &Expr, names: Vec<String>) -> bool {
    let mut search = Search { names, found: false };
    search.visit_expr(expr);
    search.found
}

struct Search {
    names: Vec<String>,
    found: bool,
}

impl<'ast> Visit<'ast> for Search {
    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        let name = path.path.get_ident();
        self.found |= name.is_some_and(|name| self.names.iter().any(|known| name == known));
    }

    fn visit_expr_closure(&mut self, closure: &'ast ExprClosure) {
        let mut bound = Bound(Vec::new());
        closure.inputs.iter().for_each(|pat: &Pat| bound.visit_pat(pat));
        let names = self.names.iter().filter(|name| !bound.0.contains(name)).cloned().collect();
        self.found |= uses(&closure.body, names);
    }

    // Without a grammar of its own, any mention counts.
    fn visit_macro(&mut self, call: &'ast Macro) {
        self.found |= self_name::mentions(call.tokens.clone(), &self.names);
        visit::visit_macro(self, call);
    }
}

struct Bound(Vec<String>);

impl<'ast> Visit<'ast> for Bound {
    fn visit_pat_ident(&mut self, pat: &'ast PatIdent) {
        self.0.push(pat.ident.to_string());
        visit::visit_pat_ident(self, pat);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    #[test]
    fn a_use_is_told_from_a_name_that_only_looks_alike() {
        let uses = |expr: Expr| uses(&expr, vec!["sku".into(), "error".into()]);
        assert!(uses(parse_quote!(|e| busy(&sku, e))));
        assert!(uses(parse_quote!(|_| format!("{sku}"))));
        assert!(uses(parse_quote!(Busy { sku })));
        assert!(uses(parse_quote!(|e| (|x| x + sku)(e))));
        assert!(!uses(parse_quote!(|error| Err(AppError::from(error)))));
        assert!(!uses(parse_quote!(|Wrapper { sku, .. }| sku)));
        assert!(!uses(parse_quote!(|e| e.sku() + e.sku)));
        assert!(!uses(parse_quote!(sku::busy)));
    }
}
