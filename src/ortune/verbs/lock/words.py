"""Sentences on a written or checked lock, for every format."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from itertools import groupby
from pathlib import Path

from ortune.catalogue.providers import find
from ortune.printable import amount, first_of, listed, operand
from ortune.records import Envelope, GraphSnapshot, LockChange, LockedRun, Snapshot, Uncompared
from ortune.show.answer_commands import lines, only_given, plan_options, user_inputs, workload_options
from ortune.show.document import Annotation, Code, Document, Line, Pairs, Points, Tone
from ortune.show.numbers import shorten
from ortune.verbs.lock.result import LockResult

IN_HEADLINE = 5
MOST_LINES = 20
"""Maximum number of listed differences; JSON documents have all differences."""


def written(path: Path) -> str:
    """Return a sentence with the path of a new lock."""
    return f"locked in {path}"


def headline(
    was: Snapshot,
    now: Snapshot,
    changes: Sequence[LockChange],
    not_compared: Sequence[str],
    tolerance_ratio: float,
) -> str:
    """Return the result of a check in one sentence, which makes no claim on parts that were not compared."""
    failing = [c for c in changes if c.fails]
    if failing:
        first = _leading(failing)
        rest = len(failing) - len(first)
        more = f" (and {rest} more)" if rest > 0 else ""
        said = "; ".join(sentence(c) for c in first)
        return f"{said}{_cause(was, now, {c.part for c in first})}{more}"
    parts = {c.part for c in changes}
    start = "same snapshot, different weights" if "weights" in parts else "unchanged"
    start += " as far as compared" if not_compared else ""
    same = ["operators", *(["memory"] if "peak-memory" not in parts else [])]
    by_value = "outputs" not in not_compared and not now.run.random and not was.run.random
    same += ["outputs"] if by_value and "output-values" not in parts else []
    close = any(o.l2 is not None for o in now.run.outputs) and "outputs" in same
    within = f" (outputs within {tolerance_ratio:g})" if close else ""
    also = ["the outputs changed"] if "output-values" in parts else []
    also += ["outputs match in type and rank"] if not by_value and "outputs" not in not_compared else []
    also += [sentence(c) for c in changes if c.part in ("ort-version", "file")]
    also += [f"NOT compared: {', '.join(not_compared)}"] if not_compared else []
    level = now.run.level
    if "level all" in not_compared and level in now.hardware.levels:
        level = "extended"  # the highest that no processor decides
    count = {**now.levels, **now.hardware.levels}[level].nodes
    return "; ".join(
        [f"{start}: {amount(count, 'node')} at level {level}, {listed(same)} as locked{within}", *also]
    )


def _leading(failing: Sequence[LockChange]) -> list[LockChange]:
    """Return the most important changes: at most two operators, inputs and outputs, and one of each other part."""
    sentences: list[LockChange] = []
    for part, group in groupby(failing, key=lambda c: c.part):
        # What has another name is one thing that is gone and one that is new.
        sentences += list(group)[: 2 if part in ("operator", "input", "output") else 1]
    return sentences[:IN_HEADLINE]


def _cause(was: Snapshot, now: Snapshot, said: Set[str]) -> str:
    """Return a phrase on the cause of the changes; "" if the parts that were ``said`` already contain it."""
    causes = []
    if was.run.plan != now.run.plan:
        return ""  # the settings come first in the sentence
    if was.model.sha256 != now.model.sha256 and "file" not in said:
        causes.append("after the new export")
    if was.ort_version != now.ort_version and "ort-version" not in said:
        causes.append(f"under onnxruntime {now.ort_version}, locked with {was.ort_version}")
    return f", {' and '.join(causes)}" if causes else ""


def sentence(change: LockChange) -> str:
    """Return a phrase on a change."""
    was, now, name = change.was, change.now, change.name
    if change.part == "file":
        return f"another file{f', in {name} alone' if name else ''}"
    if change.part in _SENTENCES:
        return _SENTENCES[change.part].format(name=short(name), was=was, now=now)
    if change.part in ("input", "output"):
        return _interface(change.part, change)
    return _WORDED.get(change.part, _figure_words)(change)


def uncompared(missing: Uncompared, was: Snapshot, now: Snapshot) -> str:
    """Return a sentence on why a part was not compared, or only partly."""
    match missing.why:
        case "processor" if missing.part == "level all":
            why = f"the lock was made on {_processor(was)}, and this machine has {_processor(now)}"
        case "processor":
            why = "the processor differs"
        case "architecture":
            return "another architecture has other kernels and may use different operators"
        case "untold-then":
            why = "the profile of the locked run has none"
        case "untold-now":
            why = "the profile of the run has none"
        case "feeds":
            return f"the outputs are not compared: {_other_feeds(was.run, now.run)}"
        case "random":
            names = ", ".join(sorted({*was.run.random, *now.run.random}))
            return f"the outputs are random ({names}): compared by type and rank"
        case "rounded":
            return "integer outputs are compared by mean and norm, because the processor differs"
    what = missing.part if missing.part == "level all" else f"the {missing.part}"
    return f"{what} is not compared: {why}"


def _processor(snapshot: Snapshot) -> str:
    features = ", ".join(snapshot.hardware.features) or "no relevant instruction sets"
    return f"{snapshot.hardware.machine} ({features})"


def _other_feeds(was: LockedRun, now: LockedRun) -> str:
    """Return a phrase on why the input values differ from the lock."""
    if was.inputs != now.inputs or was.seed != now.seed:
        then, here = (
            f"--inputs {r.inputs}" if r.inputs else f"values generated from seed {r.seed}" for r in (was, now)
        )
        if then != here:
            return f"locked with {then}, checked with {here}"
    if was.shapes != now.shapes:
        return "input shapes or names differ from the lock"
    return "input values differ from the lock"


_SENTENCES = {
    "operator": "{name} {was} -> {now}",
    "structure": "the same operators with other connections or attributes",
    "level": "level {name} (not the one in use): operators changed, nodes {was} -> {now}",
    "placement": "nodes on {name} {was} -> {now}",
    "settings": "{name} {was} -> {now}",
    "shapes": "input {name} is {now}, locked as {was}",
    "producer": "exporter {was} -> {now}",
    "not-compared": "{now}",
}


def _weights_words(change: LockChange) -> str:
    if not change.name:
        return "other weights"
    state = (
        "is new" if change.was is None else "was removed" if change.now is None else "has different values"
    )
    return f"weight {shorten(change.name, 60)} {state}"


def _inserted_words(change: LockChange) -> str:
    return f"{short(change.name)}, compared with the export: {_count(change.was)} -> {_count(change.now)}"


def _figure_words(change: LockChange) -> str:
    was, now, name = change.was, change.now, change.name
    if change.part == "weights-type":
        return f"weights of type {name}: {_distinct(was, now, _size)}"
    if change.part == "parameters":
        return f"parameters {_grouped(was)} -> {_grouped(now)}"
    if change.part == "opset":
        return f"opset{f' of {name}' if name else ''} {_or_none(was)} -> {_or_none(now)}"
    return f"output {name} {_distinct(was, now, _number)}"


def _version_words(change: LockChange) -> str:
    return f"{change.name or 'onnxruntime'} {_or_none(change.now)}, locked with {_or_none(change.was)}"


def _peak_words(change: LockChange) -> str:
    was, now = change.was, change.now
    assert isinstance(was, int) and isinstance(now, int)
    share = f"{100 * (now / was - 1):+.0f} %" if was else "from nothing"
    least = "" if change.fails else ", at least (some sizes are unknown)"
    return f"peak memory {share} ({_distinct(was, now, _size)}{least})"


_WORDED: dict[str, Callable[[LockChange], str]] = {
    "ort-version": _version_words,
    "weights": _weights_words,
    "inserted": _inserted_words,
    "nodes": lambda change: f"{_signed(change.was, change.now)} ({change.was} -> {change.now})",
    "peak-memory": _peak_words,
}


def _interface(part: str, change: LockChange) -> str:
    if change.was is None:
        return f"{part} {change.name} is new: {change.now}"
    if change.now is None:
        return f"{part} {change.name} was removed: it was {change.was}"
    if change.name == "order":
        return f"the order of the {part}s: {change.was} -> {change.now}"
    grew = str(change.now).count("?") + _letters(change.now) > str(change.was).count("?") + _letters(
        change.was
    )
    return f"{part} {change.name}: {change.was} -> {change.now}{' (now dynamic)' if grew else ''}"


def _letters(kind: object) -> int:
    """Return the number of named dimensions in the text of a type."""
    dims = str(kind).partition("[")[2].removesuffix("]")
    return sum(1 for d in dims.split(",") if d and d != "?" and not d.isdigit())


def summary(snapshot: Snapshot, path: str) -> list[tuple[str, str]]:
    """Return rows (name, text) on the contents of a lock."""
    graph = _optimised_graph(snapshot)
    plain = snapshot.levels["disable"]
    rows = [
        ("lock", path),
        ("runs at", f"level {snapshot.run.level}, {_build(snapshot)}, {_plan(snapshot)}"),
        ("nodes", f"{plain.nodes} without optimising, {graph.nodes} as run"),
        ("fused", _counts(graph.fused) or "nothing"),
    ]
    if graph.inserted:
        rows.append(("copies", _counts(graph.inserted, signed=True) + ", compared with the export"))
    total = graph.weights_bytes + graph.peak_activation_bytes
    unknown = f", at least: {amount(graph.unknown_values, 'size')} not known" if graph.unknown_values else ""
    rows.append(
        ("memory", f"{_size(total)} = weights {_size(graph.weights_bytes)} + values "
                   f"{_size(graph.peak_activation_bytes)} live at once (by lifetimes{unknown})")
    )  # fmt: skip
    fed = "  ".join(
        f"{name} {'x'.join(map(str, dims)) or 'scalar'}" for name, dims in snapshot.run.shapes.items()
    )
    origin = f"from {snapshot.run.inputs}" if snapshot.run.inputs else f"seed {snapshot.run.seed}"
    rows.append(("inputs", f"{fed} ({origin})"))
    if snapshot.run.random:
        rows.append(
            ("outputs", f"random ({', '.join(snapshot.run.random)}): only type and rank are recorded")
        )
    bound = snapshot.hardware.levels
    rows.append(
        (
            "bound to",
            f"{snapshot.hardware.machine} ({', '.join(snapshot.hardware.features)}), at level {' and '.join(bound)}",
        )
    )
    return rows


def _plan(snapshot: Snapshot) -> str:
    said = snapshot.run.plan.describe()
    return "default settings" if said == "default" else said


def _optimised_graph(snapshot: Snapshot) -> GraphSnapshot:
    return {**snapshot.levels, **snapshot.hardware.levels}[snapshot.run.level]


def details(result: LockResult) -> tuple[list[str], list[str]]:
    """Return the sentences on changes that fail the check, and the sentences on other changes with the notes."""
    failing = [sentence(c) for c in result.changes if c.fails]
    return failing, [sentence(c) for c in result.changes if not c.fails] + list(result.notes)


def short(name: str) -> str:
    """Return an operator's name without ONNX Runtime's main domain; other domains are kept."""
    return shorten(name.removeprefix("com.microsoft:").replace("com.microsoft.nchwc:", "nchwc:"), 60)


def _count(count: object) -> str:
    """Return the number of inserted or removed nodes in words: "2 inserted", "1 removed", "as many"."""
    assert isinstance(count, int)
    return f"{abs(count)} {'removed' if count < 0 else 'inserted'}" if count else "as many"


def _counts(counts: dict[str, int], signed: bool = False) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-abs(item[1]), item[0]))
    shown = [f"{short(name)} {_count(count) if signed else count}" for name, count in ordered]
    return first_of(shown, 8, "more kinds")


def _signed(was: object, now: object) -> str:
    assert isinstance(was, int) and isinstance(now, int)
    return f"{now - was:+d} node{'' if abs(now - was) == 1 else 's'}"


def _distinct(was: object, now: object, text: Callable[[object, int], str]) -> str:
    """Format both values with three digits, or with as many as show their difference: "1.02 -> 1.03"."""
    pairs = ((text(was, digits), text(now, digits)) for digits in range(3, 18))
    before, after = next((pair for pair in pairs if pair[0] != pair[1]), (was, now))
    return f"{before} -> {after}"


def _size(value: object, digits: int = 3) -> str:
    assert isinstance(value, int)
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= size:
            return f"{_number(value / size, digits)} {unit}"
    return f"{value} B"


def _grouped(value: object) -> str:
    assert isinstance(value, int)
    return f"{value:,}".replace(",", " ")


def _number(value: object, digits: int) -> str:
    """Format a float with ``digits`` significant digits, but with all digits of integers below 1e15."""
    if not isinstance(value, float):
        return str(value)
    whole = len(f"{abs(value):.0f}")
    return f"{value:.{max(digits, whole) if whole <= 15 else digits}g}"


def _or_none(value: object) -> str:
    return "none" if value is None else str(value)


def document(envelope: Envelope[LockResult]) -> Document:
    """Return the document: the contents of a written lock, or the result of a check with its details."""
    result = envelope.result
    if result.written:
        return Document(
            title="ortune lock",
            blocks=[
                Line(_locked(result.snapshot), "strong"),
                Pairs(rows=summary(result.snapshot, result.path)),
                Line("keep the lock with the model, and check it in CI", "faint"),
                Code(title="next", lines=_next(envelope, check=True), commands=True),
            ],
        )
    failing, rows = details(result)
    shown = _first(failing) if len(failing) > 1 else []  # a single one is in the headline
    tone: Tone = "bad" if failing else "unsure" if result.not_compared else "good"
    again = "if this change is intended, create the lock again and commit it with the model"
    next_ = Code(title="next", lines=_next(envelope, check=False), commands=True)
    return Document(
        title="ortune lock --check",
        blocks=[
            Line(result.headline, tone),
            Points(items=shown),
            Points(title="also (not a failure)", items=_first(rows)),
            Line(again if failing else ""),
            *([next_] if failing else []),
        ],
        annotations=[
            Annotation(
                level="error" if failing else "notice",
                title="ortune lock",
                lines=[result.headline, *shown, *_first(rows)],
            )
        ],
    )


def _locked(snapshot: Snapshot) -> str:
    """Return one sentence on the locked graph and outputs, and on the ONNX Runtime build."""
    count = amount(_optimised_graph(snapshot).nodes, "node")
    outputs = amount(len(snapshot.run.outputs), "output")
    what = f"{count} at level {snapshot.run.level}, and {outputs} of one run"
    return f"locked: {what}, with {_build(snapshot)}"


def _build(snapshot: Snapshot) -> str:
    """Return the builds that ran and optimised the model, as text."""
    native = f"onnxruntime {snapshot.ort_version}"
    return f"onnxruntime-web {snapshot.ort_web} with {native}" if snapshot.ort_web else native


def _next(envelope: Envelope[LockResult], *, check: bool) -> list[str]:
    """Return the command that checks this lock or writes it again; empty if it does not have the default path."""
    result, model, work = envelope.result, envelope.model, envelope.workload
    path = model.path if model else ""
    if not path or result.path != f"{path}.lock.json":
        return []
    # A check takes settings, shapes and seed from the lock, which holds no inputs of the user's.
    fed = user_inputs(work) if work else []
    if check:
        return lines(["ortune", "lock", operand(path), "--check", *fed])
    run = result.snapshot.run
    plan = run.plan if run.given is None else run.given
    target = ["--target", find(plan.provider_names[0]).target] if plan.providers else []
    options = (workload_options(only_given(work)) if work else None) or fed
    return lines(["ortune", "lock", operand(path), *plan_options(plan, "--"), *target, *options])


def _first(lines: list[str]) -> list[str]:
    rest = len(lines) - MOST_LINES
    return lines[:MOST_LINES] + ([f"and {rest} more (--json has them)"] if rest > 0 else [])
