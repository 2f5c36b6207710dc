//! The matrix of faults in `docs/faults.md`, against the scenes that there are.

use std::path::{Path, PathBuf};

use tests::scene::layouts::KINDS;
use tests::scene::{Kind, Power, SCENES, Scene};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

/// The rows of the table of faults whose head begins with `head`, cell by cell.
fn table(head: &str) -> Vec<Vec<String>> {
    table_of("docs/faults.md", head)
}

fn table_of(page: &str, head: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join(page)).expect("the page");
    let rows = text.lines().skip_while(|line| !line.starts_with(&format!("| {head} |")));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let cell = |text: &str| text.trim().to_owned();
    let cells = |row: &str| row.trim_matches('|').split('|').map(cell).collect();
    let rows: Vec<Vec<String>> = rows.map(cells).collect();
    assert!(!rows.is_empty(), "there is no table of {head}");
    rows
}

/// Where a scene is played, as the page says it.
fn played_on(scene: &Scene) -> String {
    let not = KINDS.iter().filter(|kind| scene.cannot_be_on(kind).is_some());
    let not: Vec<_> = not.map(|kind| kind.name).collect();
    let on = match &not[..] {
        [] => "all".to_owned(),
        not => format!("all but {}", not.join(", ")),
    };
    if scene.modes().len() > 1 { on + "; in each mode" } else { on }
}

/// Every fault has the scenes that the table of scenes has for it, each with where it is played.
#[test]
fn the_page_names_the_scenes_of_each_fault_and_where_they_are_played() {
    let rows = table("fault");
    for scene in SCENES {
        for fault in scene.faults {
            let row = rows.iter().find(|row| row[0] == **fault);
            let row = row.unwrap_or_else(|| panic!("{fault} of {} is not in the page", scene.name));
            let entry = format!("`{}` ({})", scene.name, played_on(scene));
            assert!(row[2].contains(&entry), "the row of {fault} lacks: {entry}");
        }
    }
    for row in &rows {
        let entries = row[2].split("<br>").filter(|entry| entry.starts_with('`'));
        for entry in entries.filter(|entry| !entry.contains("::")) {
            let name = entry.split('`').nth(1).expect("a name");
            let scene = SCENES.iter().find(|scene| scene.name == name);
            let scene = scene.unwrap_or_else(|| panic!("{}: there is no scene {name}", row[0]));
            assert!(scene.faults.contains(&&*row[0]), "{name} does not show {}", row[0]);
        }
        assert!(row[2].contains('`'), "nothing shows {}", row[0]);
    }
}

/// A test that is one store's own is where the page says that it is.
#[test]
fn the_page_names_no_test_that_there_is_not() {
    let mut found = 0;
    for row in table("fault") {
        for entry in row[2].split("<br>").filter(|entry| entry.contains("::")) {
            let path = entry.trim_matches('`');
            let (file, name) = path.rsplit_once("::").expect("a file and a name");
            let file = file.replace("::", "/") + ".rs";
            let of_tests = root().join("tests/tests").join(&file);
            let of_core = root().join("lock-core/tests").join(&file);
            let text =
                [of_tests, of_core].iter().find_map(|path| std::fs::read_to_string(path).ok());
            let text = text.unwrap_or_else(|| panic!("{}: there is no {file}", row[0]));
            assert!(text.contains(&format!("fn {name}(")), "{}: there is no {path}", row[0]);
            found += 1;
        }
    }
    assert!(found > 20, "{found}");
}

/// The powers that a layout lacks, and the scenes that are known to fail on it, stand in the page
/// with the reason.
#[test]
fn the_page_says_why_a_scene_is_not_played_on_a_layout() {
    let because = |kind: &Kind| {
        let lacks = kind.lacks.iter().map(|(power, why)| (format!("{power:?}"), *why));
        let fails = kind.fails.iter().map(|(scene, why)| (format!("`{scene}`"), *why));
        let rows = lacks.chain(fails).map(|(what, why)| [kind.name, &what, why].map(str::to_owned));
        rows.map(Vec::from).collect::<Vec<_>>()
    };
    let wanted: Vec<_> = KINDS.iter().flat_map(|kind| because(kind)).collect();
    assert_eq!(table("layout"), wanted);
}

