"""Application of rewrites from file to file, in order; results are cached by their source file and rewrites."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

import msgspec
import onnx_ir as ir

from ortune.errors import ModelError
from ortune.graph.model.open import OpenModel, open_model
from ortune.graph.model.save import INLINE_LIMIT_BYTES, save_model
from ortune.graph.written import Fingerprint
from ortune.records import Plan, RewriteSpec, Value
from ortune.rewrites._base import ONNX, Rewrite, RewriteResult, unchanged
from ortune.rewrites._checks import problem
from ortune.rewrites._marks import restore_metadata, stamp, stamp_model
from ortune.rewrites._quantized import FAMILY, finish, layers_left
from ortune.rewrites._registry import canonical, find

_STEPS = "rewrites.json"


class Tool(Protocol):
    """The tool process, which runs tasks that need ONNX Runtime itself."""

    @property
    def identity(self) -> str:
        """Identity of the build, machine and settings; equal identities give equal results for the same task."""

    def __call__(self, task: str, source: Path, target: Path, params: Mapping[str, str]) -> str:
        """Run a task that writes ``target`` from ``source``, and return one sentence that describes the change.

        Raises:
            OrtuneError: The task failed; the message gives the reason.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteStepResult:
    """A rewrite and the result of applying it."""

    spec: RewriteSpec
    result: RewriteResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenFile:
    """The result of applying rewrites to a model.

    Attributes:
        path: The model file to run; the source file if nothing was changed.
        steps: All rewrites in order, including those that changed nothing.
        settings: Settings required by the rewrites that changed the model.
        hardware_bound: Whether a rewrite that changed the model ties the model to this kind of CPU.
    """

    path: Path
    steps: tuple[RewriteStepResult, ...]
    settings: dict[str, Value] = field(default_factory=dict)
    hardware_bound: bool = False

    @property
    def modified(self) -> bool:
        """Whether any rewrite changed the model."""
        return any(step.result.modified for step in self.steps)


def apply_all(
    source: OpenModel, specs: Sequence[RewriteSpec], folder: Path, tool: Tool | None = None
) -> Path:
    """Apply rewrites and return the path of the resulting model, or of the source if nothing changed."""
    return rewrite_model(source, specs, folder, tool).path


def rewrite_model(
    source: OpenModel, specs: Sequence[RewriteSpec], folder: Path, tool: Tool | None = None
) -> RewrittenFile:
    """Apply rewrites in order and write the result, or reuse it from the cache in ``folder``.

    Raises:
        UsageError: A rewrite or parameter is unknown or does not fit the model.
        ModelError: The model is in ORT format.
        OrtuneError: The tool failed, or a rewrite broke the model.
        OSError: A file cannot be written.
    """
    specs = [canonical(spec) for spec in specs]
    rewrites = [find(spec.name) for spec in specs]
    if not specs:
        return RewrittenFile(path=source.path, steps=())
    _require_rewritable(source)
    needs_tool = any(rewrite.task for rewrite in rewrites)
    if needs_tool and tool is None:
        raise ValueError("these rewrites need the tool process")
    place = folder / _key(source, specs, tool.identity if tool and needs_tool else "")
    if not place.is_dir():
        _make(source, list(zip(specs, rewrites, strict=True)), place, tool)
    steps = msgspec.json.decode((place / _STEPS).read_bytes(), type=tuple[RewriteStepResult, ...])
    return _rewritten(source, place, steps, rewrites)


def rewritten_graph(source: OpenModel, specs: Sequence[RewriteSpec], folder: Path, tool: Tool) -> ir.Model:
    """Apply rewrites in order and return the resulting model, without writing or caching it.

    The model's weights may be references to files in ``folder``, which the caller must keep as long as the model.

    Raises:
        UsageError, ModelError, OrtuneError: As for ``rewrite_model``.
    """
    _require_rewritable(source)
    line = _Line(source, folder)
    for spec in map(canonical, specs):
        line.apply(spec, find(spec.name), tool)
    return line.model


def _require_rewritable(source: OpenModel) -> None:
    if source.in_ort_format:
        raise ModelError(
            "The model is in ORT format, which cannot be rewritten.",
            where=str(source.path),
            do="Pass the .onnx that it was converted from.",
        )


def _rewritten(
    source: OpenModel, place: Path, steps: tuple[RewriteStepResult, ...], rewrites: list[Rewrite]
) -> RewrittenFile:
    settings: dict[str, Value] = {}
    done = [rewrite for rewrite, step in zip(rewrites, steps, strict=True) if step.result.modified]
    for rewrite in done:
        settings.update(rewrite.settings)
    return RewrittenFile(
        path=place / _file_name(source, done) if done else source.path,
        steps=steps,
        settings=settings,
        hardware_bound=any(rewrite.hardware_bound for rewrite in done),
    )


def _key(source: OpenModel, specs: list[RewriteSpec], identity: str) -> str:
    made_from = (version("ortune"), source.sha256, Plan(rewrites=tuple(specs)).id, identity)
    return hashlib.sha256(repr(made_from).encode()).hexdigest()[:16]


