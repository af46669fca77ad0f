"""What goes into ``deploy/``: only measured numbers, in files that their readers accept."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from conftest import Bundle, matmul, result_of
from facts import facts
from onnx_text import assemble
from ortune import platform
from ortune.bundle.deploy import PACKAGES, cpus, deploy_files, memory_mib
from ortune.bundle.machine import is_preloaded
from ortune.bundle.settings import portable, resolve
from ortune.errors import UsageError
from ortune.graph.model.open import open_model
from ortune.records import BundleInfo, Case, Delivery, Host, Plan, ProviderSpec, Value, Workload
from ortune.verbs._shared.bundling import delivery

MIB = 1 << 20
HOST = msgspec.structs.replace(platform.host(), effective_cpus=8)


def made(
    path: Path,
    settings: dict[str, Value] | None = None,
    *,
    peak: float | None = 100.5 * MIB,
    providers: tuple[ProviderSpec, ...] = (),
    host: Host | None = HOST,
    sessions: int = 1,
    callers: int = 1,
    name: str = "net.onnx",
    custom_ops: tuple[str, ...] = (),
    **changes: Any,
) -> dict[str, str]:
    """The files for a model; they are what ``write_bundle`` writes."""
    plan = portable(Plan(settings=settings or {}, providers=providers))
    info = BundleInfo(
        schema="ortune/bundle/1", model=name, sha256="", plan=plan, applied=resolve(plan), host=host,
        ort_version="1.31.1", **changes,
    )  # fmt: skip
    work = Workload(
        cases=(Case(name="only", inputs=()),), sessions=sessions, callers=callers, custom_ops=custom_ops
    )
    return deploy_files(delivered(path, plan, peak), info, work, open_model(path).ir)


def delivered(path: Path, plan: Plan, peak: float | None) -> Delivery:
    """A session's answer whose winner had this peak."""
    found = result_of(path, plan)
    runtime = msgspec.structs.replace(found.side.runtime, python_version="3.12.4", package="onnxruntime")
    figures = msgspec.structs.replace(found.default_figures, peak_bytes=peak, n_trials=9)
    return msgspec.structs.replace(delivery(found), runtime=runtime, figures=figures)


def yaml(text: str) -> Any:
    """The block subset of YAML that is written: mappings, lists of mappings, plain and quoted scalars."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    value, rest = _block([(len(one) - len(one.lstrip()), one.strip()) for one in lines])
    assert rest == []
    if importlib.util.find_spec("yaml"):
        assert importlib.import_module("yaml").safe_load(text) == value
    return value


def _block(lines: list[tuple[int, str]]) -> tuple[Any, list[tuple[int, str]]]:
    depth, first = lines[0]
    if first.startswith("- "):
        items = []
        while lines and lines[0][0] == depth and lines[0][1].startswith("- "):
            item, lines = _block([(depth + 2, lines[0][1][2:]), *lines[1:]])
            items.append(item)
        return items, lines
    mapping: dict[str, Any] = {}
    while lines and lines[0][0] == depth and not lines[0][1].startswith("- "):
        found = re.fullmatch(r'([\w./]+):(?: ("[^"\\]*"|[\w./]+))?', lines[0][1])
        assert found and found[1] not in mapping, lines[0]
        lines = lines[1:]
        if found[2]:
            mapping[found[1]] = found[2].strip('"') if not found[2].isdecimal() else int(found[2])
        else:
            mapping[found[1]], lines = _block(lines)
    return mapping, lines


def pbtxt(text: str) -> dict[str, list[Any]]:
    """Protobuf's text format as a mapping of lists: every field may come again."""
    tokens = re.findall(r'"(?:[^"\\\n]|\\.)*"|[\w.-]+|[{}\[\]:,]|\S', re.sub(r"(?m)^#.*$", "", text))
    value, rest = _message(tokens)
    assert rest == []
    return value


def _message(tokens: list[str]) -> tuple[dict[str, list[Any]], list[str]]:
    fields: dict[str, list[Any]] = {}
    while tokens and tokens[0] != "}":
        name, tokens = tokens[0], tokens[1:]
        assert re.fullmatch(r"[a-z_]+", name), name
        tokens = tokens[tokens[0] == ":" :]
        if tokens[0] == "[":
            tokens = tokens[1:]
            fields.setdefault(name, [])
            while tokens[0] != "]":
                value, tokens = _value(tokens)
                fields[name].append(value)
                tokens = tokens[tokens[0] == "," :]
            tokens = tokens[1:]
        else:
            value, tokens = _value(tokens)
            fields.setdefault(name, []).append(value)
    return fields, tokens


