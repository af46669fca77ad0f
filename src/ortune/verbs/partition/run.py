"""``ortune partition``: finds the nodes that an execution provider supports, their regions, and how to merge these."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import onnx_ir as ir

from ortune import rewrites, targets
from ortune.catalogue.providers import COREML
from ortune.engines.partitions import summary, support
from ortune.engines.partitions.improve import CandidateEffects, Candidates, Proposals, rewritten
from ortune.engines.partitions.partition import Partition, partition
from ortune.graph.model.garbage import without_collection
from ortune.graph.model.graphs import unchanged
from ortune.graph.model.open import OpenModel
from ortune.graph.model.save import save_model
from ortune.graph.nodes import operator
from ortune.graph.shapes.complete import complete_values
from ortune.graph.shapes.growing import growing_inputs
from ortune.graph.shapes.known import Values
from ortune.measuring.opening import Experiment
from ortune.measuring.sides import USUAL_LIMITS, ResolvedSide, SideText
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope, Plan, RewriteSpec, Workload
from ortune.rewrites.fixed_dimensions import why_not_fixed
from ortune.targets.tool import ToolFailed, ToolProcess
from ortune.verbs._shared.session import experiment
from ortune.verbs._shared.spelling import named
from ortune.verbs._shared.watching import with_words
from ortune.verbs.partition import words as partition_words
from ortune.verbs.partition.options import Options
from ortune.verbs.partition.result import (
    CostliestOperator,
    PartitionResult,
    ProviderAgreement,
    ProviderPartition,
)

_AGAIN = re.compile(r"_token_\d+$")
"""Suffix that ONNX Runtime adds to the names of nodes whose layout it changes."""

_BASIC = RewriteSpec(name="ort-optimized-model", params={"level": "basic"})
"""Optimisation that ONNX Runtime applies to a model before it queries a provider."""


@without_collection()
def run(options: Options, watcher: Watcher | None = None) -> Envelope[PartitionResult]:
    """Determine the parts of a model that execution providers support.

    Returns:
        The document; ``verdict`` is the best verdict of all providers: "good", "maybe", "poor" or "none".

    Raises:
        OrtuneError: The model cannot be opened or optimised, or an option cannot be used.
    """
    watch = with_words(watcher)
    formats = options.formats
    with experiment("partition", options, watch) as opened:
        side = opened.resolve(SideText(text=str(options.model), runtime=named(options.runtime)))
        work = opened.base_measuring(side).work
        models = _Models(options, opened, side, work)
        partitions = []
        with unchanged(models.shown):
            for target in formats:
                watch.line(f"partitioning for {target.name}")
                partitions.append(_partitioned(models, target))
        result = PartitionResult(
            providers=tuple(partitions),
            inputs=models.inputs,
            runtime=side.runtime,
            headline=partition_words.headline(partitions),
            notes=tuple(models.notes),
        )
        return opened.document(result, verdict=partition_words.best(partitions))


class _Models:
    """A model in several states, each optimised at ONNX Runtime's level basic.

    Attributes:
        plain: The unchanged model.
        fixed: The model with its dynamic dimensions fixed; None if it has none or does not load then.
        fixing: The rewrite that fixes the dimensions; () if ``fixed`` is None.
        inputs: The input shapes of ``fixed``, in the form of ``--shape``.
        work: Inputs of the model.
        release: Release of ONNX Runtime.
        runtime: Runtime that optimises the model.
        notes: Notes on states that are missing and providers that could not be queried.
    """

    def __init__(self, options: Options, opened: Experiment, side: ResolvedSide, work: Workload) -> None:
        self.work, self.release, self.runtime = work, side.runtime.ort_version, side.runtime
        self._folder = opened.scratch / "partition"
        self._folder.mkdir()
        self._tool = ToolProcess(
            runtime=side.runtime,
            folder=opened.scratch,
            plan=Plan(),
            custom_ops=tuple(options.feeds.custom_ops),
            limits=USUAL_LIMITS,
        )
        self._case = work.cases[0]
        fixing = rewrites.find("fixed-dimensions").proposes(side.model.ir, work)
        finished = side.model.in_ort_format  # a graph in ORT format is already optimised
        self.plain = side.model.ir if finished else self._at_basic(side.model, ())
        self.fixed: ir.Model | None = None
        self.notes: list[str] = []
        self.fixing: tuple[RewriteSpec, ...] = ()
        growing = growing_inputs(side.model.ir)
        if growing:
            names = [item.name for item in growing]
            self.notes.append(partition_words.not_growing(why_not_fixed(side.model.ir)))
            if any(wanted.provider.target == COREML.target for wanted in options.formats):
                self.notes.append(partition_words.empty_at_first(names))
        if fixing and not finished:
            spec = RewriteSpec(name="fixed-dimensions", params=fixing[0][0])
            try:
                self.fixed, self.fixing = self._at_basic(side.model, (spec,)), (spec,)
            except ToolFailed as failure:
                self.notes.append(partition_words.not_fixed(spec, failure.what))
        self.inputs = tuple(
            f"{choice.name}:{'x'.join(map(str, choice.shape))}" for choice in self._case.inputs if self.fixing
        )
        self._candidates: dict[str, Candidates] = {}
        self._proposed: Proposals = {}
        # Caches per graph, shared by all providers: each entry takes a pass over the whole graph.
        self._shares: dict[ir.Model, dict[ir.Node, float]] = {}
        self._values: dict[ir.Model, Values] = {}
        self._rewritten: dict[tuple[ir.Model, bytes], ir.Model | None] = {}

    @property
    def shown(self) -> ir.Model:
        """The state whose regions are displayed: ``fixed``, or else ``plain``."""
        return self.plain if self.fixed is None else self.fixed

    def _at_basic(self, model: OpenModel, specs: Sequence[RewriteSpec]) -> ir.Model:
        folder = self._folder / ("fixed" if specs else "as-is")  # its weights stay in files there
        return rewrites.rewritten_graph(model, [*specs, _BASIC], folder, self._tool)

    def asked(self, own: Partition, model: ir.Model) -> ProviderAgreement | None:
        """Compare the operator table's partition of a model with the provider's own; None if it cannot be queried."""
        provider, runtime = own.format.provider, self.runtime
        if provider.name not in runtime.offered:
            return None
        copy, names = model.clone(), {}
        for number, (node, other) in enumerate(zip(model.graph, copy.graph, strict=True)):
            names[node] = other.name = f"node{number}"
        source, answer = (
            self._folder / f"{own.format.name}.onnx",
            self._folder / f"{own.format.name}.json",
        )
        save_model(copy, source)
        plan = Plan(providers=targets.find(provider.target).providers)
        try:
            replace(self._tool, plan=plan)("placement", source, answer, {})
        except ToolFailed as failure:
            self.notes.append(partition_words.not_asked(own.format.name, failure.what))
            return None
        reply = json.loads(answer.read_text())
        places = {_AGAIN.sub("", name): place for _, name, place in reply["nodes"]}
        nodes = [node for unit in own.wiring.units for node in unit.nodes]
        asked = [node for node in nodes if names[node] in places]
        ours = own.taken
        theirs = {node for node in asked if places[names[node]] == provider.name}
        differing = Counter(f"+{operator(node)}" for node in asked if node in theirs - ours)
        differing.update(f"-{operator(node)}" for node in asked if node in ours - theirs)
        return ProviderAgreement(
            asked=runtime.plugins.get(provider.name, f"onnxruntime {runtime.ort_version}"),
            n_nodes=len(asked),
            n_equal=len(asked) - differing.total(),
            differing=dict(differing.most_common()),
            n_removed=len(nodes) - len(asked),
            not_compiled=reply["not_compiled"],
        )

    def candidates(self, model: ir.Model, target: str) -> Candidates:
        """Return the rewrites that apply to a model with fixed shapes on a target."""
        if target not in self._candidates:
            self._candidates[target] = Candidates(model, self.work, target, self, self._proposed)
        return self._candidates[target]

    def values(self, model: ir.Model) -> Values:
        """Return the shapes and types of the values in a state of the model."""
        if model not in self._values:
            self._values[model] = complete_values(model)
        return self._values[model]

    def rewritten(self, model: ir.Model, specs: Sequence[RewriteSpec]) -> ir.Model | None:
        """Return a rewritten copy of a model; None if one of the rewrites changed nothing."""
        key = model, msgspec.json.encode(specs)
        if key not in self._rewritten:
            self._rewritten[key] = rewritten(model, specs)
        return self._rewritten[key]

    def shares(self, model: ir.Model) -> dict[ir.Node, float]:
        """Return each node's fraction of the work in a state of the model."""
        if model not in self._shares:
            names = {value.name for value in model.graph.inputs}
            shapes = {choice.name: choice.shape for choice in self._case.inputs if choice.name in names}
            self._shares[model] = summary.work_shares(model, shapes)
        return self._shares[model]


