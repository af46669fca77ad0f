"""Names and versions of the installed packages to which source files belong."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

from ortune import files
from ortune.records import Frame

_SITE = re.compile(r"^(.*/(?:site|dist)-packages)/([^/]+)(/.*)?$")
_MODULES = re.compile(r"^(.*/node_modules/((?:@[^/]+/)?[^/]+))/(.+)$")
_LONGEST_BYTES = 8 << 20


class Packages:
    """Cache of the names and versions of packages, read from the metadata next to their files."""

    def __init__(self) -> None:
        self._of_site: dict[str, dict[str, tuple[str, str]]] = {}

    def frame(self, file: str, line: int, function: str) -> Frame:
        """Return a frame with the name and version of the package that contains its file, if there is one."""
        match = _SITE.match(file)
        module = _MODULES.match(file)
        if module is not None:
            name, version = module[2], _version(Path(module[1]) / "package.json")
            return Frame(
                file=f"{name}/{module[3]}", line=line, function=function, package=name, version=version
            )
        if match is None:
            return Frame(file=file, line=line, function=function)
        site, top, rest = match[1], match[2], match[3] or ""
        if site not in self._of_site:
            self._of_site[site] = _tops(Path(site))
        name, version = self._of_site[site].get(top.removesuffix(".py"), ("", ""))
        return Frame(file=top + rest, line=line, function=function, package=name, version=version)


@cache
def _version(place: Path) -> str:
    """Return the version in a package.json; "" if there is none."""
    try:
        return str(json.loads(files.read(place)).get("version", "")) if files.is_file(place) else ""
    except (OSError, ValueError, AttributeError):
        return ""


def _tops(site: Path) -> dict[str, tuple[str, str]]:
    """Return the name and version of the distribution of each top-level module in a site-packages folder."""
    found: dict[str, tuple[str, str]] = {}
    for folder in sorted(site.glob("*.dist-info")):
        name, _, version = folder.name.removesuffix(".dist-info").partition("-")
        found[name] = (name, version)
        record = folder / "RECORD"
        try:
            if record.stat().st_size > _LONGEST_BYTES:
                continue
            text = files.read(record).decode("utf-8", "replace")
        except OSError:
            continue
        for line in text.splitlines():
            top, slash, _ = line.partition("/")
            if slash and top.isidentifier():
                found.setdefault(top, (name, version))
            elif line.partition(",")[0].endswith(".py") and not slash:
                found.setdefault(line.partition(".py")[0], (name, version))
    return found
