"""Reading and checking the bundle of an application, and the changes that ``ortune run --with`` makes from it.

A bundle may come from a stranger. It can only set options from a closed list, and replace models, identified by sha256,
with files inside the bundle. It cannot name a program, a library or a place to write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from ortune import files
from ortune.bundle import digests
from ortune.bundle.machine import other_hardware, threads
from ortune.bundle.settings import as_assignment, resolve, tuned_on
from ortune.bundle.shared import (
    APP_SCHEMA,
    INDEX,
    applied,
    as_text,
    is_inside,
    require_no_way_out,
    thread_cap,
)
from ortune.catalogue import providers
from ortune.errors import UsageError
from ortune.records import AppBundle, Applied, AppSession, AppValue, Plan, SessionChange

SCHEMA = APP_SCHEMA
VARIABLES = ("ORT_INTRA_OP_NUM_THREADS", "ORT_INTER_OP_NUM_THREADS")
"""Environment variables that a bundle may set to a number of threads."""
_COUNT = re.compile(r"[1-9]\d{0,3}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CHANNELS = ("session_option", "session_config")
_MOST_KEPT_S = 86_400.0
_AGAIN = "create the bundle again with ortune tune"


def read(path: Path) -> AppBundle:
    """Read and check the bundle of an application.

    Raises:
        UsageError: The path is not an application's bundle, or the bundle contains something that is not allowed.
    """
    index = path / INDEX
    require_no_way_out(path, INDEX)
    try:
        bundle = msgspec.json.decode(files.read(index), type=AppBundle)
    except OSError as error:
        raise UsageError(
            f"not a bundle: {error.strerror}",
            where=str(index),
            do="pass the folder that ortune tune app.workload wrote",
        ) from error
    except msgspec.DecodeError as error:
        raise UsageError(f"cannot be read: {error}", where=str(index), do=_AGAIN) from error
    if bundle.schema != SCHEMA:
        do = "pass the folder that ortune tune app.workload wrote; ortune.load opens the bundle of one model"
        raise UsageError(
            f"the bundle has schema {bundle.schema!r}; {SCHEMA!r} is required", where=str(index), do=do
        )
    for name, value in bundle.variables.items():
        if name not in VARIABLES or not _COUNT.fullmatch(value):
            raise _refused(index, f"a bundle cannot set the variable {name}={value}")
    for session in bundle.sessions:
        _check(path, session)
    return bundle


def changes(path: Path, bundle: AppBundle) -> tuple[tuple[SessionChange, ...], tuple[str, ...]]:
    """Return the changes that apply on this machine, and notes on replacement models that are not used here.

    Args:
        path: The folder of the bundle.
        bundle: The bundle as returned by ``read``.
    """
    host = tuned_on(bundle.host)
    other = other_hardware(host)
    notes = []
    changed = []
    for session in bundle.sessions:
        name = session.name or session.sha256[0][:8]
        replacement = session.replacement
        if replacement and session.hardware_bound and other:
            notes.append(f"{name}: the model is not replaced, because it was made for another CPU ({other})")
            replacement = ""
        settings = _settings(path, session)
        values = {s.knob: _limited_to_cpus(s.value, host) for s in settings}
        changed.append(
            SessionChange(
                name=name,
                sha256=session.sha256,
                sizes=session.sizes_bytes if len(session.sizes_bytes) == len(session.sha256) else (),
                what=tuple(as_assignment(msgspec.structs.replace(s, value=values[s.knob])) for s in settings),
                options={s.key: values[s.knob] for s in settings if s.channel == "session_option"},
                entries={s.key: as_text(values[s.knob]) for s in settings if s.channel == "session_config"},
                providers=_providers(session.provider),
                share=session.share,
                keep_s=session.keep_s,
                replacement=str((path / replacement).resolve()) if replacement else "",
                replacement_sha256=session.replacement_sha256,
                shapes=tuple(
                    tuple(sorted((value.name, value.shape or ()) for value in one))
                    for one in session.only_shapes
                ),
                inputs=_values(session.inputs),
                outputs=_values(session.outputs),
                version=_version(bundle) if session.hardware_bound else "",
            )
        )
    return tuple(changed), tuple(notes)


def _check(path: Path, session: AppSession) -> None:
    index = path / INDEX
    if not session.sha256 or not all(map(_SHA256.fullmatch, session.sha256)):
        raise _refused(index, f"{session.name}: the sha256 of its model is missing")
    if not 0.0 <= session.keep_s <= _MOST_KEPT_S:
        raise _refused(index, f"{session.name}: keep_s is {session.keep_s}; a day at most is possible")
    for setting in _settings(path, session):
        if setting.channel not in _CHANNELS or setting.provider:
            raise _refused(index, f"{setting.knob} is not a setting of a session on the CPU")
    known = providers.find(session.provider)
    if session.provider and not (known.ships and known.target and not (known.in_page or known.in_node)):
        raise _refused(index, f"{session.provider!r} is not an execution provider that a bundle can choose")
    if not session.replacement:
        return
    if not is_inside(session.replacement):
        raise _refused(index, f"the model is outside the bundle: {session.replacement!r}")
    require_no_way_out(path, session.replacement)
    if not files.is_file(path / session.replacement):
        raise UsageError(f"the model {session.replacement} is missing", where=str(path), do=_AGAIN)
    digests.require_intact_folder(path, PurePosixPath(session.replacement))


def _refused(index: Path, what: str) -> UsageError:
    return UsageError(what, where=str(index), do=_AGAIN)


def _settings(path: Path, session: AppSession) -> tuple[Applied, ...]:
    """Return the settings with their channels; raise UsageError if one is not in the closed list."""
    try:
        applied(session.settings)
    except ValueError as error:
        raise _refused(path / INDEX, f"{session.name}: {error}") from error
    return resolve(Plan(settings=session.settings))


def _providers(name: str) -> tuple[tuple[str, dict[str, str]], ...]:
    """Return the provider that a bundle chooses, with its required options, and then the CPU provider as fallback."""
    if not name:
        return ()
    rest = [(providers.CPU.name, dict[str, str]())] if name != providers.CPU.name else []
    return ((name, dict(providers.find(name).needs)), *rest)


def _limited_to_cpus(value: Any, host: Mapping[str, Any]) -> Any:
    count = thread_cap(value)
    return value if count is None else threads(count, host["cpus"]) if host else count


def _values(values: tuple[AppValue, ...]) -> tuple[tuple[str, str, tuple[int | str | None, ...]], ...]:
    return tuple((value.name, value.type, value.shape) for value in values)


def _version(bundle: AppBundle) -> str:
    """Return the only ONNX Runtime version for which a hardware-bound model is valid."""
    return bundle.ort_versions[0] if bundle.ort_versions else "unknown"
