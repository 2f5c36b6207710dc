//! The names and versions of what the works run against, for the head of the report.

use std::process::Command;

use crate::works::Name;

/// Where Debian puts the jars, each under a name with its version too.
const JARS: &str = "/usr/share/java";

/// The names and versions of what `works` need, with commas between them.
pub(crate) fn of(works: &[Name]) -> String {
    let mut versions = Vec::new();
    if works.iter().any(|work| !work.needs_java() && !work.needs_go()) {
        versions.push(redis());
    }
    if works.iter().any(|work| work.needs_java()) {
        versions.extend([
            jar("ZooKeeper", "zookeeper-"),
            jar("Curator", "curator-recipes-"),
            java(),
        ]);
    }
    if works.iter().any(|work| work.needs_go()) {
        versions.extend([etcd(), go()]);
    }
    versions.join(", ")
}

fn redis() -> String {
    let output = Command::new("redis-server").arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = text.ok().and_then(|text| {
        text.split_whitespace().find_map(|word| word.strip_prefix("v=").map(str::to_owned))
    });
    version.map_or("no redis-server".to_owned(), |version| format!("Redis {version}"))
}

/// As `etcd --version` says: `etcd Version: 3.4.23`.
fn etcd() -> String {
    word_of("etcd", &["--version"], 2).map_or("no etcd".to_owned(), |v| format!("etcd {v}"))
}

/// As `go version` says: `go version go1.25.1 linux/amd64`.
fn go() -> String {
    let version = word_of("go", &["version"], 2);
    version.map_or("no go".to_owned(), |v| format!("Go {}", v.trim_start_matches("go")))
}

fn word_of(program: &str, arguments: &[&str], at: usize) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().nth(at).map(str::to_owned)
}

/// By the name of its jar: `zookeeper-3.8.0.jar`.
fn jar(product: &str, prefix: &str) -> String {
    let entries = std::fs::read_dir(JARS).into_iter().flatten().flatten();
    let version = entries.into_iter().find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let version = name.strip_prefix(prefix)?.strip_suffix(".jar")?;
        version.starts_with(|c: char| c.is_ascii_digit()).then(|| version.to_owned())
    });
    version.map_or(format!("no {product}"), |version| format!("{product} {version}"))
}

/// As `java -version` says on its standard error: `openjdk version "17.0.15" 2025-04-15`.
fn java() -> String {
    let output = Command::new("java").arg("-version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    let version = text.ok().and_then(|text| text.split('"').nth(1).map(str::to_owned));
    version.map_or("no java".to_owned(), |version| format!("Java {version}"))
}
