"""Sentences about a conversion to ORT format: how the file was made, and the effect of each optimisation level."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from ortune.catalogue.providers import NNAPI, WEB_WEBGPU
from ortune.printable import amount, operand
from ortune.records import (
    AwareFile,
    Envelope,
    LevelChange,
    LevelComparison,
    OrtConversion,
    RewriteSpec,
)
from ortune.show.document import Annotation, Block, Code, Column, Document, Line, Pairs, Points, table
from ortune.show.ort_format_words import OWN, about, counted, times
from ortune.show.output_words import outputs
from ortune.show.rewrite_words import spec
from ortune.verbs.convert import set_words
from ortune.verbs.convert.result import ConvertResult

MOST_CHANGES = 12


_OF_PLACES = {
    NNAPI.target: "Android deprecated NNAPI in version 15: also measure the CPU and QNN",
    WEB_WEBGPU.target: "an .ort gets no copies between CPU and GPU, so nodes on the CPU fail or return wrong results: "
    "ship the .onnx unless every node runs on the GPU",
}

IN_PROGRAM = (
    "set ModelFormat=MLProgram: the provider-aware file keeps the nodes that CoreML supports in this format"
)


def levels(comparison: LevelComparison) -> list[Block]:
    """Return a table that shows how each optimisation level changes the source's nodes, with notes."""
    names = [graph.level for graph in comparison.graphs]
    shown = comparison.changes[:MOST_CHANGES]
    rows = [[_operators(c.operators), str(len(c.nodes)), *_cells(c, names[1:])] for c in shown]
    totals = ["all nodes", "", *(str(graph.n_nodes) for graph in comparison.graphs[1:])]
    source = comparison.graphs[0]
    more = len(comparison.changes) - len(shown)
    blocks: list[Block] = [
        table(
            [
                Column("source nodes", "label"),
                Column("places"),
                *(Column(name, "text") for name in names[1:]),
            ],
            [*rows, totals],
            title=f"what each optimisation level does to {source.n_nodes} nodes",
        )
    ]
    if more > 0:
        blocks.append(Line(f"{more} more kinds of change: --json lists all"))
    notes = [f"{_nodes(comparison.n_unchanged)} unchanged at every level"]
    notes += [
        f"{c.operators[0]} removed: {_first_reason(c)}" for c in shown if c.why and len(c.operators) == 1
    ]
    notes += [
        f"level {i.level} adds {times(i.operator, len(i.purposes))} ({i.purposes[0]})"
        for i in comparison.insertions
    ]
    return [*blocks, Points(items=list(dict.fromkeys(notes)))]


def every_change(comparison: LevelComparison) -> Points:
    """Return a list of all changes with the names of the affected nodes."""
    return Points(
        title="source nodes by change",
        items=[
            f"{_operators(change.operators)}: {'; '.join(' + '.join(place) for place in change.nodes)}"
            for change in comparison.changes
        ],
        marked=True,
    )


def _first_reason(change: LevelChange) -> str:
    return next(iter(change.why.values()))


def _cells(change: LevelChange, names: Sequence[str]) -> list[str]:
    """Return the cells of a table row: the nodes at each level, or "=" if a level changes nothing more."""
    cells, before = [], change.operators
    for name in names:
        now = change.at[name]
        cells.append("=" if now == before else _operators(now) or "removed")
        before = now
    return cells


def _operators(operators: Sequence[str]) -> str:
    """Return operators in order as text, with a count instead of consecutive equal operators."""
    runs: list[tuple[str, int]] = []
    for operator in operators:
        name = operator.removeprefix(OWN)
        runs[-1:] = [(name, runs[-1][1] + 1)] if runs and runs[-1][0] == name else [*runs[-1:], (name, 1)]
    return " + ".join(times(name, count) if count > 1 else name for name, count in runs)


def _nodes(count: int) -> str:
    return amount(count, "node is", "nodes are")


