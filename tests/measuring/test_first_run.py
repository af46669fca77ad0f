"""What is said of a model before anything is timed: outputs that are wrong, or no numbers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from onnxruntime import datasets

import ortune
from ortune.graph.model.open import open_model
from ortune.measuring import first_run, levels, output_check
from ortune.measuring.budget import UNLIMITED, Budget
from ortune.measuring.input_options import InputOptions
from ortune.measuring.levels import CHECKS
from ortune.measuring.measuring import Measuring
from ortune.measuring.scratch import scratch_folder
from ortune.measuring.sides import SideText, resolve
from ortune.records import DEFAULT_WRONG, NOT_FINITE, LevelCheck, OutputDifference, Plan
from ortune.rules import Facts, findings
from ortune.search.blocks import NEW
from ortune.show import markdown
from ortune.show.message_words import text, texts
from ortune.store import small_files
from ortune.store.db import SessionLog, Store
from ortune.verbs.compare.ranking import Contender, wrong_sides
from ortune.verbs.compare.run import exit_code
from ortune.verbs.tune import words as tune_words
from simulated_machine import Lab, measuring_on
from wrong_models import gemm, not_finite, rooted_gemm

LAB = Lab(1)
MACHINE = LAB.machine()


@pytest.fixture(autouse=True, scope="module")
def simulated() -> Iterator[None]:
    """What a model answers is real, and asked for once by all tests."""
    with measuring_on(LAB):
        yield


def asked(
    model: Path,
    store: Path | None = None,
    look: Callable[[Measuring], None] = lambda _: None,
    budget: Budget = UNLIMITED,
    inputs: Path | None = None,
) -> Measuring:
    """A model that was run once and asked about its outputs."""
    with scratch_folder() as scratch:
        side = resolve(SideText(text=str(model)), common=Plan(), scratch=scratch)
        log = Store(store).begin("look", "look", {}) if store else SessionLog(None, "")
        baseline = Measuring(side, InputOptions(inputs=inputs), scratch, log, lambda text: None, MACHINE)
        first_run.find_checked_inputs(baseline, budget, limit_s=60.0)
        look(baseline)
        return baseline


@pytest.mark.parametrize(
    ("form", "node"),
    [({}, "fc"), ({"per_row": True}, "fc"), ({"before": True, "per_row": True, "bias_scale": 0.0005}, "fc")],
    ids=["a bias with its own scale", "transposed, a scale a row", "behind one that is right"],
)
def test_a_default_that_the_optimiser_made_wrong_is_told_with_node_and_level(
    form: dict[str, bool], node: str, tmp_path: Path
) -> None:
    (alert,) = asked(gemm(tmp_path / "m.onnx", **form)).alerts
    assert alert.code == DEFAULT_WRONG
    assert alert.severity == "error"
    assert alert.where == (node,)
    assert "--set level=basic" in alert.fix


@pytest.mark.parametrize("resized", [False, True])
def test_one_step_of_the_grid_apart_is_healthy(resized: bool, tmp_path: Path) -> None:
    baseline = asked(gemm(tmp_path / "m.onnx", bias_scale=None, resized=resized))
    assert not baseline.alerts
    assert baseline.check.level_check is not None
    apart = baseline.check.level_check.outputs.relative_l2
    if apart == 0:
        pytest.skip("on this processor the model computes the same with and without optimisation")
    assert apart > 1e-3


def test_what_is_known_of_a_model_is_not_asked_again(tmp_path: Path) -> None:
    wrong, healthy = gemm(tmp_path / "wrong.onnx"), gemm(tmp_path / "m.onnx", bias_scale=None)
    first = [asked(model, tmp_path / "store") for model in (wrong, healthy)]

    def ran_once(baseline: Measuring) -> None:
        assert len([f for f in baseline.scratch.iterdir() if (f / "outputs").is_dir()]) == 1

    again = [asked(model, tmp_path / "store", ran_once) for model in (wrong, healthy)]
    assert [b.alerts for b in first] == [b.alerts for b in again]


def test_several_sides_of_one_plan_are_each_told_wrong(tmp_path: Path) -> None:
    paths = gemm(tmp_path / "a.onnx"), gemm(tmp_path / "b.onnx", bias_scale=0.0005)

    def others(baseline: Measuring) -> None:
        for name, path in zip("BC", (paths[0], paths[1]), strict=True):
            side = resolve(SideText(text=str(path)), common=Plan(), scratch=baseline.scratch)
            assert first_run.check_side(baseline, side, baseline.refs, name)

    alerts = asked(paths[0], look=others).alerts
    assert [(alert.code, alert.where) for alert in alerts] == 3 * [(DEFAULT_WRONG, ("fc",))]
    begins = ("outputs are wrong", "B: ", "C: ")
    assert all(alert.what.startswith(begin) for alert, begin in zip(alerts, begins, strict=True))


def test_a_node_that_was_not_found_is_not_looked_for_again(tmp_path: Path) -> None:
    model, store = gemm(tmp_path / "m.onnx"), tmp_path / "store"
    asked(model, store)
    (kept,) = (store / CHECKS).iterdir()
    answer = msgspec.json.decode(kept.read_bytes(), type=LevelCheck)
    assert answer.node_asked
    small_files.keep(store, CHECKS, kept.stem, msgspec.structs.replace(answer, node=""))
    (alert,) = asked(model, store).alerts
    assert alert.where == ()


def test_what_an_earlier_way_of_judging_said_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = gemm(tmp_path / "m.onnx", bias_scale=None)
    asked(model, tmp_path / "store")
    monkeypatch.setattr(levels, "JUDGEMENT", levels.JUDGEMENT + 1)

    def ran_levels(baseline: Measuring) -> None:
        assert len([f for f in baseline.scratch.iterdir() if (f / "outputs").is_dir()]) > 1

    asked(model, tmp_path / "store", ran_levels)


def test_where_outputs_come_from_is_asked_within_the_budget_alone(tmp_path: Path) -> None:
    for path in (gemm(tmp_path / "wrong.onnx"), not_finite(tmp_path / "nan.onnx", "weight")):
        spent = iter([0.0, 60e9, 60e9])  # when the outputs are questioned, and after that
        budget = Budget(total_s=60.0, spent_ns=lambda spent=spent: next(spent))
        baseline = asked(path, tmp_path / "store", budget=budget)
        (alert,) = baseline.alerts
        assert alert.where == ()
        (note,) = baseline.notes
        assert "budget" in text(note)
    (alert,) = asked(tmp_path / "wrong.onnx", tmp_path / "store").alerts
    assert alert.where == ("fc",)  # left out is not the same as asked in vain


def test_of_sides_that_differ_it_is_asked_which_is_right_whatever_the_budget_holds(tmp_path: Path) -> None:
    model = gemm(tmp_path / "m.onnx")
    for number, left_s in enumerate((60.0, 0.0)):

        def base(baseline: Measuring) -> None:
            first_run.check_base(baseline, "A", Budget(total_s=60.0))
            first_run.check_base(baseline, "A", Budget(total_s=60.0))

        baseline = asked(model, tmp_path / f"store-{number}", base, budget=Budget(total_s=left_s))
        (alert,) = baseline.alerts
        assert alert.code == "MSR012" and alert.where == ("fc",) and baseline.check.wrong
        assert not baseline.notes

    def other(baseline: Measuring) -> None:
        side = replace(baseline.side, label="other")
        assert first_run.check_side(baseline, side, baseline.refs, "B", Budget(total_s=0.0))

    notes = texts(asked(model, tmp_path / "store-2", other, budget=Budget(total_s=0.0)).notes)
    assert [note for note in notes if note.startswith("no time ") and "wrong node of B's" in note]


def test_a_comparison_names_the_wrong_side_whichever_it_is(tmp_path: Path) -> None:
    model = gemm(tmp_path / "m.onnx")
    sides = {"A": (["level=all"], ["level=basic"]), "B": (["level=basic"], ["level=all"])}
    for name, (a, b) in sides.items():
        answer = ortune.compare(
            model, a_set=a, b_set=b, budget=20, no_why=True, store=tmp_path / "store", max_blocks=6
        )
        assert answer.verdict == "wrong-output"
        assert answer.result.wrong_sides == (name,)
        assert answer.result.comparison is not None  # timed all the same
        assert answer.result.outputs.ok == (name == "A")
        assert answer.alerts[0].what.startswith(f"{name}: outputs are wrong")
        assert exit_code(answer) == 1
        assert answer.status == "default-wrong"
        first, *_ = answer.summary().splitlines()
        assert first.startswith(f"{DEFAULT_WRONG} {name}: outputs are wrong")


def test_two_sides_that_are_wrong_alike_are_both_told(tmp_path: Path) -> None:
    model = gemm(tmp_path / "m.onnx")
    with measuring_on(Lab(0)):  # outputs are real, and no noise of this machine fails its controls
        answer = ortune.compare(
            model, b_set=["intra=1"], budget=20, no_why=True, store=tmp_path / "store", max_blocks=2
        )
    assert not [note for note in answer.result.notes if "not deterministic" in note]
    assert answer.result.outputs.compared_as == "values"
    assert answer.result.wrong_sides == ("A", "B")
    (alert,) = answer.alerts  # said once of both
    assert alert.what.startswith("A and B: ")


def test_a_first_look_says_it_before_all_else(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    answer = ortune.look(gemm(tmp_path / "m.onnx"), budget=20, store=tmp_path / "store", report=page)
    assert answer.status == "default-wrong"
    assert answer.result.timing is not None
    assert answer.summary().startswith(f"{DEFAULT_WRONG} outputs are wrong")
    assert page.read_text().index(DEFAULT_WRONG) < page.read_text().index("<h1>")
    stored = ortune.show(answer.result.session, store=tmp_path / "store")
    assert f"{DEFAULT_WRONG} outputs are wrong" in stored.summary().partition("p50")[0]


@pytest.mark.parametrize(
    "kind", ["mask", "overflow", "logarithm", "division", "weight", "exponential", "entropy"]
)
def test_outputs_that_are_no_numbers_are_told_with_where_they_come_from(kind: str, tmp_path: Path) -> None:
    baseline = asked(not_finite(tmp_path / "m.onnx", kind))
    (alert,) = baseline.alerts
    assert alert.code == NOT_FINITE
    assert alert.where[0] == "bad", alert.what
    assert not baseline.check.claims
    assert {"mask": "low", "weight": "held"}.get(kind, "") in alert.what
    first = "replace the weight" if kind in ("mask", "weight") else "pass real inputs"
    assert alert.fix.startswith(first), alert.fix
    if kind in ("exponential", "entropy"):
        assert "turns it into NaN" in alert.what.partition("'bad'")[2]


def test_an_input_that_is_not_finite_is_named_without_time_to_locate_a_node(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.full((3, 4, 5), np.nan, np.float32))
    shutil.copy(datasets.get_example("sigmoid.onnx"), tmp_path / "m.onnx")
    (alert,) = asked(tmp_path / "m.onnx", budget=Budget(total_s=0.0), inputs=tmp_path / "x.npz").alerts
    assert alert.code == NOT_FINITE and alert.where == ("x",)
    assert "input 'x' holds 60 NaN" in alert.what and "model" not in alert.fix


def test_a_run_may_have_a_shorter_limit_than_loading(tmp_path: Path) -> None:
    """A loop in an exported model may never end."""
    shutil.copy(datasets.get_example("sigmoid.onnx"), tmp_path / "m.onnx")
    limits = []
    asked(tmp_path / "m.onnx", look=lambda b: (b.find_inputs(300.0, 120.0), limits.append(b.executor.limits)))
    assert [(limit.load_s, limit.run_s) for limit in limits] == [(300.0, 120.0)]


def test_no_numbers_that_the_optimiser_alone_makes_end_with_it(tmp_path: Path) -> None:
    claims = []

    def step_down(baseline: Measuring) -> None:
        claims.append(baseline.check.claims)
        output_check.step_down(baseline)

    baseline = asked(rooted_gemm(tmp_path / "m.onnx"), look=step_down)
    assert [alert.code for alert in baseline.alerts] == [DEFAULT_WRONG]
    assert "--set level=basic" in baseline.alerts[0].fix
    assert "elements are NaN or infinite)" in baseline.alerts[0].what
    assert claims == [False]
    assert baseline.check.claims


def test_a_mask_among_finite_scores_is_meant(tmp_path: Path) -> None:
    baseline = asked(not_finite(tmp_path / "m.onnx", "masked"))
    assert baseline.check.claims
    assert not baseline.alerts


def test_nothing_is_claimed_of_no_numbers_unless_that_is_allowed(tmp_path: Path) -> None:
    model = not_finite(tmp_path / "m.onnx", "mask")
    common = {
        "b_set": ["intra=1"],
        "budget": 20,
        "no_why": True,
        "max_blocks": 6,
        "store": tmp_path / "store",
    }
    refused, allowed = (ortune.compare(model, allow=allow, **common) for allow in ([], ["non-finite"]))
    assert refused.verdict == "wrong-output"
    assert refused.result.comparison is None
    assert exit_code(refused) == 1
    assert refused.alerts[0].code == allowed.alerts[0].code == NOT_FINITE
    assert allowed.result.comparison is not None
    assert exit_code(allowed) == 0


@pytest.mark.parametrize(
    ("a", "b", "names"), [(3, 3, ("A", "B")), (3, 0, ("A",)), (0, 3, ("B",)), (0, 0, ())]
)
def test_no_numbers_on_both_sides_are_the_fault_of_both(a: int, b: int, names: tuple[str, ...]) -> None:
    """Of a base in a browser nothing is known before another side is held against it."""
    side = resolve(SideText(text=datasets.get_example("sigmoid.onnx")), common=Plan(), scratch=Path("-"))
    difference = OutputDifference(ok=not (a or b), nonfinite_reference=a, nonfinite_candidate=b)
    news = [Contender(arm=NEW, side=side, difference=difference)]
    assert tuple(wrong_sides(news, base_wrong=False, allow_nonfinite=False)) == names
    assert not tuple(wrong_sides(news, base_wrong=False, allow_nonfinite=True))


def test_of_two_profiles_the_wrong_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LAB, "profiles", True)
    answer = ortune.profile(
        gemm(tmp_path / "m.onnx", bias_scale=None), against=gemm(tmp_path / "wrong.onnx"), no_peak=True,
        budget=10, processes=1, store=tmp_path / "store",
    )  # fmt: skip
    (alert,) = answer.alerts
    assert alert.what.startswith("B: outputs are wrong")


@pytest.mark.parametrize(("kind", "holds"), [("mask", True), ("weight", True), ("masked", False)])
def test_the_file_alone_tells_of_weights_that_are_no_numbers(kind: str, holds: bool, tmp_path: Path) -> None:
    model = open_model(not_finite(tmp_path / "m.onnx", kind))
    assert ("PRC006" in {finding.code for finding in findings(Facts(model=model))}) == holds


def test_a_tuning_ships_a_level_that_is_right(tmp_path: Path) -> None:
    model = gemm(tmp_path / "m.onnx")
    answer = ortune.tune(model, budget=15, output=tmp_path, store=tmp_path / "store", current="default")
    found = answer.result
    assert answer.status == "default-wrong"
    assert found.wrong_default == Plan()
    assert found.winner.settings["graph_optimization_level"] == "basic"
    assert found.default.settings == {"graph_optimization_level": "basic"}
    assert answer.alerts[0].code == DEFAULT_WRONG
    assert Plan() not in [each.plan for each in found.candidates]
    if found.bundle:
        assert '"graph_optimization_level": "basic"' in (Path(found.bundle) / "ortune.json").read_text()


@pytest.mark.parametrize(("budget", "n_blocks", "claims"), [(2, 0, False), (8, 2, False), (40, 9, True)])
def test_a_wrong_default_is_timed_and_competes_with_nothing(
    tmp_path: Path, budget: int, n_blocks: int, claims: bool
) -> None:
    """In each block of the calibration, else in the first blocks of a look; what no budget holds is said."""
    model = gemm(tmp_path / "m.onnx")
    answer = ortune.tune(model, budget=budget, bundle=False, store=tmp_path / "store", current="default")
    found = answer.result
    assert found.wrong_default == Plan() and found.default.settings == {"graph_optimization_level": "basic"}
    assert found.budget.exploratory != claims or not n_blocks
    assert (found.against_default is not None) == claims
    compared = found.wrong_against_default
    assert (compared.n_blocks if compared else 0) == n_blocks
    assert (found.wrong_default_figures is not None) == bool(n_blocks)
    if compared is not None:
        assert (compared.phase, compared.verdict) == ("race", "inconclusive")
        assert "| wrong default |" in markdown.render(tune_words.document(answer))
    # Of the documents that are shown, the store's is the same.
    told = ortune.show(answer.result.session, store=tmp_path / "store").summary()
    for said in (answer.summary(), told):
        assert "the default's outputs are wrong" in " ".join(said.split())
    assert all("wrong default" not in point.values for point in found.points) != bool(n_blocks)


def test_a_tuning_races_nothing_on_no_numbers(tmp_path: Path) -> None:
    model = not_finite(tmp_path / "m.onnx", "weight")
    answer = ortune.tune(model, budget=15, bundle=False, store=tmp_path / "store")
    assert answer.result.budget.n_trials == 0
    assert answer.alerts[0].code == NOT_FINITE
    assert "--allow non-finite" in answer.result.headline


def test_a_diagnosis_goes_on_at_the_level_that_is_right(tmp_path: Path) -> None:
    answer = ortune.diagnose(gemm(tmp_path / "m.onnx"), budget=10, store=tmp_path / "store", fail_on="error")
    assert answer.status == "default-wrong"
    assert answer.result.failed
    assert "SES002" not in {finding.code for finding in answer.result.findings}


@pytest.mark.parametrize(("wrong", "codes"), [(True, []), (False, ["SES002"])])
def test_a_limit_that_keeps_outputs_right_is_not_advised_against(
    tmp_path: Path, wrong: bool, codes: list[str]
) -> None:
    model = gemm(tmp_path / "model.onnx", **({} if wrong else {"bias_scale": None}))
    looked = ortune.look(model, set=["level=basic"], store=tmp_path / "store")
    assert [finding.code for finding in looked.result.findings if finding.code == "SES002"] == codes
