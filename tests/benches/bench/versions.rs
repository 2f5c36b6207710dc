//! What the works run against, for the head of the report.

use std::process::Command;

use crate::works::Name;

/// Where Debian puts the jars, each under a name with its version too.
const JARS: &str = "/usr/share/java";

/// The names and versions of what `works` need, with commas between them.
pub(crate) fn of(works: &[Name]) -> String {
    let mut versions = Vec::new();
    if works.iter().any(|work| !work.needs_java()) {
        versions.push(redis());
    }
    if works.iter().any(|work| work.needs_java()) {
        versions.extend([
            jar("ZooKeeper", "zookeeper-"),
            jar("Curator", "curator-recipes-"),
            java(),
        ]);
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
