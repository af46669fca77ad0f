"""``SHA256SUMS`` of a bundle: the digests of all files, in the format of ``sha256sum -c`` and signing tools."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from ortune import files
from ortune.bundle.shared import INDEX, is_inside, require_no_way_out
from ortune.errors import UsageError

SUMS = "SHA256SUMS"

_LINE = re.compile(r"(\\?)([0-9a-f]{64}) [ *](.+)")
_ESCAPES = {"\\\\": "\\", "\\n": "\n", "\\r": "\r"}
_CHUNK_BYTES = 1 << 20


def write(folder: Path) -> None:
    """Write the digests of all files of a finished bundle.

    Raises:
        OSError: A file cannot be read, or the list cannot be written.
    """
    names = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    text = "".join(_line(name, _digest(folder / name)) for name in names if name != SUMS)
    (folder / SUMS).write_text(text, encoding="utf-8")


def of_file(path: Path) -> str:
    """Return the SHA-256 digest of a file in hexadecimal.

    Raises:
        OSError: The file cannot be read.
    """
    return _digest(path)


def require_intact(folder: Path, model: str, plain_model: str | None) -> None:
    """Verify the digests of all files that a comparison reads: the model, plan, proof, inputs and outputs.

    Code and reports are not verified, since users may change them.

    Raises:
        UsageError: A file is missing, was changed, is not listed, or is a link to a place outside of the bundle.
    """
    _require(folder, [INDEX, model, *filter(None, [plain_model])], _read_by_ortune)


def require_intact_model(folder: Path, model: str, plain_model: str | None) -> None:
    """Verify the digests of the files that loading reads: the plan and the models with their external data.

    Raises:
        UsageError: See ``require_intact``.
    """
    needed = [INDEX, model, *filter(None, [plain_model])]
    stems = {name.partition(".")[0] for name in needed[1:]}
    _require(
        folder, needed, lambda names: [name for name in names if name.partition(".")[0] in stems] + [INDEX]
    )


def require_intact_folder(folder: Path, model: PurePosixPath) -> None:
    """Verify the digests of the index, and of all files in a model's folder, such as its external data.

    Raises:
        UsageError: See ``require_intact``.
    """
    _require(
        folder,
        [INDEX, model.as_posix()],
        lambda names: [name for name in names if name == INDEX or PurePosixPath(name).parent == model.parent],
    )


def _require_no_link_out(folder: Path) -> None:
    """Reject a bundle with a link, in any of its folders, to a place outside of it.

    Raises:
        UsageError: There is such a link.
    """
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(place, name)
            if path.is_symlink():
                require_no_way_out(folder, path.relative_to(folder).as_posix())


def _require(folder: Path, needed: list[str], checked: Callable[[Iterable[str]], list[str]]) -> None:
    require_no_way_out(folder, SUMS)
    _require_no_link_out(folder)  # includes external data that the list does not name
    try:
        digests = _listed(files.read(folder / SUMS).decode())
    except UnicodeDecodeError:
        raise UsageError("is not a text", where=str(folder / SUMS), do="create the bundle again") from None
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot be read: {error}", where=str(folder / SUMS), do="create the bundle again"
        ) from None
    for name in digests:
        require_no_way_out(folder, name)
    unlisted = [name for name in needed if name not in digests]
    changed = [
        name for name in checked(digests) if name in digests and not _same(folder / name, digests[name])
    ]
    for names, what in (
        (unlisted, "is not listed in it"),
        (changed, "was changed after the bundle was created"),
    ):
        if names:
            raise UsageError(f"{names[0]} {what}", where=str(folder / SUMS), do="create the bundle again")


def _read_by_ortune(names: Iterable[str]) -> list[str]:
    # Imported here, since they load the template engine and every verb imports this module.
    from ortune.bundle.languages import languages
    from ortune.bundle.web import FILES

    for_people = {"report.html", "deploy", *FILES, *(language.file for language in languages())}
    return [name for name in names if PurePosixPath(name).parts[0] not in for_people]


def _same(path: Path, digest: str) -> bool:
    try:
        return _digest(path) == digest
    except OSError:
        return False


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with files.open_file(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _line(name: str, digest: str) -> str:
    """Format a line like coreutils: backslashes and line breaks in names are escaped, marked by a leading backslash."""
    escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    mark = "\\" if escaped != name else ""
    return f"{mark}{digest}  {escaped}\n"


def _listed(text: str) -> dict[str, str]:
    """Parse a list of digests into a mapping from path to digest.

    Raises:
        ValueError: A line is invalid, or names a path outside of the bundle.
    """
    digests = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line:
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            # Without its content, since the list may be a link to another file.
            raise ValueError(f"line {number} is not a digest and a name")
        escaped, digest, name = match.groups()
        name = re.sub(r"\\[\\nr]", lambda pair: _ESCAPES[pair[0]], name) if escaped else name
        if not is_inside(name):
            raise ValueError(f"line {number} names a file outside of the bundle")
        digests[name] = digest
    return digests
