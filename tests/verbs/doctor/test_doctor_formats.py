"""What doctor found, as text and Markdown."""

from __future__ import annotations

import msgspec
import pytest

import golden
from facts import facts
from ortune.records import AddableRuntime, Envelope, Finding, MachinePeak, ProviderReport
from ortune.show import markdown
from ortune.verbs.doctor import words


def shown(envelope: Envelope, width: int) -> str:
    """All of the page as plain text at that width."""
    return golden.printed(words.document(envelope), width, whole=True)


@pytest.mark.parametrize("width", [80, 140])
def test_terminal_fits_its_width_and_loses_nothing(width: int) -> None:
    text = shown(golden.diagnosed(), width)
    assert max(len(line) for line in text.splitlines()) <= width
    flat = " ".join(text.split())
    facts(flat, "2 cores", "4 hardware", "1.5", "2 effective")
    facts(flat, "16.00 GiB", "2.00 GiB")
    for part in (
        "CUDAExecutionProvider: not in this build; pip install onnxruntime-gpu",
        "THR001 threads exceed the quota (2 > 1.5) -> --set intra=1",
        "0.5 4 too few blocks",
        "2 60 1.2 %",
    ):
        assert part in flat


def test_folded_lines_stay_indented() -> None:
    finding = Finding(code="THR001", what="threads " * 30, evidence="e", fix="f")
    text = shown(golden.diagnosed(findings=(finding,)), 80)
    assert all(line.startswith("  ") for line in text.splitlines() if "threads threads" in line)


def test_names_are_neutral() -> None:
    name = "[red]|<script>\n### x\x1b[31m"
    finding = Finding(code="ENV001", what=name, evidence="e", fix="f")
    envelope = golden.diagnosed(findings=(finding,), allocators={name: name})
    text = shown(envelope, 140)
    assert "[red]|<script>\\n### x\\x1b[31m" in text
    assert "\x1b" not in text
    page = markdown.render(words.document(envelope))
    assert "<script>" not in page.replace("\\<script\\>", "")
    assert "\n### x" not in page
    assert "\x1b" not in page


def test_an_invalid_machine_shows_no_table() -> None:
    usual = golden.diagnosed().result.noise
    invalid = msgspec.structs.replace(usual, status="invalid", table=(), controls=())
    text = shown(golden.diagnosed(noise=invalid), 80)
    assert "be measured now" in text
    assert "stop other programs" in " ".join(text.split())
    assert "smallest effect" not in text


def test_the_answer_comes_first_and_details_on_request() -> None:
    document = words.document(golden.diagnosed())
    first = golden.printed(document, 100).splitlines()
    assert first[0].startswith("ONNX Runtime runs on CPU (")
    facts(first[1], "2 minutes", "1.2 %")
    assert "cgroup quota" not in "\n".join(first)  # of the machine, with -v
    assert len(first) < 25


def test_what_runs_in_a_browser_stands_apart() -> None:
    """A WebGPU of the interpreter and one of its browser are two."""
    (usual,) = golden.diagnosed().result.runtimes
    names = ("CPUExecutionProvider", "WebGpuExecutionProvider", "wasm", "webgpu")
    usable = tuple(ProviderReport(name=name, in_build=True, usable=True) for name in names)
    found = golden.diagnosed(runtimes=(msgspec.structs.replace(usual, providers=usable),))
    assert words.headline(found)[0].startswith(
        "ONNX Runtime runs on CPU, WebGpu; in a browser on wasm, webgpu ("
    )


def test_told_again_in_one_line_it_has_no_code_without_its_sentence() -> None:
    said = words.STORED.headline(golden.diagnosed().result)
    assert said.endswith("; one finding") and "THR001" not in said


def test_no_runtime_says_what_brings_one() -> None:
    assert "pip install onnxruntime brings" in shown(golden.diagnosed(runtimes=(), noise=None), 80)


