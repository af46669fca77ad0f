"""``ortune report``: lists stored sessions, shows one or several again, and writes briefs and bug reports."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ortune import __version__, files
from ortune.bundle import format as bundle_format
from ortune.bundle.format import MODELS, is_bundle
from ortune.catalogue import knobs
from ortune.catalogue.spinning import spins
from ortune.errors import OrtuneError, StoreError, UsageError
from ortune.measuring.document import document
from ortune.measuring.watcher import Watcher
from ortune.recorder.anonymous import anonymous
from ortune.records import BundleInfo, Envelope, Host, Recording, schema_of
from ortune.show.stored_kind import stored_kind
from ortune.store import reading
from ortune.store.db import SessionHead
from ortune.store.reading import ReadOnlyStore
from ortune.targets.machine import Machine
from ortune.verbs._shared.applications import recording_of
from ortune.verbs._shared.spelling import path
from ortune.verbs.record import run as record
from ortune.verbs.record import words as record_words
from ortune.verbs.report import brief, stored_words
from ortune.verbs.report import several as history
from ortune.verbs.report.answer import answer
from ortune.verbs.report.options import LAST, Options
from ortune.verbs.report.result import IssueReport, ReportResult, StoredSession
from ortune.verbs.report.so_far import so_far
from ortune.verbs.skeleton import options as asked_skeleton
from ortune.verbs.skeleton import run as skeleton
from ortune.verbs.skeleton import words as skeleton_words

ISSUE = "issue.md"
_SCHEMA = re.compile(r"ortune/([a-z][a-z-]*)/\d+")


def run(options: Options, watcher: Watcher | None = None) -> Envelope[ReportResult]:
    """Read the requested sessions from the store and return the report.

    Raises:
        UsageError: The store is empty, a session is unknown, or none of the requested sessions can be shown.
        StoreError: The store cannot be read.
    """
    if options.load_per_s is not None and not options.brief:
        raise UsageError("--load works only with a brief", where="--load", do="add --brief")
    if options.brief and len(options.sessions) > 1:
        raise UsageError(
            "a brief needs exactly one session", where="--brief", do="pass one session or bundle"
        )
    if options.last != LAST and (options.sessions or options.brief or options.issue is not None):
        raise UsageError(
            "--last applies only to the list of sessions", where="--last", do="omit it, or pass no session"
        )
    if options.issue is not None:
        return _envelope(_issue(options, Path(options.issue), watcher))
    reader = _Reader(options)
    try:
        result = _brief(options, reader) if options.brief else _plain(options, reader)
    finally:
        if reader.opened is not None:
            reader.opened.close()
    return _envelope(result)


def _envelope(result: ReportResult) -> Envelope[ReportResult]:
    return document("report", result)


def _issue(options: Options, folder: Path, watcher: Watcher | None) -> ReportResult:
    """Write a bug report to a folder: the model's skeleton, and a text that compares the skeleton with the model."""
    recording = recording_of(options.sessions[0]) if len(options.sessions) == 1 else None
    if recording is not None:
        return _issue_of(recording, str(options.sessions[0]), folder)
    if options.brief or len(options.sessions) != 1:
        raise UsageError(
            "a bug report needs exactly one model",
            where="--issue",
            do="ortune report MODEL.onnx --issue FOLDER",
        )
    with _new_folder(folder):
        envelope = skeleton.run(
            asked_skeleton.Options(model=options.sessions[0], output=folder / asked_skeleton.USUAL), watcher
        )
        files.write(folder / ISSUE, skeleton_words.issue(envelope))
    return ReportResult(kind="told", issue=IssueReport(path=str(folder / ISSUE), skeleton=envelope.result))


def _issue_of(recording: Recording, name: str, folder: Path) -> ReportResult:
    """Write a text on an application's findings, without the user's paths and arguments, to a folder."""
    with _new_folder(folder):
        result = record.result_of(anonymous(recording))
        if not result.findings:
            raise UsageError("nothing was found in this recording", where=name, do=f"ortune report {name}")
        files.write(folder / ISSUE, record_words.issue(result))
    return ReportResult(kind="told", text=str(folder / ISSUE))


