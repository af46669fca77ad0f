"""Sentences on the changes that a bundle made in a program."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ortune.printable import first_of, operand
from ortune.records import ChangedModel, Envelope
from ortune.show.document import Block, Column, Document, Line, Pairs, Points, Tone, table
from ortune.show.missed import missed_points
from ortune.show.numbers import counted, duration, memory, shorten
from ortune.verbs.run.result import RunResult

SHOWN = 12


def headline(result: RunResult) -> str:
    """Return one sentence with the applied changes of each model, followed by sentences on unmatched models."""
    changed = [model for model in result.models if model.created or model.shared]
    if result.variables and not result.models:
        text = f"applied: {', '.join(f'{name}={value}' for name, value in sorted(result.variables.items()))}"
    elif changed:
        more = f" and {counted(len(changed) - 3, 'more model')}" if len(changed) > 3 else ""
        text = f"applied: {'; '.join(map(_changed, changed[:3]))}{more}"
    elif not result.processes:
        text = "nothing was applied: no process imported onnxruntime, or none could be reached"
    elif not result.unmatched and not any(model.failed for model in result.models):
        text = "nothing was applied: the program created no session"
    else:
        text = "nothing was applied"
    everywhere = bool(result.variables) and not result.models  # a variable leaves no session alone
    left = [] if everywhere else [*_unmatched(result)]
    return f"{text}. {' '.join(left)}" if left else text


def _changed(model: ChangedModel) -> str:
    sessions = model.created + model.shared + model.failed
    words = [*model.what]
    if model.shared:
        words.insert(0, f"{model.shared} of {counted(sessions, 'session')} shared")
    else:
        words.insert(0, counted(sessions, "session"))
    return f"{model.name} ({', '.join(words)})"


def _unmatched(result: RunResult) -> Iterator[str]:
    """Yield sentences on models that differ from the bundle, are not used by the program, or are not in the bundle."""
    seen = {model.name for model in result.models if model.created or model.shared or model.failed}
    missing = [model.name for model in result.models if model.name not in seen]
    updated = [name for name in missing if name in result.unmatched]
    absent = [name for name in missing if name not in result.unmatched]
    if updated:
        yield f"Another content than in the bundle, left alone: {', '.join(updated)}."
    if absent and result.processes:
        yield f"Not used by the program: {', '.join(absent)}."
    others = {name: n for name, n in result.unmatched.items() if name not in updated}
    if others:
        names = first_of([*others], 3)
        yield f"Not in the bundle, left alone: {names} ({counted(sum(others.values()), 'session')})."


def document(envelope: Envelope[RunResult]) -> Document:
    """Return the document with the applied and the missed changes."""
    result = envelope.result
    assert result is not None
    bad = bool(result.missed or result.stopped or any(model.failed for model in result.models))
    tone: Tone = "look" if bad or not result.processes else "good"
    blocks: list[Block] = [Line(result.headline, tone)]
    problems = [*_problems(result)]
    if problems:
        blocks.append(Points(items=problems, title="not applied", marked=True))
    blocks += missed_points(result.missed, "not reached")
    details: list[Block] = [_table(result), Pairs(rows=list(_facts(result)))]
    return Document(title=f"ortune run: {_command(result)}", blocks=blocks, support=details)


def _problems(result: RunResult) -> Iterator[str]:
    for model in result.models:
        for why, number in list(model.kept.items())[:SHOWN]:
            yield f"{model.name}: {shorten(why, 160)} ({counted(number, 'session')})"
        if model.other_shapes:
            calls = counted(model.other_shapes, "call")
            yield f"{model.name}: {calls} or more with other shapes went to the original model"
    yield from result.notes
    yield from result.stopped


def _table(result: RunResult) -> Block:
    rows = [
        [shorten(m.name, 32), str(m.created), str(m.shared), str(m.failed), ", ".join(m.what) or "-"]
        for m in result.models
    ]
    heads = ("created", "shared", "failed", "changes")
    return table([Column("model", "name"), *(Column(head) for head in heads)], rows)


def _facts(result: RunResult) -> Iterator[tuple[str, str]]:
    yield "time", f"{duration(result.elapsed_ns)}, {duration(result.cpu_ns)} of CPU time"
    yield "ONNX Runtime", ", ".join(result.onnxruntime) or "-"
    if result.contains:
        yield "gain when tuned", result.contains
    if result.memory is not None:
        before, after = memory(result.memory.before_bytes), memory(result.memory.after_bytes)
        yield "peak memory when tuned", f"{after}, {before} before"
    yield "exit code", str(result.code)


def _command(result: RunResult) -> str:
    return shorten(shlex.join(map(operand, result.command)), 60)
