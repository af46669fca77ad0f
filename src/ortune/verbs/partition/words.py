"""Sentences on a partition: verdict, regions, unsupported nodes with the reasons, and possible improvements."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from ortune.catalogue.providers import COREML, NNAPI, QNN, WEBGPU, XNNPACK
from ortune.catalogue.providers import COREML_NETWORK as NETWORK
from ortune.printable import amount
from ortune.records import Envelope, NodeReason, PartitionState, PartitionVerdict, RewriteSpec
from ortune.show import rewrite_words
from ortune.show.chart import Axis, Box, Chart
from ortune.show.document import Block, Code, Column, Document, Line, Points, Section, Tone, table
from ortune.show.numbers import percent, size
from ortune.verbs.partition.result import (
    CostliestOperator,
    PartitionResult,
    ProviderAgreement,
    ProviderPartition,
)

NAMES = {
    NNAPI.target: "NNAPI",
    COREML.target: "CoreML (MLProgram)",
    NETWORK: "CoreML (NeuralNetwork)",
    XNNPACK.target: "XNNPACK",
    QNN.target: "QNN",
    WEBGPU.target: "WebGPU",
}
STATES = {"as-is": "as it is", "fixed-shapes": "fixed shapes", "rewritten": "after rewrites"}
VERDICTS: dict[PartitionVerdict, str] = {
    "good": "worth trying",
    "maybe": "measure it on the phone",
    "poor": "the CPU is likely faster",
    "none": "no node is supported",
}
_OF_XNNPACK: dict[PartitionVerdict, str] = {
    **VERDICTS,
    "maybe": "measure it against ONNX Runtime's kernels",
    "poor": "ONNX Runtime's kernels are likely as fast",
}
"""Words for verdicts on XNNPACK, a library of CPU kernels, whose regions need no copies to another processor."""
TONES: dict[PartitionVerdict, Tone] = {"good": "good", "maybe": "unsure", "poor": "bad", "none": "bad"}
ORDER: tuple[PartitionVerdict, ...] = ("good", "maybe", "poor", "none")

NNAPI_IS_OLD = (
    "NNAPI has been deprecated since Android 15. For new apps, use QNN on Qualcomm NPUs, and XNNPACK or the CPU "
    "provider elsewhere."
)
_IN_FLOAT16 = (
    "CoreML: convert to float16 for the Neural Engine (rewrite float32-to-float16); a float32 MLProgram runs on GPU "
    "and CPU only"
)
FIXING = "fixed-dimensions"
SHOWN_OPERATORS, SHOWN_REGIONS, SHOWN_LEFT = 4, 12, 10
MOST_NAMED = 2
"""Maximum number of further providers in a headline, and of rewrites or inputs that are named."""


def best(providers: Sequence[ProviderPartition]) -> PartitionVerdict:
    """Return the best verdict of all providers and states."""
    verdicts = [state.verdict for provider in providers for state in provider.states]
    return min(verdicts, key=ORDER.index, default="none")


def headline(providers: Sequence[ProviderPartition]) -> str:
    """Return one sentence with the verdict and support of the best provider, then of further providers."""
    first, *others = sorted(providers, key=rank)
    state = best_state(first)
    if not state.regions:
        return f"no node is supported by {' or '.join(NAMES[row.provider] for row in providers)}"
    text = f"{_verdict(first, state)}: {NAMES[first.provider]} {_support(state)}{how(state)}"
    rest = [f"{NAMES[provider.provider]} {_short(best_state(provider))}" for provider in others[:MOST_NAMED]]
    more = [f"{len(others) - MOST_NAMED} more below"] if len(others) > MOST_NAMED else []
    return "; ".join([text, ", ".join([*rest, *more])]) if rest else text


def rank(provider: ProviderPartition) -> tuple[int, float, int, bool]:
    """Return a provider's sort key, the best provider first: by verdict, work, regions, and NNAPI (deprecated) last."""
    state = best_state(provider)
    return ORDER.index(state.verdict), -state.work_ratio, state.regions, provider.provider == NNAPI.target


def how(state: PartitionState) -> str:
    """Return a phrase on the changes to the model that a state requires; "" for none."""
    if state.name == "as-is":
        return ""
    names = _rewrites(state.rewrites) if state.name == "rewritten" else ""
    return f" after {names}" if names else " with fixed shapes"


