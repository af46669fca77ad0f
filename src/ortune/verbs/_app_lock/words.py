"""Text and document of ``ortune lock`` on a recording."""

from __future__ import annotations

from ortune.engines.locks import application
from ortune.printable import operand
from ortune.records import Envelope, LockChange
from ortune.show.document import Annotation, Block, Code, Column, Document, Line, Points, Tone, table
from ortune.show.numbers import counted, shorten
from ortune.verbs._app_lock.result import AppLockResult

MOST_LINES = 20
IN_HEADLINE = 3
_NOUNS = {
    application.SESSIONS: ("session",),
    application.COPIES: ("copy at the same time", "copies at the same time"),
    application.USED_THREADS: ("thread",),
}


def headline(result: AppLockResult) -> str:
    """Return the headline: the result in one sentence."""
    models = result.snapshot.models
    sessions = sum(use.sessions for use in models.values())
    holds = f"{counted(sessions, 'session')} of {counted(len(models), 'model')}"
    if result.written:
        return f"locked: {holds}"
    failing = [change for change in result.changes if change.fails]
    if failing:
        more = f" (and {len(failing) - IN_HEADLINE} more)" if len(failing) > IN_HEADLINE else ""
        return "; ".join(map(sentence, failing[:IN_HEADLINE])) + more
    part = " as far as compared" if any(c.part == application.NOT_COMPARED for c in result.changes) else ""
    return f"unchanged{part}: {holds}, with no more sessions, copies, threads and shapes than locked"


def sentence(change: LockChange) -> str:
    """Return a sentence that describes one difference from the lock."""
    if change.part in _NOUNS:
        return f"{change.name}: {change.was} -> {counted(int(change.now or 0), *_NOUNS[change.part])}"
    return _SENTENCES.get(change.part, _version)(change)


def _model(change: LockChange) -> str:
    if not change.now:
        return f"{change.name} is not used any more"
    return f"new model {change.name} ({counted(int(change.now), 'session')})"


def _shape(change: LockChange) -> str:
    if change.now:
        return f"{change.name}: new shape {change.now}"
    return f"{change.name}: shape {change.was} was not seen"


def _not_compared(change: LockChange) -> str:
    if change.name == application.PROCESSES:
        processes = counted(int(change.now or 0), "process", "processes")
        return f"{processes} with ONNX Runtime could not be recorded"
    return (
        f"{change.name} not compared: the number of CPUs differs, and the program sets no number of threads"
    )


def _version(change: LockChange) -> str:
    return f"{change.name or 'onnxruntime'} {change.was or 'absent'} -> {change.now or 'absent'}"


def _file(change: LockChange) -> str:
    return f"{change.name}: another file"


_SENTENCES = {
    application.MODEL: _model,
    application.SHAPE: _shape,
    application.NOT_COMPARED: _not_compared,
    application.FILE: _file,
}


def document(envelope: Envelope[AppLockResult]) -> Document:
    """Return the document: how the application uses ONNX Runtime when locked, or the differences from the lock."""
    result = envelope.result
    if result.written:
        name = result.path.rpartition("/")[2].removesuffix(".lock.json")
        check = [f"ortune record -o {operand(name)} -- COMMAND", f"ortune lock {operand(name)} --check"]
        return Document(
            title="ortune lock",
            blocks=[
                Line(result.headline, "strong"),
                _models(result),
                Line(f"written to {result.path}; commit it, and check a new recording in CI", "faint"),
                Code(title="next", lines=check, commands=True),
            ],
        )
    failing = [sentence(change) for change in result.changes if change.fails]
    others = [sentence(change) for change in result.changes if not change.fails]
    tone: Tone = "bad" if failing else "good"
    shown = _first(failing) if len(failing) > 1 else []
    again = "if this change is intended, create the lock again and commit it"
    return Document(
        title="ortune lock --check",
        blocks=[
            Line(result.headline, tone),
            Points(items=shown),
            Points(title="also (not a failure)", items=_first(others)),
            Line(again if failing else ""),
        ],
        support=[_models(result)],
        annotations=[
            Annotation(
                level="error" if failing else "notice",
                title="ortune lock",
                lines=[result.headline, *shown, *_first(others)],
            )
        ],
    )


def _models(result: AppLockResult) -> Block:
    heads = ("sessions", "at the same time", "threads", "shapes")
    rows = [
        [
            shorten(name, 40),
            str(use.sessions),
            str(use.copies),
            "?" if use.threads is None else str(use.threads),
            str(len(use.shapes)),
        ]
        for name, use in result.snapshot.models.items()
    ]
    return table([Column("model", "name"), *(Column(head) for head in heads)], rows)


def _first(lines: list[str]) -> list[str]:
    rest = len(lines) - MOST_LINES
    return [shorten(line, 200) for line in lines[:MOST_LINES]] + ([f"and {rest} more"] if rest > 0 else [])
