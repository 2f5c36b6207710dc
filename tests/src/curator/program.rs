//! The Java program: found, compiled, ready to be run.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::process::missing;

/// Where Debian puts the jars.
const JARS: &str = "/usr/share/java";

/// Names a folder with the jars of another Curator and all that it needs.
const OTHER_JARS: &str = "CURATOR_JARS";

/// The jars that the program needs; Debian's name the jars that they need in turn.
const NEEDED: [&str; 8] = [
    "curator-recipes.jar",
    "curator-framework.jar",
    "curator-client.jar",
    "zookeeper.jar",
    "zookeeper-jute.jar",
    "guava.jar",
    "slf4j-api.jar",
    "slf4j-simple.jar",
];

/// The compiled program.
#[derive(Debug)]
pub(super) struct Program {
    class_path: String,
}

impl Program {
    /// The program, compiled if its sources or its jars have changed since the last time.
    ///
    /// Takes seconds when it compiles.
    ///
    /// # Panics
    ///
    /// If `java`, `javac` or a jar is missing, with the Debian package, or if it does not compile.
    pub(super) fn compiled() -> &'static Program {
        static PROGRAM: OnceLock<Program> = OnceLock::new();
        PROGRAM.get_or_init(|| {
            let jars = jars();
            let classes = classes(&sources(), &jars);
            Program { class_path: format!("{}:{jars}", classes.display()) }
        })
    }

    /// A JVM with `flags` that runs the program.
    pub(super) fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new("java");
        command
            .args(flags)
            // Else each JVM maps a file in a folder that all of them share.
            .arg("-XX:-UsePerfData")
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
            .args(["-cp", &self.class_path, "interop.curator.Main"]);
        command
    }
}

/// Fails a test whose `program` of the JDK cannot be started.
pub(super) fn unstarted(program: &str, error: &std::io::Error) -> ! {
    match error.kind() {
        ErrorKind::NotFound => missing(&program, "default-jdk-headless"),
        _ => panic!("{program} could not be started: {error}"),
    }
}

/// The class path of the jars, by their real names, so that another version is another program.
fn jars() -> String {
    if let Some(folder) = std::env::var_os(OTHER_JARS) {
        let jars = files(Path::new(&folder), "jar");
        let jars: Vec<_> = jars.iter().map(|jar| jar.display().to_string()).collect();
        return jars.join(":");
    }
    let path = |jar: &&str| {
        let link = Path::new(JARS).join(jar);
        match fs::canonicalize(&link) {
            Ok(jar) => jar.display().to_string(),
            Err(_) => missing(&link.display(), "libcurator-recipes-java"),
        }
    };
    NEEDED.iter().map(path).collect::<Vec<_>>().join(":")
}

fn sources() -> Vec<PathBuf> {
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/curator"), "java")
}

/// The files of a folder with this ending, at least one.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == ending))
        .collect();
    assert!(!files.is_empty(), "no .{ending} in {folder:?}");
    files.sort();
    files
}

/// The folder of the compiled classes, beside this test's own program in cargo's target folder.
fn classes(sources: &[PathBuf], jars: &str) -> PathBuf {
    let own = std::env::current_exe().expect("the test's own path");
    let shelf = own.parent().expect("a program is in a folder").join("curator-java");
    let mut hasher = DefaultHasher::new();
    jars.hash(&mut hasher);
    for source in sources {
        source.hash(&mut hasher);
        fs::read(source).expect("a readable source").hash(&mut hasher);
    }
    let classes = shelf.join(format!("{:016x}", hasher.finish()));
    if !classes.exists() {
        compile(sources, jars, &shelf, &classes);
    }
    classes
}

fn compile(sources: &[PathBuf], jars: &str, shelf: &Path, classes: &Path) {
    fs::create_dir_all(shelf).expect("a writable target folder");
    let draft = tempfile::tempdir_in(shelf).expect("a writable target folder");
    let output = Command::new("javac")
        .args(["--release", "17", "-cp", jars, "-d"])
        .arg(draft.path())
        .args(sources)
        .output()
        .unwrap_or_else(|error| unstarted("javac", &error));
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the Java program does not compile:\n{complaints}");
    // Moved when it is whole: other tests may look for it at this moment, or compile it as well.
    if let Err(error) = fs::rename(draft.path(), classes) {
        assert!(classes.exists(), "{}: {error}", classes.display());
    }
}
