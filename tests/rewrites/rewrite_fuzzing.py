"""Rewrites against models that nobody made for them: random graphs, and the node cases that come with onnx."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir as ir
from growing_graph import Feeds
from onnx import helper, numpy_helper
from random_graphs import random_graph
from same_outputs import REFUSED, all_same, rounded_worse, run, run_or_evaluate

from ortune import platform, rewrites
from ortune.graph.dot_products import saturates
from ortune.graph.model.graphs import graphs
from ortune.graph.written import Fingerprint
from ortune.rewrites._base import Rewrite
from ortune.rewrites._checks import problem

_OFF_HERE = ("uint8-weights-to-int8",) if saturates(platform.host()) else ()
"""Where pairs of products saturate at 16 bits, outputs of these are not those by the standard, as they say."""
IN_MEMORY = [
    r
    for r in rewrites.all_rewrites().values()
    if r.change and r.safety != "behaviour" and r.name not in _OFF_HERE
]
_ROUNDING = ("cast-round-trips", "float16-to-float32", "float64-to-float32")
"""Outputs of these move by what float16 or float32 rounds."""
_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
_MOST_DEVIATION = 1e6
_THOROUGHLY = 8  # one model in so many is looked at after every rewrite


def check(rewrite: Rewrite, model: onnx.ModelProto, feeds: Feeds, expected: list[np.ndarray]) -> bool:
    """Whether the rewrite changed the model; fails where it is not what it was."""
    return Subject.of(model, feeds, expected).check(rewrite)


@dataclass(slots=True, kw_only=True)
class Subject:
    """A model that one rewrite after another is tried on; what they need to know of it is found once.

    Attributes:
        given: The model as it was read; its types, shapes and tensors are shared with copies, so that none may be
            changed in place.
        text: What ``given`` is written as.
        before: What it looks like; its copies look the same.
        was_broken: Why it does not hang together; "" when it does.
        copy: What the next rewrite gets: a new one after each that changes it.
    """

    model: onnx.ModelProto
    feeds: Feeds
    expected: list[np.ndarray]
    given: ir.Model
    text: bytes
    before: Fingerprint
    was_broken: str
    copy: ir.Model

    @classmethod
    def of(cls, model: onnx.ModelProto, feeds: Feeds, expected: list[np.ndarray]) -> Subject:
        """The model, its inputs, and what ONNX Runtime makes of them."""
        given = ir.serde.deserialize_model(model)
        return cls(
            model=model,
            feeds=feeds,
            expected=expected,
            given=given,
            text=ir.serde.serialize_model(given).SerializeToString(),
            before=Fingerprint.from_model(given),
            was_broken=problem(given),
            copy=given.clone(),
        )

    def check(self, rewrite: Rewrite, *, thoroughly: bool = True) -> bool:
        """As ``check``; after a failure nothing of the subject can be relied upon.

        Not ``thoroughly``: what is changed in secret is left for ``require_untouched``, after the last rewrite.
        """
        assert rewrite.change is not None
        made = self.copy
        result = rewrite.change(made, rewrite.with_defaults({}))
        if not result.modified:
            assert not thoroughly or is_unchanged(made, self.given), (
                "changed the model but reported no change"
            )
            return False
        self.copy = self.given.clone()
        rewrite.finish(made, result, self.before, self.was_broken)
        if thoroughly:
            self.require_untouched()
        proto = ir.serde.serialize_model(made)
        onnx.checker.check_model(proto)
        rounding = 1e-2 if rewrite.name in _ROUNDING else 1e-4
        made_of, expected = run_or_evaluate(proto, self.model, self.feeds, self.expected)
        try:
            all_same(made_of, expected, rounding)
        except AssertionError:
            if not rounded_worse(self.model, self.feeds, made_of, expected, rounding):
                raise
        again = rewrite.apply(made) if thoroughly else rewrite.change(made, rewrite.with_defaults({}))
        assert not again.modified, "found more when it came again"
        return True

    def require_untouched(self) -> None:
        """Fails where the model, or the copy that no rewrite is said to have changed, is not what it was."""
        assert ir.serde.serialize_model(self.given).SerializeToString() == self.text, (
            "changed what copies share"
        )
        assert is_unchanged(self.copy, self.given), "changed the model but reported no change"


def is_unchanged(copy: ir.Model, given: ir.Model) -> bool:
    """Whether nothing in a copy was changed. Names, and the very objects that copies share: cheaper than pictures."""
    ours, theirs = list(graphs(copy)), list(graphs(given))
    return (
        (copy.ir_version, copy.opset_imports, copy.metadata_props, list(copy.functions))
        == (given.ir_version, given.opset_imports, given.metadata_props, list(given.functions))
        and len(ours) == len(theirs)
        and all(map(_same_graph, ours, theirs))
    )


def _same_graph(one: ir.Graph | ir.Function, other: ir.Graph | ir.Function) -> bool:
    ours, theirs = list(one), list(other)
    held, known = (list(g.initializers.values()) if isinstance(g, ir.Graph) else [] for g in (one, other))
    return (
        one.name == other.name
        and len(ours) == len(theirs)
        and _same_values(one.inputs, other.inputs)
        and _same_values(one.outputs, other.outputs)
        and _same_values(held, known)
        and all(map(_same_node, ours, theirs))
    )


def _same_node(one: ir.Node, other: ir.Node) -> bool:
    ours, theirs = one.attributes.data, other.attributes.data
    return (
        one.op_identifier() == other.op_identifier()
        and one.name == other.name
        and one.metadata_props == other.metadata_props
        and [v and v.name for v in one.inputs] == [v and v.name for v in other.inputs]
        and _same_values(one.outputs, other.outputs)
        and ours.keys() == theirs.keys()
        and all(a is theirs[name] or a.type in _GRAPHS for name, a in ours.items())
    )


def _same_values(ours: Sequence[ir.Value], theirs: Sequence[ir.Value]) -> bool:
    return len(ours) == len(theirs) and all(
        one.name == other.name
        and one.type == other.type
        and one.shape == other.shape
        and one.const_value is other.const_value
        for one, other in zip(ours, theirs, strict=True)
    )


@dataclass(slots=True)
class Tally:
    """What came of it.

    Attributes:
        models: How many were run.
        left_out: How many ONNX Runtime does not run, by its error, or whose outputs say nothing.
        changed: How many each rewrite changed.
        wrong: What is not what it was: one line each.
    """

    models: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def take(self, name: str, model: onnx.ModelProto, feeds: Feeds, expected: list[np.ndarray]) -> None:
        """Tries every rewrite on a model."""
        self.models += 1
        # What is changed in secret by one before another that changes the model is seen in one model of eight.
        thoroughly = self.models % _THOROUGHLY == 1
        subject = Subject.of(model, feeds, expected)
        with rewrites.remembering():
            for rewrite in IN_MEMORY:
                try:
                    self.changed[rewrite.name] += subject.check(rewrite, thoroughly=thoroughly)
                # Whatever goes wrong is a fault of the rewrite, and the next one is tried.
                except Exception as error:  # noqa: BLE001
                    self._blame(rewrite, name, error)
                    subject = Subject.of(model, feeds, expected)
            try:
                subject.require_untouched()
            except AssertionError:
                self._find_out_who(name, model, feeds, expected)

    def _find_out_who(
        self, name: str, model: onnx.ModelProto, feeds: Feeds, expected: list[np.ndarray]
    ) -> None:
        """Tries each rewrite on a model of its own, since one of them changes in secret."""
        for rewrite in IN_MEMORY:
            try:
                Subject.of(model, feeds, expected).check(rewrite)
            except Exception as error:  # noqa: BLE001
                self._blame(rewrite, name, error)

    def _blame(self, rewrite: Rewrite, name: str, error: Exception) -> None:
        self.wrong.append(f"{rewrite.name} on {name}: {type(error).__name__}: {str(error)[:300]}")

    def add(self, other: Tally) -> None:
        """What came of others, too."""
        self.models += other.models
        self.left_out.update(other.left_out)
        self.changed.update(other.changed)
        self.wrong += other.wrong


def over_random_graphs(seeds: Iterable[int], tally: Tally) -> None:
    """Every rewrite on every graph."""
    for seed in seeds:
        model, feeds = random_graph(seed)
        model = as_function(model) if seed % 5 == 0 else model
        try:
            expected = run(model, feeds)
        except REFUSED as error:
            tally.left_out[type(error).__name__] += 1
            continue
        # What is infinite, or nearly, says nothing of rounding.
        if all(_is_judged(array) for array in expected):
            tally.take(f"random_graph({seed})", model, feeds, expected)
        else:
            tally.left_out["not finite"] += 1


def _is_judged(array: np.ndarray) -> bool:
    if array.dtype.kind != "f":
        return True
    return bool(
        np.isfinite(array).all() and np.abs(array.astype(np.float64)).max(initial=0) < _MOST_DEVIATION
    )


def as_function(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model as the call of a function of its own, in which constants are nodes."""
    graph = model.graph
    constants = [helper.make_node("Constant", [], [w.name], value=w) for w in graph.initializer]
    inputs, outputs = ([v.name for v in side] for side in (graph.input, graph.output))
    function = helper.make_function(
        "local", "Whole", inputs, outputs, [*constants, *graph.node], model.opset_import
    )
    call = helper.make_node("Whole", inputs, outputs, name="call", domain="local")
    return helper.make_model(
        helper.make_graph([call], "g", graph.input, graph.output),
        functions=[function],
        opset_imports=[*model.opset_import, helper.make_opsetid("local", 1)],
        ir_version=8,
    )


