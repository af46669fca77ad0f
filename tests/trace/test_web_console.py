"""What a browser's console prints, in the forms of several versions, browsers and ways to save it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ortune.engines.profiling.result import page_parts
from ortune.errors import UsageError
from ortune.records import PageParts
from ortune.trace.operators import by_operator, run_time_ns
from ortune.trace.read import read_trace
from ortune.trace.table import NO_PARENT, NO_RUN, Trace
from ortune.trace.web_kernels import runs_by_repetition
from ortune.verbs.profile import words as profile_words

SHAPES = "input[0]: [1,3] | float32, input[1]: [3] | int64, output[0]: [1,3] | float32, "


def event(name: str, start: int, took: int, cat: str = "Node", op: str = "Conv") -> str:
    args = {"op_name": op, "provider": "JsExecutionProvider"} if cat == "Node" else {}
    return json.dumps(
        {"cat": cat, "pid": 42, "tid": 7, "dur": took, "ts": start, "ph": "X", "name": name, "args": args}
    )


def profile(start: int = 0, runs: int = 2) -> list[str]:
    """A session's messages."""
    events = [event("model_loading_array", start, 5, "Session")]
    for i in range(runs):
        at = start + 100 * (i + 1)
        events += [event("a_kernel_time", at, 10), event("b_kernel_time", at + 20, 5, op="Add")]
        events.append(event("model_run", at, 50, "Session"))
    return ["[", *[f"{text}," for text in events[:-1]], events[-1], "]"]


def read(path: Path, *lines: str, encoding: str = "utf-8") -> Trace:
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return read_trace(path)


CONSOLES = {
    "plain": "{}",
    "playwright": "[log] {}",
    "chrome": "ort-wasm-simd-threaded.jsep.mjs:69 {}",
    "chrome with times": "12:31:07.123 ort.all.min.js:7 {}",
    "firefox": "12:31:07.123 {} ort.all.min.js:7:4711",
    "safari": "[Log] {} (ort.all.min.js, line 7)",
    "chromium's standard error": '[99:99:1121/155828.551424:INFO:CONSOLE(45)] "{}", source: http://x/ort.js (45)',
}


@pytest.mark.parametrize("form", CONSOLES.values(), ids=CONSOLES)
def test_the_profile_of_wasm_in_every_console(tmp_path: Path, form: str) -> None:
    noise = ["ort.js:1 [W:onnxruntime:, graph.cc:1] {not json}", 'app.js:3 {"cat of mine": 1}', ""]
    lines = [form.format(text) for text in profile()]
    trace = read(tmp_path / "log", noise[0], *lines, *noise)
    assert (trace.n_runs, len(trace), trace.n_unreadable, trace.complete) == (2, 4, 0, True)
    assert {o.op_type: o.time_ns for o in by_operator(trace)} == {"Conv": 10_000, "Add": 5_000}
    cut = read(tmp_path / "cut", noise[0], *lines[:5], noise[1])
    assert (cut.n_runs, cut.complete) == (1, False)


def test_of_several_profiles_the_last_is_read(tmp_path: Path) -> None:
    kernel = '[profiling] kernel "7|Conv|a|Conv2D" start time: {} ns, execution time: 9 ns'
    early = [kernel.format(i) for i in range(3)]
    late = [kernel.format(100 + i) for i in range(2)]
    trace = read(tmp_path / "log", "page.js:1 hello", *early, *profile(0, 3), *late, *profile(50, 2))
    assert trace.n_runs == 2 and trace.start_ns.min() == 150_000
    assert trace.n_events == 7 + 2 and len(trace.kernels.row) == 2
    assert any("earlier profiles" in text and text.endswith(" 1") for text in trace.missing)


KERNELS = {
    # As each version prints them; what a version does not tell stands as "".
    "1.15": ('"7|Conv" ', ("Conv 7", "Conv", "Conv")),
    "1.16": (f'"7|[Conv] /a" {SHAPES}', ("/a", "Conv", "Conv")),
    "1.16 with programs": (f'"7|[Conv] /a|b|Conv2DMatMul" {SHAPES}', ("/a|b", "Conv", "Conv2DMatMul")),
    "1.17 at first": (f'"7|/a|Conv2DMatMul" {SHAPES}', ("/a", "Conv2DMatMul", "Conv2DMatMul")),
    "1.17": (f'"7|Conv|/a|Conv2DMatMul" {SHAPES}', ("/a", "Conv", "Conv2DMatMul")),
    "1.30": (
        f'"7|Conv|/a "q"|b|Conv2DMatMul" {SHAPES}start time: 0 ns, ',
        ('/a "q"|b', "Conv", "Conv2DMatMul"),
    ),
}