def _value(tokens: list[str]) -> tuple[Any, list[str]]:
    if tokens[0] == "{":
        value, rest = _message(tokens[1:])
        assert rest[0] == "}"
        return value, rest[1:]
    assert re.fullmatch(r'"[^\n]*"|-?\d+|[A-Z][A-Z0-9_]*', tokens[0]), tokens[0]
    number = re.fullmatch(r"-?\d+", tokens[0])
    return int(tokens[0]) if number else tokens[0].strip('"'), tokens[1:]


def container(text: str) -> dict[str, Any]:
    """The one container of a Deployment."""
    document = yaml(text)
    assert (document["apiVersion"], document["kind"]) == ("apps/v1", "Deployment")
    template = document["spec"]["template"]
    assert template["metadata"]["labels"] == document["spec"]["selector"]["matchLabels"]
    (found,) = template["spec"]["containers"]
    return dict(found)


def test_requests_come_from_what_was_measured(tmp_path: Path) -> None:
    text = made(matmul(tmp_path / "net.onnx"), {"intra_op_num_threads": 4, "disable_flash_attention": True})[
        "deploy/k8s.yaml"
    ]
    found = container(text)
    asked = {"cpu": 4, "memory": "126Mi"}  # 100.5 MiB and a quarter, rounded up
    assert found["resources"] == {"requests": asked, "limits": asked}
    assert "measured peak 101 MiB (median of 9 processes" in text and "25% headroom" in text
    assert found["env"] == [{"name": "ORT_DISABLE_FLASH_ATTENTION", "value": "1"}]


def test_what_was_not_measured_is_not_invented(tmp_path: Path) -> None:
    text = made(matmul(tmp_path / "net.onnx"), peak=None, host=None)["deploy/k8s.yaml"]
    assert "resources" not in container(text) and "env" not in container(text)
    assert "Memory: no request" in text and "CPUs: no request" in text


@pytest.mark.parametrize(
    ("settings", "sessions", "callers", "expected"),
    [
        ({}, 1, 1, 8),
        ({"intra_op_num_threads": 4}, 1, 1, 4),
        ({"intra_op_num_threads": 2}, 3, 1, 6),
        ({"intra_op_num_threads": 1}, 1, 5, 5),
        ({"intra_op_num_threads": 4}, 4, 1, 8),
        ({"intra_op_num_threads": 0}, 1, 1, 8),
        ({"global_thread_pool": 3}, 2, 1, 4),
        ({"ort_intra_op_num_threads": 3}, 1, 1, 3),
        ({"intra_op_num_threads": 2, "inter_op_num_threads": 3, "execution_mode": "parallel"}, 1, 1, 4),
    ],
)
def test_cpus_are_those_that_the_threads_keep_busy(
    settings: dict[str, Value], sessions: int, callers: int, expected: int
) -> None:
    plan = portable(Plan(settings=settings))
    info = BundleInfo(schema="", model="m.onnx", sha256="", plan=plan, applied=resolve(plan), host=HOST)
    work = Workload(cases=(), sessions=sessions, callers=callers)
    assert cpus(info, work) == expected


def test_memory_is_the_winners(tmp_path: Path) -> None:
    found = delivered(matmul(tmp_path / "net.onnx"), Plan(), 64 * MIB)
    assert memory_mib(found) == (64, 80)
    assert memory_mib(delivered(matmul(tmp_path / "other.onnx"), Plan(), None)) is None


def test_variables(tmp_path: Path) -> None:
    files = made(
        matmul(tmp_path / "net.onnx"),
        {
            "ort_intra_op_num_threads": 2,
            "malloc_huge_pages": "thp",
            "allocator": "jemalloc",
            "process_affinity": "0,2",
        },
    )
    lines = [line for line in files["deploy/env"].splitlines() if not line.startswith("#")]
    assert lines == ["GLIBC_TUNABLES=glibc.malloc.hugetlb=1", "ORT_INTRA_OP_NUM_THREADS=2"]
    assert "taskset -c 0,2" in files["deploy/env"] and "libjemalloc" in files["deploy/env"]
    docker = files["deploy/Dockerfile"].splitlines()
    assert {
        "FROM python:3.12-slim",
        "RUN pip install --no-cache-dir onnxruntime==1.31.1",
        "COPY . /model",
    } <= set(docker)
    assert {"ENV ORT_INTRA_OP_NUM_THREADS=2", "ENV LD_PRELOAD=/usr/local/lib/libjemalloc.so"} <= set(docker)
    assert docker[-1] == 'CMD ["python", "/model/load.py"]'
    given = {one["name"]: one["value"] for one in container(files["deploy/k8s.yaml"])["env"]}
    assert given["LD_PRELOAD"] == "/usr/local/lib/libjemalloc.so"
    facts(files["deploy/k8s.yaml"], "# LD_PRELOAD", "your image needs")


