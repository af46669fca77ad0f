"""Sentences about the set of ``ortune convert --matrix``: its files, and their comparison on this CPU."""

from __future__ import annotations

import shlex
import string

from ortune.catalogue.providers import NNAPI, QNN, XNNPACK
from ortune.printable import amount, operand
from ortune.records import Comparison, Matrix
from ortune.show import headline as heads
from ortune.show import sides
from ortune.show.document import Block, Code, Column, Document, Line, Points, Table, table
from ortune.show.numbers import change
from ortune.show.ort_format_words import counted
from ortune.show.output_words import outputs_cell
from ortune.verbs.compare.result import ComparedSide, CompareResult
from ortune.verbs.convert.result import ConvertResult

BENCHES = (NNAPI.target, XNNPACK.target, QNN.target)
"""Targets that the Gradle project of a set measures."""
_NOT_TIMED = "the files ran and were not timed: rerun with a longer --budget on a quiet machine"
_NO_DIFFERENCE = "no difference between the files was confirmed on {}"
COMPARING = "comparing the files on this CPU"


def blocks(result: ConvertResult) -> list[Block]:
    """Return a table of the files of a set, and the tables of their measurements."""
    assert result.matrix is not None
    shown: list[Block] = [_files(result)]
    if result.on_cpu is not None:
        shown += _measured(result.matrix, result.on_cpu)
    return shown


def _files(result: ConvertResult) -> Table:
    """Return a table with the provider, optimisation level and contents of each file."""
    assert result.matrix is not None
    rows = []
    for entry, record in zip(result.matrix.entries, result.ort_files, strict=True):
        kept = f"{amount(record.aware.n_kept, 'node')} kept unoptimised" if record.aware else ""
        own = counted(record.file.own_operators)
        rows.append(
            (entry.file, entry.provider, record.level, "; ".join(filter(None, (kept, own))) or "plain ONNX")
        )
    columns = [
        Column("file", "label"), Column("provider", "label"), Column("level", "label"), Column("holds", "text"),
    ]  # fmt: skip
    return table(columns, rows)


def _measured(matrix: Matrix, compared: CompareResult) -> list[Block]:
    """Return a table that compares each file with the first on the CPU, since phone providers do not run here."""
    files = dict(zip(string.ascii_uppercase, (entry.file for entry in matrix.entries), strict=False))
    news = {side.name: side for side in compared.candidates or (_only(compared),)}
    first = files["A"]
    statistic = next((side.comparison.statistic for side in news.values() if side.comparison), "p50 latency")
    base = sides.value(compared.base_figures, statistic) if compared.base_figures else ""
    rows = [(first, base, "baseline", "", "", "")]
    for name, file in files.items():
        if name in news:
            rows.append((file, *_row(compared, news[name], statistic)))
    columns = [
        Column("file", "label"), Column(sides.statistic_name(statistic)), Column(f"against {first}", "text"),
        Column("change"), Column("95 % interval", "text"), Column("outputs", "text"),
    ]  # fmt: skip
    board = _board(compared)
    where = f"the CPU that {board} runs on" if board else "the CPU of this machine"
    shown: list[Block] = [table(columns, rows, title=f"all files on {where}")]
    verdicts = {side.comparison.verdict for side in news.values() if side.comparison}
    if not verdicts:
        shown.append(Line(_NOT_TIMED, "unsure"))
    elif not verdicts & {*heads.PROVEN}:
        shown.append(Line(_NO_DIFFERENCE.format(where if board else "this CPU"), "unsure"))
    return shown


def _board(compared: CompareResult) -> str:
    """Return the command of the remote interpreter that ran the files; "" for this machine."""
    runtime = compared.base.runtime
    return runtime.python if runtime.host is not None else ""


def _only(compared: CompareResult) -> ComparedSide:
    """Return the second file of a set of two as a compared side."""
    return ComparedSide(
        name=compared.name,
        side=compared.new,
        comparison=compared.comparison,
        outputs=compared.outputs,
        figures=compared.new_figures,
    )


def _row(compared: CompareResult, side: ComparedSide, statistic: str) -> tuple[str, str, str, str, str]:
    """Return the cells for a file: time, verdict, change, interval of the change, outputs."""
    claim = side.comparison
    if claim is None:
        return (
            "",
            "does not run" if side.outputs is None else "not timed",
            "",
            "",
            outputs_cell(side.outputs, side.failures),
        )
    time = sides.new_value(compared.base_figures, side.figures, claim) if side.figures else ""
    return (
        time,
        _verdict(claim),
        change(claim.ratio),
        sides.interval(claim),
        outputs_cell(side.outputs, side.failures),
    )


def _verdict(claim: Comparison) -> str:
    """Return a verdict in words, with "no difference" for an equivalent file."""
    return heads.word(claim.verdict, claim.statistic).replace("equivalent", "no difference")


def not_measured(why: str) -> str:
    """Return a sentence that says why the files were not compared on this CPU."""
    return f"the files were not compared on this CPU: {why}"


def commands(result: ConvertResult) -> list[str]:
    """Return the commands that measure the set: on a phone, and on this machine."""
    assert result.matrix is not None
    if not result.path:
        return []
    lines = []
    if result.matrix.place in BENCHES:
        project = shlex.quote(f"{result.path}/android")
        lines.append(f"{project}/gradlew connectedAndroidTest")
        lines.append(f'ortune compare "$(find {project}/build -name phone.json)"')
    files = [operand(f"{result.path}/{entry.file}") for entry in result.matrix.entries]
    board = _board(result.on_cpu) if result.on_cpu is not None else ""
    return [*lines, shlex.join(["ortune", "compare", *files, *(["--runtime", board] if board else [])])]


def readme(result: ConvertResult) -> Document:
    """Return the README of the set's folder."""
    assert result.matrix is not None
    return Document(
        title=f"{result.matrix.model} for {result.matrix.place}",
        blocks=[
            Line(result.headline),
            *blocks(result),
            Points(items=[*result.notes, *result.matrix.left_out]),
            Code(title="next", lines=commands(result), commands=True),
        ],
    )
