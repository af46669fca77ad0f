"""Results as files for other programs (``--export KIND=FILE``): rows as CSV, or whole documents as JSON lines."""

from __future__ import annotations

import csv
import io
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, get_args, get_type_hints

import msgspec

from ortune import files
from ortune.errors import UsageError
from ortune.printable import cell
from ortune.records import Envelope, Record
from ortune.trace.export import require_places

KINDS = ("csv", "jsonl")
"""A ``csv`` file has a line for each row of the command's main table, a ``jsonl`` file for each model's document."""
LEADING = ("model", "status", "error")
"""First columns of every CSV file."""
Wanted = tuple[tuple[str, Path], ...]
DEEPEST = 3
"""Depth down to which nested records become columns; a deeper record becomes a cell with JSON."""


def parse(texts: Sequence[str]) -> Wanted:
    """Parse the values of ``--export`` as pairs of a kind and a file.

    Raises:
        UsageError: A text is malformed, two exports name the same file, or a file is not writable.
    """
    wanted: list[tuple[str, Path]] = []
    for text in texts:
        kind, sign, name = text.partition("=")
        if not sign and Path(text).suffix[1:] in KINDS:
            kind, name = Path(text).suffix[1:], text
        if kind not in KINDS or not name:
            raise UsageError(
                "is not an export", where=f"--export {text}", do=f"pass KIND=FILE, KIND {' or '.join(KINDS)}"
            )
        wanted.append((kind, Path(name)))
    require_places([path for _, path in wanted])
    return tuple(wanted)


class Exports:
    """Writer of the ``--export`` files: collects documents, and writes the files at the end.

    Args:
        wanted: Pairs of a kind and a file.
        table: Name of the result's field whose records become the rows of a CSV file.
        result: Record type of the documents' results.
    """

    def __init__(self, wanted: Wanted, table: str, result: type[Record]) -> None:
        self.written: dict[str, str] = {}
        self._table, self._result = table, result
        # Kept on disk: many models have many megabytes of documents.
        self._open: list[tuple[str, Path, IO[bytes]]] = [
            (kind, path, tempfile.TemporaryFile()) for kind, path in wanted  # noqa: SIM115
        ]  # fmt: skip

    def __enter__(self) -> Exports:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _, _, spool in self._open:
            spool.close()

    def add(self, model: str, envelope: Envelope[Any]) -> None:
        """Add the document of one model."""
        for kind, _, spool in self._open:
            if kind == "jsonl":
                spool.write(msgspec.json.encode(envelope) + b"\n")
            else:
                head = not spool.tell()
                spool.write(_csv(rows(model, envelope, self._table, self._result), head=head))

    def finish(self) -> dict[str, str]:
        """Write the exported tables to the files that the user named.

        Returns:
            The paths of the files, keyed by kind.

        Raises:
            UsageError: A file cannot be written.
        """
        for kind, path, spool in self._open:
            spool.seek(0)
            try:
                files.write(path, _copied(spool), typed=True)
            except OSError as error:
                raise UsageError(
                    f"cannot be written: {error.strerror}", where=str(path), do="choose another --export"
                ) from error
            self.written[kind] = str(path)
        return self.written


def _copied(spool: IO[bytes]) -> Callable[[IO[bytes]], object]:
    return lambda file: shutil.copyfileobj(spool, file)


def export(wanted: Wanted, model: str, envelope: Envelope[Any], table: str) -> None:
    """Write a single document to the files of ``--export``.

    Raises:
        UsageError: A file cannot be written.
    """
    with Exports(wanted, table, type(envelope.result)) as exports:
        exports.add(model, envelope)
        exports.finish()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A column of the CSV file: its name, and the field names that lead to its value in a row's record."""

    name: str
    path: tuple[str, ...]


def rows(
    model: str, envelope: Envelope[Any], table: str, result: type[Record]
) -> Iterator[Mapping[str, object]]:
    """Yield the rows of a document's main table as mappings from column to value.

    A document without records yields one row with its status.

    Args:
        model: Path of the model, for records that do not name a model.
        envelope: The document.
        table: Name of the result's field with the records; dots separate nested fields.
        result: Record type of the document's result.
    """
    columns = _columns(_record_of(result, table.split(".")))
    error = envelope.error.what if envelope.error else ""
    found = list(_found(envelope.result, table.split("."), model, error))
    for name, failed, record in found or [(model, error, None)]:
        head = dict(zip(LEADING, (name, envelope.status, failed), strict=True))
        yield head | {column.name: _value(record, column.path) for column in columns}


def _found(
    value: Any, path: Sequence[str], model: str, error: str
) -> Iterator[tuple[str, str, Record | None]]:
    """Yield (model, error, record) for each record at a path; a model without records is yielded once with None."""
    if value is None:
        return
    inner = getattr(value, path[0])
    for record in inner if isinstance(inner, tuple) else () if inner is None else (inner,):
        if len(path) == 1:
            yield model, error, record
            continue
        name = getattr(record, "path", model)
        trouble = getattr(record, "error", None)
        said = trouble.what if trouble else error
        yield from list(_found(record, path[1:], name, said)) or [(name, said, None)]


def _record_of(record: type[Record], path: Sequence[str]) -> type[Record]:
    """Return the type of the records at a path of field names."""
    for name in path:
        record = next(_records(get_type_hints(record)[name]))
    return record


def _records(hint: Any) -> Iterator[type[Record]]:
    """Yield the records within a type, such as ``tuple[Row, ...]`` or ``Row | None``."""
    if isinstance(hint, type) and issubclass(hint, Record):
        yield hint
    for part in get_args(hint):
        yield from _records(part)


def _columns(record: type[Record], before: tuple[str, ...] = ()) -> list[_Column]:
    """Return a column for each field of a record, and instead of a nested record the columns of its fields."""
    columns = []
    for name, hint in get_type_hints(record).items():
        if name.startswith("__"):
            continue
        nested = [
            kind for kind in (hint, *get_args(hint)) if isinstance(kind, type) and issubclass(kind, Record)
        ]
        path = (*before, name)
        single = bool(nested) and not str(hint).startswith("tuple")
        if single and nested[0] is not record and len(path) < DEEPEST:
            columns += _columns(nested[0], path)
        else:
            text = ".".join(path)
            columns.append(_Column(name=f"row.{text}" if text in LEADING else text, path=path))
    return columns


def _value(record: Any, path: Sequence[str]) -> object:
    """Return the cell for the value at a path: text or a number, JSON for lists, "" for an unknown value."""
    for name in path:
        record = getattr(record, name, None)
    if record is None:
        return ""
    if isinstance(record, str):
        return record
    if isinstance(record, bool):
        return str(record).lower()
    if isinstance(record, int | float):
        return record
    return msgspec.json.encode(record).decode() if record else ""


def _csv(lines: Iterator[Mapping[str, object]], *, head: bool) -> bytes:
    page = io.StringIO(newline="")
    writer = csv.writer(page, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    for line in lines:
        if head:
            writer.writerow(line)
            head = False
        writer.writerow([cell(value) if isinstance(value, str) else value for value in line.values()])
    return page.getvalue().encode("utf-8", "backslashreplace")
