"""``ortune tune`` as a user runs it, on a small model with real ONNX Runtime."""

from __future__ import annotations

import html
import json
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ortune
from facts import facts
from git_repository import commit, git
from onnx_text import assemble
from ortune import records
from ortune.errors import UsageError
from ortune.graph.model.open import open_model
from ortune.measuring.sides import SideText, resolve
from ortune.measuring.watcher import Watcher
from ortune.records import Plan
from ortune.show import headline as heads
from ortune.step import Step
from ortune.verbs._shared import tune_facts
from ortune.verbs._shared.session import begin_or_resume, experiment
from ortune.verbs.tune import run as tune
from ortune.verbs.tune.result import TuneResult
from simulated_machine import Lab, measuring_on
from within import program


def small_model(path: Path) -> Path:
    """A few layers with weights as graph inputs, as old exporters write them."""
    rng = np.random.default_rng(3)
    weights = [
        numpy_helper.from_array(rng.standard_normal((64, 64), dtype=np.float32) * 0.1, f"w{i}")
        for i in range(3)
    ]
    nodes = []
    for i in range(3):
        nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("Relu", [f"m{i}"], [f"x{i + 1}"]))
    onnx.save(
        assemble(
            nodes,
            [helper.make_tensor_value_info("x0", TensorProto.FLOAT, ["batch", 64])]
            + [helper.make_tensor_value_info(w.name, TensorProto.FLOAT, list(w.dims)) for w in weights],
            "float[batch,64] x3",
            weights,
            opset=13,
            ir_version=7,
            name="small",
        ),
        path,
    )
    return path


