"""Finds Node.js and onnxruntime-node: the user's own package, or a release that npm downloads once into the cache."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec

from ortune import files, launcher
from ortune.errors import RuntimeNotFound
from ortune.records import NodeRuntime
from ortune.runtimes import npm
from ortune.runtimes.environment import clean_environment
from ortune.store.places import cache_folder

PACKAGE = "onnxruntime-node"
VERSION = "1.30.0"
"""Default version of onnxruntime-node, with which ortune is tested."""
NAME = "node"
"""Value of ``--runtime`` for the default version."""
_NAMED = re.compile(rf"{PACKAGE}==(\d{{1,3}}(?:\.\d{{1,3}}){{2}}(?:-[\w.]+)?)")
_LOOK_S = 60.0
_LOOK = """
const folder = process.argv[1], { createRequire } = require("node:module"), path = require("node:path");
const ort = createRequire(path.join(folder, "ortune.js"))("onnxruntime-node");
const backends = ort.listSupportedBackends?.() ?? [];
console.log(JSON.stringify({
  node_version: process.versions.node, version: ort.env.versions.node,
  providers: backends.filter(({ bundled }) => bundled).map(({ name }) => name),
  lacks: backends.filter(({ bundled }) => !bundled).map(({ name }) => name),
}));
"""


class _Look(msgspec.Struct, kw_only=True):
    """Node's report on itself and the package."""

    node_version: str
    version: str
    providers: tuple[str, ...]
    lacks: tuple[str, ...]


def named(text: str | None) -> bool:
    """Return whether ``--runtime`` names onnxruntime-node: "node", a release, or a folder that contains the package."""
    if text is None:
        return False
    if text == NAME or _NAMED.fullmatch(text) is not None:
        return True
    return files.is_folder(Path(text)) and _package_folder(Path(text)) is not None


def find(
    text: str = NAME, say: Callable[[str], None] = lambda sentence: None, *, fetch: bool = True
) -> NodeRuntime:
    """Return the onnxruntime-node to measure, fetching it from npm if necessary.

    Args:
        text: A text accepted by ``named``.
        say: Callback for progress messages.
        fetch: Whether the package may be downloaded.

    Raises:
        RuntimeNotFound: Node.js is missing, or the package cannot be fetched or loaded.
    """
    node = launcher.program("node")
    if not node:
        raise RuntimeNotFound(
            "Node.js is not on PATH", where=f"--runtime {text}", do="install Node.js 18 or later"
        )
    match = _NAMED.fullmatch(text)
    if text != NAME and match is None:
        folder = _package_folder(Path(text))
        assert folder is not None
        return _look(node, folder)
    version = match[1] if match else VERSION
    folder = cache_folder() / f"{PACKAGE}-{version}"
    if not folder.is_dir():
        if not fetch:
            raise RuntimeNotFound(
                f"{PACKAGE} {version} is not downloaded yet", do=f"--runtime {text} downloads it"
            )
        say(f"installing {PACKAGE} {version} once, in {folder}")
        _fetch(node, version, folder)
        found = _look(node, folder)
        if found.lacks:
            say(
                f"{PACKAGE} {found.version} was installed without its install script, which downloads libraries from "
                f"another site; not available without them: {', '.join(found.lacks)}"
            )
    return _look(node, folder)


def here(release: str) -> str | None:
    """Return the name of a downloaded onnxruntime-node: the given release, else the default; None if neither is there.

    The release may come from an untrusted file, so it is never used as the path of a folder.
    """
    own = f"{PACKAGE}=={release}"
    for text in (own, NAME) if _NAMED.fullmatch(own) else (NAME,):
        try:
            find(text, fetch=False)
        except RuntimeNotFound:
            continue
        return text
    return None


def _package_folder(folder: Path) -> Path | None:
    """Return the folder from which Node.js resolves the package in a folder or its ``node_modules``; None if absent."""
    for place in (folder, folder / "node_modules" / PACKAGE):
        if place.name == PACKAGE and files.is_file(place / "package.json"):
            return place.parent.parent.resolve()
    return None


@cache
def _look(node: str, folder: Path) -> NodeRuntime:
    done = launcher.run(
        [node, "-e", _LOOK, str(folder)], limit_s=_LOOK_S, environment=clean_environment(), folder=folder
    )
    try:
        about = msgspec.json.decode(
            done.output.strip().splitlines()[-1] if done.code == 0 else b"", type=_Look
        )
    except (msgspec.MsgspecError, IndexError) as error:
        lines = [line for line in done.log.decode("utf-8", "replace").splitlines() if "Error" in line]
        why = next(iter(lines), "it exited without a message").strip()
        raise RuntimeNotFound(
            f"{PACKAGE} does not load in {node}: {why}",
            where=str(folder),
            do="install another release of it or of Node.js",
        ) from error
    return NodeRuntime(
        program=node,
        folder=str(folder),
        node_version=about.node_version,
        version=about.version,
        providers=about.providers,
        lacks=about.lacks,
    )


def _fetch(node: str, version: str, folder: Path) -> None:
    """Install the package and its dependencies; remove binaries for other systems, which are most of its 290 MB."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        place = Path(scratch) / "made"
        place.mkdir()
        # Without one, npm would look for the project in the folders above.
        (place / "package.json").write_text(json.dumps({"private": True}), encoding="utf-8")
        npm.fetch(
            PACKAGE,
            version,
            ["install", "--no-audit", "--no-fund", "--omit=dev"],
            place,
            instead="--runtime node_modules/onnxruntime-node",
        )
        asked = launcher.run(
            [node, "-p", "process.platform + '/' + process.arch"],
            limit_s=_LOOK_S,
            environment=clean_environment(),
        )
        own = asked.output.decode("utf-8", "replace").strip()
        for there in (place / "node_modules" / PACKAGE / "bin").glob("*/*/*"):
            if there.is_dir() and "/".join(there.parts[-2:]) != own:
                shutil.rmtree(there)
        with contextlib.suppress(OSError):  # another session was first, and its copy is as good
            place.rename(folder)