@contextlib.contextmanager
def _new_folder(folder: Path) -> Iterator[None]:
    """Make a folder for a report; remove it again after an error if it is empty."""
    if files.exists(folder):
        raise UsageError("already exists and is not replaced", where=str(folder), do="choose a new folder")
    try:
        folder.mkdir()
        yield
    except OrtuneError:
        with contextlib.suppress(OSError):
            folder.rmdir()  # for the next try
        raise
    except OSError as error:
        raise UsageError(
            f"cannot be written: {error.strerror or error}", where=str(folder), do="choose another folder"
        ) from error


def _stored(recording: Recording) -> StoredSession:
    """Return a recording in the form of a stored session."""
    result = record.result_of(recording)
    return StoredSession(
        id="",
        at=recording.at,
        verb="record",
        label=shlex.join(recording.command),
        state="done",
        verdict=record.verdict(result),
        headline=result.headline,
        build=record_words.STORED.build(result),
        document=document("record", result, verdict=record.verdict(result)),
    )


class _Reader:
    """Reads sessions from the store, which is opened on first use, since a bundle can be shown without a store."""

    def __init__(self, options: Options) -> None:
        self.folder = path(options.store)
        self.here = Machine().host.fingerprint
        self.opened: ReadOnlyStore | None = None

    @property
    def store(self) -> ReadOnlyStore:
        """The store, opened on first use."""
        if self.opened is None:
            self.opened = ReadOnlyStore(self.folder)
        return self.opened

    def session(self, head: SessionHead) -> StoredSession:
        """Read one stored session; a session that cannot be read in full has the reason in ``trouble``."""
        header = reading.header(head)
        plain = StoredSession(
            id=head.id,
            at=head.at,
            verb=head.verb,
            label=header.label,
            state="unreadable",
            host=header.host,
            here=self._is_here(header.host),
        )
        try:
            events = self.store.events(head.id)
            body = reading.document(events)
            if body is not None:
                return self._with_document(plain, body)
            if any(e.kind == "result" for e in events):
                return msgspec.structs.replace(plain, state="done", trouble=stored_words.NOT_KEPT)
            measured = msgspec.structs.replace(plain, state="unfinished", so_far=so_far(head.verb, events))
            failed = reading.failure(events)
            return (
                msgspec.structs.replace(measured, state="failed", trouble=f"failed: {failed}")
                if failed
                else measured
            )
        except reading.UNREADABLE as error:
            return msgspec.structs.replace(plain, trouble=stored_words.unreadable(str(error)))

    def _with_document(self, plain: StoredSession, body: bytes) -> StoredSession:
        envelope = msgspec.json.decode(body, type=Envelope[msgspec.Raw])
        host = envelope.host or plain.host
        session = msgspec.structs.replace(
            plain,
            ortune=envelope.ortune,
            verdict=envelope.verdict or "",
            host=host,
            here=self._is_here(host),
        )
        match = _SCHEMA.fullmatch(envelope.schema)
        if match is None or envelope.schema != schema_of(match.group(1)):
            trouble = stored_words.other_format(envelope.schema, envelope.ortune, __version__)
            return msgspec.structs.replace(session, trouble=trouble)
        state = "stopped" if envelope.status == "interrupted" else "done"
        session = msgspec.structs.replace(session, verb=match.group(1), state=state)
        kind = stored_kind(match.group(1))
        if kind is None:
            return msgspec.structs.replace(session, document=msgspec.json.decode(body, type=Envelope))
        result = msgspec.json.decode(envelope.result, type=kind.result)
        return msgspec.structs.replace(
            session,
            headline=kind.headline(result),
            build=kind.build(result),
            document=msgspec.structs.replace(envelope, result=result),
        )

    def _is_here(self, host: Host | None) -> bool | None:
        return host.fingerprint == self.here if host and host.fingerprint else None

    def newest(self, model: str = "", *, answered: bool = False) -> StoredSession | None:
        """Return the newest session (of `model`, or a comparison or tuning if `answered`); None if there is none."""
        for head in self.store.heads:
            if not model or reading.is_about(head, model):
                session = self.session(head)
                if not answered or (session.document and answer(session.document)):
                    return session
        return None

    def named(self, text: str, *, answered: bool = False) -> StoredSession:
        """Return the session, bundle or recording named by `text`, or the newest session of a model.

        With ``answered``, only comparisons and tunings of a model count.
        """
        if is_bundle(Path(text)):
            return self._bundle(Path(text))
        recording = recording_of(text)
        if recording is not None:
            return _stored(recording)
        if Path(text).suffix in MODELS:
            head = self.newest(text, answered=answered)
            if head is None:
                kind = "tuning or comparison" if answered else "session"
                raise UsageError(
                    f"no {kind} of this model is stored",
                    where=text,
                    do="run ortune report to list stored sessions",
                )
            return head
        if files.is_folder(Path(text)) or "/" in text:
            raise UsageError(
                "is neither a session nor a bundle", where=text, do="pass the folder NAME.ortune"
            )
        return self.session(self.store.find(text))

    def _bundle(self, folder: Path) -> StoredSession:
        """Return the stored session of a bundle or, if that is not available, a session made from ``ortune.json``.

        Raises:
            UsageError: The folder is not a bundle, or is damaged.
        """
        info = bundle_format.read(folder)
        session = self._of_id(info.session) if info.session else None
        if session is not None and session.document is not None:
            return msgspec.structs.replace(session, bundle=info)
        return StoredSession(
            id="",
            verb="tune",
            label=folder.name,
            state="done",
            verdict=info.proof.verdict if info.proof else "",
            headline=stored_words.bundled(info),
            host=info.host,
            here=self._is_here(info.host),
            build=_build(info),
            bundle=info,
            trouble=stored_words.bundle_alone(info.session, stored=session is not None),
        )

    def _of_id(self, session: str) -> StoredSession | None:
        try:
            heads = [h for h in self.store.heads if h.id == session]
        except (UsageError, StoreError):
            return None  # without a readable store, the bundle's own page is used
        return self.session(heads[0]) if heads else None


