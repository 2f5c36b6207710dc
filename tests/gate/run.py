#!/usr/bin/env python3
"""Builds the tests once, runs their binaries beside each other, and judges what came of it.

`./tests/run` installs what they need and calls this. See docs/testing.md.
"""

import argparse
import json
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib

from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("suites.toml")

# What every run of the first tier draws from. `--all` draws another.
SEED = 27
# Suites that wait for servers and clocks, at a time; beside them one that computes. One that takes
# half a core with its servers counts for two. The scenes of all layouts, which `--all` has, take more of a
# core than the rest does.
LANES = 4
LANES_OF_ALL = 3
# Of one binary, so that its tests have threads that carry their names; more where those mostly wait.
THREADS = 2
# libtest says so of a test that runs for a minute; it may go on for five more.
SLOW = re.compile(r"^test (\S+) has been running for over 60 seconds")
GRACE_SECONDS = int(os.environ.get("GATE_GRACE_SECONDS", "300"))
# A suite may take three times its usual time, and is not ended before this.
SUITE_SECONDS_MIN = int(os.environ.get("GATE_SUITE_SECONDS_MIN", "240"))
# With --all a suite plays all its scenes, and looks at more orders of steps: it and each test have so
# many times as long.
ALL_TIMES = 5
BUILD_SECONDS_MAX = 1_800
AGAIN_SECONDS_MAX = 400
# Tests that passed alone, and not beside others. More of them is a defect of the gate.
UNSTEADY_MAX = 2
# Of those, the ones are counted apart that failed while the machine stood still: no lease outlives
# that. The fixtures measure it (tests/src/stalls.rs).
STOOD_STILL = re.compile(r"^the machine took .* (\d+) ms in one piece$", re.M)
STOOD_STILL_MS_MIN = 1_000
STALLED_MAX = 6
# What a panic says that is about safety: no second try makes it good. Of the checker, the names of
# what it found.
FINDING = re.compile(r"a finding of safety|assertion failed: .*token"
                     r"|\b(TokenTwice|OutOfOrder|WriteWentBack|UnknownToken|Overlap|NotTold) \{")
# Names a suite to the processes that it starts, so that one which is left is found.
MARK = "GATE_SUITE"
LEFT_SECONDS_MAX = 10
# Before a command: the kernel kills it when this process is gone, however that ends.
DIES_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"]
# What computes has time, and gives way to those that are measured by the clock. Not by more: beside
# others who compute it would never come to its end.
GIVES_WAY = ["nice", "-n", "3"]
LOOK_SECONDS = 0.5

# What the watchdog of the fixtures says.
HUNG = re.compile(r"^test (\S+ hung: .*)", re.M)
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.M)
DONE = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)", re.M)
SECTION = re.compile(r"^---- (\S+) stdout ----\n(.*?)(?=^---- \S+ stdout ----$|^failures:$|\Z)", re.M | re.S)


def say(text):
    print(f"== {text}", file=sys.stderr, flush=True)


@dataclass
class Suite:
    """A command that runs tests, and what is known of it."""

    name: str
    command: list
    folder: Path
    seconds: float = 20
    # It computes for most of its time.
    busy: bool = False
    # It waits, and takes half a core or more with its servers.
    heavy: bool = False
    # It talks to real servers, so a busy machine may fail it.
    servers: bool = False
    # What only `--all` runs: of it these tests, or the whole of it.
    later: list = field(default_factory=list)
    # "first" where the first tier plays a few of the scenes alone.
    scenes: str = "all"
    # Of a suite that computes: what talks to sockets and files, which is a suite of its own.
    real: list = field(default_factory=list)
    env: dict = field(default_factory=dict)

    def lanes(self):
        return 2 if self.heavy else 1

    def limit(self):
        return max(3 * self.seconds, SUITE_SECONDS_MIN) * times()


