"""A source as a side of a comparison: opened by its framework, and joined with an ONNX model."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import msgspec

from ortune import files
from ortune.engines.conversion.kinds import SourceKind, module_files
from ortune.engines.conversion.opening import opened_source
from ortune.engines.conversion.pairing import NotPaired, pair_inputs
from ortune.errors import InputError
from ortune.graph.model.open import OpenModel, stamp
from ortune.measuring.opening import Experiment
from ortune.measuring.sides import ResolvedSide
from ortune.records import Plan, Runtime, SourceOpened, SourceSide


@dataclass(frozen=True, kw_only=True)
class SourceModel(OpenModel):
    """A source with the graph of its ONNX model. Only some of the source's files may be known."""

    @cached_property
    def sha256(self) -> str:
        """The sha256 of the source's known files; "" for a function whose module is outside of the current folder."""
        if not self.stamps:
            return ""
        digest = hashlib.sha256()
        for path, _, _ in self.stamps:
            with path.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
        return digest.hexdigest()


def sides_of(
    kind: SourceKind, python: str, opened: Experiment, onnx: ResolvedSide, plan: Plan, *, trusted: bool
) -> tuple[list[ResolvedSide], str]:
    """Return a side for each style in which the framework can run the source, such as compiled, the usual style first.

    Args:
        kind: Kind of the source.
        python: Interpreter with the framework.
        opened: The open experiment.
        onnx: The ONNX model of the source, which determines its inputs.
        plan: Plan with the number of threads, the only setting that applies to a framework.
        trusted: Whether its processes are not confined.

    Returns:
        The sides, and the reason why a style is omitted, or "".

    Raises:
        OrtuneError: The source cannot be opened, or its inputs do not match the ONNX model's.
    """
    folder = Path(tempfile.mkdtemp(prefix="source-", dir=opened.scratch))
    opened.watch.line(f"opening {kind.text} with {kind.converter.framework}")
    # The clock of the journal, which later decisions use, does not run yet.
    budget = replace(opened.budget, spent_ns=lambda: 1e9 * opened.watch.clock.spent_s)
    shapes = opened.terms.feeds.shapes
    with opened_source(kind, python, folder, shapes, trusted=trusted, budget=budget) as found:
        source, request = found.told, found.request
    try:
        pairs = pair_inputs(onnx.model.ir, source.inputs, {}, found.example)
    except NotPaired as error:
        do = f"compare it with its own conversion: ortune convert {kind.text}"
        raise InputError(str(error), where=kind.text, do=do) from error
    sides = []
    for style in source.styles:
        side = SourceSide(
            framework=source.framework,
            kind=kind.kind,
            source=request.source,
            factory=kind.factory,
            folder=request.folder,
            shapes=request.shapes,
            style=style,
            compiles=style != source.styles[0],
            inputs=pairs,
            outputs=tuple(str(value.name) for value in onnx.model.ir.graph.outputs),
            trusted=trusted,
        )
        runtime = Runtime(python=python, name=kind.converter.name, source=side)
        model = _model(kind, source, onnx.model)
        sides.append(
            ResolvedSide(
                label=kind.text, model=model, plan=plan, runtime=runtime, runs=Path(kind.text), onnx=onnx
            )
        )
    return sides, source.left_out


def _model(kind: SourceKind, source: SourceOpened, onnx: OpenModel) -> SourceModel:
    path = Path(kind.text)
    if kind.factory:
        own = module_files(kind.text)
    elif files.is_folder(path):
        own = tuple(sorted(file for file in path.rglob("*") if file.is_file()))
    else:
        own = (path,)
    stamps = tuple(map(stamp, own))
    facts = msgspec.structs.replace(
        onnx.facts,
        path=kind.text,
        format="source",
        size_bytes=sum(size for _, size, _ in stamps),
        external_bytes=0,
        producer=source.framework,
        ir_version=0,
        opsets={},
        n_nodes=0,
    )
    return SourceModel(path=path, ir=onnx.ir, facts=facts, stamps=stamps)