def _build(info: BundleInfo) -> str:
    package = "onnxruntime-web" if info.plan.is_web else "onnxruntime"
    return f"{package} {info.ort_version}" if info.ort_version else ""


def _plain(options: Options, reader: _Reader) -> ReportResult:
    if not options.sessions:
        heads = reader.store.heads
        return ReportResult(
            kind="list", sessions=tuple(reader.session(h) for h in heads[: options.last]), n_stored=len(heads)
        )
    stored = [reader.named(str(text)) for text in options.sessions]
    good = tuple(s for s in stored if s.state != "unreadable")
    troubles = tuple(f"{s.id}: {s.trouble}" for s in stored if s.state == "unreadable")
    if not good:
        raise UsageError(stored[0].trouble, where=stored[0].id, do="ortune report lists what can be told")
    if len(good) == 1:
        if options.timeline and good[0].verb == "profile" and good[0].id:
            timeline = reader.store.timeline(good[0].id)
            good = (msgspec.structs.replace(good[0], timeline=timeline),)
        return ReportResult(kind="told", sessions=good, troubles=troubles)
    return ReportResult(kind="history", sessions=good, history=history.side_by_side(good), troubles=troubles)


def _brief(options: Options, reader: _Reader) -> ReportResult:
    if options.sessions:
        session = reader.named(str(options.sessions[0]), answered=True)
    else:
        newest = reader.newest(answered=True)
        if newest is None:
            raise UsageError(
                "no completed tuning or comparison is stored", where="--brief", do="ortune tune MODEL"
            )
        session = newest
    if session.state == "unreadable":
        raise UsageError(session.trouble, where=session.id, do="ortune report lists what can be told")
    page = None
    if session.document is not None:
        page = brief.make(session.document, _safety(), options.load_per_s, spins=spins, bound=_bound())
    if page is None:
        ended = session.state not in ("failed", "unfinished")
        raise UsageError(
            f"the session {'has no stored comparison' if ended else 'did not end'}, so there is nothing to decide on",
            where=session.id or session.label,
            do="pass a session of ortune tune or ortune compare; ortune report lists them",
        )
    return ReportResult(kind="brief", sessions=(session,), brief=page)


def _bound() -> set[str]:
    """Return the names of rewrites whose models are bound to the kind of CPU that created them."""
    from ortune import rewrites

    return {name for name, rewrite in rewrites.all_rewrites().items() if rewrite.hardware_bound}


def _safety() -> dict[str, str]:
    """Return the safety class of every setting and rewrite, keyed by name."""
    from ortune import rewrites

    classes: dict[str, str] = {name: knob.safety for name, knob in knobs.all_knobs().items()}
    return classes | {name: rewrite.safety for name, rewrite in rewrites.all_rewrites().items()}
