"""The journal of a command on several models: started models and finished documents, to resume after interruptions."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from ortune import __version__, files
from ortune.errors import OrtuneError, StoreError, UsageError
from ortune.graph.model.open import open_model, stamp
from ortune.measuring import replay
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope, ManyResult, ModelRow
from ortune.records.messages import NotStored
from ortune.show.verb_modules import MANY, module_of
from ortune.store.db import SessionLog, Store
from ortune.store.reading import UNREADABLE
from ortune.verbs._many.batch import Item, ModelBatch
from ortune.verbs._shared.spelling import path, words

BEGUN, ROW, DOCUMENT = "model-begun", "model-row", "model-document"


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """Event: the run of a model started.

    Attributes:
        host: Name of the machine that runs the model; "" for this machine.
        budget: Budget of the run in command-line notation; "" for the default.
        state: State of the model's files at the start of the run, from ``state``.
    """

    model: str
    host: str = ""
    budget: str = ""
    state: str = ""


def state(model: str) -> str:
    """Return the sizes and modification times of a model's files, including external weights, as text."""
    stamps: Sequence[tuple[Path, int, int]] = (stamp(Path(model)),)
    if _may_have_external_data(Path(model)):
        with contextlib.suppress(OrtuneError):  # the answer will contain the error
            stamps = open_model(model).stamps
    return " ".join(f"{size} {changed_ns}" for _, size, changed_ns in stamps)


def _may_have_external_data(path: Path) -> bool:
    """Return whether a file may refer to external data.

    The file is searched, not parsed, because parsing a large graph takes seconds.
    """
    try:
        if not files.is_file(path) or not path.stat().st_size:
            return False
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(b"location") >= 0
    except OSError:
        return False


class Journal:
    """Stores the documents of the models as they arrive.

    Args:
        batch: The command.
        template: Options of the first model.
        watcher: Receives a sentence if results cannot be stored.

    Attributes:
        log: Log of the session.
        rows: Rows of finished runs of a resumed session, keyed by model and host.
        begun: Started runs of a resumed session, keyed by model and host.

    Raises:
        StoreError: The store that the user named cannot be written.
        UsageError: There is no interrupted session with these models to resume.
    """

    def __init__(self, batch: ModelBatch, template: Any, watcher: Watcher) -> None:
        self.log = SessionLog(None, "")
        self.rows: dict[Item, ModelRow] = {}
        self.begun: dict[Item, Begun] = {}
        self._batch, self._store = batch, None
        self._documents: dict[Item, int] = {}  # event numbers, because documents would fill the memory
        resume = batch.values.get("resume")
        self._store = _opened(path(template.store), watcher)
        if self._store is None:
            if resume is not None:
                raise UsageError("there is no stored session to resume", where="--resume", do="omit --resume")
            return
        key = f"{MANY} {_key(batch, template)}"
        if resume is None:
            header = {"model": f"{len(batch.models)} models, {batch.verb}"}
            self.log = self._store.begin(MANY, key, header)
        else:
            self._go_on(self._store, key, str(resume))

    def begin(self, begun: Begun) -> None:
        """Record the start of a model's run."""
        self.log.add(BEGUN, begun)

    def add(self, row: ModelRow, envelope: Envelope[Any]) -> None:
        """Record the document of a finished run and its row."""
        self.log.add(DOCUMENT, envelope)
        self.log.add(ROW, row)

    def finish(self, envelope: Envelope[ManyResult]) -> None:
        """Record the document of all models, which completes the session."""
        self.log.add("result", envelope)

    def close(self) -> None:
        """Close the store, if there is one."""
        if self._store is not None:
            self._store.close()

    def documents(self) -> Iterator[tuple[ModelRow, Envelope[Any]]]:
        """Yield the row and the document of each finished run of a resumed session."""
        result = get_type_hints(module_of(self._batch.verb, "run").run)["return"]
        for item, row in self.rows.items():
            assert self._store is not None
            body = self._store.event(self.log.id, self._documents[item])
            kind: Any = Envelope[None] if row.status == "error" else result
            yield row, msgspec.json.decode(body, type=kind)

    def _forget_changed(self) -> None:
        """Drop the results of models whose files changed after the run started."""
        for item, begun in list(self.begun.items()):
            if begun.state != state(begun.model):
                self.begun.pop(item)
                self.rows.pop(item, None)
                self._documents.pop(item, None)

    def _go_on(self, store: Store, key: str, session: str) -> None:
        """Read an interrupted session and resume its log.

        Args:
            store: The store.
            key: Key of the session, from ``_key``.
            session: Id of the session; "newest" for the newest interrupted session.

        Raises:
            UsageError: There is no such session, or it cannot be read.
        """
        for head in store.sessions(key):
            if session not in ("newest", head.id):
                continue
            try:
                events = store.events(head.id, but=DOCUMENT)
                if session == "newest" and replay.complete(events):
                    continue
                for event in events:
                    if event.kind == BEGUN:
                        begun = msgspec.json.decode(event.body, type=Begun)
                        self.begun[begun.model, begun.host] = begun
                    elif event.kind == ROW:
                        row = msgspec.json.decode(event.body, type=ModelRow)
                        if row.status != "interrupted":
                            self.rows[row.path, row.host] = row
                            self._documents[row.path, row.host] = event.seq - 1  # as ``add`` writes them
                self._forget_changed()
            except UNREADABLE as error:
                raise UsageError(
                    f"session {head.id} cannot be read ({error})", where="--resume", do="omit --resume"
                ) from error
            self.log = store.resume(head.id)
            return
        raise UsageError(
            "no interrupted session with these models and these options is stored",
            where="--resume",
            do="omit --resume, or repeat the models and options of the interrupted session",
        )


def _opened(folder: Path | None, watcher: Watcher) -> Store | None:
    """Open the store; if the default folder cannot be written, report this to the user and return None.

    Raises:
        StoreError: The folder that the user named cannot be written.
    """
    try:
        return Store(folder)
    except StoreError as error:
        if folder is not None:
            raise
        watcher.tell(NotStored(where=error.where, what=error.what))
        return None


def _key(batch: ModelBatch, template: Any) -> str:
    """Return the key of a session: a hash of the models, the options except the budget, and the hosts."""
    question: tuple[Any, ...] = (
        __version__, batch.verb, batch.models, words(template, without=("model", "a", "budget")),
    )  # fmt: skip
    if any(host.script for host in batch.hosts):
        question = (*question, [(host.name, host.script) for host in batch.hosts])
    return hashlib.sha256(repr(question).encode()).hexdigest()[:16]
