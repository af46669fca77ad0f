"""Sessions of the store and bundles, read for telling them again.

A store is older than the ortune that reads it, and may have been written by a newer one, or be damaged: what
cannot be read becomes one sentence about that session, and all the others are still told.
"""

from __future__ import annotations

import re
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from ortune import __version__
from ortune.bundle import format as bundle_format
from ortune.errors import StoreError, UsageError
from ortune.records import (
    BundleInfo,
    Comparison,
    Envelope,
    Failed,
    Host,
    Measured,
    Outcome,
    Plan,
    SoFar,
    StoredSession,
    Timeline,
)
from ortune.report.answer import KINDS
from ortune.search.blocks import BASE, IDENTICAL, NEW, SPIKE
from ortune.search.figures import describe
from ortune.search.race import CURRENT
from ortune.store.db import SCHEMA_VERSION, Event, SessionHead, Store
from ortune.store.places import data_folder

DATABASE = "ortune.sqlite"
NUMBER = 1
NOT_KEPT = "it ended, but the ortune that measured it did not keep its document"
ARM_NAMES = {"compare": {BASE: "A", NEW: "B"}}
"""What contestants are called beside their plan, by verb."""
_SCHEMA = re.compile(r"ortune/([a-z][a-z-]*)/(\d+)")
_UNREADABLE = (OSError, zlib.error, sqlite3.Error, msgspec.MsgspecError, UnicodeDecodeError)


class _Header(msgspec.Struct):
    """What of a session's header is read; every part may be missing."""

    model: str = ""
    a: str = ""
    b: str = ""
    host: Host | None = None


class _TrialEvent(msgspec.Struct):
    trial: str
    arm: str
    plan: Plan = Plan()


class _OutcomeEvent(msgspec.Struct):
    trial: str
    outcome: Outcome | None = None


class _BlockEvent(msgspec.Struct):
    order: list[str]
    case: str = ""


