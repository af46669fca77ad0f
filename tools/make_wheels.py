"""Writes ``runtimes/wheels.json``: size and licence of each wheel that ``ortune runtime add`` installs by name.

python tools/make_wheels.py

Both are asked of the package index by pip, which fetches metadata alone: for this system's wheels, and for those of
Windows where there are no others.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ortune.catalogue.providers import CPU
from ortune.runtimes import nncf, packages
from ortune.runtimes.converters import CONVERTERS

FILE = Path(packages.__file__).with_name("wheels.json")
WINDOWS = ("--platform", "win_amd64", "--python-version", "3.12")


def wanted() -> dict[str, tuple[str, ...]]:
    """Every requirement, with the options of pip for the system that it is for."""
    found: dict[str, tuple[str, ...]] = {}
    for provider, build in packages.builds():
        ort = f"{CPU.wheel}=={build.beside}" if build.beside else ""
        pins = (ort, f"{build.wheel}=={build.releases[0][0]}", *build.brings)
        found |= dict.fromkeys(filter(None, pins), () if "Linux" in provider.systems else WINDOWS)
    plain = [f"{CPU.wheel}=={release}" for release in packages.RELEASES]
    return found | dict.fromkeys([packages.NUMPY, packages.OLD_NUMPY, *nncf.REQUIREMENTS, *plain], ())


def look_up(requirement: str, options: tuple[str, ...]) -> tuple[int, str]:
    """The size of the wheel in bytes and its licence in a few words."""
    (wheel,) = resolved(["--no-deps", *options, requirement])
    return size(wheel), licence(wheel["metadata"])


def resolved(arguments: Sequence[str]) -> list[dict[str, Any]]:
    """The wheels that pip would install."""
    with tempfile.TemporaryDirectory() as nowhere:
        command = [
            sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet",
            "--only-binary", ":all:", "--target", nowhere, "--report", "-", *arguments,
        ]  # fmt: skip
        report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    found: list[dict[str, Any]] = report["install"]
    return found


def size(wheel: dict[str, Any]) -> int:
    """Of the file, in bytes."""
    request = urllib.request.Request(wheel["download_info"]["url"], method="HEAD")
    with urllib.request.urlopen(request) as answer:
        return int(answer.headers["Content-Length"])


def licence(metadata: dict[str, Any]) -> str:
    """By its expression, else its classifiers, else one line of its own words."""
    own = str(metadata.get("license") or "").strip().partition("\n")[0]
    classifiers = [c.rpartition(" :: ")[2] for c in metadata.get("classifier", ()) if c.startswith("License")]
    named = str(metadata.get("license_expression") or ", ".join(classifiers) or own)
    return "NVIDIA's own licence" if "NVIDIA-Proprietary" in named else named


if __name__ == "__main__":
    table = {requirement: look_up(requirement, options) for requirement, options in wanted().items()}
    for wanted_together in (each for converter in CONVERTERS.values() for each in converter.requirements):
        table |= {requirement: look_up(requirement, ()) for requirement in wanted_together}
        table[packages.whole(wanted_together)] = (sum(map(size, resolved(wanted_together))), "")
    FILE.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")