FORMS = ("fed", "constant", "weights")
"""A case as it is; with all that is fed as constants; with all but what is fed first."""


def over_node_cases(tally: Tally, every: int = 1, first: int = 0, operators: int = 1) -> None:
    """Every rewrite on every node case, or one in so many, in three forms.

    ``operators``: one in so many has its cases made, which computes them all.
    """
    for number, case in enumerate(_cases(operators)):
        if number % every != first % every:
            continue
        for form in FORMS:
            made = _formed(case.model, case.feeds, form)
            if made is None:
                continue
            model, feeds = made
            try:
                expected = run(model, feeds)
            # Operators that this build lacks, of every kind of error.
            except Exception as error:  # noqa: BLE001
                tally.left_out[type(error).__name__] += 1
                continue
            tally.take(f"{case.name} ({form})", model, feeds, expected)


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    model: onnx.ModelProto
    feeds: Feeds


def _cases(operators: int) -> list[_Case]:
    from onnx.backend.test.case import node

    names = sorted(module.name for module in pkgutil.iter_modules(node.__path__))
    for name in names[::operators] if operators > 1 else ():
        importlib.import_module(f"{node.__name__}.{name}")
    found = []
    cases = node._NodeTestCases if operators > 1 else node.collect_testcases()
    if operators > 1 and all(f"{node.__name__}.{name}" in sys.modules for name in names):
        cases = cases[::operators]  # another test of this process had them all made
    for case in cases:
        if case.model is not None and case.data_sets:
            names = [value.name for value in case.model.graph.input]
            given = dict(zip(names, case.data_sets[0][0], strict=False))
            found.append(_Case(case.name, case.model, {k: v for k, v in given.items() if v is not None}))
    return found