def conversion(record: OrtConversion) -> list[Block]:
    """Return how a file in ORT format was made: its place, level and requirements, and a table of levels."""
    platform = "" if record.platform == "any" else f", platform {record.platform}"
    rows = [("converted", f"for {record.place}: level {record.level}, style {record.style}{platform}")]
    if record.against:
        rows.append(("warning", f"level {record.level} does not fit {record.place}: {record.against}"))
    if record.aware is not None:
        rows.append(("kept plain", aware(record.aware)))
    rows += [row for row in about(record.file) if row[0] != "optimized" or record.file.saved_optimisations]
    if record.file.style == "runtime":
        rows.append(
            (
                "load with",
                "session.enable_saved_runtime_optimizations=1, otherwise the stored optimisations are "
                "not applied",
            )
        )
    if record.needed_path:
        rows.append(("reduced build", f"--include_ops_by_config {record.needed_path}"))
    return [Pairs(rows=rows), *levels(record.levels)]


def aware(file: AwareFile) -> str:
    """Return a sentence about the nodes that a provider-aware file keeps, or why no such file was written."""
    kept = amount(file.n_kept, "node")
    if file.gains_nothing:
        return f"not written: {file.gains_nothing}"
    operators = f" ({counted(file.made)})" if file.made else ""
    return (
        f"{kept} that {file.provider} takes; level {file.level} turned {file.n_rest} others into "
        f"{file.n_rest_after}{operators}"
    )


def of_place(target: str) -> str:
    """Return the note on ORT format at the place of a target; "" for none."""
    return _OF_PLACES.get(target, "")


def open_sizes(source: str, place: str, sizes: Mapping[str, str]) -> str:
    """Return a sentence that says that dynamic dimensions keep nodes off a place, with the command to fix them."""
    fixing = spec(RewriteSpec(name="fixed-dimensions", params=dict(sizes)))
    command = shlex.join(["ortune", "rewrite", operand(source), fixing])
    return f"dynamic dimensions keep nodes off {place}: fix them first with {command}, and convert the result"


def growing(why: str, place: str) -> str:
    """Return a sentence that says why a growing past (key/value cache) keeps nodes off a place; "" without a reason."""
    return f"dynamic dimensions keep nodes off {place}: {why}" if why else ""


def needed(record: OrtConversion) -> Points:
    """Return a list of the operators that a reduced build needs."""
    return Points(title="operators for a reduced build", items=record.needed)


def headline(result: ConvertResult, verdict: str) -> str:
    """Return the headline: the result in one sentence."""
    assert result.ort is not None and result.outputs is not None
    said = outputs(result.outputs)
    if verdict == "wrong-output":
        return f"wrong output: not written, {said}"
    if result.matrix is not None:
        count = len(result.matrix.entries)
        return f"written to {result.path}: {count} files for {result.matrix.place}, {said}"
    return f"written to {result.path}: {_size(result.ort)} for {result.ort.place}, {said}"


def _size(record: OrtConversion) -> str:
    """Return the numbers of nodes before and after the conversion, as text."""
    counts = {graph.level: graph.n_nodes for graph in record.levels.graphs}
    kept = record.aware
    after = (
        kept.n_kept + kept.n_rest_after
        if kept
        else counts["basic" if record.style == "runtime" else record.level]
    )
    return f"{counts['none']} -> {after} nodes"


def document(envelope: Envelope[ConvertResult], wrong: bool) -> Document:
    """Return the document: the converted file, the effect of each level, and the comparison of the outputs."""
    result = envelope.result
    blocks: list[Block] = [Line(result.headline, "bad" if wrong else "good" if result.path else "unsure")]
    if result.matrix is not None:
        blocks += set_words.blocks(result)
    if result.ort is not None:
        blocks += conversion(result.ort) if result.matrix is None else levels(result.ort.levels)
    support: list[Block] = [every_change(result.ort.levels)] if result.ort is not None else []
    if result.ort is not None and result.ort.needed:
        support.insert(0, needed(result.ort))
    return Document(
        title="ortune convert",
        blocks=[
            *blocks,
            Points(items=[*result.notes, *(result.matrix.left_out if result.matrix else ())]),
            Code(
                title="next",
                lines=set_words.commands(result) if result.matrix else _next(result),
                commands=True,
            ),
        ],
        support=support,
        annotations=[
            Annotation(level="error" if wrong else "notice", title="ortune convert", lines=[result.headline])
        ],
    )


def _next(result: ConvertResult) -> list[str]:
    """Return the command that compares the written file with its source; [] if no file was written."""
    return (
        [shlex.join(["ortune", "compare", operand(result.source), operand(result.path)])]
        if result.path
        else []
    )
