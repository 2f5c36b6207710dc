//! How a fixture's server is configured.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::admin::SUPER_DIGEST;

/// The configuration of a [`ZooKeeperServer`](super::ZooKeeperServer).
///
/// By default: a tick of 2 s, so that sessions live 4 s to 40 s; empty containers are looked for
/// each 300 ms; every write is synced to disk; any number of clients from one address; every
/// four-letter word answered; a JVM that starts fast and compiles little, with a heap of 128 MiB.
#[derive(Clone, Debug)]
pub struct ZooKeeperOptions {
    java: OsString,
    jars: PathBuf,
    more_jars: Vec<String>,
    optimizing: bool,
    directives: Vec<(String, String)>,
    properties: Vec<(String, String)>,
}

impl Default for ZooKeeperOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl ZooKeeperOptions {
    /// A server as the type's text says.
    #[must_use]
    pub fn new() -> Self {
        let options = ZooKeeperOptions {
            java: "java".into(),
            jars: "/usr/share/java".into(),
            more_jars: Vec::new(),
            optimizing: false,
            directives: Vec::new(),
            properties: Vec::new(),
        };
        options.tick_ms(2_000).container_check_ms(300)
    }

    /// Another program than the `java` of the path.
    #[must_use]
    pub fn java(mut self, program: impl Into<OsString>) -> Self {
        self.java = program.into();
        self
    }

    /// Another folder with `zookeeper.jar` and `slf4j-simple.jar` than `/usr/share/java`.
    #[must_use]
    pub fn jars(mut self, folder: impl Into<PathBuf>) -> Self {
        self.jars = folder.into();
        self
    }

    /// One more archive of that folder, as `netty-codec.jar`: Debian's `zookeeper.jar` does not
    /// name all that its Netty needs.
    #[must_use]
    pub fn jar(mut self, name: &str) -> Self {
        self.more_jars.push(name.to_owned());
        self
    }

    /// The tick, in milliseconds. Sessions live 2 to 20 ticks, and are looked at once a tick: a
    /// dead one ends up to a tick late.
    #[must_use]
    pub fn tick_ms(self, tick_ms: u32) -> Self {
        self.set("tickTime", &tick_ms.to_string())
    }

    /// How often the server removes empty containers, in milliseconds. Only those that have had
    /// a child are removed.
    #[must_use]
    pub fn container_check_ms(self, every_ms: u32) -> Self {
        self.property("znode.container.checkIntervalMs", &every_ms.to_string())
            // One in 6 ms is what a server does by itself.
            .property("znode.container.maxPerMinute", "600000")
    }

    /// Answers writes before they are on the disk. A `SIGKILL` loses nothing all the same: what
    /// was written is the kernel's already.
    #[must_use]
    pub fn no_force_sync(self) -> Self {
        self.property("zookeeper.forceSync", "no")
    }

    /// Lets the JVM compile and collect at full strength with a heap of 512 MiB, for benchmarks.
    /// The start takes longer.
    #[must_use]
    pub fn optimizing(mut self) -> Self {
        self.optimizing = true;
        self
    }

    /// Sets any other directive of `zoo.cfg`, or another value of one.
    #[must_use]
    pub fn set(mut self, directive: &str, value: &str) -> Self {
        self.directives.retain(|(known, _)| known != directive);
        self.directives.push((directive.to_owned(), value.to_owned()));
        self
    }

    /// Sets a directive that is not set yet.
    pub(super) fn or_set(self, directive: &str, value: &str) -> Self {
        if self.directives.iter().any(|(known, _)| known == directive) {
            return self;
        }
        self.set(directive, value)
    }

    /// Sets any Java system property, or another value of one.
    #[must_use]
    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.properties.retain(|(known, _)| known != name);
        self.properties.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The file that the server reads, for `port` and `folder`.
    pub(super) fn config_file(&self, port: u16, folder: &Path) -> String {
        let mut text = format!(
            "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n\
             admin.enableServer=false\n4lw.commands.whitelist=*\n",
            folder.display()
        );
        for (directive, value) in &self.directives {
            text += &format!("{directive}={value}\n");
        }
        text
    }

    /// A JVM that runs `config` and logs to `log`.
    pub(super) fn command(&self, config: &Path, log: &Path) -> Command {
        let mut java = Command::new(&self.java);
        if self.optimizing {
            java.args(["-Xmx512m"]);
        } else {
            java.args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        }
        // Half of what a start costs is to read classes. Without the archive they are read.
        if let Some(archive) = std::env::var_os("ZOOKEEPER_CLASSES") {
            java.arg(format!("-XX:SharedArchiveFile={}", archive.display()));
        }
        // Without it each server leaves a file of counters behind when it is killed.
        java.arg("-XX:-UsePerfData");
        java.arg(format!("-Dorg.slf4j.simpleLogger.logFile={}", log.display()));
        java.args([
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
            "-Dorg.slf4j.simpleLogger.showShortLogName=true",
        ]);
        java.arg(format!("-Dzookeeper.DigestAuthenticationProvider.superDigest={SUPER_DIGEST}"));
        for (name, value) in &self.properties {
            java.arg(format!("-D{name}={value}"));
        }
        let jars: Vec<_> = self.class_path().map(|jar| jar.display().to_string()).collect();
        java.arg("-cp").arg(jars.join(":"));
        java.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(config);
        java
    }

    /// The archives that the server needs; the first one names all others that it does.
    pub(super) fn class_path(&self) -> impl Iterator<Item = PathBuf> {
        let needed = ["zookeeper.jar", "slf4j-simple.jar"].into_iter();
        needed.chain(self.more_jars.iter().map(String::as_str)).map(|jar| self.jars.join(jar))
    }
}