def _partitioned(models: _Models, target: support.Format) -> ProviderPartition:
    """Return the result for one provider: all states, and the regions of the state with fixed shapes."""
    plain = partition(models.plain, target, models.release, models.values(models.plain))
    states = [summary.state(plain, models.shares(models.plain), "as-is")]
    shown, model = plain, models.plain
    if models.fixed is not None:
        model = models.fixed
        shown = partition(model, target, models.release, models.values(model))
        states.append(summary.state(shown, models.shares(model), "fixed-shapes", models.fixing))
    candidates = models.candidates(model, target.provider.target)
    improving = CandidateEffects(candidates, shown, states[-1], model, models.release, models)
    improved = improving.together()
    if improved is not None:
        made_by = (*models.fixing, *improved.specs)
        states.append(msgspec.structs.replace(improved.state, rewrites=made_by))
    costliest = None
    shares = models.shares(model)
    splitting = summary.most_splitting_operator(shown, shares)
    if splitting is not None:
        left, without = splitting
        replaced = improving.replacement(left)
        if replaced is not None and replaced[1] >= len(shown.regions) > 1:
            replaced = None
        costliest = CostliestOperator(
            left=left,
            regions_without=without,
            rewrite=replaced[0] if replaced else None,
            regions_after=replaced[1] if replaced else None,
        )
    return ProviderPartition(
        provider=target.name,
        release=shown.release,
        source=target.table.source,
        states=tuple(states),
        regions=summary.regions(shown, shares),
        left=summary.nodes_on_cpu(shown),
        costliest=costliest,
        agreement=models.asked(shown, model),
        n_nodes=len(shown.taken) + len(shown.left),
    )