def _short(state: PartitionState) -> str:
    return (
        f"{percent(state.work_ratio, 0)} in {amount(state.regions, 'region')}" if state.regions else "no node"
    )


def _shown(provider: ProviderPartition) -> PartitionState:
    """Return the state whose regions are listed: with fixed shapes if there is such a state, or else unchanged."""
    return next((s for s in provider.states if s.name == "fixed-shapes"), provider.states[0])


def _support(state: PartitionState) -> str:
    if not state.regions:
        return "supports no node"
    return f"supports {percent(state.work_ratio, 0)} of the work in {amount(state.regions, 'region')}"


def not_asked(provider: str, what: str) -> str:
    """Return a sentence that says that a provider could not be queried, and why."""
    return f"{NAMES[provider]} could not be queried: {what.splitlines()[0]}"


def not_growing(why: str) -> str:
    """Return a sentence that says that shapes were not fixed because inputs grow from step to step."""
    return f"shapes were not fixed: {why}"


def empty_at_first(names: Sequence[str]) -> str:
    """Return a sentence that says that CoreML cannot run a step with an empty past."""
    are = "has" if len(names) == 1 else "have"
    shown = ", ".join(names) if len(names) <= MOST_NAMED else f"{names[0]}, ..., {names[-1]}"
    return (
        f"CoreML rejects tensors without elements, so a step in which {shown} {are} length 0, as in the first one, "
        "fails or runs on the CPU; a static cache is never empty"
    )


def not_fixed(spec: RewriteSpec, what: str) -> str:
    """Return a sentence that says that ONNX Runtime does not load the model with fixed shapes."""
    return (
        f"with {rewrite_words.spec(spec)} the model does not load (other sizes: --shape): {_first_line(what)}"
    )


def document(envelope: Envelope[PartitionResult]) -> Document:
    """Return the document of a partition: the verdicts, then the details of each provider."""
    result = envelope.result
    old = any(provider.provider == NNAPI.target for provider in result.providers)
    blocks: list[Block] = [Line(result.headline, TONES[best(result.providers)]), _states(result.providers)]
    blocks += [Line(comparison) for comparison in _formats(result.providers)]
    blocks += [
        Line(
            f"XNNPACK: based on onnxruntime {provider.release}; newer builds may support more nodes", "faint"
        )
        for provider in result.providers
        if provider.provider == XNNPACK.target
    ]
    support: list[Block] = []
    for provider in result.providers:
        blocks += _provider(provider)
        support += _details(provider)
    blocks += [Line(note, "look") for note in result.notes]
    if result.inputs:
        blocks.append(Line(f"dynamic dimensions were fixed as {', '.join(result.inputs)}", "faint"))
    blocks.append(
        Line(
            f"regions of the graph at ONNX Runtime's level basic (onnxruntime {result.runtime.ort_version}); "
            "nothing was measured",
            "faint",
        )
    )
    path = envelope.model.path if envelope.model else "model.onnx"
    blocks.append(Code(title="next", lines=_commands(path, result), commands=True))
    return Document(
        title=f"ortune partition: {path}",
        blocks=blocks,
        support=support,
        before=[Line(NNAPI_IS_OLD, "look")] if old else (),
    )


def best_state(provider: ProviderPartition) -> PartitionState:
    """Return the state of the model that the provider supports best."""
    return min(provider.states, key=lambda state: ORDER.index(state.verdict))


def _verdict(provider: ProviderPartition, state: PartitionState) -> str:
    """Return the verdict of a state in words, which differ for XNNPACK because it competes with CPU kernels."""
    return (_OF_XNNPACK if provider.provider == XNNPACK.target else VERDICTS)[state.verdict]


def _why_none(provider: ProviderPartition) -> str:
    """Return why a provider supports no node of the unchanged model; "" if it supports nodes or this is unknown."""
    first, *others = provider.states
    if first.regions:
        return ""
    if any(state.name == "fixed-shapes" and state.regions for state in others):
        return "dynamic dimensions are not supported"
    left = next(iter(provider.left), None)
    return f"{amount(len(left.nodes), left.op_type + ' node')}: {why(left.reason)}" if left else ""


