"""What a rewrite would mend a rule names, and what a rule names its rewrite mends: on samples and on random graphs."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import onnx
import pytest
from random_graphs import random_graph
from rewrite_corpus import CORPUS, Sample
from rewrite_fuzzing import as_function

from ortune import rewrites, rules
from ortune.graph.model.open import OpenModel, open_model
from ortune.inputs import workload
from ortune.records import RewriteSpec, Workload
from ortune.rules import Facts, Selection

REST = "GRA027"
"""The rule that names what fits and no other rule names."""


def named(model: OpenModel, work: Workload, without: Collection[str] = ()) -> list[RewriteSpec]:
    """The rewrites that rules name as their fix."""
    found = rules.found_by(Selection(preview=True, measured=True).rules(), Facts(model=model, work=work))
    plans = [finding.plan for finding in found if finding.plan and finding.code not in without]
    return [spec for plan in plans for spec in plan.rewrites]


def offered(model: OpenModel, work: Workload) -> set[str]:
    """The rewrites that propose themselves, beyond clean-up."""
    found = rewrites.proposals(model.ir, workload=work, objective="latency", target="cpu")
    every = (rewrites.find(spec.name) for spec, _ in found)
    return {each.name for each in every if each.stage > rewrites.CLEAN_UP and each.change is not None}


def require_agreement(model: OpenModel, work: Workload) -> None:
    """Fails where a rewrite that fits is no rule's fix, or a rule's fix changes nothing."""
    specs = named(model, work)
    assert offered(model, work) <= {spec.name for spec in specs}
    for spec in specs:
        rewrite = rewrites.find(spec.name)
        if rewrite.change is not None:
            assert rewrite.apply(open_model(model.path).ir, spec.params).modified, spec


@pytest.mark.parametrize("sample", CORPUS, ids=lambda sample: sample.name)
def test_they_agree_on_every_sample(sample: Sample, tmp_path: Path) -> None:
    model = open_model(sample.write(tmp_path))
    require_agreement(model, workload.propose(model.ir, shapes=sample.feeds_shapes()))


OWN = (
    "attention", "cascaded-nodes", "gelu", "hard-swish", "int64-to-int32", "layer-normalization", "one-hot-to-gather",
    "unrolled-recurrence",
)  # fmt: skip
"""Rewrites that a rule of their own names wherever they propose themselves."""
GRAPHS = 24


@pytest.mark.parametrize("part", range(2))
def test_they_agree_on_random_graphs(part: int, tmp_path: Path) -> None:
    fits = dict.fromkeys(OWN, 0)
    for seed in range(part * GRAPHS // 2, (part + 1) * GRAPHS // 2):
        made, feeds = random_graph(seed)
        onnx.save(as_function(made) if seed % 5 == 0 else made, tmp_path / f"{seed}.onnx")
        model = open_model(tmp_path / f"{seed}.onnx")
        work = workload.propose(model.ir, shapes={name: array.shape for name, array in feeds.items()})
        require_agreement(model, work)
        own = {spec.name for spec in named(model, work, without=[REST])}
        for name in offered(model, work).intersection(OWN):
            fits[name] += 1
            assert name in own, (seed, name)
