"""Selection of the browser and onnxruntime-web: the user's choice, else installed ones, else a pinned npm version."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ortune import files, launcher, temporary
from ortune.errors import RuntimeNotFound
from ortune.records import Runtime
from ortune.runtimes import npm
from ortune.runtimes.environment import clean_environment

VERSION = "1.30.0"
"""Default version of onnxruntime-web, with which ortune is tested."""
PROGRAMS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "microsoft-edge",
    "msedge",
)
HOST = "ortune.localhost"
"""Host name of pages for a local browser; the address has no port, since browsers cache compiled code by address."""
NO_POPUPS = "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup"
"""Flag that disables Chromium's popups below the address bar, which are pages and double the time of the start."""
_NUMBER = re.compile(r"\d+\.\d+\.\d+(-[\w.]+)?")
_LONGEST_HOME = 60  # a socket's path has at most 107 characters, of which Chromium uses 43
_OF_ALL = {"XDG_DATA_DIRS", "XDG_CONFIG_DIRS", "XDG_RUNTIME_DIR"}
_MOST_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSetup:
    """The user's options for the browser.

    Attributes:
        ort_web: A folder with onnxruntime-web or with ``node_modules``, or a version; "" for the default.
        browser: Path or name of the browser; "" for an installed one.
        headful: Whether the browser has a window; a GPU may only be available then.
        network_bps: Assumed download speed of the page's users in bits per second.
    """

    ort_web: str = ""
    browser: str = ""
    headful: bool = False
    network_bps: float = 10e6


@dataclass(frozen=True, slots=True, kw_only=True)
class OrtWeb:
    """An installation of onnxruntime-web.

    Attributes:
        dist: The folder with its builds.
        version: Version in its ``package.json``; "" without one.
    """

    dist: Path
    version: str


def program(setup: BrowserSetup) -> str:
    """Return the path of the browser.

    Raises:
        RuntimeNotFound: No browser is installed, or the user's choice does not exist.
    """
    if setup.browser:
        # The browser starts in another folder, so a relative path must become absolute.
        here = Path(setup.browser)
        path = str(here.absolute()) if here.is_file() else launcher.program(setup.browser)
        if not path:
            raise RuntimeNotFound(
                "is not a program", where=f"--browser {setup.browser}", do="pass the path of a browser"
            )
        return path
    path = next(filter(None, map(launcher.program, PROGRAMS)), "")
    if not path:
        raise RuntimeNotFound(
            "no Chromium, Chrome or Edge is on PATH",
            do="install one (Debian: apt install chromium), or --browser PATH",
        )
    return path


def ort_web(setup: BrowserSetup, *, fetch: bool = True) -> OrtWeb:
    """Return the onnxruntime-web to measure, fetching it from npm into the user's cache if necessary.

    Args:
        setup: The user's options.
        fetch: Whether onnxruntime-web may be fetched.

    Raises:
        RuntimeNotFound: onnxruntime-web is not installed and cannot be fetched.
    """
    wanted = setup.ort_web or VERSION
    if _NUMBER.fullmatch(wanted):
        return _in_cache(wanted, fetch=fetch)
    for folder in (
        Path(wanted),
        Path(wanted) / "dist",
        Path(wanted) / "node_modules" / "onnxruntime-web" / "dist",
    ):
        if any(folder.glob("ort*.mjs")):
            return OrtWeb(dist=folder.resolve(), version=_version(folder.resolve().parent))
    raise RuntimeNotFound(
        "contains no onnxruntime-web",
        where=f"--ort-web {wanted}",
        do="pass its folder in node_modules, or a version",
    )


def of_runtime(runtime: Runtime) -> OrtWeb | None:
    """Return the onnxruntime-web of a side's runtime; None if it has none."""
    return OrtWeb(dist=Path(runtime.ort_web_dist), version=runtime.ort_web) if runtime.ort_web_dist else None


def _version(package: Path) -> str:
    try:
        about = package / "package.json"
        number = json.loads(files.read(about) if files.inside(about, package) else b"{}")["version"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return number if isinstance(number, str) else ""


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "ortune"


@cache
def _in_cache(version: str, *, fetch: bool) -> OrtWeb:
    folder = _cache() / f"onnxruntime-web-{version}"
    if not folder.is_dir():
        if not fetch:
            raise RuntimeNotFound(
                f"onnxruntime-web {version} is not downloaded yet", do="--ort-web PATH or VERSION"
            )
        _fetch(version, folder)
    return OrtWeb(dist=folder / "dist", version=version)


def _fetch(version: str, folder: Path) -> None:
    """Fetch the package with npm, which verifies its digest, and move only its builds to the folder, atomically."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        place = Path(scratch)
        npm.fetch(
            "onnxruntime-web", version, ["pack"], place, instead="--ort-web node_modules/onnxruntime-web"
        )
        (archive,) = place.glob("*.tgz")
        unpacked = place / "made"
        (unpacked / "dist").mkdir(parents=True)
        with tarfile.open(archive) as packed:
            for name, member in _builds(packed):
                source = packed.extractfile(member)
                assert source is not None
                with (unpacked / name).open("wb") as target:
                    shutil.copyfileobj(source, target)
        with contextlib.suppress(OSError):  # another session was faster; its copy is equal
            unpacked.rename(folder)


def _builds(packed: tarfile.TarFile) -> Iterator[tuple[str, tarfile.TarInfo]]:
    taken = 0
    for member in packed:
        name = member.name.removeprefix("package/")
        where, _, file = name.rpartition("/")
        if (
            not member.isfile()
            or (where, file) == ("", "")
            or not (where == "dist" or name == "package.json")
        ):
            continue
        if file.endswith((".mjs", ".wasm", ".json")) and "/" not in file:
            # Counted before it is unpacked: an archive of kilobytes can hold gigabytes.
            taken += member.size
            if taken > _MOST_BYTES:
                raise RuntimeNotFound("the onnxruntime-web package is unexpectedly large")
            yield name, member


def flags(wanted: Sequence[str], *, headful: bool, profile: Path, port: int = 0) -> list[str]:
    """Return the arguments of a browser with a separate profile, and without background requests or prompts.

    Args:
        wanted: Further arguments, without which a provider is not available.
        headful: Whether the browser has a window.
        profile: Folder of the profile.
        port: Port of the server of ``HOST``; 0 if it has none.
    """
    arguments = [
        "--no-first-run", "--no-default-browser-check", "--disable-background-networking", "--disable-component-update",
        "--disable-sync", "--disable-quic", "--disable-extensions", "--disable-crash-reporter", "--no-service-autorun",
        "--disable-background-timer-throttling", "--disable-renderer-backgrounding",
        "--disable-backgrounding-occluded-windows", NO_POPUPS, f"--user-data-dir={profile}",
        "--deny-permission-prompts", "--block-new-web-contents",
    ]  # fmt: skip
    if port:
        arguments.append(f"--host-resolver-rules=MAP {HOST}:80 127.0.0.1:{port}")
    if not headful:
        arguments.append("--headless=new")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        arguments.append("--no-sandbox")  # Chromium cannot use its sandbox as root
    return [*arguments, *wanted]


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a browser, with a separate home folder.

    Args:
        home: Replaces the user's home and temporary folder; to be removed after the browser has ended.
    """
    ours = {
        name: value for name, value in os.environ.items() if not name.startswith("XDG_") or name in _OF_ALL
    }
    # Chromium creates a socket in the temporary folder, and the path of a socket must be short.
    place = home if len(str(home)) <= _LONGEST_HOME else temporary.short_folder()
    return clean_environment({"HOME": str(home), "TMPDIR": str(place)}, ours)
