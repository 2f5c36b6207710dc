//! One script per verb, with shared functions.
//!
//! The names in `KEYS`:
//!
//! - The lock alone, at one server. The names of the others follow from it, and the server lets
//!   scripts use them.
//! - The clock of the slot, the queue and the due times too, in a cluster: each key that is on its
//!   way with its slot has to be named. Where several hold the key together, also who they are, and
//!   the numbers of their permits. A claim that wants the key alone does not name these before a
//!   script says so: they are hardly ever there, and on the way of a slot a key that is not there
//!   is one that may be elsewhere. An election's are the lock, the clock of the slot, what is
//!   published, and who is told of it.
//! - The lock, the queue, the due times and the fence, in `quorum/`. At a server that is enrolled
//!   as a member also its enrolment and its highest token.
//!
//! The scripts:
//!
//! - `attempt`, `force_acquire`, `renew`, `withdraw`, `downgrade`: the verbs of a claim. `many`:
//!   those on free keys.
//! - `publish`, `follow`: an election. `inspect`, `force_release`: the verbs of an operator.
//! - `keep`, `free`: the lock key alone, while a slot moves. `keep_share`: a share beside it.
//! - `rights`: the check of a user's rights. `quorum/`: the verbs at a member of a quorum.
//! - `redisson/`: the verbs in the layout of Redisson, at one server. They name all their keys.
//! - `owner`, `held`, `mode`, `promote`, `ticks`, `tokens`, `try`, `late`: shared parts.

use std::sync::{LazyLock, OnceLock};

use redis::Cmd;

use crate::redis::protocol::names::{self, Names, QUORUM};

/// A script and its name at the server.
#[derive(Debug)]
pub(in crate::redis) struct Script {
    source: String,
    sha: String,
    sharded: OnceLock<Box<Self>>,
    patient: OnceLock<Option<Box<Self>>>,
}

impl Script {
    pub(in crate::redis) fn new(source: String) -> Self {
        let sha = redis::Script::new(&source).get_hash().to_owned();
        Self { source, sha, sharded: OnceLock::new(), patient: OnceLock::new() }
    }

    /// The same script for a cluster, where pushes go to a channel in the slot of the keys, with
    /// the hash tag of the slot's clock.
    pub(in crate::redis) fn sharded(&self) -> &Self {
        self.sharded.get_or_init(|| {
            let channel = "'SPUBLISH', 'lock:push:' .. string.match(KEYS[2], '{.*}') .. ':' ..";
            let source = self.source.replace("'PUBLISH', 'lock:push:' ..", channel);
            Box::new(Self::new(source.replace("'PUBLISH'", "'SPUBLISH'")))
        })
    }

    /// The same script for a caller whose server has only just become that of the key, or is back.
    /// Those in line may be on their way to it, and nobody of them is heard there yet. So who is
    /// not is let in all the same, as long as it counts as alive. `None` if it lets nobody in.
    pub(in crate::redis) fn patient(&self) -> Option<&Self> {
        let patient = self.patient.get_or_init(|| {
            let [skips, waits] = ["local RECEIVERS_MIN = 1", "local RECEIVERS_MIN = 0"];
            let source = self.source.replace(skips, waits);
            (source != self.source).then(|| Box::new(Self::new(source)))
        });
        patient.as_deref()
    }

    /// Puts the shared functions in where the body asks for them. That is behind the paths that are
    /// taken most, as to define a function costs as much as a call of a command.
    fn with_shared(body: &str) -> Self {
        let lines = body.lines().flat_map(|line| match line.trim() {
            "--TOKENS" => concat!(include_str!("ticks.lua"), include_str!("tokens.lua")).lines(),
            "--TICKS" => include_str!("ticks.lua").lines(),
            "--MODE" => include_str!("mode.lua").lines(),
            "--OWNER" => include_str!("owner.lua").lines(),
            "--PROMOTE" => concat!(
                include_str!("owner.lua"),
                include_str!("held.lua"),
                include_str!("promote.lua")
            )
            .lines(),
            "--PROMOTE_QUORUM" => {
                concat!(include_str!("owner.lua"), include_str!("quorum/promote.lua")).lines()
            }
            "--TRY" => include_str!("try.lua").lines(),
            "--LATE" => include_str!("late.lua").lines(),
            "--TELL" => include_str!("redisson/tell.lua").lines(),
            "--WAITING" => {
                concat!(include_str!("redisson/tell.lua"), include_str!("redisson/waiting.lua"))
                    .lines()
            }
            "--MEMBER" => include_str!("quorum/member.lua").lines(),
            "--FENCE" => {
                concat!(include_str!("ticks.lua"), include_str!("quorum/fence.lua")).lines()
            }
            _ => line.lines(),
        });
        Self::new(lines.fold(String::new(), |text, line| text + line + "\n"))
    }