class OwnTime:
    """The time that a suite has had, in seconds. For one that computes that is the time of a core which it was
    given, or during which it wanted none; what it waited for a core is the machine's."""

    def __init__(self, suite, process):
        self.is_busy, self.session = suite.busy, process.pid
        self.seconds, self.at, self.used = 0.0, time.monotonic(), 0.0

    def look(self):
        """The seconds so far."""
        now = time.monotonic()
        passed = now - self.at
        if passed < LOOK_SECONDS:
            return self.seconds
        self.at = now
        if self.is_busy:
            used, wants_more = taken(self.session)
            passed = min(passed, max(used - self.used, 0.0)) if wants_more else passed
            # It falls where a process ends that nobody of the session waits for.
            self.used = used
        self.seconds += passed
        return self.seconds


def taken(session):
    """The seconds of a core that the processes of a session took, and whether any wants more right now."""
    ticks, wants_more = 0, False
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = stat_of(process)
            if int(fields[3]) == session:
                ticks += sum(map(int, fields[11:15]))
                wants_more = wants_more or any(stat_of(task)[0] == "R" for task in (process / "task").iterdir())
        except (OSError, ValueError, IndexError):
            pass
    return ticks / os.sysconf("SC_CLK_TCK"), wants_more


@cache
def times():
    return ALL_TIMES if is_all() else 1


@cache
def lanes():
    return LANES_OF_ALL if is_all() else LANES


def is_all():
    return "TESTS_ALL" in os.environ


def stat_of(task):
    """What the kernel says of a task, from its state on."""
    return (task / "stat").read_text().rpartition(")")[2].split()


@dataclass
class Outcome:
    suite: Suite
    seconds: float
    output: str
    status: int
    # Why it was ended, if it was.
    ended: str = ""
    # What it and its processes took of the machine.
    cpu_seconds: float = 0

    def counts(self):
        found = RESULT.findall(self.output)
        return [sum(int(counts[nth]) for counts in found) for nth in range(3)]

    def failed(self):
        """Its failed tests by name, each with what it said."""
        done = DONE.findall(self.output)
        # What a test had a process of its own run is told by that test.
        others = {name for name, how in done if how == "ignored"}
        names = [name for name, how in done if how == "FAILED" and name not in others]
        said = dict(SECTION.findall(self.output))
        return {name: said.get(name, "") for name in names}

    def is_good(self):
        return self.status == 0 and not self.ended

    def passed(self, test):
        """Whether this one of its tests did; those that a test runs in processes of their own are told beside it."""
        return (test, "ok") in DONE.findall(self.output)


def main():
    arguments = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("== the gate was told to end, or ran out of its time"))
    began = time.monotonic()
    log = ROOT / "target" / "gate"
    shutil.rmtree(log, ignore_errors=True)
    log.mkdir(parents=True)
    seed = arguments.seed if arguments.seed is not None else random.getrandbits(32) if arguments.all else SEED
    say(f"everything is drawn from the seed {seed}")
    for name in ("PROPTEST_RNG_SEED", "TESTS_SEED"):
        os.environ[name] = str(seed)
    # The line of a panic says enough, and the next failure is to be seen beside it.
    os.environ["RUST_BACKTRACE"] = "0"
    if arguments.all:
        os.environ["TESTS_ALL"] = "1"
    else:
        # Loom looks at each order of steps in which threads are interrupted this often.
        os.environ.setdefault("LOOM_MAX_PREEMPTIONS", "3")
    suites = built()
    suites += [doctests(), *(others(suites) if arguments.all else [])]
    built_at = time.monotonic()
    say(f"built in {built_at - began:.0f} s")
    suites, left_out = chosen(suites, arguments)
    if not suites:
        sys.exit("== no suite has this name")
    run = Run(log)
    outcomes = run.all(suites)
    say(f"{len(suites)} suites in {time.monotonic() - built_at:.0f} s")
    verdicts = judge(run, outcomes)
    report(outcomes, verdicts, left_out)
    sys.exit(1 if verdicts.red else 0)


def parse():
    parser = argparse.ArgumentParser(prog="tests/run", description="Runs the tests of the workspace.")
    parser.add_argument("--all", action="store_true", help="everything; without it the first tier")
    parser.add_argument("--seed", type=int, metavar="N", help="draws from this seed")
    parser.add_argument("--only", action="append", metavar="SUITE", default=[],
                        help="this suite alone, as `tests/redlock`; may be repeated")
    return parser.parse_args()