@pytest.mark.parametrize("version", KERNELS)
def test_kernel_lines_of_every_version(tmp_path: Path, version: str) -> None:
    text, (name, op, program) = KERNELS[version]
    timed = "start time" in text
    lines = [
        f"ort.js:9 [profiling] kernel {text.replace('time: 0', f'time: {100 * i}')}execution time: {10 + i} ns"
        for i in range(4)
    ]
    trace = read(tmp_path / "log", *lines)
    assert trace.format == "web-console" and trace.nodes.op_type == (op,)
    assert (trace.name.texts, trace.kernels.name.texts) == ((name,), (program,))
    assert trace.duration_ns.tolist() == [10, 11, 12, 13] == trace.kernels.duration_ns.tolist()
    assert trace.start_ns.tolist() == ([0, 100, 200, 300] if timed else [0, 10, 21, 33])
    assert any("end to end" in text for text in trace.missing) == (not timed)
    if "input" in text:
        assert trace.nodes.inputs == ('[{"float":[1,3]},{"int64":[3]}]',)
        assert trace.nodes.outputs == ('[{"float":[1,3]}]',)
    assert trace.n_runs == 4 and trace.run.tolist() == [0, 1, 2, 3]


def test_the_record_that_a_page_prints_itself(tmp_path: Path) -> None:
    record = {
        "version": 1, "inputsMetadata": [{"dims": [1, 3], "dataType": "float32"}], "outputsMetadata": [], "kernelId": 7,
        "kernelType": "Conv", "kernelName": "/a", "programName": "Conv2D", "startTime": 5, "endTime": 25,
    }  # fmt: skip
    bad = [
        {**record, "endTime": 1},
        {**record, "startTime": "x"},
        {**record, "startTime": 10**30, "endTime": 10**30},
    ]
    trace = read(tmp_path / "log", "app.js:3 data", *(f"app.js:3 {json.dumps(r)}" for r in [record, *bad]))
    assert (list(trace.name), trace.duration_ns.tolist(), trace.start_ns.tolist()) == (["/a"], [20], [5])
    assert trace.nodes.inputs == ('[{"float":[1,3]}]',)


def test_kernels_that_do_not_repeat_are_of_no_run(tmp_path: Path) -> None:
    lines = [
        f'[profiling] kernel "{i}|Conv|/{i}|C" start time: {9 * i} ns, execution time: 5 ns' for i in range(5)
    ]
    trace = read(tmp_path / "log", *lines)
    assert trace.n_runs == 0 and set(trace.run.tolist()) == {NO_RUN} and run_time_ns(trace) == 0
    assert any("do not repeat" in text for text in trace.missing)


@pytest.mark.parametrize(
    ("keys", "borders"),
    [
        ("abcabcabc", [0, 3, 6, 9]),
        ("wabcabc", [0, 1, 4, 7]),  # weights are laid out once
        ("abwcabcabc", [0, 4, 7, 10]),
        ("abbbcabbbc", [0, 5, 10]),  # a loop's body
        ("abc", []),
        ("", []),
        ("qwertyuiopaa", []),  # the end repeats by chance
    ],
)
def test_runs_by_repetition(keys: str, borders: list[int]) -> None:
    assert runs_by_repetition(keys) == borders


def test_a_node_with_several_kernels_gets_them_run_by_run(tmp_path: Path) -> None:
    kernel = '[profiling] kernel "7|Conv|a|{}" start time: {} ns, execution time: 9 ns'
    programs = ["Transpose", "Split", "Reduce", "Split", "Reduce"]  # two runs, the first with one more
    kernels = [kernel.format(program, 10 * i) for i, program in enumerate(programs)]
    trace = read(tmp_path / "log", *kernels, kernel.format("x", 60).replace("|a|", "|gone|"), *profile())
    first, second = (trace.name.codes == 0).nonzero()[0].tolist()
    assert trace.kernels.row.tolist() == [first, first, first, second, second, NO_PARENT]
    # Their clock is another one: the first starts with its node.
    assert trace.kernels.start_ns[0] == trace.start_ns[first]
    assert any("1 of 6 kernels" in text for text in trace.missing)


