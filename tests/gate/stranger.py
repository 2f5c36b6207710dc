#!/usr/bin/env python3
"""Packages the crates, and builds what a stranger would: crates outside of the workspace, made from
the blocks of README and the guides alone, over the packages, offline, each at the first try.

`./tests/run --all` calls this. See docs/testing.md.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CRATES = ["lock-macros", "lock-core", "lock-tower"]
HOME = ROOT / "target" / "stranger"
PACKAGE_SECONDS_MAX = 120
BUILD_SECONDS_MAX = 600
RUN_SECONDS_MAX = 60
BLOCK = re.compile(r"^```(toml|rust)[^\n]*\n(.*?)^```$", re.M | re.S)
# Without them the packages were made and not compared with a registry.
OUT_OF_REACH = re.compile(r"could not resolve|failed to (download|fetch|update|query)|timed? ?out|network|offline|connect", re.I)


def say(text):
    print(f"== {text}", file=sys.stderr, flush=True)


def cargo(*arguments, folder=ROOT, seconds=BUILD_SECONDS_MAX, offline=True):
    env = {**os.environ, "CARGO_TARGET_DIR": str(HOME / "target"), "CARGO_PROFILE_DEV_DEBUG": "0",
           "CARGO_TERM_COLOR": "never", "CARGO_INCREMENTAL": "0"}
    command = ["cargo", *arguments, *(["--offline"] if offline else [])]
    return subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=seconds)


def main():
    shutil.rmtree(HOME / "uses", ignore_errors=True)
    packaged()
    red = []
    pages = [ROOT / "README.md", *(ROOT / name / "README.md" for name in CRATES), *sorted((ROOT / "docs/guides").glob("*.md"))]
    uses = [use for page in pages for use in uses_of(page)]
    if len(uses) < 10:
        sys.exit(f"== README and the guides have {len(uses)} uses: their blocks have changed their form")
    for name, manifest, code in uses:
        expect(red, name, built(name, manifest, code))
    stores(red)
    missing_features(red, uses)
    if red:
        sys.exit("\n".join(f"== red: {text}" for text in red))
    say(f"{len(uses)} uses, each store and each missing feature are as README says")


def packaged():
    """Makes the packages as `cargo publish` does, and unpacks them."""
    names = [argument for name in CRATES for argument in ("-p", name)]
    # Each use below builds what is in them.
    ran = cargo("package", "--no-verify", "--allow-dirty", *names, seconds=PACKAGE_SECONDS_MAX)
    if ran.returncode != 0 or "warning" in ran.stderr:
        sys.exit(f"== cargo package:\n{ran.stderr}")
    dry = cargo("publish", "--dry-run", "--no-verify", "--allow-dirty", *names, seconds=PACKAGE_SECONDS_MAX, offline=False)
    if dry.returncode == 0:
        say("cargo publish --dry-run is clean")
    elif OUT_OF_REACH.search(dry.stderr):
        say("no registry is in reach: cargo package alone was looked at")
    else:
        sys.exit(f"== cargo publish --dry-run:\n{dry.stderr}")
    shutil.rmtree(HOME / "crates", ignore_errors=True)
    for name in CRATES:
        [archive] = (HOME / "target" / "package").glob(f"{name}-*.crate")
        with tarfile.open(archive) as packed:
            packed.extractall(HOME / "crates", filter="data")
        folder = HOME / "crates" / archive.stem
        for file in ("README.md", "LICENSE-MIT", "LICENSE-APACHE"):
            if not (folder / file).is_file():
                sys.exit(f"== {archive.name} lacks {file}")
        # Its times are long ago, and cargo compares nothing else.
        (folder / "src" / "lib.rs").touch()
        folder.rename(HOME / "crates" / name)


def uses_of(page):
    """Each program of a page, with the last block for Cargo.toml before it."""
    manifest, number = None, 0
    for kind, block in BLOCK.findall(page.read_text()):
        if kind == "toml":
            manifest = block if "[dependencies]" in block else None
        elif manifest:
            number += 1
            name = page.relative_to(ROOT).with_suffix("").as_posix().lower().replace("/", "-")
            yield f"{name}-{number}", manifest, block


def built(name, manifest, code, how="check"):
    """A crate of nothing but these two, and what cargo says of it."""
    folder = HOME / "uses" / name
    (folder / "src").mkdir(parents=True)
    patches = "".join(f'{krate} = {{ path = "../../crates/{krate}" }}\n' for krate in CRATES)
    package = f'[package]\nname = "{name}"\nversion = "0.0.0"\nedition = "2024"\n\n'
    # Nobody calls a handler that stands alone.
    is_program = "fn main()" in code
    lints = "" if is_program else '[lints.rust]\ndead_code = "allow"\n\n'
    (folder / "Cargo.toml").write_text(f"{package}{manifest}\n[workspace]\n\n{lints}[patch.crates-io]\n{patches}")
    (folder / "src" / ("main.rs" if is_program else "lib.rs")).write_text(code)
    # The versions that are on this machine already.
    shutil.copy(ROOT / "Cargo.lock", folder / "Cargo.lock")
    ran = cargo(how, "--quiet", folder=folder)
    if ran.returncode == 0:
        say(f"built {name}")
    return ran


def expect(red, name, ran):
    if ran.returncode != 0:
        red.append(f"{name} does not compile:\n{ran.stderr[-4000:]}")
    # Cargo shows nobody the warnings of a package.
    elif re.search(r"^warning: .*\n *--> src/", ran.stderr, re.M):
        red.append(f"{name} compiles with warnings:\n{ran.stderr[-4000:]}")


# Each store.

def stores(red):
    readme = (ROOT / "README.md").read_text()
    table = readme.split("\n## Which store\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines() if row.startswith("|")]
    [_, manifest, code] = next(use for use in uses_of(ROOT / "README.md"))
    seen = set()
    for _, _, url, features in rows[2:]:
        [url] = re.findall(r"`(.*?)`", url)
        for feature in re.findall(r"`(.*?)`", features) or [""]:
            if (feature, url) in seen:
                continue
            seen.add((feature, url))
            store(red, manifest, code, url, feature)
    if len(seen) < 6:
        red.append(f"README's table of stores has {len(seen)} stores: it has changed its form")


def store(red, manifest, code, url, feature):
    name = f"store-{re.split('[:+]', url)[0]}-{feature or 'none'}"
    features = f'"{feature}"' if feature else ""
    manifest = re.sub(r"features = \[\"redis\"\]", f"features = [{features}]", manifest, count=1)
    url = elsewhere(url, feature.endswith("-tls"))
    code = code.replace('"memory:"', f'"{url}"')
    ran = built(name, manifest, code, "check" if feature.endswith("-tls") else "build")
    expect(red, name, ran)
    if ran.returncode != 0 or feature.endswith("-tls"):
        return
    program = subprocess.run([HOME / "target" / "debug" / name], cwd=HOME / "uses" / name, stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=RUN_SECONDS_MAX)
    needs_no_server = url.startswith(("memory:", "sqlite:"))
    if needs_no_server and program.returncode != 0 or "feature" in program.stderr:
        red.append(f"{name} at {url} says:\n{program.stderr}")


def elsewhere(url, over_tls):
    """The URL with hosts at which nobody serves: a server of this machine is left alone."""
    if url.startswith(("memory:", "sqlite:")):
        return url
    scheme, rest = url.split("://")
    login, _, rest = rest.rpartition("@")
    hosts = re.match(r"[^/?]*", rest)[0]
    nobody = ",".join(f"127.0.0.1:{port}" for port, _ in enumerate(hosts.split(","), 1))
    tls = "+tls" if over_tls else ""
    return f"{scheme}{tls}://{login}{'@' if login else ''}{nobody}{rest[len(hosts):]}"


# What a feature that is missing says.

def missing_features(red, uses):
    [_, handler, body] = next(use for use in uses if "#[distributed_lock" in use[2] and "State(" in use[2])
    without = re.sub(r"^lock-core = .*$", 'lock-core = { version = "0.1", default-features = false, features = ["macros"] }',
                     handler, flags=re.M)
    told(red, "no-axum-state", without, body, "feature `axum`")
    opaque = '''use axum::response::IntoResponse;
use lock_core::distributed_lock;

#[distributed_lock(key = "k")]
pub async fn answer() -> impl IntoResponse {
    "done"
}
'''
    told(red, "no-axum-response", without, opaque, "feature `axum`")
    [_, job, body] = next(use for use in uses if "#[idempotent" in use[2] and '"idempotent"' in use[1])
    told(red, "no-idempotent", job.replace('"idempotent"', '"idempotency"'), body, "feature `idempotent`")


def told(red, name, manifest, code, words):
    ran = built(name, manifest, code)
    errors = re.findall(r"^error.*", ran.stderr, re.M)
    # What follows from it may come behind it.
    if ran.returncode == 0 or words not in errors[0] or "__private" in ran.stderr:
        red.append(f"{name} is told:\n{ran.stderr[-4000:]}")


if __name__ == "__main__":
    main()