def _rewrites(specs: Sequence[RewriteSpec]) -> str:
    """Return the names of rewrites, or their number if there are many, without the rewrite that fixes shapes."""
    names = [spec.name for spec in specs if spec.name != FIXING]
    return " and ".join(names) if len(names) <= MOST_NAMED else f"{len(names)} rewrites"


def _formats(providers: Sequence[ProviderPartition]) -> list[str]:
    """Return sentences on which CoreML format to use; empty unless both formats were requested."""
    states = {provider.provider: best_state(provider) for provider in providers}
    if not {COREML.target, NETWORK} <= states.keys():
        return []
    program, network = states[COREML.target], states[NETWORK]
    if not program.regions and not network.regions:
        return []
    better = (ORDER.index(program.verdict), program.regions) <= (
        ORDER.index(network.verdict),
        network.regions,
    )
    if better:
        lines = ["CoreML: set ModelFormat=MLProgram; the provider's default is NeuralNetwork"]
        # With ModelFormat=NeuralNetwork, CoreML takes no node of a float16 model.
        return [*lines, *([_IN_FLOAT16] if network.regions else [])]
    return ["CoreML: keep the default ModelFormat=NeuralNetwork; MLProgram creates more regions"]


def _states(providers: Sequence[ProviderPartition]) -> Block:
    rows = [
        (
            provider.provider if number == 0 else "",
            STATES[state.name],
            str(state.regions),
            f"{state.n_taken} of {state.n_nodes}",
            percent(state.work_ratio, 0),
            ""
            if not state.regions
            else "unknown"
            if state.copied_bytes is None
            else size(state.copied_bytes),
            (_why_none(provider) if number == 0 else "") or _verdict(provider, state),
        )
        for provider in providers
        for number, state in enumerate(provider.states)
    ]
    return table(
        (
            Column("provider", "label"), Column("model", "label"), Column("regions"), Column("nodes"), Column("work"),
            Column("copied per run"), Column("verdict", "text"),
        ),
        rows,
    )  # fmt: skip


def _provider(provider: ProviderPartition) -> list[Block]:
    """Return a list of operators that split the model for one provider, and the table's agreement with the provider."""
    split = _shown(provider).regions > 1
    lines = [_splits(provider.costliest, split=split)] if provider.costliest is not None else []
    if provider.agreement is not None:
        agreed = provider.agreement
        lines.append(_agreement(agreed))
    return [Points(title=NAMES[provider.provider], items=lines)] if lines else []


def _agreement(agreed: ProviderAgreement) -> str:
    """Return a sentence on the provider's agreement with the operator table, and on the operators that differ."""
    ratio = percent(agreed.n_equal / agreed.n_nodes if agreed.n_nodes else 1.0)
    text = f"{agreed.asked} confirms {agreed.n_equal} of {amount(agreed.n_nodes, 'node')} ({ratio})"
    parts = [
        f"{n} {op[1:]} that it {'takes' if op[0] == '+' else 'leaves'}" for op, n in agreed.differing.items()
    ]
    text += f": not on {', '.join(parts)}" if parts else ""
    if agreed.n_removed:
        text += f"; ONNX Runtime had already removed {amount(agreed.n_removed, 'node')}"
    if agreed.not_compiled:
        text += f"; it validated each node, then failed to compile them: {_first_line(agreed.not_compiled)}"
    return text


def _first_line(text: str) -> str:
    """Return the first line of an error, without ONNX Runtime's prefix."""
    return text.strip().partition("\n")[0].rpartition(" : ")[2]


def _splits(costliest: CostliestOperator, *, split: bool) -> str:
    left = costliest.left
    does = "splits the model most" if split else "keeps most of the work on the CPU"
    text = (
        f"{left.op_type} ({amount(len(left.nodes), 'node')}: {why(left.reason)}) {does}: "
        f"{amount(costliest.regions_without, 'region')} without it"
    )
    if costliest.rewrite is None:
        return text
    return f"{text}, {costliest.regions_after} after --rewrite {costliest.rewrite.name}"


