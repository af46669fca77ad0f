"""The code for compiled languages: every call is in the table of its binding's release; names, threads, notes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from api_calls import LANGUAGES, TABLE, TYPES, wrong_calls
from emitted_code import HOSTILE, PROVIDERS, emitted, owners, plans, single

from facts import facts
from ortune.bundle.languages import emit_all, javascript, rust
from ortune.bundle.languages._source import BY_NAME
from ortune.bundle.settings import portable, resolve
from ortune.catalogue import knobs
from ortune.records import BundleInfo, Plan, ProviderSpec, Value


def test_every_call_is_in_the_table() -> None:
    wrong = {
        name: found
        for name, files in plans().items()
        for file in files
        if (found := wrong_calls(file, files[file]))
    }
    assert wrong == {}
    assert set(plans()["default"]) == set(LANGUAGES)


@pytest.mark.parametrize(
    ("file", "right", "planted"),
    [
        ("load.cpp", "options.SetIntraOpNumThreads(", "options.SetIntraOpThreads("),
        ("load.cpp", "options.DisablePerSessionThreads()", "options.DisablePerSessionThreads(1)"),
        ("load.cpp", "Ort::ThreadingOptions threading", "Ort::ThreadOptions threading"),
        ("load.cpp", "ORT_PARALLEL", "ORT_CONCURRENT"),
        ("load.cpp", "OrtThreadWorkerFn work", "OrtWorkerFn work"),
        ("load.cpp", "and call session.Run(run, binding)", "and call session.Run(binding)"),
        ("load.cpp", "one Ort::IoBinding", "one Ort::Binding"),
        ("Load.cs", "one session.CreateIoBinding()", "one session.MakeIoBinding()"),
        ("Load.cs", "options.IntraOpNumThreads =", "options.IntraOpThreads ="),
        ("Load.cs", "OrtArenaCfg(0, ", "OrtArenaCfg("),
        ("Load.cs", "ExecutionMode.ORT_PARALLEL", "ExecutionMode.PARALLEL"),
        ("Load.cs", "threadOptions =", "threadingOptions ="),
        ("Load.java", "options.setIntraOpNumThreads(", "options.setIntraOpThreads("),
        ("Load.java", "addConfigEntry(", "addConfigEntry(folder, "),
        ("Load.java", "OptLevel.", "OptLevel.X"),
        ("Load.kt", "options.setIntraOpNumThreads(", "options.setIntraOpThreads("),
        ("Load.kt", "OrtEnvironment.ThreadingOptions()", "OrtEnvironment.ThreadingOptions(1)"),
        ("load.swift", "withKey: ", "key: "),
        ("load.swift", "ORTGraphOptimizationLevel.", "ORTGraphOptimizationLevel.x"),
        ("load.swift", "ORTSession(env: ", "ORTSession(environment: "),
        ("load.swift", "registerCustomOps(usingFunction: ", "registerCustomOpsUsingFunction("),
        ("load.rs", "built.error_on_failure()", "built.fail_on_error()"),
        ("load.rs", "Error::new(", "Error::from_text("),
        ("load.rs", "options.with_intra_threads(", "options.with_intra_op_threads("),
        ("load.rs", "with_inter_threads(1)", "with_inter_threads()"),
        ("load.rs", "ort::ep::OpenVINO", "ort::ep::OpenVino"),
        ("load.rs", "GraphOptimizationLevel::", "GraphOptimizationLevel::X"),
    ],
)  # fmt: skip
def test_a_planted_wrong_name_is_found(file: str, right: str, planted: str) -> None:
    text = plans()["everything"][file]
    assert right in text and wrong_calls(file, text) == []
    assert wrong_calls(file, text.replace(right, planted))


def test_the_table_names_its_release() -> None:
    assert re.fullmatch(r"1\.\d+\.\d+", TABLE["release"]) and re.fullmatch(r"[0-9a-f]{40}", TABLE["commit"])
    assert set(TYPES) == {"cpp", "csharp", "java", "javascript", "kotlin", "rust", "swift"}
    assert TABLE["providers"] == BY_NAME and TABLE["ort"]["release"] == rust.CRATE
    entries = {str(entry).partition(":")[0] for entry in javascript.LANGUAGE.options.values()}
    assert entries | {"executionProviders", "extra"} <= set(TYPES["javascript"]["SessionOptions"])


def unquoted(file: str, literal: str) -> str:
    """A literal's text, by the rules of its language alone."""
    inner = literal[1:-1]
    if file == "load.cpp":
        data = re.sub(
            rb"\\([0-7]{3}|.)", lambda m: bytes([int(m[1], 8)]) if len(m[1]) == 3 else m[1], inner.encode()
        )
        return data.decode()
    if file in ("load.rs", "load.swift"):
        return re.sub(r"\\(?:u\{([0-9a-f]+)\}|(.))", lambda m: chr(int(m[1], 16)) if m[1] else m[2], inner)
    inner = (
        re.sub(r"\\([0-7]{3})", lambda m: f"\\u{int(m[1], 8):04x}", inner) if file == "Load.java" else inner
    )
    return str(json.loads(f'"{inner}"'.replace("\\$", "$")))