    /// A call of the script by its hash; the caller adds keys and arguments.
    pub(in crate::redis) fn evalsha(&self, keys: usize) -> Cmd {
        self.evalsha_with(keys, 8, 400)
    }

    /// The same with room for so many arguments behind the keys, and so many bytes of both.
    pub(in crate::redis) fn evalsha_with(&self, keys: usize, args: usize, bytes: usize) -> Cmd {
        let mut command = Cmd::with_capacity(3 + keys + args, 64 + bytes);
        command.arg("EVALSHA").arg(&self.sha).arg(keys);
        command
    }

    /// The same call with the source, for a server that does not know the hash. It does from then
    /// on.
    pub(in crate::redis) fn eval(&self, evalsha: &Cmd) -> Cmd {
        self.instead("EVAL", &self.source, evalsha)
    }

    /// This script's call in place of another's, with the same keys and arguments.
    pub(in crate::redis) fn evalsha_as(&self, other: &Cmd) -> Cmd {
        self.instead("EVALSHA", &self.sha, other)
    }

    fn instead(&self, verb: &str, script: &str, call: &Cmd) -> Cmd {
        let mut command = Cmd::with_capacity(12, script.len() + 512);
        command.arg(verb).arg(script);
        for arg in call.args_iter().skip(2) {
            if let redis::Arg::Simple(arg) = arg {
                command.arg(arg);
            }
        }
        command
    }

    /// A call for one lock; in a cluster, where the keys have this tag. `together`: it names those
    /// keys too that are there where several hold the lock.
    pub(in crate::redis) fn on(&self, names: &Names, tag: Option<u32>, together: bool) -> Cmd {
        let Some(tag) = tag else {
            let mut command = self.evalsha(1);
            command.arg(names.lock());
            return command;
        };
        let mut command = self.evalsha(if together { 6 } else { 4 });
        command.arg(names.lock()).arg(names::clock(tag)).arg(names.queue()).arg(names.due());
        if together {
            command.arg(names.held()).arg(names.slots());
        }
        command
    }

    /// A call for one lock of a quorum, and at a member that is enrolled.
    pub(in crate::redis) fn of_quorum(&self, names: &Names, is_enrolled: bool) -> Cmd {
        let quorum = if is_enrolled { &QUORUM[..] } else { &[] };
        let mut command = self.evalsha(4 + quorum.len());
        command.arg(names.lock()).arg(names.queue()).arg(names.due()).arg(names.fence());
        command.arg(quorum);
        command
    }
}

pub(in crate::redis) static ATTEMPT: LazyLock<Script> =
    LazyLock::new(|| Script::with_shared(include_str!("attempt.lua")));
pub(in crate::redis) static MANY: LazyLock<Script> =
    LazyLock::new(|| Script::with_shared(include_str!("many.lua")));
pub(in crate::redis) static RENEW: LazyLock<Script> =
    LazyLock::new(|| Script::with_shared(include_str!("renew.lua")));
pub(in crate::redis) static WITHDRAW: LazyLock<Script> =
    LazyLock::new(|| Script::with_shared(include_str!("withdraw.lua")));
pub(in crate::redis) static DOWNGRADE: LazyLock<Script> =
    LazyLock::new(|| Script::with_shared(include_str!("downgrade.lua")));
pub(in crate::redis) static PUBLISH: LazyLock<Script> =
    LazyLock::new(|| Script::with_shared(include_str!("publish.lua")));
pub(in crate::redis) static FOLLOW: LazyLock<Script> =
    LazyLock::new(|| Script::with_shared(include_str!("follow.lua")));
pub(in crate::redis) static FORCE_ACQUIRE: LazyLock<Script> =
    LazyLock::new(|| Script::with_shared(include_str!("force_acquire.lua")));