def _details(provider: ProviderPartition) -> list[Block]:
    """Return the regions and unsupported nodes of one provider, with a drawing for a page."""
    rows = [
        (
            str(number),
            str(len(region.nodes)),
            percent(region.work_ratio, 0),
            "unknown" if region.input_bytes is None else f"{region.inputs}: {size(region.input_bytes)}",
            "unknown" if region.output_bytes is None else f"{region.outputs}: {size(region.output_bytes)}",
            _operators(region.operators),
            "; ".join(f"{len(left.nodes)} {left.op_type} ({why(left.reason)})" for left in region.behind[:3]),
        )
        for number, region in enumerate(provider.regions[:SHOWN_REGIONS], 1)
    ]
    more = len(provider.regions) - len(rows)
    tables: list[Block] = [
        table(
            (
                Column("region", "label"), Column("nodes"), Column("work"), Column("tensors in"),
                Column("tensors out"), Column("operators", "text"), Column("on the CPU before it", "text"),
            ),
            rows,
            notes=[f"and {amount(more, 'region')} more"] if more else [],
        ),
        table(
            (Column("on the CPU", "label"), Column("nodes"), Column("reason", "text")),
            [(left.op_type, str(len(left.nodes)), why(left.reason)) for left in provider.left[:SHOWN_LEFT]],
            notes=[f"and {len(provider.left) - SHOWN_LEFT} more kinds"] if len(provider.left) > SHOWN_LEFT else [],
        ),
    ]  # fmt: skip
    return [Section(title=f"{NAMES[provider.provider]}: regions", blocks=[_drawing(provider), *tables])]


def _operators(counts: dict[str, int]) -> str:
    shown = [f"{n} {op}" for op, n in list(counts.items())[:SHOWN_OPERATORS]]
    return ", ".join(shown) + (", ..." if len(counts) > SHOWN_OPERATORS else "")


def _drawing(provider: ProviderPartition) -> Block:
    """Return a chart of the nodes in execution order, with the region of each node."""
    count = max(1, provider.n_nodes)
    marks = [Box(x0=0.0, x1=1.0, y0=0.35, y1=0.65, about="on the CPU")]
    for number, region in enumerate(provider.regions):
        for first, n in region.places:
            marks.append(
                Box(
                    x0=first / count,
                    x1=(first + n) / count,
                    hue="winner" if number % 2 else "in-use",
                    text=str(number + 1) if n > count / 25 else "",
                    about=f"region {number + 1}: {len(region.nodes)} nodes, {percent(region.work_ratio, 0)}",
                )
            )
    alt = f"{amount(provider.n_nodes, 'node')} in execution order, {amount(len(provider.regions), 'region')}"
    ticks = ((0.0, "first node"), (1.0, "last node"))
    return Chart(alt=alt, marks=tuple(marks), height_px=56, x=Axis(ticks=ticks))


def _commands(path: str, result: PartitionResult) -> list[str]:
    """Return the commands that apply the best provider's rewrites and show its details."""
    best_of = min(
        result.providers, key=lambda provider: ORDER.index(best_state(provider).verdict), default=None
    )
    if best_of is None:
        return []
    state = best_state(best_of)
    lines = []
    if state.rewrites:
        lines.append(shlex.join(["ortune", "rewrite", path, *map(rewrite_words.spec, state.rewrites)]))
    if len(result.providers) > 1 or state.name == "as-is":
        lines.append(shlex.join(["ortune", "partition", path, "--for", best_of.provider, "--verbose"]))
    return lines


_WHY = {
    "not-listed": "not in its operator list",
    "fused-operator": "not an ONNX operator, and not in its operator list",
    "old-opset": "operator version too old: {}",
    "behind-stop": "after {}, where its region ends",
    "unknown-shape": "shape of {} unknown",
    "dynamic-shape": "{} has a dynamic dimension",
    "empty-shape": "{} is empty",
    "large-dimension": "dimension above its limit of 16384: {}",
    "rank": "{} dimensions",
    "shape": "shape does not fit: {}",
    "not-constant": "{} is not constant",
    "inputs": "unsupported inputs: {}",
    "outputs": "unsupported outputs: {}",
    "quantized-form": "quantized form: {}",
    "alone": "alone in a region, it would only copy",
    "refused": "rejected by the provider",
}
"""Maps reasons for unsupported nodes to words; other reasons are described by their detail."""


def why(reason: NodeReason) -> str:
    """Return a short phrase on why a node is not supported."""
    return _WHY.get(reason.code, "{}").format(reason.detail).removesuffix(": ")