def run(folder: Path, *words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command, run within this process."""
    return program([*words, "--store", str(folder / "store")])


def tune_it(folder: Path, model: Path | str, *words: str) -> tuple[int, str, str]:
    """What ``run`` gives of a tuning beside what runs today, on a simulated machine.

    On the CPU: whether an environment with another provider is installed here is not to decide what wins.
    """
    asked = ("--current", "intra=1,spin=0", "--targets", "cpu", *words)
    with measuring_on(Lab(1)):
        return run(folder, "tune", str(model), "--json", *asked)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A tuning of a model as it was committed; the file of that name holds nothing by now."""
    folder = tmp_path_factory.mktemp("tuned")
    git(folder, "init", "-q", "-b", "main")
    file = small_model(folder / "small.onnx")
    revision = commit(folder)
    committed = file.rename(folder / "committed.onnx")
    file.write_bytes(b"changed since")
    model = f"{file}@HEAD"

    code, out, said = tune_it(folder, model, "--budget", "120s", "--force", "--output", str(folder / "out"))
    assert code == 0, said
    document: dict[str, Any] = json.loads(out)
    assert document["model"]["sha256"] == open_model(committed).info.sha256
    assert revision[:10] in document["result"]["bundle"]
    return folder, document


def test_the_document_is_one_and_typed(tuned: tuple[Path, dict[str, Any]]) -> None:
    _, document = tuned
    assert (document["schema"], document["status"]) == ("ortune/tune/1", "ok")
    result = msgspec.convert(document["result"], TuneResult)
    assert result.headline.startswith(heads.word(document["verdict"], result.statistic, result.worth_ratio))
    assert result.current == records.Plan(settings={"intra_op_num_threads": 1, "allow_spinning": False})
    assert result.candidates
    assert {c.status for c in result.candidates} <= {
        "winner", "default", "current", "eliminated", "failed", "wrong-output", "pruned", "not-tried"
    }  # fmt: skip
    assert all(
        c.why for c in result.candidates if c.status in ("eliminated", "failed", "not-tried", "wrong-output")
    )
    assert all(c.name for c in result.controls)


def test_what_a_rule_finds_is_tried(tuned: tuple[Path, dict[str, Any]]) -> None:
    result = msgspec.convert(tuned[1]["result"], TuneResult)
    tried = {c.origin: c for c in result.candidates}
    (fix,) = (c for origin, c in tried.items() if origin.startswith("GRA002 "))
    assert [spec.name for spec in fix.plan.rewrites] == ["initializers-out-of-inputs"]
    assert fix.status != "not-tried"


def test_only_fresh_blocks_carry_the_claim(tuned: tuple[Path, dict[str, Any]]) -> None:
    result = msgspec.convert(tuned[1]["result"], TuneResult)
    # A leader that did not win over what runs today is told apart from what stays.
    challenger = result.refused.comparison if result.refused is not None else result.against_current
    assert result.smallest_effect_ratio == tune_facts.detectable_effect(result)
    for found in (result.against_default, challenger):
        assert found is not None
        assert (found.phase, found.method) == ("confirm", "wilcoxon")
        assert 9 <= found.n_blocks <= 24
    confirmed = [p for p in result.points if p.phase == "confirm"]
    assert len(confirmed) >= 9
    assert min(p.index for p in confirmed) > max(p.index for p in result.points if p.phase != "confirm")


def test_the_budget_is_promised_and_kept(tuned: tuple[Path, dict[str, Any]]) -> None:
    result = msgspec.convert(tuned[1]["result"], TuneResult)
    assert "trials" in result.budget.promise
    assert result.elapsed_s < 1.1 * result.budget.budget_s


def test_the_bundle_holds_what_the_answer_says(tuned: tuple[Path, dict[str, Any]]) -> None:
    folder, document = tuned
    bundle = Path(document["result"]["bundle"])
    assert bundle.parent == folder / "out"
    assert bundle.name.startswith("small@") and bundle.suffix == ".ortune"
    info = json.loads((bundle / "ortune.json").read_text())
    assert info["schema"] == "ortune/bundle/1"
    page = html.unescape((bundle / "report.html").read_text())
    assert document["result"]["headline"].split(" (")[0] in page
    assert "<script src" not in page and "script-src 'sha256-" in page
    done = subprocess.run(
        [sys.executable, str(bundle / "load.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_trial_was_journalled_before_it_started(tuned: tuple[Path, dict[str, Any]]) -> None:
    folder, document = tuned
    session = document["result"]["session"]
    with sqlite3.connect(folder / "store" / "ortune.sqlite") as db:
        rows = db.execute("SELECT kind FROM event WHERE session = ? ORDER BY seq", (session,))
        kinds = [row[0] for row in rows]
    assert "trial" in kinds
    assert kinds.count("trial") == kinds.count("outcome")
    open_now = 0
    for kind in kinds:
        open_now += {"trial": 1, "outcome": -1}.get(kind, 0)
        assert open_now >= 0


def outcomes(store: Path) -> int:
    """Outcomes in the journal so far; 0 while there is none."""
    try:
        with sqlite3.connect(f"file:{store}/ortune.sqlite?mode=ro", uri=True) as db:
            return int(db.execute("SELECT COUNT(*) FROM event WHERE kind = 'outcome'").fetchone()[0])
    except sqlite3.Error:
        return 0


def test_a_session_that_was_killed_before_its_answer_gives_the_same_one(
    tuned: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, document = tuned
    shutil.copytree(folder / "store", tmp_path / "store")
    with sqlite3.connect(tmp_path / "store" / "ortune.sqlite") as db:
        session = document["result"]["session"]
        # What kill -9 leaves: everything up to the last block, and nothing of what followed.
        last = db.execute(
            "SELECT MAX(seq) FROM event WHERE session = ? AND kind = 'block'", (session,)
        ).fetchone()
        db.execute("DROP TRIGGER event_no_delete")
        db.execute("DELETE FROM event WHERE session = ? AND seq > ?", (session, *last))
    db.close()
    budget = f"{document['result']['budget']['budget_s']:g}s"
    model = f"{folder / 'small.onnx'}@HEAD"
    before = outcomes(tmp_path / "store")
    code, out, said = tune_it(tmp_path, model, "--budget", budget, "--no-bundle", "--resume", session)
    assert code == 0, said
    again = json.loads(out)
    assert again["verdict"] == document["verdict"]
    for name in ("winner", "against_default", "against_current", "points", "candidates", "controls"):
        assert again["result"][name] == document["result"][name], name
    assert outcomes(tmp_path / "store") == before


def test_a_bundle_that_cannot_be_written_loses_no_answer_and_can_be_had_later(
    tuned: tuple[Path, dict[str, Any]], tmp_path: Path, small_disk: Path
) -> None:
    folder, document = tuned
    session = document["result"]["session"]
    shutil.copytree(folder / "store", tmp_path / "store")
    (small_disk / "ballast").write_bytes(bytes((1 << 20) - (8 << 10)))  # a bundle takes more
    budget = f"{document['result']['budget']['budget_s']:g}s"
    model = f"{folder / 'small.onnx'}@HEAD"
    before = outcomes(tmp_path / "store")
    # Of a session that ended, whose trials are played back: the disk is all that differs.
    code, out, said = tune_it(
        tmp_path, model, "--budget", budget, "--resume", session, "--output", str(small_disk)
    )
    assert code == 2, said
    told = json.loads(out)
    for name in ("winner", "headline", "against_default", "points"):
        assert told["result"][name] == document["result"][name], name
    assert (told["status"], told["result"]["bundle"]) == ("error", "")
    assert "No space left" in told["error"]["what"] and "No space left" in said
    assert [path.name for path in small_disk.iterdir()] == ["ballast"]
    code, out, _ = run(tmp_path, "report", session, "--json")
    assert (code, json.loads(out)["result"]["sessions"][0]["state"]) == (0, "done")
    # The command that it names writes the bundle, and measures nothing again.
    _, _, again = told["error"]["do"].partition("to write the bundle: ortune ")
    line = again.removesuffix(" FOLDER")
    assert again != line
    with measuring_on(Lab(1)):
        code, out, said = program([*shlex.split(line), str(tmp_path / "later"), "--json"])
    assert code == 0, said
    late = json.loads(out)["result"]
    assert late["winner"] == document["result"]["winner"]
    assert Path(late["bundle"]).parent == tmp_path / "later" and Path(late["report"]).is_file()
    assert outcomes(tmp_path / "store") == before


@pytest.mark.parametrize("there", ["file", "folder"])
def test_what_is_no_bundle_is_not_replaced_and_that_is_said_before_anything_is_measured(
    tmp_path: Path, there: str
) -> None:
    model, place = small_model(tmp_path / "small.onnx"), tmp_path / "small.ortune"
    place.mkdir() if there == "folder" else place.write_text("precious")
    code, _, said = run(tmp_path, "tune", str(model), "--force", "--output", str(tmp_path), "--budget", "24s")
    assert code == 2
    facts(said, str(place), "not a bundle")
    assert outcomes(tmp_path / "store") == 0 and place.exists()


def test_resuming_what_was_never_started_says_so(tmp_path: Path) -> None:
    code, _, said = run(tmp_path, "tune", str(small_model(tmp_path / "small.onnx")), "--resume")
    assert code == 2
    assert "no interrupted session" in said


def test_resuming_what_is_damaged_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evaluate.py").write_text("1")
    more: dict[str, Any] = {"metric": "evaluate:score", "tolerance": "metric>=1", "resume": "newest"}
    options = tune.Options(model=small_model(tmp_path / "m.onnx"), store=tmp_path / "store", **more)
    with experiment("tune", options, Watcher()) as opened, opened.measuring("m"):
        side = resolve(SideText(text=str(options.model)), common=Plan(), scratch=tmp_path)
        begin_or_resume(opened, options, [side], None, model="m")
        opened.log.add("difference", "x" * 100_000)
        with pytest.raises(UsageError, match="cannot be read"):  # such a difference there never was
            begin_or_resume(opened, options, [side], options.resume, model="m")
        shutil.rmtree(tmp_path / "store" / "blobs")
        with pytest.raises(UsageError, match="cannot be read"):
            begin_or_resume(opened, options, [side], options.resume, model="m")
        # Another metric makes another session.
        (tmp_path / "evaluate.py").write_text("12")
        with pytest.raises(UsageError, match="no interrupted session"):
            begin_or_resume(opened, options, [side], options.resume, model="m")


def test_a_budget_that_holds_no_plan_tells_what_is_known_and_what_it_would_take(tmp_path: Path) -> None:
    model = str(small_model(tmp_path / "small.onnx"))
    # In 0.3 s a process that has every module loaded sees some plans.
    code, out, said = run(tmp_path, "tune", model, "--budget", "0.05s", "--output", str(tmp_path / "out"))
    assert code == 0, said
    assert "too short" in said
    assert "nothing tested: " in " ".join(out.split())


def test_a_pod_is_emulated_and_said(tmp_path: Path) -> None:
    code, _, said = run(
        tmp_path, "compare", str(small_model(tmp_path / "small.onnx")), "--b-set", "intra=1", "--cpus", "1",
        "--memory", "1g", "--budget", "1s", "--no-why", "--json",
    )  # fmt: skip
    assert code in (0, 3), said  # a throttled pod may be too unquiet for a verdict
    assert "1 CPU by " in said
    assert not [p for p in Path("/sys/fs/cgroup").glob("*/ortune-*") if p.is_dir()]


def test_callers_and_sessions_share_one_process(tmp_path: Path) -> None:
    code, out, said = run(
        tmp_path, "compare", str(small_model(tmp_path / "small.onnx")), "--b-set", "pool=2", "--sessions", "2",
        "--callers", "2", "--objective", "throughput", "--budget", "1s", "--no-why", "--json",
    )  # fmt: skip
    assert code in (0, 3), said
    if code == 0:
        document = json.loads(out)
        assert (document["workload"]["sessions"], document["workload"]["callers"]) == (2, 2)
        assert document["result"]["read_back"][0]["ok"]


def test_a_tuning_in_a_browser_has_more_time() -> None:
    # A page takes as many seconds to load as a process takes tenths of one.
    usual = {
        target: tune.Options(model="m.onnx", target=target).budget_s for target in ("cpu", "web-wasm", "web")
    }
    assert usual == {"cpu": 180, "web-wasm": 600, "web": 600}
    assert tune.Options(model="m.onnx", target="web", budget="45s").budget_s == 45


def test_a_quick_look_races_for_half_a_minute_and_ships_nothing(tmp_path: Path) -> None:
    model, steps = small_model(tmp_path / "small.onnx"), list[Step]()
    with measuring_on(Lab(1)):
        found = ortune.tune(
            model,
            quick=True,
            output=tmp_path,
            store=tmp_path / "store",
            watcher=Watcher(step=steps.append),
        )
    result = found.result
    assert result.budget.budget_s == 30 and not result.bundle and not list(tmp_path.glob("*.ortune"))
    assert "--budget 30s" in result.reproduce and "--quick" not in result.reproduce
    # The search is followed while it runs: time left, then what leads, by how much, and how sure that is.
    racing = [step for step in steps if step.ranking]
    assert racing and all(
        re.match(r"\d+ %, \d+ s left: comparing \d+ of \d+ configurations", step.text) for step in racing
    )
    for step in racing:
        head, *leaders = step.ranking
        facts(head, "fastest", "not confirmed")
        assert all(re.match(r"[\d.]+x \(.*\d+ blocks?\) \w", leader) for leader in leaders)
    assert any(len(step.ranking) > 2 for step in racing)
    assert not any(step.ranking for step in steps if "calibrating" in step.what)
    with pytest.raises(UsageError, match="without a bundle"):
        ortune.tune(model, quick=True, budget="60s")