@pytest.mark.parametrize("file", sorted(LANGUAGES))
def test_a_hostile_name_is_one_literal(file: str) -> None:
    text = plans()["everything"][file]
    declared = re.search(r'\b(?:MODEL|Model|model)(?:: &str)? = ("(?:[^"\\\n]|\\.)*")', text)
    assert declared and unquoted(file, declared[1]) == HOSTILE
    assert text.isascii() and "\\(y)" not in re.sub(r"\\\\\(y\)", "", text)
    if file == "Load.kt":
        assert not re.search(r"(?<!\\)\$\{x\}", text)


def test_no_comment_ends_early() -> None:
    # A value stands in comments too: no backslash may continue a line of C++ or be read as a character by Java.
    for files in plans().values():
        for text in files.values():
            comments = [line for line in text.splitlines() if line.lstrip().startswith("//")]
            assert not any("\\" in line or not line.isprintable() for line in comments)


@pytest.mark.parametrize(
    ("file", "expression"),
    [
        ("load.cpp", "options.SetIntraOpNumThreads(threads(4));"),
        ("Load.cs", "options.IntraOpNumThreads = Threads(4);"),
        ("Load.java", "options.setIntraOpNumThreads(threads(4));"),
        ("Load.kt", "options.setIntraOpNumThreads(threads(4))"),
        ("load.swift", "try options.setIntraOpNumThreads(threads(4))"),
        ("load.rs", "options = options.with_intra_threads(threads(4))?;"),
    ],
)
def test_threads_are_counted_where_it_runs(file: str, expression: str) -> None:
    assert expression in emitted({"intra_op_num_threads": 4})[file]
    assert "setIntraOpNumThreads(0)" in emitted({"intra_op_num_threads": 0})["Load.java"]


@pytest.mark.parametrize("file", sorted(LANGUAGES))
def test_what_holds_for_the_tuned_cpu_alone_has_a_condition(file: str) -> None:
    text = emitted({"graph_optimization_level": "disable", "intra_op_thread_affinities": "1"}, bound=True)[
        file
    ]
    level = re.search(r"(?m)^.*(NO_OPT|ORT_DISABLE_ALL|::Disable|Level\.none).*$", text)
    affinity = re.search(r"(?m)^.*intra_op_thread_affinities.*1.*$", text)
    assert level and affinity
    for found in (level, affinity):
        before = text[: found.start()].rstrip().removesuffix("{").rstrip().splitlines()[-1]
        assert re.match(r"\s*if \(?tuned_?([hH]ere|[mM]odel)", before)


@pytest.mark.parametrize("file", sorted(set(LANGUAGES) - {"load.swift"}))  # it has no switch for the arena
def test_an_arena_is_off_only_with_the_allocator_that_it_was_measured_with(file: str) -> None:
    condition = re.compile(r"(?i)if \(?!without_?allocator\(\)\)?")
    off: dict[str, Value] = {"enable_cpu_mem_arena": False}
    both = emitted({**off, "allocator": "mimalloc"})[file]
    assert len(condition.findall(both)) == 1
    facts(both, "mimalloc (Debian: apt install libmimalloc-dev)", "arena stays on")
    assert not condition.search(emitted(off)[file])
    alone = emitted({"allocator": "mimalloc"})[file]
    assert not condition.search(alone) and "stays on" not in alone


@pytest.mark.parametrize("file", sorted(LANGUAGES))
def test_a_bundle_that_is_not_bound_names_no_plain_model(file: str) -> None:
    plan = portable(Plan(settings={"graph_optimization_level": "basic"}))
    for bound in (True, False):
        info = BundleInfo(
            schema="ortune/bundle/1", model="net.onnx", sha256="", plan=plan, applied=resolve(plan),
            plain_model="plain/net.onnx", hardware_bound=bound, ort_version="1.31.1",
            model_settings=("graph_optimization_level",) if bound else (),
        )  # fmt: skip
        text = emit_all(info, ())[file]
        assert ("plain/net.onnx" in text) == bound
        assert (re.search(r"(?m)^\s*if \(?tuned_?[mM]odel", text) is not None) == bound


