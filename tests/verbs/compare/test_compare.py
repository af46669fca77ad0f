"""``ortune compare`` end to end on small models: pairing, the gate, injected waits, values that matter, rewrites."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

from dense import dense
from facts import facts
from onnx_text import assemble, model_of, saved
from ortune.errors import UsageError
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope
from ortune.show import markdown
from ortune.verbs.compare import words as compare_words
from ortune.verbs.compare.result import CompareResult
from ortune.verbs.compare.run import Options, exit_code, run
from patience import few_turns
from simulated_machine import Lab, measuring_on, tools_of
from within import program

# Two measurements at once are each other's noise: those that wait for a verdict run one after another.
MEASURING = pytest.mark.xdist_group("measuring")

SHORT = ("--budget", "1s", "--no-why")
"""Where the verdict is not the subject: figures without a claim."""
NINE = ("--max-blocks", "9", "--set", "intra=1")
"""A verdict at the price of one core: a pool that spins between such short runs doubles it."""
REWRITE = "initializers-out-of-inputs"


def printed(found: Envelope[CompareResult]) -> str:
    """The answer as Markdown."""
    return markdown.render(compare_words.document(found))


def compare(folder: Path, *words: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, document and stderr of the command, run within this process."""
    for _ in range(3):
        code, out, err = program(["compare", *words, "--json", "--store", str(folder / "store")])
        document = json.loads(out)
        # On a machine too unquiet for any verdict ortune says so; that is another test's subject.
        if document["verdict"] != "invalid":
            break
    return code, document, err


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Two models whose inputs are paired by hand, the new one rewritten; the workload is saved."""
    folder = tmp_path_factory.mktemp("mapped")
    a, b = dense(folder / "a.onnx"), dense(folder / "b.onnx", ("q", "p"), ir_inputs=True)
    code, document, said = compare(
        folder, str(a), str(b), "--map", "x=q", "--map", "y=p", "--b-rewrite", REWRITE,
        "--save-workload", str(folder / "w.json"), *SHORT,
    )  # fmt: skip
    assert code == 0, said
    return folder, document


def test_inputs_are_paired_by_hand_where_their_order_misleads(mapped: tuple[Path, dict[str, Any]]) -> None:
    folder, document = mapped
    assert document["result"]["mapped_inputs"] == {"x": "q", "y": "p"}
    assert document["result"]["outputs"]["ok"]
    a, b = str(folder / "a.onnx"), str(folder / "b.onnx")
    crossed = compare(folder, a, b, "--map", "x=p", "--map", "y=q", *SHORT)
    assert crossed[1]["verdict"] == "wrong-output"


def test_a_rewrite_is_really_run(mapped: tuple[Path, dict[str, Any]]) -> None:
    result = mapped[1]["result"]
    assert result["base"]["plan"]["rewrites"] == []
    assert [rewrite["name"] for rewrite in result["new"]["plan"]["rewrites"]] == [REWRITE]
    assert result["outputs"]["ok"]


def test_a_workload_file_and_shapes_exclude_each_other(mapped: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = mapped
    words = ("--workload", str(folder / "w.json"), "--shape", "x:8x96")
    code, document, _ = compare(folder, str(folder / "a.onnx"), *words)
    assert code == 2
    assert "--shape" in document["error"]["what"]


def test_an_unknown_name_in_map_names_the_inputs(tmp_path: Path) -> None:
    a, b = dense(tmp_path / "a.onnx"), dense(tmp_path / "b.onnx", ("q", "p"))
    code, document, _ = compare(tmp_path, str(a), str(b), "--map", "z=q")
    assert code == 2
    assert "x, y" in document["error"]["do"]


@pytest.fixture(scope="module")
def waited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Envelope[CompareResult], list[str], str]:
    """A wait in every run of B, held against a gate; the lines of progress, and the page that was asked for."""
    folder = tmp_path_factory.mktemp("waited")
    options = Options(
        a=str(dense(folder / "a.onnx")), b_set=("level=basic",), set=("intra=1",), inject_wait="90%",
        threshold="10%", max_blocks=9, store=folder / "store", report=folder / "page.html",
    )  # fmt: skip
    lines: list[str] = []
    lab = Lab(1, differ=False, profiles=True)
    with tools_of(lab), few_turns():
        watcher = Watcher(step=lambda step: lines.append(step.text), machine=lab.machine)
        envelope = run(options, watcher)
    return envelope, lines, (folder / "page.html").read_text()


def test_the_progress_line_begins_with_percent_and_seconds_left(
    waited: tuple[Envelope[CompareResult], list[str], str],
) -> None:
    """And the page that was asked for is there beside the answer."""
    envelope, lines, page = waited
    blocks = [line for line in lines if "block 1" in line]
    begins = r"\d+ %, \d+ s left: (calibrating|comparing), block 1"
    assert blocks and all(re.match(begins, line) for line in blocks), lines
    assert page.count("<h1>") == 1 and envelope.result.session in page


def test_an_injected_wait_is_found_and_the_gate_fails(
    waited: tuple[Envelope[CompareResult], list[str], str],
) -> None:
    envelope, _, _ = waited
    result = envelope.result
    assert exit_code(envelope) == 1
    assert result.gate is not None and result.gate.answer == "fail"
    assert envelope.verdict == "slower"
    assert result.why is not None and result.why.a_slowdown_ratio > 0
    # Profiles are without the wait: they explain another difference than the proven one, and say so.
    assert result.why.plain_ns > 0
    assert "without the profiler" in result.why.sentence
    # Findings on the slower side alone are told as well.
    assert [finding.code for finding in result.causes] == ["SES002"]


@MEASURING
@pytest.mark.long
def test_no_profile_of_the_runs_explains_what_is_no_time(tmp_path: Path) -> None:
    """A busy wait in every run costs CPU time too; where its latency went is not what was proven."""
    words = ("--inject-wait", "90%", "--objective", "cpu", *NINE)
    code, document, _ = compare(tmp_path, str(dense(tmp_path / "a.onnx")), *words)
    assert (code, document["verdict"]) == (0, "slower")
    assert document["result"]["why"] is None


@MEASURING
@pytest.mark.long
def test_the_gate_passes_what_is_faster(tmp_path: Path) -> None:
    model = str(dense(tmp_path / "a.onnx"))
    code, document, _ = compare(tmp_path, model, model, "--threshold", "80%", "--no-why", *NINE)
    assert code == 0
    assert document["result"]["gate"]["answer"] == "pass"


def test_a_budget_that_is_spent_at_once_has_one_block_and_no_verdict_on_the_outputs(tmp_path: Path) -> None:
    model = str(dense(tmp_path / "a.onnx"))
    words = ("compare", model, model, "--budget", "0.01s", "--store", str(tmp_path / "store"))
    code, out, said = program([*words])
    text = " ".join(out.split())
    assert "outputs identical" in said and code == 0
    assert text.startswith("inconclusive: ")
    facts(text, "1 block cannot confirm")
    assert "wrong" not in text
    code, document, _ = compare(tmp_path, model, model, "--threshold", "5%", "--budget", "0.01s")
    assert (code, document["verdict"]) == (3, "inconclusive")
    assert document["result"]["comparison"]["n_blocks"] == 1
    assert document["result"]["enough_s"] > document["result"]["budget_s"] == 0.01


def test_memory_is_compared_with_guessed_sizes_in_turn(tmp_path: Path) -> None:
    path = str(tmp_path / "m.onnx")
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> m (float[1,f,80] x) => (float[1,f,80] y) { y = Relu (x) }'
    )
    onnx.save(onnx.parser.parse_model(text), path)
    asked = {
        "a guess": ["--objective", "memory"],
        "sizes of the user's": ["--objective", "memory", "--dim", "f=7"],
        "another question": [],
    }
    documents = {
        name: compare(tmp_path, path, path, "--budget", "0.01s", *words)[1] for name, words in asked.items()
    }
    cases = {name: document["workload"]["cases"] for name, document in documents.items()}
    sizes = [case["dims"]["f"] for case in cases["a guess"]]
    assert len(sizes) == 3 and sizes[0] * 2 == sizes[1] and sizes[1] * 2 == sizes[2]
    assert any("in turn" in note for note in documents["a guess"]["result"]["notes"])
    assert len(cases["sizes of the user's"]) == len(cases["another question"]) == 1


@pytest.mark.parametrize("objective", ["memory", "memory:idle", "memory:released"])
def test_a_question_about_memory_shows_all_three_figures(objective: str, tmp_path: Path) -> None:
    model = str(dense(tmp_path / "a.onnx"))
    with measuring_on(Lab(1)):
        words = [model, model, "--objective", objective, "--budget", "60s", "--store", str(tmp_path / "s")]
        code, out, said = program(["compare", *words, "--json"])
    assert code == 0, said
    result = json.loads(out)["result"]
    guards = {guard["figure"] for guard in result["comparison"]["guards"]}
    beside = {change["figure"] for change in result["comparison"]["beside"]}
    other = {"memory:idle": "idle", "memory:released": "released"}
    # The peak decides, or is a guard; what else is held is shown with its interval.
    assert ("memory" in guards) == (objective != "memory")
    assert beside & {"idle", "released"} == {"idle", "released"} - {other.get(objective, "")}
    code, out, _ = program(["report", result["session"], "--store", str(tmp_path / "s")])
    for name in ("peak memory", "idle memory", "memory after release"):
        facts(out, name)


def test_wrong_outputs_fail_the_gate_without_timing(tmp_path: Path) -> None:
    a, b = dense(tmp_path / "a.onnx"), dense(tmp_path / "b.onnx", scale=2.0)
    code, document, _ = compare(tmp_path, str(a), str(b), "--threshold", "5%")
    assert code == 1
    assert document["verdict"] == "wrong-output"
    assert document["result"]["comparison"] is None
    assert "'out'" in document["result"]["outputs"]["what"]


def test_latency_or_shape_that_depends_on_values_stands_in_the_answer(tmp_path: Path) -> None:
    text = "values (float[4,64] x) => (int64[2,n] where) { where = NonZero (x) }"
    path = saved(tmp_path / "values.onnx", model_of(text))
    with measuring_on(Lab(1)):  # the budget holds every kind of input
        code, document, said = compare(tmp_path, str(path), str(path), "--budget", "30s", "--no-why")
    assert code == 0
    assert [f["code"] for f in document["result"]["findings"]] == ["MSR010"]
    assert "--inputs" in said


OPERATOR = """
#include <stddef.h>
#include <stdint.h>
/* The C API of ONNX Runtime, by the places of its functions, which never change: no header comes with its wheel. */
typedef void *(*Call)();
static Call *api;
struct Operator { uint32_t version; Call functions[11]; };
static void *make(void) { return (void *)1; }
static void *name(void) { return "Twice"; }
static void *nothing(void) { return NULL; }
static void *one(void) { return (void *)1; } /* also the number of float */
static void *run(void *kernel, void *context) {
    const void *x; void *y, *shape; float *from, *to; size_t n, count; int64_t dims[8];
    api[90](context, (size_t)0, &x);
    api[65](x, &shape); api[61](shape, &n); api[62](shape, dims, n); api[64](shape, &count); api[99](shape);
    api[91](context, (size_t)0, dims, n, &y);
    api[51]((void *)x, &from); api[51](y, &to);
    for (size_t i = 0; i < count; i++) to[i] = 2 * from[i];
    return NULL;
}
static struct Operator twice = {
    10, {make, name, nothing, one, one, one, one, (Call)run, nothing, nothing, nothing}};
