"""What a rewrite would mend a rule names, and what a rule names its rewrite mends: every sample of the corpus."""

from __future__ import annotations

from pathlib import Path

import pytest
from rewrite_corpus import CORPUS, Sample

from ortune import rewrites, rules
from ortune.inputs import workload
from ortune.model.open import open_model
from ortune.rules import Facts, Selection


@pytest.mark.parametrize("sample", CORPUS, ids=lambda sample: sample.name)
def test_rules_and_rewrites_agree(sample: Sample, tmp_path: Path) -> None:
    model = open_model(sample.write(tmp_path))
    work = workload.propose(model.ir, shapes=sample.feeds_shapes())
    found = rules.found_by(Selection(preview=True, measured=True).rules(), Facts(model=model, work=work))
    named = [spec for finding in found if finding.plan for spec in finding.plan.rewrites]
    offered = {
        spec.name
        for spec, _ in rewrites.proposals(model.ir, workload=work, objective="latency", target="cpu")
        if (rewrite := rewrites.find(spec.name)).stage > rewrites.CLEAN_UP and rewrite.change is not None
    }
    assert offered <= {spec.name for spec in named}
    for spec in named:
        rewrite = rewrites.find(spec.name)
        if rewrite.change is not None:
            assert rewrite.apply(open_model(model.path).ir, spec.params).modified, spec
