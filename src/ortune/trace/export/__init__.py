"""Export of a profile to other tools' formats.

An export is passed as ``KIND=FILE``, or as ``FILE`` if its extension implies the kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from ortune import files
from ortune.errors import UsageError
from ortune.records import ProfileResult
from ortune.trace.export import chrome, columns, csv, model_explorer, speedscope
from ortune.trace.table import Trace

Writer = Callable[[Trace, ProfileResult, BinaryIO], None]
Wanted = tuple[tuple[str, Path], ...]
"""(kind, file) pairs in command-line order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A file format of ``--export``.

    Attributes:
        endings: File name endings that imply the format; no two formats share one.
        about: Purpose of the format, in one line.
        write: Function that writes to an open file.
    """

    endings: tuple[str, ...]
    about: str
    write: Writer


KINDS: dict[str, Export] = {
    "chrome": Export(
        endings=(".chrome.json", ".trace.json"),
        about="Chrome trace events, for Perfetto and chrome://tracing",
        write=chrome.write,
    ),
    "speedscope": Export(
        endings=(".speedscope.json",), about="flame graphs, for speedscope", write=speedscope.write
    ),
    "nodes-csv": Export(
        endings=(".nodes.csv",), about="one row per node of the mean steady run", write=csv.write_nodes
    ),
    "csv": Export(
        endings=(".executions.csv", ".csv"), about="one row per execution of a node", write=csv.write
    ),
    "columns": Export(
        endings=(".npz",), about="one NumPy array per column of the trace", write=columns.write
    ),
    "model-explorer": Export(
        endings=(".node-data.json", ".model-explorer.json"),
        about="node data that colours a graph by time, for model-explorer",
        write=model_explorer.write,
    ),
}
"""All formats, by the name used on the command line."""


def write(kind: str, trace: Trace, result: ProfileResult, path: Path) -> None:
    """Write one export; an existing file is replaced once the new one is complete.

    Raises:
        UsageError: If the kind is unknown or the file cannot be written.
    """
    if kind not in KINDS:
        raise UsageError("is not an export format", where=f"--export {kind}", do=_choices())
    try:
        files.write(path, partial(KINDS[kind].write, trace, result), typed=True)
    except OSError as error:
        raise UsageError(
            f"cannot be written: {error.strerror}", where=str(path), do="choose another file for --export"
        ) from error


def parse(texts: Sequence[str]) -> Wanted:
    """Return the (kind, file) pairs of ``--export`` arguments.

    Raises:
        UsageError: If a format is unknown, two exports share a file, or a file cannot be written.
    """
    exports = tuple(_parse(text) for text in texts)
    require_places([path for _, path in exports])
    return exports


def require_places(paths: Sequence[Path]) -> None:
    """Check that each ``--export`` file can be written and is used only once.

    Raises:
        UsageError: For the first file that fails.
    """
    for number, path in enumerate(paths):
        files.require_writable(path, "--export")
        if path in paths[:number]:
            raise UsageError("two exports would be written to the same file", where=f"--export {path}")


def _parse(text: str) -> tuple[str, Path]:
    kind, sign, name = text.partition("=")
    if sign and kind in KINDS:
        if not name:
            raise UsageError("the file is missing", where=f"--export {text}", do=f"--export {kind}=FILE")
        return kind, Path(name)
    endings = [(ending, k) for k, export in KINDS.items() for ending in export.endings]
    # Longest ending first: ".nodes.csv" also ends with ".csv".
    for ending, kind_of_ending in sorted(endings, key=lambda item: -len(item[0])):
        if text.lower().endswith(ending):
            return kind_of_ending, Path(text)
    raise UsageError(
        "neither the kind nor the file name extension is known", where=f"--export {text}", do=_choices()
    )


def write_all(wanted: Wanted, trace: Trace, result: ProfileResult) -> dict[str, str]:
    """Write all exports; return the files by kind (``kind``, then ``kind 2`` and so on for repeated kinds).

    Raises:
        UsageError: If a file cannot be written; all earlier ones are written.
    """
    done: dict[str, str] = {}
    for kind, path in wanted:
        write(kind, trace, result, path)
        again = sum(other == kind or other.startswith(f"{kind} ") for other in done)
        done[f"{kind} {again + 1}" if again else kind] = str(path)
    return done


def _choices() -> str:
    return "pass KIND=FILE, KIND one of " + ", ".join(KINDS)
