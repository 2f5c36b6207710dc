//! Servers that refuse to run as root, and run as the user that their package makes then.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

/// The user that a package makes for its server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OtherUser(pub(crate) &'static str);

impl OtherUser {
    /// Its ids, where we are root.
    pub(crate) fn ids(self) -> Option<(u32, u32)> {
        if own_user() != 0 {
            return None;
        }
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let of = |name: &str| {
            let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
            let mut fields = line.split(':').skip(2);
            Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
        };
        of(self.0).or_else(|| of("nobody"))
    }

    /// A command that is run as this user.
    pub(crate) fn command(self, program: &Path) -> Command {
        let Some((user, group)) = self.ids() else { return Command::new(program) };
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={user}")).arg(format!("--regid={group}"));
        command.arg("--clear-groups").arg(program);
        command
    }

    /// Gives it a file or folder, with these rights.
    pub(crate) fn give(self, path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a file of ours");
        if let Some((user, group)) = self.ids() {
            chown(path, Some(user), Some(group)).expect("a file of ours");
        }
    }

    /// Lets it into a folder, and into those on the way that are ours alone.
    pub(crate) fn let_in(self, folder: &Path) {
        if self.ids().is_none() {
            return;
        }
        for folder in folder.ancestors() {
            let Ok(found) = fs::metadata(folder) else { return };
            let mode = found.permissions().mode();
            if mode & 0o001 == 0 && found.uid() == own_user() {
                let _ = fs::set_permissions(folder, fs::Permissions::from_mode(mode | 0o011));
            }
            if folder == std::env::temp_dir() {
                return;
            }
        }
    }
}

/// The user who runs this process.
fn own_user() -> u32 {
    fs::metadata("/proc/self").expect("a Linux").uid()
}