def _formed(model: onnx.ModelProto, feeds: Feeds, form: str) -> tuple[onnx.ModelProto, Feeds] | None:
    """The case in another form: fed values become weights, and an Identity makes every output."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    if form == "fed":
        return copy, feeds
    graph = copy.graph
    # Sequences and optional values are no weights.
    weights = {k: v for k, v in feeds.items() if isinstance(v, np.ndarray) and v.dtype.kind in "fiub"}
    if form == "weights":
        weights.pop(next(iter(feeds), ""), None)
    if not weights or (len(weights) == len(feeds) and form == "weights"):
        return None
    kept = [value for value in graph.input if value.name not in weights]
    del graph.input[:]
    graph.input.extend(kept)
    graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in weights.items())
    # What subgraphs read keeps its name: only what is an output gets another.
    outputs = {value.name for value in graph.output}
    for node in graph.node:
        node.output[:] = [f"{name}_inner" if name in outputs else name for name in node.output]
        node.input[:] = [f"{name}_inner" if name in outputs else name for name in node.input]
    graph.node.extend(helper.make_node("Identity", [f"{n}_inner"], [n], name=f"{n}_out") for n in outputs)
    copy.ir_version = max(copy.ir_version, 4)
    return copy, {k: v for k, v in feeds.items() if k not in weights}