/// The capabilities that a store names are the same for clients, for the conformance suite and for
/// those who read. That the stores name them is looked at wherever one is opened.
#[test]
fn the_page_says_what_each_layout_can_do() {
    let row = |kind: &Kind| {
        let can: Vec<_> = kind.can.iter().map(|name| format!("`{name}`")).collect();
        vec![kind.name.to_owned(), can.join(", ")]
    };
    let wanted: Vec<_> = KINDS.into_iter().map(row).collect();
    assert_eq!(table_of("docs/topologies.md", "layout"), wanted);
    for kind in KINDS {
        let shares = ["shared", "permits"].iter().all(|name| kind.can.contains(name));
        assert_eq!(kind.lacks(Power::Share).is_none(), shares, "{kind:?}");
    }
    // The suite of memory is in lock-core, which knows of no layouts.
    let mut sources = Vec::new();
    sources_of(&root().join("tests/tests"), &mut sources);
    let texts: Vec<_> =
        sources.iter().map(|path| std::fs::read_to_string(path).expect("a source")).collect();
    let suites = texts.iter().filter(|text| text.contains(".checked(AnyBackend::new(")).count();
    assert!(suites >= KINDS.len() - 1, "{suites} conformance suites");
}

/// Every name is a scene's once, and every layout is played on.
#[test]
fn scenes_have_names_of_their_own_and_layouts_have_suites() {
    let mut names: Vec<_> = SCENES.iter().map(|scene| scene.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    let mut sources = Vec::new();
    sources_of(&root().join("tests/tests"), &mut sources);
    let texts: Vec<_> =
        sources.iter().map(|path| std::fs::read_to_string(path).expect("a source")).collect();
    let played = texts.iter().map(|text| text.matches("\ntests::scenes!(").count()).sum::<usize>();
    assert_eq!(played, KINDS.len());
}

/// The Rust files under `folder`.
fn sources_of(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a source folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources_of(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// F15, and "wall-clock arithmetic in the wait loop": a jump of the client's wall clock has no
/// effect, because no client reads one. `clippy.toml` bans the calls outside the files that own
/// them; this looks for the names, so that no `allow` creeps in.
///
/// The one exception is where tokens come from that no server counts: the store in this process,
/// and a quorum, whose members end their blocks at the client's clock. Tokens must grow across
/// restarts; no time is computed from it.
#[test]
fn no_client_code_reads_a_wall_clock() {
    let mut files = Vec::new();
    for krate in ["lock-core", "lock-tower", "lock-macros"] {
        sources_of(&root().join(krate).join("src"), &mut files);
    }
    assert!(files.len() > 40, "the sources have moved");
    for path in files {
        if path.ends_with("lock-core/src/ground/wall.rs") {
            continue;
        }
        let makes_tokens = ["lock-core/src/memory/store.rs", "lock-core/src/quorum/mod.rs"]
            .iter()
            .any(|file| path.ends_with(file));
        for (number, line) in std::fs::read_to_string(&path).expect("a source").lines().enumerate()
        {
            let code = line.split("//").next().unwrap_or_default();
            for name in ["SystemTime", "UNIX_EPOCH", "chrono::", "time::OffsetDateTime"] {
                assert!(!code.contains(name), "{}:{}: {line}", path.display(), number + 1);
            }
            let asks = code.contains("wall::");
            assert!(makes_tokens || !asks, "{}:{}: {line}", path.display(), number + 1);
        }
    }
    let lint = std::fs::read_to_string(root().join("clippy.toml")).expect("clippy.toml");
    assert!(lint.contains("std::time::SystemTime::now"), "the lint does not ban it");
}