def test_each_line_of_the_dockerfile_is_an_instruction(tmp_path: Path) -> None:
    text = made(matmul(tmp_path / "net.onnx"), {"allocator": "tcmalloc", "disable_flash_attention": True})[
        "deploy/Dockerfile"
    ]
    logical = re.sub(r"\\\n\s*", "", text).splitlines()
    assert all(re.match(r"#|(ARG|FROM|RUN|ENV|COPY|CMD) \S", line) for line in logical)
    shell = shutil.which("sh")
    assert shell
    for line in logical:
        if line.startswith("RUN "):
            assert subprocess.run([shell, "-n", "-c", line[4:]], timeout=20, check=False).returncode == 0


@pytest.mark.parametrize("allocator", PACKAGES)
def test_the_images_allocator_is_what_every_language_looks_for(tmp_path: Path, allocator: str) -> None:
    files = made(matmul(tmp_path / "net.onnx"), {"allocator": allocator})
    link = re.search(r"ENV LD_PRELOAD=(.*)", files["deploy/Dockerfile"])
    assert link and f'head -n 1)" {link[1]}' in files["deploy/Dockerfile"]
    assert allocator in link[1]  # C++, C#, Java, Kotlin and Rust
    real = tmp_path / f"lib{allocator}.so.2"
    real.write_bytes(b"library")
    own = tmp_path / Path(link[1]).name
    own.symlink_to(real)
    assert is_preloaded(str(real), f"/other.so:{own}")  # Python, and Node does the same
    assert not is_preloaded(str(real), "/other.so") and not is_preloaded(str(real), "")


def test_the_check_is_a_job_and_the_deployment_says_that_it_needs_a_program(tmp_path: Path) -> None:
    files = made(matmul(tmp_path / "net.onnx"), {"intra_op_num_threads": 2, "disable_flash_attention": True})
    job = yaml(files["deploy/k8s-check.yaml"])
    assert (job["apiVersion"], job["kind"], job["spec"]["backoffLimit"]) == ("batch/v1", "Job", 0)
    pod = job["spec"]["template"]["spec"]
    # The image ends when it is through; what a Deployment runs must not.
    assert pod["restartPolicy"] == "Never" and pod["containers"] == [container(files["deploy/k8s.yaml"])]
    assert "YOUR program" in files["deploy/k8s.yaml"] and "k8s-check.yaml" in files["deploy/k8s.yaml"]


def test_a_gpu_is_asked_for_and_its_libraries_are_not_promised(tmp_path: Path) -> None:
    gpu = (ProviderSpec(name="CUDAExecutionProvider"),)
    files = made(matmul(tmp_path / "net.onnx"), providers=gpu)
    assert container(files["deploy/k8s.yaml"])["resources"]["limits"]["nvidia.com/gpu"] == 1
    docker = files["deploy/Dockerfile"]
    # Without --build-arg BASE the build ends with an error, not with an image that runs on the CPU.
    assert "\nARG BASE\nFROM ${BASE}\n" in docker and "Not covered: CUDA" in docker
    assert "nvidia" not in made(matmul(tmp_path / "net.onnx"))["deploy/k8s.yaml"]


def test_a_value_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    plan = Plan(settings={"malloc_huge_pages": "thp"})
    applied = tuple(msgspec.structs.replace(s, value="two words") for s in resolve(plan))
    info = BundleInfo(schema="", model="m.onnx", sha256="", plan=plan, applied=applied, host=HOST)
    model = matmul(tmp_path / "net.onnx")
    with pytest.raises(UsageError, match="GLIBC_TUNABLES='two words'"):
        deploy_files(delivered(model, plan, None), info, Workload(cases=()), open_model(model).ir)