class _Reading(Store):
    """A store that is only read: it may lie where nothing can be written, and another ortune may be writing it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        uri = f"{(folder / DATABASE).absolute().as_uri()}?mode=ro"
        self._db = sqlite3.connect(uri, uri=True, timeout=30, isolation_level=None)
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"written by a newer ortune (format {version})",
                where=str(folder),
                do="upgrade ortune or use --store",
            )


def open_existing(folder: Path | None) -> Store:
    """The store for reading, which must be there: looking makes none.

    Raises:
        UsageError: Nothing is stored there.
        StoreError: It cannot be opened.
    """
    place = folder or data_folder()
    try:
        there = (place / DATABASE).is_file()
        opened = _Reading(place) if there else None
    except (OSError, sqlite3.Error) as error:
        raise StoreError(
            f"cannot be read: {error}", where=str(place), do="choose another with --store PATH"
        ) from error
    if opened is None:
        raise UsageError(
            "nothing is stored there yet",
            where=str(place),
            do="ortune tune MODEL and ortune compare A B keep what they measure; --store PATH reads another place",
        )
    return opened


def heads(store: Store) -> list[SessionHead]:
    """Every session, newest first.

    Raises:
        StoreError: The database cannot be read.
    """
    try:
        return store.sessions()
    except sqlite3.Error as error:
        raise StoreError(
            f"cannot be read: {error}", where=str(store.folder), do="choose another with --store PATH"
        ) from error


def find(all_heads: Sequence[SessionHead], wanted: str) -> SessionHead:
    """The session whose id begins so, whole or after its date; "newest" is the last one.

    Raises:
        UsageError: None, or more than one.
    """
    if wanted == "newest" and all_heads:
        return all_heads[0]
    found = [
        h for h in all_heads if wanted and (h.id.startswith(wanted) or _after_date(h).startswith(wanted))
    ]
    exact = [h for h in found if wanted in (h.id, _after_date(h))]
    if len(exact) == 1 or len(found) == 1:
        return (exact or found)[0]
    if not found:
        raise UsageError(
            "no stored session and no bundle is called so",
            where=wanted,
            do="ortune report lists what is stored",
        )
    some = ", ".join(h.id for h in found[:4]) + (", ..." if len(found) > 4 else "")
    raise UsageError(f"{len(found)} sessions begin so: {some}", where=wanted, do="give more of the id")


def about(head: SessionHead, model: str) -> bool:
    """Whether the session is of a file of that name, as a side or alone."""
    header = _header(head)
    return Path(model).name in {Path(name).name for name in (header.model, header.a, header.b)}


def _header(head: SessionHead) -> _Header:
    """What can be read of it; nothing of a damaged one."""
    try:
        return msgspec.json.decode(head.header, type=_Header)
    except _UNREADABLE:
        return _Header()


def _after_date(head: SessionHead) -> str:
    return head.id.partition("-")[2]


def read(store: Store, head: SessionHead, here: str) -> StoredSession:
    """One session as it can be told.

    Args:
        store: Where it lies.
        head: Which one.
        here: This machine's fingerprint.
    """
    header = _header(head)
    plain = StoredSession(
        id=head.id,
        at=head.at,
        verb=head.verb,
        label=header.model or _pair(header.a, header.b),
        state="unreadable",
        host=header.host,
        here=_is_here(header.host, here),
    )
    try:
        events = store.events(head.id)
        body = _document(events)
        if body is None:
            if any(e.kind == "result" for e in events):
                return msgspec.structs.replace(plain, state="done", trouble=NOT_KEPT)
            return msgspec.structs.replace(plain, state="unfinished", so_far=_so_far(head.verb, events))
        return _with_document(plain, body, here)
    except _UNREADABLE as error:
        return msgspec.structs.replace(plain, trouble=f"it cannot be read: {error}")


def timeline(store: Store, session: str) -> Timeline | None:
    """What ran when, of a profile that was stored with it."""
    try:
        for event in reversed(store.events(session)):
            if event.kind == "timeline":
                return msgspec.json.decode(event.body, type=Timeline)
    except _UNREADABLE:
        return None
    return None


def _pair(a: str, b: str) -> str:
    return f"{a} against {b}" if a != b else a


def _is_here(host: Host | None, here: str) -> bool | None:
    return host.fingerprint == here if host and host.fingerprint else None


def _document(events: Sequence[Event]) -> bytes | None:
    """The last document in a session; a ``result`` that is none belongs to a document that was not kept."""
    for event in reversed(events):
        if event.kind == "document":
            return event.body
        if event.kind == "result" and "schema" in msgspec.json.decode(event.body):
            return event.body
    return None


def _with_document(plain: StoredSession, body: bytes, here: str) -> StoredSession:
    envelope = msgspec.json.decode(body, type=Envelope)
    known = msgspec.structs.replace(
        plain,
        ortune=envelope.ortune,
        verdict=envelope.verdict or "",
        host=envelope.host or plain.host,
        here=_is_here(envelope.host or plain.host, here),
    )
    found = _SCHEMA.fullmatch(envelope.schema)
    if not found or int(found.group(2)) != NUMBER:
        sentence = (
            f"its document is of format {envelope.schema!r}, written by ortune {envelope.ortune}, "
            f"which ortune {__version__} cannot read"
        )
        return msgspec.structs.replace(known, trouble=sentence)
    state = "stopped" if envelope.status == "interrupted" else "done"
    known = msgspec.structs.replace(known, verb=found.group(1), state=state)
    kind = KINDS.get(found.group(1))
    if kind is None or envelope.result is None:
        return msgspec.structs.replace(known, document=envelope)
    # In JSON the keys of every mapping are text, numbers of threads too.
    result = msgspec.convert(envelope.result, type=kind.result, str_keys=True)
    return msgspec.structs.replace(
        known,
        headline=kind.headline(result),
        ort_version=kind.ort_version(result),
        document=msgspec.structs.replace(envelope, result=result),
    )


def _so_far(verb: str, events: Sequence[Event]) -> tuple[SoFar, ...]:
    """What was measured of each contestant in whole blocks before the session ended; controls are no contestants.

    A contestant is more than its plan: two models may run the same one, and a bench has one for all its shapes.
    """
    arms = ARM_NAMES.get(verb, {CURRENT: "today"})
    found: dict[tuple[str, str, str], list[_TrialEvent]] = {}
    outcomes: dict[str, Outcome] = {}
    for case, trial, outcome in _in_blocks(events):
        if trial.arm not in (IDENTICAL, SPIKE):
            found.setdefault((case, trial.arm, trial.plan.id), []).append(trial)
            outcomes[trial.trial] = outcome
    return tuple(
        _described(case or arms.get(arm, ""), trials[0].plan, [outcomes[t.trial] for t in trials])
        for (case, arm, _), trials in found.items()
    )


def _in_blocks(events: Sequence[Event]) -> Iterator[tuple[str, _TrialEvent, Outcome]]:
    """The trials of whole blocks, each with the shape that the block was of, "" where it was of all.

    What runs before and between the blocks is timed in another way, or fed other inputs: it is no part of the answer.
    """
    begun: dict[str, _TrialEvent] = {}
    ended: list[tuple[_TrialEvent, Outcome]] = []
    for event in events:
        if event.kind == "trial":
            trial = msgspec.json.decode(event.body, type=_TrialEvent)
            begun[trial.trial] = trial
        elif event.kind == "outcome":
            outcome = msgspec.json.decode(event.body, type=_OutcomeEvent)
            if outcome.trial in begun and outcome.outcome is not None:
                ended.append((begun[outcome.trial], outcome.outcome))
        elif event.kind == "block":
            block = msgspec.json.decode(event.body, type=_BlockEvent)
            mine = ended[len(ended) - len(block.order) :]
            # A session that went on tells its earlier blocks again, without their trials.
            if [trial.arm for trial, _ in mine] == block.order:
                yield from ((block.case, trial, measured) for trial, measured in mine)
                ended = []


def _described(name: str, plan: Plan, outcomes: Sequence[Outcome]) -> SoFar:
    timed = [o for o in outcomes if isinstance(o, Measured) and o.done.n_runs]
    failed = sum(isinstance(o, Failed) for o in outcomes)
    return SoFar(name=name, plan=plan, figures=describe(timed, "median") if timed else None, n_failed=failed)


def read_bundle(path: Path, find_session: Callable[[str], StoredSession | None], here: str) -> StoredSession:
    """A bundle: the stored session that made it where there is one, else what ``ortune.json`` says.

    Args:
        path: The folder.
        find_session: Gives the stored session of an id; None where there is none.
        here: This machine's fingerprint.

    Raises:
        UsageError: It is no bundle, or it is damaged.
    """
    info = bundle_format.read(path)
    session = find_session(info.session) if info.session else None
    if session is not None and session.document is not None:
        return msgspec.structs.replace(session, bundle=info)
    made = f"the session that made it, {info.session}," if info.session else "the session that made it"
    lost = "is not in this store" if session is None else "is in this store and cannot be told"
    return StoredSession(
        id="",
        verb="tune",
        label=path.name,
        state="done",
        verdict=info.proof.verdict if info.proof else "",
        headline=_bundle_headline(info),
        host=info.host,
        here=_is_here(info.host, here),
        ort_version=info.ort_version,
        bundle=info,
        trouble=f"{made} {lost}: only what the bundle says of itself is known",
    )


def _bundle_headline(info: BundleInfo) -> str:
    proof: Comparison | None = info.proof
    if proof is None:
        return f"{info.plan.describe()}; the bundle holds no proof"
    from ortune.report import tune_words

    gain = tune_words.gain_words(proof) if proof.verdict == "faster" else proof.verdict
    return f"{info.plan.describe()}: {gain} ({tune_words.bounds(proof)}), {tune_words.blocks_words(proof)}"