@pytest.mark.parametrize(
    ("file", "knob", "value", "said"),
    [
        ("load.cpp", "enable_mem_reuse", False, "enable_mem_reuse=0: the C++ binding has no such option"),
        ("load.cpp", "process_affinity", "0,2", "process_affinity=0,2: start it with: taskset -c 0,2 PROGRAM"),
        ("Load.cs", "call_style", "device_binding", "keep one session.CreateIoBinding()"),
        ("load.rs", "call_style", "io_binding", "keep one session.create_binding()"),
        ("Load.java", "arena_extend_strategy", "same_as_requested", "the Java binding cannot register a shared arena"),
        ("Load.kt", "call_style", "io_binding", "session.run(inputs, emptySet(), outputs, run)"),
        ("Load.java", "call_style", "device_binding", "session.run(inputs, Set.of(), outputs, run)"),
        ("load.swift", "call_style", "io_binding", "run(withInputs: inputs, outputs: outputs, runOptions: run)"),
        ("load.swift", "inter_op_num_threads", 2, "inter_op_num_threads=min(2, cpus): the Swift binding has no such"),
        ("load.swift", "allocator", "mimalloc", "allocator=mimalloc: it cannot be preloaded there"),
        ("load.swift", "global_thread_pool", 2, "the Swift binding cannot create a global thread pool"),
        ("load.rs", "transparent_huge_pages", "never", "prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)"),
        ("load.rs", "ort_intra_op_num_threads", 2, "// Start the process with: ORT_INTRA_OP_NUM_THREADS=2 "),
        ("Load.cs", "malloc_huge_pages", "thp", "// Start the process with: GLIBC_TUNABLES=glibc.malloc.hugetlb=1"),
        ("load.cpp", "allocator", "mimalloc", '// Start the process with: LD_PRELOAD="$(/sbin/ldconfig -p'),
    ],
)  # fmt: skip
def test_what_a_language_cannot_set_is_said(file: str, knob: str, value: Value, said: str) -> None:
    assert said in emitted({knob: value})[file]
    assert said not in emitted({"intra_op_num_threads": 2})[file]


@pytest.mark.parametrize("file", ["load.cpp", "Load.cs", "load.swift"])
def test_a_provider_is_appended_by_the_name_that_all_releases_know(file: str) -> None:
    short = plans()["provider OpenVINOExecutionProvider"][file]
    assert re.search(r'ppendExecutionProvider\("OpenVINO", ', short)
    unknown = plans()["provider ImaginaryExecutionProvider"][file]
    facts(unknown, "cannot append it", "load.py can")
    assert "ppendExecutionProvider(" not in unknown


def test_no_language_of_another_system_asks_for_a_preload() -> None:
    files = emitted({"allocator": "jemalloc"})
    assert {name for name, text in files.items() if "LD_PRELOAD" not in text} == {"load.swift"}


def test_every_setting_is_set_or_said_in_every_language() -> None:
    settings = single()
    plain = {name: emitted({}, owners(given)) for name, given in settings.items()}
    silent = {
        (name, file)
        for name, files in plans().items()
        for file, text in files.items()
        if name in settings
        and text == plain[name][file]
        # What the binding cannot append is said once for all that belongs to it.
        and not any(f"provider {spec.name}: the" in text for spec in owners(settings[name]))
    }
    # What is the default of ONNX Runtime and of the call needs no words.
    fine = {(name, file) for name in ("call_style=0", "transparent_huge_pages=0") for file in LANGUAGES}
    assert silent <= {*fine, ("enable_cpu_mem_arena=0", "load.rs")}


def test_the_page_says_what_each_language_cannot_set() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "languages.md").read_text(encoding="utf-8")
    names = {*LANGUAGES, "load.mjs"}
    alone = [emitted(settings, owners(settings), files=names) for settings in single().values()]
    for file in names:
        found = {match for files in alone for match in re.findall(r"(?m)^\s*// (\w+)=", files[file])}
        row = re.search(rf"(?m)^\| `{re.escape(file)}` \|[^|]*\|[^|]*\|([^|]*)\|$", page)
        if row and "every option of an execution provider" in row[1]:
            every = knobs.all_knobs().values()
            shared = {knob.name for knob in every if knob.channel != "provider_option"}
            found -= {knob.key for knob in every if knob.channel == "provider_option"} - shared
        assert row and set(re.findall(r"`(\w+)`", row[1])) == found
    assert TABLE["release"] in page and TABLE["ort"]["release"] in page


