"""Resolves all sides of a comparison: models that ONNX Runtime runs, and source models that their framework runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortune.catalogue import knobs
from ortune.catalogue.named import INTRA_OP_NUM_THREADS as INTRA_OP
from ortune.engines.conversion.kinds import SourceKind, is_source, kind_of
from ortune.engines.conversion.opening import python_of, require_fence
from ortune.engines.conversion.side import sides_of
from ortune.errors import UsageError
from ortune.measuring.opening import Experiment
from ortune.measuring.sides import ResolvedSide
from ortune.records import Plan
from ortune.verbs._shared.spelling import named
from ortune.verbs.compare.options import Options

_OF_ONNX = ("rewrite", "target", "ort_web")
"""Options that apply only to sides run by ONNX Runtime."""


def resolve_all(options: Options, opened: Experiment) -> tuple[ResolvedSide, list[ResolvedSide], list[str]]:
    """Return the base, the other sides in the order of their letters, and notes about skipped modes of a framework.

    If a framework can run its model in several modes, such as torch.compile, the additional modes come last.

    Raises:
        OrtuneError: A side cannot be used, or sources were passed without an ONNX model.
    """
    written = {letter: options.side(letter) for letter in ("a", *options.new_letters)}
    sources = {
        letter: kind_of(side.text, options.framework)
        for letter, side in written.items()
        if side.text is not None and is_source(side.text)
    }
    first = next((letter for letter in written if letter not in sources), None)
    if first is None or (sources and written[first].text is None):
        source = next(iter(sources.values())).text
        raise UsageError(
            "a framework's model can only be compared with an ONNX model, and none was given",
            where=source,
            do=f"ortune convert {source}, and name the result as the other side",
        )
    for kind in sources.values():
        require_fence(kind, trusted=options.trust_source)
    onnx = opened.resolve(written[first], plain=options.proves_bundle)
    sides, further, left_out = list[ResolvedSide](), list[ResolvedSide](), list[str]()
    for letter, side in written.items():
        if letter == first:
            sides.append(onnx)
        elif letter not in sources:
            sides.append(opened.resolve(side, base_model=onnx.model))
        else:
            (usual, *others), without = _source_sides(options, opened, letter, sources, onnx)
            sides.append(usual)
            further += others
            left_out += [without] if without else []
    base, *news = [*sides, *further]
    return base, news, left_out


def _source_sides(
    options: Options, opened: Experiment, letter: str, sources: Mapping[str, SourceKind], onnx: ResolvedSide
) -> tuple[list[ResolvedSide], str]:
    for name in _OF_ONNX:
        if getattr(options, f"{letter}_{name}"):
            option = f"--{letter}-{name.replace('_', '-')}"
            raise UsageError("applies only to a side that ONNX Runtime runs", where=option, do="omit it")
    option = f"--{letter}-runtime"
    python = python_of(sources[letter], named(getattr(options, f"{letter}_runtime")), option, opened.watch)
    threads = _threads(getattr(options, f"{letter}_set"), f"--{letter}-set", onnx.plan, opened)
    plan = Plan(settings={INTRA_OP.name: threads})
    return sides_of(sources[letter], python, opened, onnx, plan, trusted=options.trust_source)


def _threads(settings: Sequence[str], option: str, of_onnx: Plan, opened: Experiment) -> int:
    """Return the number of intra-op threads: the side's setting, else that of the ONNX side, else one per core."""
    own = knobs.parse_settings(list(settings), option)
    for name in own:
        if name != INTRA_OP.name:
            do = f"omit it, or set threads: {option} {INTRA_OP.name}=2"
            raise UsageError(f"{name} is a setting of ONNX Runtime", where=option, do=do)
    count = own.get(INTRA_OP.name) or of_onnx.settings.get(INTRA_OP.name)
    return int(count or opened.machine.host.cores)