void *RegisterCustomOps(void *options, void *(**base)(uint32_t)) {
    void *domain;
    api = (Call *)base[0](10);
    api[26]("acme", &domain); api[27](domain, &twice);
    return api[28](options, domain);
}
"""


def test_both_sides_have_the_operators_of_a_library_rewritten_or_not(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    library = tmp_path / "libtwice.so"
    build = ["cc", "-shared", "-fPIC", "-O1", "-w", "-x", "c", "-", "-o", str(library)]
    subprocess.run(build, input=OPERATOR, text=True, check=True)
    nodes = [helper.make_node("Twice", ["x"], ["t"], domain="acme"), helper.make_node("Relu", ["t"], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 96]) for name in "xy"]
    onnx.save(
        assemble(nodes, values[:1], values[1:], opset=13, ir_version=7, opsets={"acme": 1}, name="twice"),
        tmp_path / "m.onnx",
    )
    model, rewrite = str(tmp_path / "m.onnx"), "ort-optimized-model:level=basic"
    words = (model, "--b-rewrite", rewrite, "--b-set", "spin=0", "--b-set", "inter=2", *SHORT)
    code, document, said = compare(tmp_path, *words, "--custom-ops", str(library))
    assert code == 0, said
    assert any(
        note.startswith("B: inter_op_num_threads=2 needs execution_mode")
        for note in document["result"]["notes"]
    )
    result = document["result"]
    assert document["workload"]["custom_ops"] == [str(library)]
    assert [r["name"] for r in result["new"]["plan"]["rewrites"]] == ["ort-optimized-model"]
    assert result["outputs"]["ok"] and result["comparison"]["n_blocks"]


def test_a_misspelt_key_of_a_plan_is_refused(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"setings": {"intra_op_num_threads": 1}}')
    code, document, _ = compare(tmp_path, str(dense(tmp_path / "a.onnx")), str(plan))
    assert code == 2
    assert "setings" in document["error"]["what"]


def test_a_session_that_was_stopped_early_is_the_newest_to_resume(tmp_path: Path) -> None:
    net = "g (float[4,16] x, float[16,16] w) => (float[4,16] y) { a = MatMul(x, w) y = Relu(a) }"
    model = saved(tmp_path / "m.onnx", model_of(net))
    options = Options(a=model, b_set=("opt=basic",), budget="60s", store=tmp_path / "store")
    lines: list[str] = []
    with measuring_on(Lab(1)):
        partial = run(
            options,
            Watcher(
                step=lambda step: lines.append(step.text),
                stop=lambda: any("block 14" in line for line in lines),
            ),
        )
        whole = run(replace(options, resume="newest"))
        with pytest.raises(UsageError, match="no interrupted session"):
            run(replace(options, resume="newest"))
    with measuring_on(Lab(1)):
        at_once = run(replace(options, store=tmp_path / "other"))
    assert (partial.status, partial.verdict, whole.status) == ("interrupted", "inconclusive", "ok")
    assert whole.result.session == partial.result.session
    assert whole.result.comparison == at_once.result.comparison


FUSED = """f (float[1,16,32,32] x) => (float[1,16,32,32] y) {
    a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w)
    y = Relu (a)
}"""


@pytest.mark.parametrize(
    ("changed", "operators"),
    [
        ({"b_set": ("level=disable",)}, {"Conv", "Relu"}),
        ({"b_set": ("allow_spinning=0",)}, set()),
    ],
)
def test_graphs_that_differ_are_named_where_times_tell_nothing(
    changed: dict[str, tuple[str, ...]], operators: set[str], tmp_path: Path
) -> None:
    weights = np.random.default_rng(1).normal(size=(16, 16, 3, 3)).astype(np.float32)
    model = saved(tmp_path / "m.onnx", model_of(FUSED, 13, {"w": weights}))
    options = Options(
        a=str(model), a_set=("level=extended",) if operators else (), max_blocks=9, store=tmp_path / "store",
        **changed,
    )  # fmt: skip
    with measuring_on(Lab(2, differ=False)):
        found = run(options)
    assert found.verdict not in ("faster", "slower")
    seen = {row.name.removeprefix("com.microsoft:"): (row.a, row.b) for row in found.result.operators}
    text = printed(found)
    if not operators:
        assert seen == {} and "optimised graphs" not in text
        return
    assert seen == {"FusedConv": (1, 0), "Conv": (0, 1), "Relu": (0, 1)}
    facts(text, "optimised graphs differ", "1 Conv in B, none in A", "1 FusedConv in A, none in B")


@pytest.mark.parametrize("rows", [(300, 40), (40, 300)])
def test_generated_ids_are_in_the_vocabulary_of_every_side(rows: tuple[int, int], tmp_path: Path) -> None:
    text = "g (int64[1,n] ids) => (float[1,n,4] y) { y = Gather (table, ids) }"
    full = np.ones((300, 4), np.float32)
    a, b = (
        saved(tmp_path / f"{name}.onnx", model_of(text, 13, {"table": full[:n]}))
        for name, n in zip("ab", rows, strict=True)
    )
    code, document, said = compare(tmp_path, str(a), str(b), *SHORT)
    assert code == 0, said
    ((choice,),) = (case["inputs"] for case in document["workload"]["cases"])
    assert choice["high"] == 39
    assert document["result"]["outputs"]["ok"]
