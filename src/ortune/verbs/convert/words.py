"""Sentences about a conversion and its check, for every format."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ortune.printable import amount, operand
from ortune.records import CheckedCase, Conversion, DynamicAxis, Envelope, Finding, schema_of
from ortune.show.document import Annotation, Code, Column, Document, Line, Points, Tone, table
from ortune.show.numbers import factor, shorten, size
from ortune.show.output_words import outputs
from ortune.verbs.bisect import words as bisect_words
from ortune.verbs.convert import ort_words
from ortune.verbs.convert.result import ConvertResult
from ortune.verbs.tune import words as tune_words

_STATUS = {"open": "dynamic", "fixed": "fixed", "frozen": "frozen", "untested": "not tested"}
_LEVELS = {"disable": "off", "all": "on"}
_LONGEST = 300


def other_opset(conversion: Conversion, asked: int) -> str:
    """Return a note that an exporter wrote a different opset from the requested opset."""
    return f"--opset {asked} was passed, but {conversion.exporter} wrote opset {conversion.opset}"


def endless(what: str) -> str:
    """Return the message of a timeout with advice on what to check in the exported model's source."""
    return f"{what}; check that the loops of the source end, or pass smaller inputs (--shape, --inputs)"


def headline(result: ConvertResult, verdict: str) -> str:
    """Return the headline: the result in one sentence."""
    last = result.conversions[-1] if result.conversions else None
    if verdict == "not-converted" or last is None:
        why = _first_line(last.failed) if last is not None else "no exporter supports it"
        return f"not converted: {why}"
    if verdict == "wrong-output":
        wrong = next(conversion for conversion in result.conversions if conversion.fault is not None)
        assert wrong.fault is not None
        what = f"{result.path} does not match {result.source}" if not wrong.exporter else "not written"
        return f"{what}: {wrong.fault.what}"
    what = f"written to {result.path}" if last.exporter else f"{result.path} matches {result.source}"
    return f"{what}: {_checked(last)}"


def fix_first(findings: Sequence[Finding], fixed: str, name: str) -> str:
    """Return a text that lists the problems to fix in the source or its export before using the file."""
    what = "\n  ".join([*([fixed] if fixed else []), *(finding.sentence() for finding in findings)])
    return f"to fix in the source or its export first ({name} is written all the same):\n  {what}"


def _checked(conversion: Conversion) -> str:
    """Return a clause that says how closely the outputs match, on how many inputs and at which sizes."""
    sets = len({case.name for case in conversion.cases})
    worst = max(
        (case.outputs for case in conversion.cases if case.outputs is not None),
        key=lambda difference: difference.relative_l2,
    )
    opened = [axis.name for axis in conversion.axes if axis.status == "open"]
    sizes = f" and at other sizes of {', '.join(opened)}" if opened else ""
    comma = "," if worst.accepted else ""
    return f"{outputs(worst)}{comma} on {amount(sets, 'set')} of inputs{sizes}"


def document(envelope: Envelope[ConvertResult]) -> Document:
    """Return the document: the conversion, the comparison of the outputs, and the model's faults."""
    result = envelope.result
    wrong = envelope.verdict in ("wrong-output", "not-converted")
    if result.to == "ort":
        return ort_words.document(envelope, wrong)
    tone: Tone = "bad" if wrong else "good"
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    support = []
    for conversion in result.conversions:
        if conversion.cases:
            columns = [
                Column("inputs", "label"),
                Column("sizes"),
                Column("optimizer"),
                Column("outputs", "text"),
            ]
            support.append(
                table(columns, [_row(case) for case in conversion.cases], title=_subject(conversion))
            )
    tuned = None
    if result.tuned is not None:
        of_tuning = Envelope(
            schema=schema_of("tune"),
            ortune=envelope.ortune,
            model=envelope.model,
            workload=envelope.workload,
            status=envelope.status,
            result=result.tuned,
        )
        tuned = tune_words.document(of_tuning)
    return Document(
        title="ortune convert",
        blocks=[
            Line(result.headline, tone),
            Points(items=result.notes),
            Line(f"{result.kind} of {result.framework} ({versions})", "faint"),
            Points(
                items=[*(_exporter_line(conversion) for conversion in result.conversions), *_raced(result)]
            ),
            Points(
                title="at fault",
                items=[_fault(conversion) for conversion in result.conversions if _fault(conversion)],
            ),
            Points(title="dynamic axes", items=[_axis(axis) for axis in _axes(result)]),
            Points(
                title="the exporter warned",
                items=list(dict.fromkeys(m for c in result.conversions for m in c.messages)),
            ),
            Points(
                title="findings in the exported model",
                items=[f.sentence() for f in result.findings],
            ),
            *(tuned.blocks if tuned is not None else []),
            Code(title="next", lines=_next(envelope), commands=True),
        ],
        support=[*support, *(tuned.support if tuned is not None else [])],
        annotations=[
            Annotation(level="error" if wrong else "notice", title="ortune convert", lines=[result.headline])
        ],
    )