def test_node_says_what_to_do_instead_of_what_it_cannot_set() -> None:
    settings: dict[str, Value] = {"memory_arena_shrinkage": "cpu:0", "intra_op_thread_affinities": "1;2"}
    text = emitted(settings, PROVIDERS, custom_ops=("a\n.so",), files=("load.mjs",))["load.mjs"]
    for setting, do in (
        ("memory_arena_shrinkage=cpu:0", "the Node binding has no such option; load.py sets it"),
        ("intra_op_thread_affinities=1;2", "the Node binding has no such option; load.py sets it"),
        ("provider ImaginaryExecutionProvider", "the Node binding cannot append it; load.py can"),
        ("device_id=0 of CUDAExecutionProvider", "the Node binding has no such option; load.py can"),
        ("custom operators of a<a>.so", "the Node binding cannot load operator libraries; load.py can"),
    ):
        assert f"// {setting}\n//     {do}\n" in text


def test_cpp_makes_threads_where_the_plan_has_them() -> None:
    plain = emitted({"intra_op_num_threads": 2})["load.cpp"]
    pool = emitted({"global_thread_pool": 2})["load.cpp"]
    pinned = emitted({"intra_op_thread_affinities": "1;3-4"})["load.cpp"]
    assert "ThreadHooks" not in plain
    assert "threading.SetGlobalCustomCreateThreadFn(hooks.create)" in pool
    assert "options.SetCustomJoinThreadFn(hooks.join)" in pinned
    assert "CPU_SETS = {{0}, {2, 3}};" in pinned


