"""``ortune skeleton``: a model without weights, names or metadata, compared with the original."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from ortune import files, rules
from ortune.engines.profiling.nodes import NodeOrigins
from ortune.engines.profiling.processes import ProfiledProcess, base_arm, profile, profiled_arm, runs_within
from ortune.engines.profiling.result import result_of
from ortune.errors import MeasurementError, ModelError, OrtuneError
from ortune.graph import outputs
from ortune.graph.model.graphs import nodes
from ortune.graph.model.open import OpenModel, open_model
from ortune.graph.skeleton import Skeleton, skeleton
from ortune.measuring.measuring import Measuring
from ortune.measuring.sides import SideText
from ortune.measuring.watcher import Watcher
from ortune.outputs import pairing
from ortune.records import Envelope, Finding, Measured, Workload
from ortune.search.figures import figure
from ortune.search.phases import LEAST_LOAD_S
from ortune.verbs._shared.facts import facts_of
from ortune.verbs._shared.session import experiment
from ortune.verbs._shared.spelling import named
from ortune.verbs._shared.watching import with_words
from ortune.verbs.skeleton import words as skeleton_words
from ortune.verbs.skeleton.options import USUAL, Options
from ortune.verbs.skeleton.result import SameOperator, SkeletonProfile, SkeletonResult

MOST_PROFILED_S = 120.0
"""Maximum duration of the profiles of original and skeleton together, in seconds."""
ALIKE = 0.05
"""Maximum fraction of the time that is in other operators than in the original, for equal profiles."""
AS_ITSELF = 2.0
"""Alternative maximum, as a multiple of the difference between two profiles of the original."""
TOO_MUCH = 0.1
"""Difference between two profiles of the original, as a fraction of the time, that is too large for a conclusion."""


def run(options: Options, watcher: Watcher | None = None) -> Envelope[SkeletonResult]:
    """Create the skeleton, and compare it with the original.

    Returns:
        The document; ``verdict`` is "same", "differs", or "not-run" if the original or the skeleton does not run
        here. The skeleton is written in any case.

    Raises:
        OrtuneError: The model cannot be read, or the skeleton cannot be written.
    """
    watch, place = with_words(watcher), options.place()
    with experiment("skeleton", options, watch) as opened:
        scratch = opened.scratch
        side = opened.resolve(SideText(text=str(options.model), runtime=named(options.runtime)))
        plain = msgspec.structs.replace(side.plan, rewrites=())
        side = replace(side, runs=side.model.path, plan=plain)
        if side.model.in_ort_format:
            raise ModelError(
                "The model is in ORT format, which is specific to one kind of machine.",
                where=str(side.model.path),
                do="Pass the .onnx that it was converted from.",
            )
        watch.line("removing the weights")
        skeleton_model = skeleton(side.model.path)
        data = skeleton_model.proto.SerializeToString(deterministic=True)
        (scratch / USUAL).write_bytes(data)
        new = open_model(scratch / USUAL)
        baseline = opened.base_measuring(side)
        with opened.measuring(side.label):
            result = _comparison(options, baseline, skeleton_model, new, watch)
        _write(data, place, typed=options.output is not None)
        result = msgspec.structs.replace(
            result,
            path=str(place),
            bytes_before=side.model.facts.size_bytes + side.model.facts.external_bytes,
            bytes_after=len(data),
        )
    result = msgspec.structs.replace(result, headline=skeleton_words.headline(result))
    verdict = "same" if result.same else "differs" if result.profile else "not-run"
    return opened.document(result, verdict=verdict)


def _write(data: bytes, place: Path, *, typed: bool) -> None:
    try:
        files.write(place, data, typed=typed)
    except OSError as error:
        raise ModelError(
            f"The skeleton cannot be written: {error.strerror or error}.",
            where=str(place),
            do="Choose another --output.",
        ) from error


def _comparison(
    options: Options, baseline: Measuring, skeleton_model: Skeleton, new: OpenModel, watch: Watcher
) -> SkeletonResult:
    """Compare the findings and profiles of the skeleton with the original's."""
    side = baseline.side
    before, after = (_findings(baseline, model) for model in (side.model, new))
    profile, trouble = None, ""
    try:
        profile = _profile(baseline, skeleton_model, new, watch)
    except OrtuneError as error:
        trouble = error.what
    places = [_places(findings) for findings in (before, after)]
    return SkeletonResult(
        path="",
        bytes_before=0,
        bytes_after=0,
        n_nodes=sum(1 for _ in nodes(side.model.ir)),
        n_rebuilt=skeleton_model.n_rebuilt,
        n_kept=skeleton_model.n_kept,
        own_operators=skeleton_model.own_operators,
        inputs=_inputs(baseline.work, skeleton_model),
        by_values=dict(Counter(op for _, op in outputs.value_dependent_ops(new.ir))),
        places_before=places[0],
        places_after=places[1],
        findings=after,
        profile=profile,
        not_profiled=trouble,
        runtime=side.runtime,
        same=profile is not None and profile.alike and profile.placed and places[0] == places[1],
    )