def test_damaged_kernel_lines_are_counted(tmp_path: Path) -> None:
    good = '[profiling] kernel "7|Conv|a|C" start time: 1 ns, execution time: 9 ns'
    huge = '[profiling] kernel "7|Conv|' + '" input[0]: [1] | f, ' * 10_000 + "execution time"
    trace = read(
        tmp_path / "log", good, good[:-9], '[profiling] kernel "', huge, good.replace("9 ns", "-9 ns")
    )
    assert len(trace) == 1 and trace.n_unreadable == 4


def test_a_log_that_begins_as_a_profile_does(tmp_path: Path) -> None:
    kernel = '[profiling] kernel "7|Conv|a|C" start time: 1 ns, execution time: 9 ns'
    trace = read(tmp_path / "log", *profile(runs=600), kernel)
    assert trace.n_runs == 600 and len(trace.kernels.row) == 1


def test_what_powershell_writes_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="UTF-16"):
        read(tmp_path / "log", *profile(), encoding="utf-16")


def test_a_log_without_a_profile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no profile") as caught:
        read(tmp_path / "log", "app.js:1 hello")
    assert "endProfiling()" in caught.value.do


def test_a_log_of_marks_alone_tells_of_its_runs_and_what_to_log_instead(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="trace marks alone: 3 runs, p50 4 ms, without any details"
    ) as caught:
        read(tmp_path / "log", *marks(0.1), *marks(0.1), *marks(1))
    assert "enableProfiling: true" in caught.value.do and "endProfiling()" in caught.value.do
    assert "profiling = {mode: 'default'}" in caught.value.do


def test_kernels_of_one_name_are_told_apart_by_operator(tmp_path: Path) -> None:
    lines = [
        f'[profiling] kernel "{n}|{op}|a|{op}" start time: {100 * n} ns, execution time: 9 ns'
        for n, op in enumerate(("Conv", "Add", "Conv", "Add"))
    ]
    trace = read(tmp_path / "log", *lines)
    assert trace.name.texts == ("a", "a") and trace.nodes.op_type == ("Conv", "Add")
    assert trace.name.codes.tolist() == [0, 1, 0, 1]


def marks(scale: float, unit: str = " ms") -> list[str]:
    """What a run prints with ``env.trace``, as 1.30 does."""
    parts = [
        ("wasm prepareInputOutputTensor", 2),
        ("wasm bindInputsOutputs", 1),
        ("wasm ProcessOutputTensor", 4),
    ]
    parts.append(("InferenceSession.run", 40))
    return [f"ORT::{name}: {scale * took}{unit}" for name, took in parts]


@pytest.mark.parametrize("form", CONSOLES.values(), ids=CONSOLES)
def test_marks_of_runs_in_every_console(tmp_path: Path, form: str) -> None:
    lines = ["ORT::InferenceSession.create: 1364.4 ms", *marks(0.01), *marks(0.001), *profile()]
    trace = read(tmp_path / "log", *(form.format(text) for text in lines))
    assert trace.page_runs == ((400_000, 30_000, 40_000), (40_000, 3_000, 4_000))
    parts = page_parts(trace, 1)
    assert parts == PageParts(
        whole_ns=40_000,
        inputs_ns=3_000,
        operators_ns=15_000,
        outputs_ns=4_000,
        rest_ns=18_000,
        n_runs=1,
        queued=True,
    )
    assert "preparing inputs 3.00 us, queueing operators 15.0 us" in profile_words.page_parts(parts)


@pytest.mark.parametrize(
    ("unit", "took_ns"), [(" ms", 40_000), ("ms", 40_000), (" ms - timer ended", 40_000), ("s", 40_000_000)]
)
def test_marks_as_browsers_write_times(tmp_path: Path, unit: str, took_ns: int) -> None:
    trace = read(tmp_path / "log", *marks(0.001, unit), *profile(runs=1))
    assert [run.whole_ns for run in trace.page_runs] == [took_ns]


def test_marks_of_an_earlier_session_are_not_of_the_last(tmp_path: Path) -> None:
    trace = read(tmp_path / "log", *marks(1), *profile(runs=1), *marks(0.001), *profile(runs=1))
    assert [run.whole_ns for run in trace.page_runs] == [40_000]


def test_without_marks_nothing_is_said_of_them(tmp_path: Path) -> None:
    trace = read(tmp_path / "log", "12:31 ORT::InferenceSession.run", *profile())
    assert trace.page_runs == () and page_parts(trace, 0) is None
