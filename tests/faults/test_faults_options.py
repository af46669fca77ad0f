"""Options that cannot be used: exit code 2, and the error names the option and a way out."""

from __future__ import annotations

import json

import pytest

from box import Box, refused
from ortune.verbs._shared.quantities import size_bytes
from ortune.verbs._shared.spelling import words
from ortune.verbs.compare.run import Options

WRONG = [
    (["--shape", "z:1x64"], "input", "'x'"),
    (["--shape", "x:1x2x64"], "input", "1x2x64"),
    (["--shape", "x:1x99"], "input", "1x99"),
    (["--shape", "nonsense"], "input", "NAME:1x3x320x320"),
    (["--dim", "bach=3"], "input", "'batch'"),
    (["--dim", "batch=zero"], "input", "--dim seq=128"),
    (["--set", "intra_op_num_thread=1"], "usage", "intra_op_num_threads"),
    (["--set", "intra=many"], "usage", "an integer"),
    (["--set", "intra=-1"], "usage", "at least"),
    (["--set", "level=hard"], "usage", "basic"),
    (["--set", "intra"], "usage", "intra=4"),
    (["--b-set", "spin=perhaps"], "usage", "0 or 1"),
    (["--plan", "absent.json"], "usage", "absent.json"),
    (["--target", "tpu"], "usage", "cuda"),
    (["--objective", "beauty"], "usage", "latency"),
    (["--gap", "soon"], "usage", "30ms"),
    (["--threshold", "much"], "usage", "5%"),
    (["--inputs", "absent.npz"], "input", "absent.npz"),
    (["--workload", "absent.json"], "input", "absent.json"),
    (["--save-workload", "m.onnx/w.json"], "usage", "--save-workload"),
    (["--gap", "9" * 400], "usage", "30ms"),
    (["--budget", "9" * 400 + "h"], "usage", "30ms"),
    (["--memory", "9" * 400 + "g"], "usage", "2Gi"),
    (["--threshold", "9" * 400], "usage", "5%"),
    (["--shape", "x:1x" + "9" * 400], "input", "--shape"),
    (["--dim", "batch=" + "9" * 400], "input", "--dim"),
    (["--custom-ops", "absent.so"], "model", "absent.so"),
]


@pytest.mark.parametrize(("arguments", "name", "says"), WRONG, ids=lambda value: str(value)[:40])
def test_a_wrong_value(box: Box, arguments: list[str], name: str, says: str) -> None:
    error = refused(box.here("compare", "m.onnx", "m.onnx", *arguments, "--json"), 2, name)
    assert says in error["where"] + error["what"] + error["do"]