# What there is to run.

def built():
    """The test binaries of the workspace: everything is compiled once, with one set of features."""
    command = ["cargo", "test", "--workspace", "--all-features", "--no-run", "--message-format=json-render-diagnostics"]
    say(" ".join(command[:5]))
    try:
        ran = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                             timeout=BUILD_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        sys.exit(f"== cargo had not built the tests after {BUILD_SECONDS_MAX} s")
    if ran.returncode != 0:
        sys.exit("== cargo could not build the tests")
    known = table()
    messages = map(json.loads, ran.stdout.splitlines())
    tests = [message for message in messages
             if message.get("executable") and message["profile"]["test"]]
    return [part for test in tests for part in parts(suite_of(test, known))]


@cache
def table():
    return tomllib.loads(TABLE.read_text())


def suite_of(test, known):
    folder = Path(test["manifest_path"]).parent
    package, target = folder.name, test["target"]
    # A binary and a test may have one name.
    names = {"test": target["name"], "lib": "lib", "proc-macro": "lib"}
    kind = target["kind"][0]
    name = f"{package}/{names.get(kind, kind + '-' + target['name'])}"
    env = {"CARGO_MANIFEST_DIR": str(folder), "CARGO_PKG_NAME": package, "LD_LIBRARY_PATH": libraries()}
    of_suite = dict(known.get(name, {}))
    command = [test["executable"], f"--test-threads={of_suite.pop('threads', THREADS)}"]
    return Suite(name, command, folder, env=env, **of_suite)


def parts(suite):
    """What a busy machine may fail is not to give way to others, as what computes does."""
    if not suite.real:
        return [suite]
    skipped = [word for part in suite.real for word in ("--skip", part)]
    real = replace(suite, name=f"{suite.name} real", command=[*suite.command, *suite.real], seconds=20, busy=False,
                   servers=True, later=[])
    return [replace(suite, command=[*suite.command, *skipped]), real]


