"""What the same fix brought elsewhere: from the published tables, told as an estimate until it is measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import msgspec
import onnx

from ortune import rules
from ortune.inputs import workload
from ortune.model.open import open_model
from ortune.records import Comparison, Finding, Plan, RewriteSpec
from ortune.report import finding_words
from ortune.rules import Facts, prize

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import make_brought  # noqa: E402


def mended(code: str, rewrite: str) -> Finding:
    finding = Finding(code=code, what="a", plan=Plan(rewrites=(RewriteSpec(name=rewrite),)))
    return msgspec.structs.replace(finding, brought=prize.brought(finding))


def test_the_table_is_what_the_results_say() -> None:
    written = prize.TABLE.read_text(encoding="utf-8")
    results = make_brought.RESULTS.read_text(encoding="utf-8")
    assert written == make_brought.table(results), "run: python tools/make_brought.py"


def test_a_later_measurement_of_the_same_counts_and_an_unknown_change_does_not() -> None:
    lines = (
        "| model | winner | default | winner's | gain, verified on fresh blocks | outputs |",
        "|---|---|---|---|---|---|",
        "| a | gelu, hard-swish | 2 ms | 1 ms | 2.00x (1.50-3.00) | |",
        "| a, again | the same | | | 1.60x (1.25-2.00) | |",
        "",
        "| model | rewrite | time against the original | outputs |",
        "|---|---|---|---|",
        "| b | nothing known | 0.5 (0.4-0.6) | |",
    )
    found = msgspec.json.decode(make_brought.table("\n".join(lines)), type=prize.Measured)
    assert found.rewrites.keys() == {"gelu", "hard-swish"}
    (each,) = found.rewrites["gelu"]
    assert (each.model, each.ratio, each.ratio_low, each.ratio_high) == ("a", 0.625, 0.5, 0.8)
    assert each.others == ("hard-swish",) and each.proven


def test_what_a_fix_brought_is_told_as_an_estimate_until_it_is_measured() -> None:
    finding = mended("GRA017", "hard-swish")
    told = finding_words.estimate(finding)
    assert told.startswith("estimate: 1.38x (1.24-1.40) as on ppocrv4-rec together with ")
    measured = Comparison(
        estimand="median", ratio=1.0, ratio_low=0.9, ratio_high=1.1, level=0.95, method="wilcoxon", n_blocks=9,
        smallest_effect_ratio=None, phase="confirm", verdict="inconclusive",
    )  # fmt: skip
    assert finding_words.estimate(msgspec.structs.replace(finding, verified=measured)) == ""
    made = finding_words.estimate(mended("GRA002", "initializers-out-of-inputs"))
    assert "not proven) as on one made for it (weights among the inputs)" in made
    assert prize.brought(Finding(code="GRA017", what="a", fix="by hand")) == ()


def test_more_than_the_share_of_a_finding_is_not_promised() -> None:
    def told(share: float, source: Literal["profile", "cost"]) -> str:
        finding = msgspec.structs.replace(
            mended("GRA017", "hard-swish"), share_ratio=share, share_from=source
        )
        return finding_words.estimate(msgspec.structs.replace(finding, brought=prize.brought(finding)))

    assert "1.38x (1.24-1.40)" in told(0.3, "profile") and "1.38x (1.24-1.40)" in told(0.1, "cost")
    assert told(0.1, "profile") == "" and told(0.01, "cost") == ""
    assert told(0.25, "profile") == "", "its interval reaches down to that, what it brought does not"


def test_what_seldom_pays_is_said_by_those_who_measure_its_fix_alone(tmp_path: Path) -> None:
    rule = rules.find_rule("SHP004")
    assert rule.bad is not None
    onnx.save(rule.bad(), tmp_path / "m.onnx")
    model = open_model(tmp_path / "m.onnx")
    facts = Facts(model=model, work=workload.propose(model.ir))
    assert "SHP004" not in {found.code for found in rules.findings(facts)}
    assert "SHP004" in {found.code for found in rules.findings(facts, measured=True)}
    without = Facts(model=model)
    assert "SHP004" not in {found.code for found in rules.findings(without, measured=True)}, (
        "nothing to measure"
    )