pub(in crate::redis) static FORCE_RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::with_shared(include_str!("force_release.lua")));
pub(in crate::redis) static RAISE: LazyLock<Script> =
    LazyLock::new(|| Script::with_shared(include_str!("quorum/raise.lua")));
pub(in crate::redis) static QUORUM_ATTEMPT: LazyLock<Script> =
    LazyLock::new(|| Script::with_shared(include_str!("quorum/attempt.lua")));
pub(in crate::redis) static QUORUM_WITHDRAW: LazyLock<Script> =
    LazyLock::new(|| Script::with_shared(include_str!("quorum/withdraw.lua")));
pub(in crate::redis) static QUORUM_FORCE_RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::with_shared(include_str!("quorum/force_release.lua")));
pub(in crate::redis) static PROBE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("quorum/probe.lua").to_owned()));
pub(in crate::redis) static ENROL: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("quorum/enrol.lua").to_owned()));
pub(in crate::redis) static INSPECT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("inspect.lua").to_owned()));
pub(in crate::redis) static RIGHTS: LazyLock<Script> =
    LazyLock::new(|| Script::with_shared(include_str!("rights.lua")));
pub(in crate::redis) static KEEP: LazyLock<Script> =
    LazyLock::new(|| Script::with_shared(include_str!("keep.lua")));
pub(in crate::redis) static KEEP_SHARE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("keep_share.lua").to_owned()));
pub(in crate::redis) static FREE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("free.lua").to_owned()));
pub(in crate::redis) static REDISSON_ATTEMPT: LazyLock<Script> =
    LazyLock::new(|| Script::with_shared(include_str!("redisson/attempt.lua")));
pub(in crate::redis) static REDISSON_RENEW: LazyLock<Script> =
    LazyLock::new(|| Script::with_shared(include_str!("redisson/renew.lua")));
pub(in crate::redis) static REDISSON_WITHDRAW: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("redisson/withdraw.lua").to_owned()));
pub(in crate::redis) static REDISSON_FORCE_RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::with_shared(include_str!("redisson/force_release.lua")));
pub(in crate::redis) static REDISSON_INSPECT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("redisson/inspect.lua").to_owned()));
pub(in crate::redis) static REDISSON_RIGHTS: LazyLock<Script> =
    LazyLock::new(|| Script::with_shared(include_str!("redisson/rights.lua")));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_scripts_that_let_a_waiter_in_have_a_patient_form() {
        let patient = [&ATTEMPT, &WITHDRAW, &DOWNGRADE, &FORCE_RELEASE, &FORCE_ACQUIRE];
        let of_quorum = [&QUORUM_ATTEMPT, &QUORUM_WITHDRAW, &QUORUM_FORCE_RELEASE];
        for script in patient.into_iter().chain(of_quorum) {
            let lets_in = script.source.contains("RECEIVERS_MIN then");
            let patient = script.sharded().patient();
            assert_eq!(lets_in, patient.is_some());
            if let Some(patient) = patient {
                let mut call = patient.evalsha(1);
                call.arg("k");
                let mut other = script.evalsha(1);
                other.arg("k");
                assert_eq!(
                    patient.evalsha_as(&other).get_packed_command(),
                    call.get_packed_command()
                );
            }
        }
        assert!(ATTEMPT.patient().is_some() && WITHDRAW.patient().is_some());
        assert!(RENEW.patient().is_none());
    }

    #[test]
    fn in_a_cluster_every_push_goes_to_a_channel_of_the_slot() {
        let operators = [&FORCE_ACQUIRE, &FORCE_RELEASE, &RIGHTS];
        for script in [&ATTEMPT, &WITHDRAW, &DOWNGRADE, &PUBLISH].into_iter().chain(operators) {
            let (plain, sharded) = (&script.source, &script.sharded().source);
            let pushes = plain.matches("'PUBLISH'").count();
            assert!(pushes > 0 && sharded.matches("'SPUBLISH'").count() == pushes, "{sharded}");
            let tagged = sharded.matches("'lock:push:' .. string.match(KEYS[2], '{.*}')").count();
            assert!(!sharded.contains("'PUBLISH'"));
            assert_eq!(sharded.matches("'lock:push:' ..").count(), tagged);
        }
    }
}