@cache
def libraries():
    """Where the tests of a procedural macro find the library of the compiler."""
    found = subprocess.run(["rustc", "--print", "target-libdir"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def doctests():
    command = ["cargo", "test", "--quiet", "--workspace", "--all-features", "--doc"]
    return Suite("doctests", command, ROOT, seconds=90, busy=True)


# All of Redis that a test starts itself runs on Valkey as well.
ON_VALKEY = ["conformance_redis", "faults", "sentinel", "cluster", "redlock"]


def others(suites):
    """Suites once more, on servers and beside clients that the gate has no time for."""
    def once_more(name, what, env):
        suite = next(suite for suite in suites if suite.name == f"tests/{name}")
        return replace(suite, name=f"{suite.name} {what}", command=[*suite.command], env={**suite.env, **env})

    found = []
    if shutil.which("valkey-server"):
        found += [once_more(name, "on Valkey", {"REDIS_SERVER": "valkey-server"}) for name in ON_VALKEY]
    else:
        say("valkey-server is not installed: nothing is run on Valkey")
    if jars := os.environ.get("NEWER_CURATOR_JARS"):
        found.append(once_more("interop_curator", "with a newer Curator", {"CURATOR_JARS": jars}))
    return found


def chosen(suites, arguments):
    """What is to run now, and what is left to `--all`."""
    if arguments.only:
        return [suite for suite in suites if suite.name.partition(" ")[0] in arguments.only], []
    if arguments.all:
        return suites, []
    now, left_out = [], []
    for suite in suites:
        if "*" in suite.later:
            left_out.append(suite.name)
            continue
        scenes = scenes_left_out(suite)
        for part in [*suite.later, *scenes]:
            suite.command += ["--skip", part]
        left_out += [f"{suite.name} {part}" for part in suite.later]
        if scenes:
            left_out.append(f"{suite.name} {len(scenes)} scenes")
        now.append(suite)
    return now, left_out


def scenes_left_out(suite):
    if suite.scenes != "first":
        return []
    first, scenes = set(table()["first_scenes"]), [name for name in tests_of(suite) if name.startswith("scenes::")]
    return [name for name in scenes if name.removeprefix("scenes::") not in first]


def tests_of(suite):
    listed = subprocess.run([*suite.command, "--list", "--format=terse"], cwd=suite.folder, capture_output=True,
                            text=True, timeout=30, env={**os.environ, **suite.env})
    return [line.removesuffix(": test") for line in listed.stdout.splitlines() if line.endswith(": test")]


# Running it.

class Run:
    def __init__(self, log):
        self.log = log
        self.left = []

    def all(self, suites):
        """Runs all of them in lanes, those that take longest first."""
        waiting = sorted(suites, key=lambda suite: -suite.seconds)
        running, ended, outcomes = {}, queue.Queue(), []
        while waiting or running:
            suite = self.next(waiting, running)
            if suite:
                waiting.remove(suite)
                # Of this thread, which outlives it: the kernel ends a child with the thread that made it.
                process, out = self.start(suite)
                watch = threading.Thread(target=lambda *its: ended.put(self.watch(*its)),
                                         args=(suite, process, out), daemon=True)
                watch.start()
                running[suite.name] = suite
                continue
            outcome = ended.get()
            del running[outcome.suite.name]
            outcomes.append(outcome)
            passed, failed, _ = outcome.counts()
            how = "ok  " if outcome.is_good() else "FAIL"
            say(f"{how} {outcome.seconds:6.1f} s, {outcome.cpu_seconds:5.1f} of a core  {outcome.suite.name}: "
                f"{passed} passed, {failed} failed"
                + (f"; {outcome.ended}" if outcome.ended else "")
                + "".join(f"\n   {name}" for name in outcome.failed()))
        return outcomes

    @staticmethod
    def next(waiting, running):
        """The next suite for which there is a lane."""
        busy = sum(suite.busy for suite in running.values())
        waits = sum(suite.lanes() for suite in running.values() if not suite.busy)
        # With nothing left that waits, each core has one that computes.
        busy_max = 1 if waits or any(not suite.busy for suite in waiting) else os.cpu_count()
        fits = (suite for suite in waiting if (busy < busy_max if suite.busy else waits + suite.lanes() <= lanes()))
        return next(fits, None)

    def start(self, suite):
        out = self.log / f"{suite.name.replace('/', '.')}.log"
        with out.open("w") as file:
            process = subprocess.Popen(
                [*DIES_WITH_PARENT, *(GIVES_WAY if suite.busy else []), *suite.command], cwd=suite.folder, env={**os.environ, **suite.env, MARK: suite.name},
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                start_new_session=True)
        return process, out

    def watch(self, suite, process, out, limit=None):
        began, slow, ended, own = time.monotonic(), {}, "", OwnTime(suite, process)
        limit = limit or suite.limit()
        while not (over := os.wait4(process.pid, os.WNOHANG))[0] and not ended:
            time.sleep(0.1)
            took = own.look()
            hung = self.hung(out, slow, took)
            if hung:
                ended = f"hung for over {60 + GRACE_SECONDS * times()} s: {', '.join(hung)}"
            elif took > limit:
                ended = f"ended after {limit:.0f} s, with these tests to come: {', '.join(unfinished(suite, out))}"
        if not over[0]:
            end_group(process)
            over = os.wait4(process.pid, 0)
        _, status, used = over
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        self.left_by(suite)
        output = out.read_text(errors="replace")
        if told := HUNG.search(output):
            ended = told[1]
        return Outcome(suite, seconds, output, process.returncode, ended, used.ru_utime + used.ru_stime)

    @staticmethod
    def hung(out, slow, now):
        """The tests of which libtest said long ago that they are slow, and that have not ended, in own time."""
        text = out.read_text(errors="replace")
        if "has been running for over" not in text:
            return []
        done = {name for name, _ in DONE.findall(text)}
        for name in re.findall(SLOW.pattern, text, re.M):
            slow.setdefault(name, now)
        return [name for name, since in slow.items() if name not in done and now - since > GRACE_SECONDS * times()]

    def left_by(self, suite):
        """Ends what a suite left running, and tells of it."""
        until = time.monotonic() + LEFT_SECONDS_MAX
        while processes := marked(suite.name):
            if time.monotonic() > until:
                for pid, line in processes.items():
                    self.left.append(f"{suite.name} left the process {pid}: {line}")
                    end(pid)
                return
            time.sleep(0.1)

    def again(self, suite, test):
        """One test alone."""
        alone = Suite(f"{suite.name}.{test}".replace("::", "."), [suite.command[0], "--exact", test],
                      suite.folder, env=suite.env)
        return self.watch(alone, *self.start(alone), limit=AGAIN_SECONDS_MAX * times())


def unfinished(suite, out):
    done = {name for name, _ in DONE.findall(out.read_text(errors="replace"))}
    return [name for name in tests_of(suite) if name not in done] or ["none"]


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def end(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def marked(suite):
    """The processes that were started for a suite, by their command lines."""
    mark, found = f"{MARK}={suite}".encode(), {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                found[int(process.name)] = line
        except OSError:
            pass
    return found


# What came of it.

@dataclass
class Verdicts:
    """What makes the run red, and what passed alone: after it had failed beside others, or while the machine
    stood still. Each begins with a line that names it."""

    red: list
    unsteady: list = field(default_factory=list)
    stalled: list = field(default_factory=list)

    def all(self):
        """Each with the word for it."""
        words = {"unsteady": self.unsteady, "unsteady: while the machine stood still": self.stalled, "red": self.red}
        return [(word, text) for word, texts in words.items() for text in texts]


def judge(run, outcomes):
    verdicts = Verdicts(list(run.left))
    red = verdicts.red
    for outcome in outcomes:
        if outcome.is_good():
            continue
        suite, failed = outcome.suite, outcome.failed()
        if outcome.ended:
            red.append(f"{suite.name} {outcome.ended}\n{outcome.output[-4000:]}")
        elif not failed:
            red.append(f"{suite.name} ended with {outcome.status}\n{outcome.output[-4000:]}")
        for test, said in failed.items():
            verdict(run, suite, (test, said), verdicts)
    for what, tests, most in [
        ("are unsteady", verdicts.unsteady, UNSTEADY_MAX),
        ("failed while the machine stood still", verdicts.stalled, STALLED_MAX),
    ]:
        if len(tests) > most:
            red.append(f"{len(tests)} tests {what}; at most {most} may be")
    return verdicts


def verdict(run, suite, failure, verdicts):
    test, said = failure
    name, red = f"{suite.name} {test}", verdicts.red
    if FINDING.search(said):
        red.append(f"{name} failed with a finding of safety\n{said}")
    elif not suite.servers:
        red.append(f"{name} failed\n{said}")
    else:
        say(f"once more, alone: {name}")
        again = run.again(suite, test)
        if again.is_good() and again.passed(test):
            is_stalled = stood_still_ms(said) >= STOOD_STILL_MS_MIN
            passed = verdicts.stalled if is_stalled else verdicts.unsteady
            passed.append(f"{name}\n{said}\n-- alone:\n{again.output}")
        else:
            red.append(f"{name} failed\n{said}\n-- and alone:\n{again.ended}\n{again.output[-8000:]}")


def stood_still_ms(said):
    """The longest piece of the time before a test failed in which nothing ran."""
    return max(map(int, STOOD_STILL.findall(said)), default=0)


def report(outcomes, verdicts, left_out):
    for word, text in verdicts.all():
        say(f"{word}: {text}")
    if left_out:
        say("left to ./tests/run --all: " + ", ".join(left_out))
    for word, text in verdicts.all():
        say(f"{word}: " + text.partition("\n")[0])
    counts = [outcome.counts() for outcome in outcomes]
    passed, failed, ignored = (sum(count[nth] for count in counts) for nth in range(3))
    alone = len(verdicts.unsteady) + len(verdicts.stalled)
    failed = max(failed - alone, 1 if verdicts.red else 0)
    print(f"{passed + alone} passed, {failed} failed, {ignored} skipped", flush=True)


if __name__ == "__main__":
    main()