def test_the_line_that_finds_an_allocator(tmp_path: Path) -> None:
    line = re.search(r'LD_PRELOAD="(\$\(.*\))"', emitted({"allocator": "tcmalloc"})["load.cpp"])
    assert line
    names = ("libx.so.4", "libtcmalloc_minimal.so.4")
    listing = "".join(f"\t{name} (libc6,x86-64) => /usr/lib/{name}\n" for name in names)
    (tmp_path / "ldconfig").write_text(f"#!/bin/sh\nprintf '%s' '{listing}'\n")
    (tmp_path / "ldconfig").chmod(0o755)
    command = line[1].replace("/sbin/ldconfig", str(tmp_path / "ldconfig"))
    done = subprocess.run(
        ["sh", "-c", f'echo "{command}"'], capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout == "/usr/lib/libtcmalloc_minimal.so.4\n"


@pytest.mark.parametrize("file", sorted(LANGUAGES))
def test_where_compiled_models_are_stored_is_said(file: str) -> None:
    settings: dict[str, Value] = {"openvino_cache": "1"}
    said = "// Stores the compiled model in openvino-cache of the working directory, or in the folder passed to load."
    assert said in emitted(settings, owners(settings))[file].splitlines()
    # Java appends a built-in OpenVINO with nothing but its device; a plug-in takes every option.
    java = emitted(settings, owners(settings))["Load.java"]
    assert r'"openvino-cache\"}} of OpenVINOExecutionProvider: set for a plug-in only' in java


@pytest.mark.parametrize(
    ("file", "loads", "takes"),
    [
        ("load.cpp", 'const std::string& cache = "")', 'cache.empty() ? std::string("{}") : cache'),
        ("Load.cs", "Session(string folder, string cache = null)", 'cache ?? "{}"'),
        ("Load.java", "load(Path folder, String cache)", 'cache == null ? "{}" : cache'),
        ("Load.kt", "load(folder: Path, cache: String? = null)", '(cache ?: "{}")'),
        ("load.swift", "load(folder: URL, cache: String? = nil)", 'cache ?? "{}"'),
        ("load.rs", "load_with_cache(folder: &Path, cache: Option<&str>)", 'cache.unwrap_or("{}")'),
    ],
)
def test_a_program_may_name_the_folder_of_compiled_models(file: str, loads: str, takes: str) -> None:
    knob, folder = "trt_engine_cache_folder", "tensorrt-engines"
    if file in ("load.swift", "load.rs"):  # Swift's binding has no TensorRT
        knob, folder = "openvino_cache", "openvino-cache"
    settings: dict[str, Value] = {knob: "1"}
    text = emitted(settings, owners(settings))[file]
    assert loads in text and takes.format(folder) in text
    assert "cache" not in emitted({}, owners(settings))[file].lower()


@pytest.mark.parametrize("file", sorted(LANGUAGES))
def test_a_program_may_name_the_library_of_a_plug_in(file: str) -> None:
    settings: dict[str, Value] = {"openvino_streams": 1, "openvino_device": "cpu"}
    wheels = ("onnxruntime==1.31.1", "onnxruntime-ep-openvino==1.8.1")
    text = emitted(settings, owners(settings), requirements=wheels)[file]
    if file in ("load.rs", "load.swift"):
        assert "plug-in onnxruntime-ep-openvino==1.8.1 (on PyPI), which load.py registers" in text
        return
    assert (
        "the path of the library in onnxruntime-ep-openvino==1.8.1 (on PyPI) as the plugin argument of load"
        in text
    )
    (call,) = re.findall(r"(?s)(?:append_plugin|[aA]ppendPlugin)\(options, .*?\)[;\n]", text)
    # The kind of device chooses the device, which is handed over instead.
    assert '"OpenVINOExecutionProvider", "CPU"' in call and r"\"NUM_STREAMS\": \"1\"" in call
    assert "device_type" not in call
    gpu: dict[str, Value] = {"webgpu_layout": "nhwc"}
    assert '"WebGpuExecutionProvider", ""' in emitted(gpu, owners(gpu))[file]
    cuda: dict[str, Value] = {"cuda_nhwc": "1"}
    assert "plugin" not in emitted(cuda, owners(cuda))[file].lower()


@pytest.mark.parametrize(
    ("file", "runs"),
    [("load.cpp", "bound.run("), ("Load.cs", "bound.Run("), ("Load.java", "bound.run(inputs)")],
)
def test_a_kept_binding_is_code(file: str, runs: str) -> None:
    text = emitted({"call_style": "io_binding"})[file]
    assert "class BoundRun" in text and runs in text and "call_style" not in text
    assert "BoundRun" not in emitted({})[file]


def test_flags_of_nnapi_are_an_enumeration_in_java_and_kotlin() -> None:
    files = emitted(
        {"nnapi_fp16": "1", "nnapi_cpu_disabled": "1"}, (ProviderSpec(name="NnapiExecutionProvider"),)
    )
    flags = "options.addNnapi(EnumSet.of(NNAPIFlags.CPU_DISABLED, NNAPIFlags.USE_FP16))"
    assert f"{flags};" in files["Load.java"] and flags in files["Load.kt"]
    facts(files["Load.cs"], "NnapiExecutionProvider", "C#", "cannot append it")
    off = emitted({"nnapi_fp16": "0"}, (ProviderSpec(name="NnapiExecutionProvider"),))
    assert "options.addNnapi();" in off["Load.java"] and "EnumSet" not in off["Load.java"]


@pytest.mark.parametrize("file", sorted(LANGUAGES))
@pytest.mark.parametrize("knob", ["dml_graph_capture", "webgpu_graph_capture", "rtx_cuda_graph"])
def test_no_language_captures_without_buffers_that_stay(knob: str, file: str) -> None:
    settings: dict[str, Value] = {knob: "1"}
    text = emitted(settings, owners(settings))[file]
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//"))
    key = knobs.find(knob).key
    assert f'"{key}"' not in code
    # A binding without the provider says that alone.
    assert "graph replay needs" in text or "cannot append it" in text


def test_python_captures_with_its_buffers() -> None:
    settings: dict[str, Value] = {"webgpu_graph_capture": "1", "call_style": "device_binding"}
    text = emitted(settings, owners(settings), files=("load.py",))["load.py"]
    assert "'enableGraphCapture': '1'" in text and "DEVICE_MEMORY = 'webgpu'" in text


@pytest.mark.parametrize("file", sorted({*LANGUAGES, "load.mjs"}))
def test_the_cpu_is_taken_only_by_a_call_of_its_own(file: str) -> None:
    settings: dict[str, Value] = {"openvino_streams": 1}
    text = emitted(settings, owners(settings), bound=True, files=(file,))[file]
    name = {"load.cpp": "load_on_cpu", "load.rs": "load_on_cpu", "Load.cs": "SessionOnCpu"}.get(
        file, "loadOnCpu"
    )
    (place,) = re.findall(rf"(?s){name}\(.*?\n *}}\n", text)
    assert "plain/net.onnx" in place and "OpenVINO" not in place
    assert name not in emitted({"intra_op_num_threads": 1}, files=(file,))[file]


@pytest.mark.parametrize("file", LANGUAGES)
def test_without_settings_the_code_only_opens_the_model(file: str) -> None:
    text = emitted({}, (ProviderSpec(name="CPUExecutionProvider"),))[file]
    assert len(text.splitlines()) < 26 and "net.onnx" in text and "default settings" in text
    assert len(emitted({"intra_op_num_threads": 2})[file].splitlines()) > 100