def test_peaks_are_shown_with_their_date() -> None:
    peak = MachinePeak(
        cpu="A Processor",
        flops_per_s={1: 115.4e9, 2: 230e9},
        int8_ops_per_s={1: 444e9},
        bytes_per_s={1: 29.3e9, 2: 43.4e9},
        elementwise_bytes_per_s=105e9,
        taken="2026-11-21T15:54:55+00:00",
        how="by <b>x\x1b[31m",
    )
    envelope = golden.diagnosed(peak=peak)
    text = shown(envelope, 80)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "2026-11-21 15:54 UTC" in text
    assert (
        "1 115 444 29.3 2 230 - 43.4 elementwise, in cache: 105 GB/s per thread by <b>x\\x1b[31m"
        in " ".join(text.split())
    )
    page = markdown.render(words.document(envelope))
    assert "| 1 | 115 | 444 | 29.3 |" in page
    assert "| 2 | 230 | - | 43.4 |" in page
    assert "105 GB/s per thread" in page
    older = msgspec.structs.replace(peak, elementwise_bytes_per_s=0.0)
    assert "elementwise" not in shown(golden.diagnosed(peak=older), 80)
    assert "<b>" not in page.replace("\\<b\\>", "")
    assert "\x1b" not in page + text
    assert "GFLOP/s" not in shown(golden.diagnosed(), 80)


def test_the_promise_names_the_machine_as_it_is() -> None:
    noise = msgspec.structs.replace(golden.diagnosed().result.noise, used_cpus=1.61, cpus=2)
    text = " ".join(shown(golden.diagnosed(noise=noise), 140).split())
    facts(text, "2 minutes", "1.2 %", "while other programs use 1.6 of 2 CPUs, as now")
    quiet = msgspec.structs.replace(noise, used_cpus=0.01)
    text = " ".join(shown(golden.diagnosed(noise=quiet), 140).split())
    facts(text, "1.2 %", "while other programs use almost no CPU time, as now")


def test_what_was_not_measured_is_not_passed() -> None:
    why = words.no_peak("other programs used 1.6 of 2 CPUs", postponed=True)
    text = " ".join(shown(golden.diagnosed(peak_failed=why), 140).split())
    facts(text, "checks:", "peaks", "not measured", "1.6 of 2 CPUs", "next quiet moment")
    assert "checks: passed" not in text
    assert "checks: passed" in " ".join(shown(golden.diagnosed(), 140).split())


def test_commands_add_what_runs_models_and_no_converters() -> None:
    def of(name: str, *, converts: bool) -> AddableRuntime:
        command = f"ortune runtime add {name}"
        return AddableRuntime(
            name=name, what=name, packages=(), about_bytes=1, command=command, converts=converts
        )

    envelope = golden.diagnosed(addable=(of("openvino", converts=False), of("convert-torch", converts=True)))
    brief = golden.printed(words.document(envelope), 140)
    assert "runtime add openvino" in brief and "convert-torch" not in brief
    assert "runtime add convert-torch" in " ".join(shown(envelope, 140).split())


def test_a_gpu_that_is_software_is_not_claimed() -> None:
    envelope = golden.diagnosed()
    (first, *others) = envelope.result.runtimes
    webgpu = ProviderReport(
        name="webgpu", in_build=False, usable=True, why="its GPU is emulated on the CPU", emulated=True
    )
    report = msgspec.structs.replace(first, providers=(*first.providers, webgpu))
    envelope = golden.diagnosed(runtimes=(report, *others))
    assert "webgpu" not in " ".join(words.headline(envelope))
    assert "webgpu" not in golden.printed(words.document(envelope), 140)
    facts(shown(envelope, 140), "webgpu: its GPU is emulated")


def test_a_busy_machine_promises_nothing_for_later() -> None:
    usual = golden.diagnosed().result.noise
    busy = msgspec.structs.replace(usual, used_cpus=1.6, cpus=2, busy=True)
    flat = " ".join(shown(golden.diagnosed(noise=busy), 140).split())
    facts(flat, "now, while other programs use 1.6 of 2 CPUs", "or more at best", "--wait-quiet 10m")
    facts(flat.split("next:")[-1], "ortune doctor --wait-quiet 10m")
    quiet = " ".join(shown(golden.diagnosed(), 140).split())
    assert "--wait-quiet" not in quiet and "at best" not in quiet


def test_the_problem_of_a_runtime_is_whole_in_the_table() -> None:
    text = golden.printed(words.document(golden.diagnosed()), 80)
    rows = text[text.index("runs on") : text.index("detectable difference")]
    facts(rows, "problem", "two wheels are", "installed into one folder")