@pytest.mark.parametrize(
    "arguments",
    [["compare"], ["compare", "m.onnx", "--bogus"], ["compare", "m.onnx", "--max-blocks", "3"],
     ["profile", "m.onnx", "extra"], ["invent"], ["--bogus"], ["doctor", "--bogus"]],
    ids=" ".join,
)  # fmt: skip
def test_options_that_there_are_not(box: Box, arguments: list[str]) -> None:
    error = refused(box.here(*arguments, "--json"), 2, "usage")
    # A command without its arguments is answered with an example.
    assert ("ortune compare old.onnx new.onnx" if arguments == ["compare"] else "--help") in error["do"]


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("lock", "m.onnx", "--strict"), "--strict"),
        (("rewrite", "m.onnx", "--output", "new.onnx"), "--output"),
        (("rewrite", "m.onnx", "--force"), "--force"),
        (("tune", "m.onnx", "--force", "--no-bundle"), "--force"),
        (("doctor", "m.onnx", "--no-measure"), "m.onnx"),
        (("report", "m.onnx", "--last", "3"), "--last"),
        (("check", "m.onnx", "--in-place"), "--in-place"),
        (("check", "m.onnx", "--output", "new.onnx"), "--output"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_would_do_nothing_is_refused(box: Box, words: tuple[str, ...], option: str) -> None:
    error = refused(box.here(*words, "--json"), 2, "usage")
    assert error["where"] == option
    assert error["do"]
    assert box.journal() == [] and not (box.folder / "new.onnx").exists()


@pytest.mark.parametrize(
    ("words", "again"),
    [
        (("bench", "a plan.json"), "--plan 'a plan.json'"),
        (("profile", "a plan.json"), "--against 'a plan.json'"),
        (("lock", "a model.onnx", "--check"), "ortune lock 'a model.onnx'"),
        (("lock", "m.onnx", "a lock.json", "--check"), "--output 'a lock.json'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_line_to_be_pasted_quotes_what_was_typed(box: Box, words: tuple[str, ...], again: str) -> None:
    (box.folder / "a plan.json").write_text('{"settings": {}}')
    assert again in refused(box.here(*words, "--json"), 2, "usage")["do"]


def test_very_small_numbers_are_what_python_writes(box: Box) -> None:
    options = Options(a="m.onnx", gap=1e-5, threshold=1e-5)
    assert (options.feeds.gap_ns, options.threshold_ratio) == (10_000, 1e-5)
    assert words(options) == ["m.onnx", "--gap", "1e-05", "--threshold", "1e-05"]
    assert Options(a="m.onnx", gap="1e-05").feeds.gap_ns == 10_000
    assert size_bytes(2e16, "--memory") == 2 * 10**16


def test_without_json_stdout_stays_empty(box: Box) -> None:
    done = box.here("compare", "m.onnx", "--bogus")
    assert (done.code, done.out) == (2, "")
    assert "--bogus" in done.err


def test_a_budget_that_holds_nothing(box: Box) -> None:
    error = refused(box.here("compare", "m.onnx", "m.onnx", "--budget", "0s", "--json"), 2, "budget")
    assert "--budget" in error["do"]


def test_a_plan_that_is_none(box: Box) -> None:
    (box.folder / "plan.json").write_text("{")
    error = refused(box.here("compare", "m.onnx", "plan.json", "--json"), 2, "usage")
    assert error["where"] == "plan.json"


@pytest.mark.parametrize("side", ["plan", "target"])
def test_a_provider_that_is_not_there(box: Box, side: str) -> None:
    plan = {"providers": [{"name": "CUDAExecutionProvider"}]}
    (box.folder / "cuda.json").write_text(json.dumps(plan))
    how = ["cuda.json"] if side == "plan" else ["m.onnx", "--target", "cuda"]
    error = refused(box.here("compare", "m.onnx", *how, "--inputs", box.inputs(), "--json"), 3, "not-applied")
    assert "CUDAExecutionProvider fell back" in error["what"]
    assert "CUDA" in error["where"]


def test_a_library_that_is_not_installed(box: Box) -> None:
    from ortune import platform

    absent = [name for name in platform.INSTALL_HINTS if platform.allocator_library(name) is None]
    if not absent:
        pytest.skip("every allocator library is installed here")
    asked = ("--b-set", f"allocator={absent[0]}", "--inputs", box.inputs())
    error = refused(box.here("compare", "m.onnx", *asked, "--json"), 3, "unsupported")
    assert platform.INSTALL_HINTS[absent[0]] in error["what"]


@pytest.mark.parametrize("given", [[], ["--set", "intra=1"], ["--rewrite", "constant-folding"]], ids=" ".join)
def test_a_comparison_with_nothing(box: Box, given: list[str]) -> None:
    """What is said of both sides makes no difference between them."""
    error = refused(box.here("compare", "m.onnx", *given, "--json"), 2, "usage")
    assert "B is missing" in error["what"]
    assert "ortune bench m.onnx;" in error["do"] and "--b-set intra_op_num_threads=1" in error["do"]
    assert not box.events("trial")


def test_a_model_is_compared_with_itself_where_that_is_meant(box: Box) -> None:
    for how in (["m.onnx"], ["--b-set", "intra=1"], ["--a-set", "intra=1"], ["--inject-wait", "5%"]):
        refused(box.here("compare", "m.onnx", *how, "--budget", "0s", "--json"), 2, "budget")
