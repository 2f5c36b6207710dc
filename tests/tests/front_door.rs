//! The words of README, the front pages and the guides, against what they are said of.

use std::path::{Path, PathBuf};

/// The feature that each database has.
const NOT_FOR_USERS: &str = "sql";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The cells of the tables of `text`, row by row, heads included.
fn rows(text: &str) -> Vec<Vec<String>> {
    let rows = text.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---"));
    let cell = |text: &str| text.trim().to_owned();
    rows.map(|row| row.trim_matches('|').split('|').map(cell).collect()).collect()
}

/// A cell without its spread.
fn median(cell: &str) -> &str {
    cell.split(" [").next().unwrap_or(cell)
}

/// README's table of rivals has the medians of the page of benchmarks, and no others.
#[test]
fn the_table_of_rivals_is_that_of_the_benchmarks() {
    let (readme, benchmarks) = (page("README.md"), page("docs/benchmarks.md"));
    let table = readme.split("\n## Beside others\n").nth(1).expect("the section");
    let table = rows(table.split("\n## ").next().expect("its end"));
    let (head, table) = table.split_first().expect("a table");
    assert!(table.len() >= 5, "{table:?}");
    for row in table {
        let work = row[0].split(':').next().expect("a name");
        let section = benchmarks.split(&format!("\n### {work}:")).nth(1);
        let section = section.unwrap_or_else(|| panic!("there is no work {work}"));
        let measured = rows(section.split("\n### ").next().expect("its end"));
        let column = measured[0].iter().position(|name| *name == row[1]);
        let column = column.unwrap_or_else(|| panic!("{work} has no figure {}", row[1]));
        for (rival, figure) in head.iter().zip(row).skip(2) {
            let of_rival = measured.iter().find(|row| row[0] == *rival);
            let wanted = of_rival.map_or("", |row| median(&row[column]));
            assert_eq!(figure, wanted, "{work}, {}, {rival}", row[1]);
        }
    }
}

/// The names in `[features]` of a crate, and those that are on by default.
fn features(krate: &str) -> (Vec<String>, Vec<String>) {
    let manifest = page(&format!("{krate}/Cargo.toml"));
    let features = manifest.split("\n[features]\n").nth(1).expect("features");
    let features = features.split("\n[").next().expect("their end");
    let (mut all, mut default) = (Vec::new(), Vec::new());
    for line in features.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, of)) = line.split_once(" = ") else { continue };
        match name {
            "default" => default = of.split('"').skip(1).step_by(2).map(str::to_owned).collect(),
            name => all.push(name.to_owned()),
        }
    }
    (all, default)
}

/// Every feature for users is in the table of its crate's front page, with whether it is a default,
/// and README names it.
#[test]
fn the_pages_have_every_feature_and_which_are_on_by_default() {
    let readme = page("README.md");
    for krate in ["lock-core", "lock-tower"] {
        let front = page(&format!("{krate}/src/lib.rs")).replace("//! ", "").replace("//!", "");
        let table = front.split("\n# Features\n").nth(1).expect("a table of features");
        let table = rows(table.split("\n# ").next().expect("its end"));
        let (all, default) = features(krate);
        assert!(default.len() >= 2, "{krate}: {default:?}");
        for feature in all.iter().filter(|name| *name != NOT_FOR_USERS) {
            let name = format!("`{feature}`");
            assert!(readme.contains(&name), "README does not name {name}");
            let row = table.iter().find(|row| row[0].contains(&name));
            let row = row.unwrap_or_else(|| panic!("{krate}: {name} is not in its front page"));
            let is_default = default.contains(feature) || krate == "lock-core" && feature == "http";
            assert_eq!(row[2] == "yes", is_default, "{krate}: {name}");
        }
    }
}

fn guides() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(root().join("docs/guides")).expect("the guides");
    let guides: Vec<_> = folder.map(|entry| entry.expect("an entry").path()).collect();
    assert!(guides.len() >= 6, "{guides:?}");
    guides
}

/// A guide has a program that there is; those of `examples/` are run by its tests. README leads to
/// it, its snippets are compiled, and it says what to write into Cargo.toml where it has a use.
#[test]
fn every_guide_has_a_program_and_is_found() {
    let (readme, doctests) = (page("README.md"), page("tests/src/lib.rs"));
    for guide in guides() {
        let name = guide.file_name().expect("a name").to_str().expect("text");
        let text = std::fs::read_to_string(&guide).expect("a guide");
        assert!(readme.contains(&format!("](docs/guides/{name})")), "README lacks {name}");
        assert!(doctests.contains(&format!("docs/guides/{name}\"")), "{name} is not compiled");
        let programs: Vec<_> = text.split("-p examples --example ").skip(1).collect();
        for program in &programs {
            let program: String =
                program.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let file = root().join(format!("examples/examples/{program}.rs"));
            assert!(file.exists(), "{name}: there is no {program}");
        }
        assert!(!programs.is_empty() || text.contains("--bin flash-sale"), "{name}: no program");
    }
}

/// Links of README, the guides and the pages lead to files that there are.
#[test]
fn links_between_pages_lead_somewhere() {
    let mut pages = guides();
    pages.push(root().join("README.md"));
    for entry in std::fs::read_dir(root().join("docs")).expect("the docs") {
        pages.push(entry.expect("an entry").path());
    }
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    let mut found = 0;
    for page in pages {
        let text = std::fs::read_to_string(&page).expect("a page");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            if link.contains("://") || link.contains(' ') {
                continue;
            }
            let target = match file {
                "" => page.clone(),
                file => page.parent().expect("a folder").join(file),
            };
            assert!(target.exists(), "{}: {link}", page.display());
            if !anchor.is_empty() {
                let text = std::fs::read_to_string(&target).expect("a page");
                let there = text.lines().filter(|line| line.starts_with('#')).map(slug);
                assert!(there.into_iter().any(|slug| slug == anchor), "{}: {link}", page.display());
            }
            found += 1;
        }
    }
    assert!(found > 60, "{found}");
}

/// The anchor of a heading.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The files that a crate ships beside its code.
#[test]
fn every_crate_has_its_licences_and_a_readme() {
    for krate in ["lock-core", "lock-macros", "lock-tower"] {
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            assert_eq!(page(&format!("{krate}/{licence}")), page(licence), "{krate}");
        }
        assert!(page(&format!("{krate}/README.md")).contains("[dependencies]"), "{krate}");
        let manifest = page(&format!("{krate}/Cargo.toml"));
        assert!(manifest.contains("readme = ") && manifest.contains("all-features = true"));
    }
}

/// The root of lock-core has what is typed every day, and nothing else: the rest is in modules.
#[test]
fn the_root_has_what_users_type() {
    const ROOT: [&str; 15] = [
        "AcquireError",
        "ClientBuilder",
        "Election",
        "FencingToken",
        "FromLockError",
        "Key",
        "LockBuilder",
        "LockClient",
        "LockGuard",
        "LockHandle",
        "LockOptions",
        "Mode",
        "Term",
        "distributed_lock",
        "idempotent",
    ];
    let front = page("lock-core/src/lib.rs");
    let uses = front.lines().filter_map(|line| line.strip_prefix("pub use ")?.strip_suffix(';'));
    let mut names: Vec<_> = uses
        .flat_map(|path| {
            let (_, last) = path.split_once("::").expect("a path");
            let last = last.trim_matches(['{', '}']);
            last.split(", ").map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    names.sort_unstable();
    assert_eq!(names, ROOT);
}