def _file_name(source: OpenModel, done: Sequence[Rewrite]) -> str:
    """Return the file name of a model after rewrites."""
    return f"{source.path.stem}{done[-1].makes}"


def _make(source: OpenModel, work: list[tuple[RewriteSpec, Rewrite]], place: Path, tool: Tool | None) -> None:
    """Apply rewrites in a temporary folder and rename the folder to ``place``, so no partial result is ever visible."""
    place.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".rewriting-", dir=place.parent))
    try:
        line = _Line(source, scratch / "steps")
        steps = [
            RewriteStepResult(spec=spec, result=line.apply(spec, rewrite, tool)) for spec, rewrite in work
        ]
        new = scratch / "new"
        new.mkdir()
        done = [rewrite for (_, rewrite), step in zip(work, steps, strict=True) if step.result.modified]
        if done:
            line.write(new / _file_name(source, done))
        (new / _STEPS).write_bytes(msgspec.json.encode(steps))
        try:
            new.rename(place)
        except OSError:
            if not place.is_dir():  # else another process finished first, with the same result
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class _Line:
    """Applies rewrites one after another to a model, which between two rewrites is in memory or in a file."""

    def __init__(self, source: OpenModel, folder: Path) -> None:
        self._source = source
        self._own: ir.Model | None = None  # the source's graph until a rewrite changes it
        self._path: Path | None = source.path  # None if the model in memory is not in a file yet
        self._folder = folder
        # Keep inline or external weights as in the source, since mapping and copying them take different
        # times.
        self._limit = 0 if source.external else INLINE_LIMIT_BYTES
        self._count = 0
        self._finished = False  # True once the model is in ORT format

    @property
    def model(self) -> ir.Model:
        """The current model, which the caller must not change."""
        return self._source.ir if self._own is None else self._own

    def _changeable(self) -> ir.Model:
        if self._own is None:
            self._own = self._source.ir.clone()
        return self._own

    def apply(self, spec: RewriteSpec, rewrite: Rewrite, tool: Tool | None) -> RewriteResult:
        """Apply one rewrite and return its result."""
        if self._finished:
            why = "the model is now in ORT format, which cannot be changed"
            return unchanged(why)
        if rewrite.task and tool:
            return self._by_tool(rewrite, spec.params, tool)
        result = rewrite.apply(self._changeable(), spec.params)
        if result.modified:
            self._path = None
        return result

    def write(self, path: Path) -> None:
        """Write the current model to a file."""
        if self._finished and self._path is not None:
            self._path.replace(path)
            return
        save_model(self.model, path, inline_limit_bytes=self._limit)

    def _by_tool(self, rewrite: Rewrite, params: Mapping[str, str], tool: Tool) -> RewriteResult:
        reasons = rewrite.refuses(self.model) if rewrite.refuses else ()
        if reasons:
            return unchanged(*reasons)
        self._count += 1
        self._folder.mkdir(exist_ok=True)
        if rewrite.makes != ONNX:
            return self._finish(rewrite, params, tool)
        if self._path is None:
            self._path = self._folder / f"before-{self._count}.onnx"
            self.write(self._path)
        target = self._folder / f"after-{self._count}.onnx"
        asked, layers = rewrite.with_defaults(params), list[str]()
        if rewrite.family == FAMILY and asked.get("leave"):
            asked["leave"], layers = layers_left(self.model, asked["leave"])
        source = self._path
        if rewrite.prepare:
            source = self._folder / f"prepared-{self._count}.onnx"
            tool(rewrite.prepare, self._path, source, {})
        what = tool(rewrite.task, source, target, asked)
        output = open_model(target).ir
        if rewrite.family == FAMILY:
            # What another quantizer made is judged as it is.
            mends = rewrite.calibrated and not rewrite.needs
            said = finish(self.model, open_model(source).ir, output, layers, mends=mends)
            what = "; ".join([what.rstrip("."), *said]) + "."
        if rewrite.mends:
            rewrite.mends(self.model, output)
        # A source that was invalid before is not blamed on the tool.
        if not problem(self.model):
            rewrite.require_whole(output)
        before = Fingerprint.from_model(self.model, by_identity=False)
        if Fingerprint.from_model(output, by_identity=False) == before:
            return unchanged("the tool returned the same graph")
        restore_metadata(self.model, output)
        stamp(output, before, rewrite.name, by_identity=False)
        self._own, self._path = output, None
        return RewriteResult(modified=True, what=what)

    def _finish(self, rewrite: Rewrite, params: Mapping[str, str], tool: Tool) -> RewriteResult:
        """Apply a rewrite that writes ORT format. It must be the last rewrite, and its file is kept as written."""
        # The result cannot be marked, so the model that it is made from is.
        stamp_model(self._changeable(), rewrite.name)
        before = self._folder / f"before-{self._count}.onnx"
        self.write(before)
        self._path = self._folder / f"after-{self._count}{rewrite.makes}"
        what = tool(rewrite.task, before, self._path, rewrite.with_defaults(params))
        open_model(self._path)  # raises if the file is not a model
        self._finished = True
        return RewriteResult(modified=True, what=what)
