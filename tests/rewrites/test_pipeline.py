"""The rewrites that a model calls for one after another: the same as by trying each, with less work."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest
from rewrite_corpus import CORPUS, Sample

import zoo
from ortune import rewrites
from ortune.graph.model.open import open_model
from ortune.graph.shapes import known
from ortune.graph.written import Fingerprint
from ortune.inputs import workload as workloads
from ortune.records import RewriteSpec, Workload


def tried(model: ir.Model, work: Workload | None) -> tuple[RewriteSpec, ...]:
    """The row as it is defined: each is asked, and applied where it is worth a try or clean-up."""
    copy = model.clone()
    found, useful = list[RewriteSpec](), 0
    for rewrite in sorted(rewrites.all_rewrites().values(), key=lambda each: each.stage):
        if rewrite.change is None or rewrite.safety != "exact":
            continue
        proposed = rewrite.proposes(copy, work)[:1] if rewrite.pays("", "cpu") else []
        params = proposed[0][0] if proposed else {}
        if (proposed or rewrite.stage == rewrites.CLEAN_UP) and rewrite.apply(copy, params).modified:
            found.append(RewriteSpec(name=rewrite.name, params=rewrite.canonical(params)))
            useful = len(found) if proposed else useful
    return tuple(found[:useful])


@pytest.mark.parametrize("sample", CORPUS, ids=lambda s: s.name)
def test_it_is_what_trying_each_finds(sample: Sample, tmp_path: Path) -> None:
    model = open_model(sample.write(tmp_path)).ir
    assert rewrites.pipeline(model) == tried(model, None)


@pytest.mark.parametrize(
    "name",
    ["basic-pitch", "light-squeezenet", pytest.param("ppocrv2-cls", marks=pytest.mark.long)],
)
def test_it_is_so_of_real_models(name: str) -> None:
    model = open_model(zoo.model_path(name)).ir
    work = workloads.propose(model)
    assert rewrites.pipeline(model, workload=work) == tried(model, work)


def test_clean_up_is_asked_without_parameters(tmp_path: Path) -> None:
    for sample in CORPUS:
        model = open_model(sample.write(tmp_path)).ir
        for rewrite in rewrites.all_rewrites().values():
            if rewrite.stage == rewrites.CLEAN_UP:
                assert all(params == {} for params, _ in rewrite.proposes(model, None))


def test_nothing_is_inferred_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Fingerprint] = []
    infer = known._infer

    def noted(model: ir.Model) -> onnx.ModelProto | None:
        seen.append(Fingerprint.from_model(model))
        return infer(model)

    monkeypatch.setattr(known, "_infer", noted)
    model = open_model(zoo.model_path("basic-pitch")).ir
    work = workloads.propose(model)
    with rewrites.remembering():
        assert len(rewrites.pipeline(model, workload=work)) > 2
        in_row = len(seen)
        rewrites.proposals(model, workload=work)
    assert len(seen) == len(set(seen))
    seen.clear()
    tried(model, work)
    assert 0 < in_row <= len(seen) / 2


def test_a_changed_model_is_inferred_again() -> None:
    model = open_model(zoo.model_path("light-squeezenet")).ir
    image = next(value for value in model.graph.inputs if value.name not in model.graph.initializers)
    convolved = next(use.node for use in image.uses()).outputs[0]
    with rewrites.remembering():
        first = known.known_values(model)
        assert known.known_values(model) == first
        image.shape = ir.Shape([2, *(image.shape or ())[1:]])
        again = known.known_values(model)
    before, after = first[convolved].dims, again[convolved].dims
    assert before is not None
    assert after is not None
    assert (before[0], after[0]) == (1, 2)
    assert before[1:] == after[1:]