def test_triton(tmp_path: Path) -> None:
    text = made(
        matmul(tmp_path / "net.onnx"),
        {
            "intra_op_num_threads": 4, "execution_mode": "parallel", "graph_optimization_level": "extended",
            "enable_cpu_mem_arena": False, "allow_spinning": False,
        },
        providers=(ProviderSpec(name="OpenVINOExecutionProvider", options={"device_type": "CPU"}),),
        custom_ops=("custom_ops/0-mine.so",),
    )["deploy/config.pbtxt"]  # fmt: skip
    found = pbtxt(text)
    assert found["backend"] == ["onnxruntime"] and found["default_model_filename"] == ["net.onnx"]
    assert found["max_batch_size"] == [0]
    assert found["input"] == [{"name": ["x"], "data_type": ["TYPE_FP32"], "dims": [-1, 64]}]
    assert [one["name"] for one in found["output"]] == [["y"]]
    parameters = {one["key"][0]: one["value"][0]["string_value"][0] for one in found["parameters"]}
    assert parameters == {"intra_op_thread_count": "4", "execution_mode": "1", "enable_mem_arena": "0"}
    (optimization,) = found["optimization"]
    assert optimization["graph"] == [{"level": [1]}]
    assert optimization["execution_accelerators"] == [{"cpu_execution_accelerator": [{"name": ["openvino"]}]}]
    assert found["instance_group"] == [{"count": [1], "kind": ["KIND_CPU"]}]
    assert found["model_operations"] == [{"op_library_filename": ["0-mine.so"]}]
    assert "# Triton cannot set: allow_spinning=0" in text
    assert "# Triton cannot set: options of OpenVINOExecutionProvider" in text


def test_triton_keeps_its_arena_where_the_allocator_that_makes_it_pay_is_not_in_its_process(
    tmp_path: Path,
) -> None:
    settings: dict[str, Value] = {"allocator": "mimalloc", "enable_cpu_mem_arena": False}
    text = made(matmul(tmp_path / "net.onnx"), settings)["deploy/config.pbtxt"]
    assert "parameters" not in pbtxt(text)
    assert '# parameters { key: "enable_mem_arena" value: { string_value: "0" } }' in text
    facts(text, "# Enable only if", "mimalloc")


def test_triton_takes_tensors_alone(tmp_path: Path) -> None:
    kinds = [
        helper.make_tensor_value_info('a"\\ü', TensorProto.INT64, []),
        helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None),
        helper.make_tensor_value_info("t", TensorProto.STRING, ["n", 2]),
    ]
    nodes = [
        helper.make_node("Identity", ['a"\\ü'], ["y"]),
        helper.make_node("SequenceLength", ["s"], ["n"]),
        helper.make_node("Identity", ["t"], ["u"]),
    ]
    outputs = [
        helper.make_tensor_value_info("y", TensorProto.INT64, []),
        helper.make_tensor_value_info("n", TensorProto.INT64, []),
        helper.make_tensor_value_info("u", TensorProto.STRING, None),
    ]
    path = tmp_path / "net.onnx"
    path.write_bytes(assemble(nodes, kinds, outputs, ir_version=9).SerializeToString())
    text = made(path)["deploy/config.pbtxt"]
    found = pbtxt(text)
    assert [one["name"][0] for one in found["input"]] == ['a\\"\\\\\\303\\274', "t"]
    # Triton has no tensors without dimensions.
    assert found["input"][0]["dims"] == [1] and found["input"][0]["reshape"] == [{"shape": []}]
    assert found["input"][1]["data_type"] == ["TYPE_STRING"]
    facts(text, "input s:", "type")
    facts(text, "output u:", "rank")


def test_names_are_safe_everywhere(tmp_path: Path) -> None:
    name = 'ev"il\n  image: x: \\ 12 é.onnx'
    files = made(matmul(tmp_path / "net.onnx"), name=name, hardware_bound=True)
    assert container(files["deploy/k8s.yaml"])["image"] == "ev-il-image-x-12:latest"
    assert pbtxt(files["deploy/config.pbtxt"])["default_model_filename"] == [
        'ev\\"il\\012  image: x: \\\\ 12 \\303\\251.onnx'
    ]
    facts(files["deploy/config.pbtxt"], "optimised for the CPU")


def test_the_bundle_has_them(tmp_path: Path, make_bundle: Bundle) -> None:
    bundle = make_bundle(
        matmul(tmp_path / "123.onnx"), {"x": np.ones((2, 64), np.float32)}, {"intra_op_num_threads": 1}
    )
    found = container((bundle / "deploy" / "k8s.yaml").read_text())
    assert found["image"] == "123:latest" and found["resources"]["limits"] == {"cpu": 1}
    config = pbtxt((bundle / "deploy" / "config.pbtxt").read_text())
    assert config["default_model_filename"] == ["123.onnx"]
    assert ir.load(bundle / "123.onnx").graph.inputs[0].name == config["input"][0]["name"][0]