def _raced(result: ConvertResult) -> list[str]:
    """Return a sentence that says which exporter's model is kept and whether it is faster; [] if none were compared."""
    if result.raced is None or len(result.conversions) < 2:
        return []
    kept = result.conversions[-1].exporter
    other = next(conversion.exporter for conversion in reversed(result.conversions[:-1]) if conversion.ok)
    c = result.raced.comparison
    if c is None or c.verdict not in ("faster", "slower"):
        return [f"no difference between the models of {kept} and {other} was confirmed; {kept}'s is kept"]
    return [f"{kept}'s model is kept: {factor(max(c.ratio, 1 / c.ratio))}x faster than {other}'s in p50"]


def _subject(conversion: Conversion) -> str:
    return f"by {conversion.exporter}" if conversion.exporter else "the model"


def _exporter_line(conversion: Conversion) -> str:
    """Return one exporter's result as one line of text."""
    if conversion.failed:
        return f"{conversion.exporter}: failed: {_first_line(conversion.failed)}"
    opset = (
        f"opset {conversion.opset}, " if conversion.opset else ""
    )  # none where all operators are ai.onnx.ml's
    nodes = amount(conversion.nodes, "node")
    what = f"{opset}{nodes}, {size(conversion.size_bytes)}"
    if conversion.exporter:
        what += f", exported in {conversion.elapsed_s:.1f} s"
    compared = [case.outputs is not None and case.outputs.ok for case in conversion.cases]
    # A size that is fixed is a fault too, although all outputs at that size are right.
    match = conversion.ok or (bool(compared) and all(compared))
    verdict = "outputs match" if match else "outputs do not match"
    if conversion.fault is not None and conversion.fault.kind == "not-compared":
        verdict = "outputs were not compared"
    if match and all(case.outputs.compared_as == "sizes" for case in conversion.cases if case.outputs):
        verdict = "outputs are random, so their values were not compared"
    verdict += "" if conversion.ok or not match else " at the sizes that it accepts"
    return f"{_subject(conversion)}: {what}; {verdict}"


def _fault(conversion: Conversion) -> str:
    fault = conversion.fault
    if fault is None or fault.node is None:
        return ""
    overflow = f"; {bisect_words.not_finite(fault.not_finite)}" if fault.not_finite is not None else ""
    return f"{bisect_words.parted(fault.node)}{overflow} (A is the conversion by {fault.held_against}, B this model)"


def _axes(result: ConvertResult) -> tuple[DynamicAxis, ...]:
    shown = next((conversion for conversion in result.conversions if conversion.ok), None) or next(
        (conversion for conversion in result.conversions if conversion.axes), None
    )
    return shown.axes if shown is not None else ()


def _axis(axis: DynamicAxis) -> str:
    sizes = f" at {', '.join(map(str, axis.sizes))}" if axis.sizes else ""
    if axis.status == "fixed" and sizes:
        return f"{axis.name} ({', '.join(axis.places)}) is fixed{sizes}"
    sizes = sizes if axis.status == "open" else ""
    what = f": {axis.what}" if axis.what else f": outputs match{sizes}" if axis.status == "open" else ""
    return f"{axis.name} ({', '.join(axis.places)}) is {_STATUS[axis.status]}{what}"


def _row(case: CheckedCase) -> tuple[str, ...]:
    sizes = ", ".join(f"{name}={n}" for name, n in case.sizes.items())
    said = outputs(case.outputs) if case.outputs is not None else case.failed
    return (case.name, sizes or "-", _LEVELS[case.level], said)


def _next(envelope: Envelope[ConvertResult]) -> list[str]:
    result = envelope.result
    if envelope.verdict == "written" and result.tuned is None:
        return [shlex.join(["ortune", "tune", operand(result.path)])]
    return list(result.again)


def _first_line(text: str) -> str:
    return shorten(text.strip().partition("\n")[0], _LONGEST)
