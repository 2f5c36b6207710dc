//! A small disk for a server.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::server::USER;

/// How large it is.
const SIZE: &str = "16m";

/// The command, in a world of its own in which this folder is a disk in memory, which belongs to the
/// user of the server. Nobody else sees it, and it goes with the server.
///
/// Where we are not root, the system has to let users have such a world (`unshare --map-current-user`).
pub(super) fn with_disk(command: &Command, folder: &Path) -> Command {
    fs::create_dir_all(folder).expect("a writable folder");
    let owner = match USER.ids() {
        Some((user, group)) => format!(",uid={user},gid={group}"),
        None => String::new(),
    };
    let mount =
        format!("mount -t tmpfs -o size={SIZE},mode=700{owner} small \"$0\" && exec \"$@\"");
    let mut wrapped = Command::new("unshare");
    wrapped.arg("--mount");
    if USER.ids().is_none() {
        wrapped.args(["--map-current-user", "--keep-caps"]);
    }
    wrapped.args(["sh", "-c", &mount]).arg(folder);
    wrapped.arg(command.get_program()).args(command.get_args());
    wrapped
}