def _findings(baseline: Measuring, model: OpenModel) -> tuple[Finding, ...]:
    asked = rules.Selection().rules(rules.ABOUT_MODELS)
    facts = facts_of(model, baseline.side.plan, baseline.machine.host, baseline.options.words)
    return rules.found_by(asked, facts)


def _places(findings: Sequence[Finding]) -> dict[str, int]:
    """Return the number of places with findings, keyed by rule code; a finding without places counts as one place."""
    counts: Counter[str] = Counter()
    for finding in findings:
        counts[finding.code] += max(1, len(finding.where))
    return dict(sorted(counts.items()))


def _inputs(work: Workload, skeleton_model: Skeleton) -> tuple[str, ...]:
    names = skeleton_model.names.get("v", {})
    return tuple(
        f"{names[value.name]}:{'x'.join(map(str, value.shape))}"
        for value in (work.cases[0].inputs if work.cases else ())
        if value.name in names and value.shape
    )


def _profile(
    baseline: Measuring, skeleton_model: Skeleton, new: OpenModel, watch: Watcher
) -> SkeletonProfile:
    """Profile original and skeleton alternately on the same inputs, and the original twice to measure the noise.

    Raises:
        OrtuneError: The original or the skeleton does not run, or a run takes too long.
    """
    side = baseline.side
    watch.line("running the model")
    baseline.find_inputs(LEAST_LOAD_S)
    names = skeleton_model.names.get("v", {})
    pairs = {names[value.name or ""]: value.name or "" for value in side.model.ir.graph.inputs}
    fed = {choice.name for choice in baseline.work.cases[0].inputs}
    pairs = {ours: theirs for ours, theirs in pairs.items() if theirs in fed}
    refs = pairing.feeds_for(baseline.refs, new.ir, pairs, baseline.scratch / "feeds", "skeleton")
    arms = [base_arm(baseline), base_arm(baseline)]
    arms.append(profiled_arm(baseline, baseline.arm("skeleton", model=new.path, refs=refs)))
    first = baseline.executor.last
    assert isinstance(first, Measured)
    latency_ns = figure(first, "median") or first.done.cases[0].first_ns
    runs = runs_within(baseline, latency_ns, MOST_PROFILED_S * 1e9 / len(arms))
    if not runs:
        raise MeasurementError(skeleton_words.runs_too_long(latency_ns, MOST_PROFILED_S))
    watch.line(skeleton_words.PROFILING)
    keep = [baseline.scratch / f"trace-{number}.json" for number in range(len(arms))]
    processes = profile(baseline, arms, runs, keep)
    return _compared(processes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operator:
    """An operator on a provider: the number of its nodes, and its fraction of an undisturbed run."""

    n_nodes: int = 0
    share: float = 0.0


def _operators(process: ProfiledProcess) -> dict[tuple[str, str], _Operator]:
    nodes = result_of("", process.trace, process.attribution, process.warmup, NodeOrigins()).nodes
    total = math.fsum(node.least_ns for node in nodes) or 1.0
    operators: dict[tuple[str, str], _Operator] = {}
    for node in nodes:
        key = node.op_type, node.provider
        was = operators.get(key, _NONE)
        operators[key] = _Operator(n_nodes=was.n_nodes + 1, share=was.share + node.least_ns / total)
    return operators


_NONE = _Operator()


def _compared(processes: Sequence[ProfiledProcess]) -> SkeletonProfile:
    """Compare by operator the profiles of original, original again and skeleton, which come in this order."""
    before, again, after = map(_operators, processes)
    rows = [
        SameOperator(
            op_type=key[0],
            provider=key[1],
            before=before.get(key, _NONE).n_nodes,
            after=after.get(key, _NONE).n_nodes,
            before_share=before.get(key, _NONE).share,
            again_share=again.get(key, _NONE).share,
            after_share=after.get(key, _NONE).share,
        )
        for key in {**before, **again, **after}
    ]
    rows.sort(key=lambda row: -row.before_share)
    # Halved because each share moves from one operator to another: from 60 and 40 % to 50 and 50 %, one tenth moved.
    moved = math.fsum(abs(row.after_share - row.before_share) for row in rows) / 2
    by_itself = math.fsum(abs(row.again_share - row.before_share) for row in rows) / 2
    return SkeletonProfile(
        operators=tuple(rows),
        moved_ratio=moved,
        again_ratio=by_itself,
        alike=moved <= max(ALIKE, AS_ITSELF * by_itself) and by_itself <= TOO_MUCH,
        time_ratio=processes[2].latency_ns / processes[0].latency_ns,
        placed=all(row.before == row.after for row in rows),
    )
