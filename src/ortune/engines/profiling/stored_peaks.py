"""Stores machine peaks in one file of the store's folder, with an entry per machine and runtime."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ortune import files
from ortune.errors import StoreError
from ortune.records import Host, MachinePeak, Record, messages
from ortune.store.places import data_folder

FILE = "peaks.json"
PENDING = "peaks.pending"
"""Name of the file that marks a measurement as postponed because of other programs."""
NOT_MEASURED = "not measured yet (run ortune doctor)"
POSTPONED = "other programs used the CPUs when it was to be measured; it is measured at the next quiet moment"


class _Stored(Record, frozen=True, kw_only=True):
    """One entry of the file: a peak with the machine and runtime for which it holds."""

    cpu: str
    features: tuple[str, ...]
    effective_cpus: int
    ort_version: str
    peak: MachinePeak


def load_peak(host: Host, store_folder: Path | None, ort_version: str = "") -> MachinePeak | None:
    """Return the stored peak of a machine, or None.

    Args:
        host: The machine, whose processor, instruction sets and effective CPUs must be those of the entry.
        store_folder: Folder of the store; None for the user's own.
        ort_version: Preferred version of ONNX Runtime; otherwise the newest peak is returned.
    """
    path = _path(store_folder)
    mine = [entry for entry in _read(path).values() if _same_machine(entry, host)] if path else []
    best = max(mine, key=lambda e: (e.ort_version == ort_version, e.peak.taken), default=None)
    return msgspec.structs.replace(best.peak, ort_version=best.ort_version) if best else None


def not_measured(store_folder: Path | None) -> str:
    """Return the reason that no peak is stored, and when or how it will be measured."""
    return POSTPONED if is_postponed(store_folder) else NOT_MEASURED


def is_postponed(store_folder: Path | None) -> bool:
    """Return whether the measurement of the peaks was postponed to a quiet moment."""
    path = _path(store_folder)
    return path is not None and path.with_name(PENDING).exists()


def postpone(store_folder: Path | None) -> None:
    """Postpone the measurement of the peaks to a quiet moment; does nothing if the mark cannot be written."""
    path = _path(store_folder)
    if path is not None:
        with contextlib.suppress(OSError):
            files.private_folder(path.parent, own=store_folder is None)
            files.write(path.with_name(PENDING), datetime.now(UTC).isoformat(), private=True)


def _same_machine(entry: _Stored, host: Host) -> bool:
    return (entry.cpu, entry.features, entry.effective_cpus) == (
        host.cpu,
        host.features,
        host.effective_cpus,
    )


def _key(host: Host, ort_version: str) -> str:
    parts: Sequence[object] = (host.cpu, host.features, host.effective_cpus, ort_version)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _path(store_folder: Path | None) -> Path | None:
    """Return the path of the file with peaks; None if there is no user folder."""
    try:
        return (store_folder or data_folder()) / FILE
    except StoreError:
        return None


def _read(path: Path) -> dict[str, _Stored]:
    """Return the stored entries; {} if the file is missing or invalid, since peaks can be measured again."""
    try:
        return msgspec.json.decode(files.read(path), type=dict[str, _Stored])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def keep_peak(
    store_folder: Path | None,
    host: Host,
    ort_version: str,
    peak: MachinePeak,
    say: Callable[[messages.Message], None],
) -> None:
    """Store the peak, replacing an older peak of the same machine and runtime; report a failure to write."""
    path = _path(store_folder)
    if path is None:
        say(messages.PeaksNotStored(path="", why=""))
        return
    entry = _Stored(
        cpu=host.cpu,
        features=host.features,
        effective_cpus=host.effective_cpus,
        ort_version=ort_version,
        peak=peak,
    )
    text = msgspec.json.format(msgspec.json.encode(_read(path) | {_key(host, ort_version): entry}), indent=2)
    try:
        files.private_folder(path.parent, own=store_folder is None)
        files.write(path, text, private=True)
        path.with_name(PENDING).unlink(missing_ok=True)
    except OSError as error:
        say(messages.PeaksNotStored(path=str(path), why=str(error.strerror)))
