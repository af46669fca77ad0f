"""Records the golden traces of tests/trace/golden again, with the runtimes that wrote them.

    python tools/record_traces.py WORK [NAME...]

WORK is a folder for the runtimes (2 GB when all are there); they come from PyPI and npm, nothing is built. Needs on
PATH: python3.9 (ONNX Runtime 1.10.0 has no wheel for a newer one), python3.11, npm and chromium; for the WebGPU plugin
also libvulkan.so.1 (Debian: libvulkan1; LD_LIBRARY_PATH serves) beside Chromium's software adapter. What is recorded:

    ort-VERSION         a small convolutional net, three runs, two threads, each version's own way of writing it:
                        1.10.0 with graph_index and no shapes, until 1.15.1 with fences, 1.31.1 with
                        the figures of the allocator
    loop-VERSION        a Loop within an If
    parallel-1.31.1     two branches in parallel execution mode
    callers-1.31.1      two threads that run one session at the same time
    truncated-1.31.1    the Loop's file, cut in the middle of an event of the second run
    openvino, qnn       one fused subgraph; QNN on its emulator of the HTP
    webgpu-plugin       onnxruntime-ep-webgpu on SwiftShader
    web-wasm, -native   onnxruntime-web in headless Chromium: its log with the profile (-native: and GPU events)
    web-jsep, -kernels  the JSEP build with [profiling] lines beside the profile, and without it

Traces over 60 kB are compressed. The answers beside them are counted by tests/direct_count.py.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "trace" / "golden"
LARGEST = 60_000
RUNS = 3
WEB = "1.30.0"
ICD = "/usr/lib/chromium/vk_swiftshader_icd.json"


@dataclass(frozen=True)
class Python:
    """A trace from a Python wheel."""

    packages: tuple[str, ...]
    model: str = "cnn"
    python: str = "3.11"
    options: dict[str, object] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Web:
    """A console's log from onnxruntime-web."""

    build: str
    provider: str
    profile: bool = True
    kernels: bool = False


def ort(version: str, model: str = "cnn", python: str = "3.11", **options: object) -> Python:
    numpy = "numpy<2" if version < "1.19" else "numpy"
    return Python((f"onnxruntime=={version}", numpy), model, python, options)


RECORDINGS: dict[str, Python | Web] = {
    "ort-1.10.0": ort("1.10.0", python="3.9"),
    "ort-1.15.1": ort("1.15.1"),
    "ort-1.18.1": ort("1.18.1"),
    "ort-1.24.4": ort("1.24.4"),
    "ort-1.31.1": ort("1.31.1"),
    "loop-1.15.1": ort("1.15.1", "loop"),
    "loop-1.31.1": ort("1.31.1", "loop"),
    "parallel-1.31.1": ort("1.31.1", "branches", parallel=True),
    "callers-1.31.1": ort("1.31.1", callers=2),
    "openvino-1.24.1": Python(
        ("onnxruntime-openvino==1.24.1",), options={"providers": ["OpenVINOExecutionProvider"]}
    ),
    "webgpu-plugin-0.4.0": Python(
        ("onnxruntime==1.31.1", "onnxruntime-ep-webgpu==0.4.0"),
        options={"plugin": "onnxruntime_ep_webgpu"},
        env={"VK_ICD_FILENAMES": ICD, "ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER": "1"},
    ),
    "qnn-2.7.0": Python(
        ("onnxruntime==1.31.1", "onnxruntime-qnn==2.7.0"), options={"plugin": "onnxruntime_qnn"}
    ),
    "web-wasm-1.30.0": Web("ort.wasm.min.js", "wasm"),
    "web-native-1.30.0": Web("ort.webgpu.min.js", "webgpu"),
    "web-jsep-1.30.0": Web("ort.min.js", "webgpu", kernels=True),
    "web-kernels-1.30.0": Web("ort.min.js", "webgpu", profile=False, kernels=True),
}
TRUNCATED = ("truncated-1.31.1", "loop-1.31.1")

PAGE = """<!doctype html><script src="/dist/%(build)s"></script><script>
(async () => {
  ort.env.wasm.numThreads = 1;
  if (%(kernels)s) ort.env.webgpu.profiling = {mode: 'default'};
  const session = await ort.InferenceSession.create('/cnn.onnx',
    {executionProviders: ['%(provider)s'], enableProfiling: %(profile)s, logSeverityLevel: 3});
  for (let i = 0; i < %(runs)d; i++) {
    await session.run({x: new ort.Tensor('float32', new Float32Array(3 * 32 * 32).fill(1), [1, 3, 32, 32])});
  }
  await new Promise(done => setTimeout(done, 1000));
  if (%(profile)s) session.endProfiling();
  console.log('all runs are over');
})().then(() => fetch('/over')).catch(error => fetch('/over?' + encodeURIComponent(error)));
</script>"""


def models(folder: Path) -> dict[str, Path]:
    """Writes the models that are run."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    info = helper.make_tensor_value_info

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array((0.1 * random.standard_normal(shape)).astype(np.float32), name)

    def conv(name: str, x: str, w: str, y: str, stride: int = 1) -> onnx.NodeProto:
        return helper.make_node(
            "Conv", [x, w, f"{w}b"], [y], name=name, kernel_shape=[3, 3], pads=[1] * 4,
            strides=[stride] * 2, dilations=[1, 1],
        )  # fmt: skip

    def save(name: str, nodes: list[onnx.NodeProto], y: list[int], weights: list[onnx.TensorProto]) -> None:
        x = info("x", TensorProto.FLOAT, [1, 3, 32, 32])
        graph = helper.make_graph(nodes, name, [x], [info("y", TensorProto.FLOAT, y)], weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
        onnx.checker.check_model(model)
        onnx.save(model, folder / f"{name}.onnx")

    first = [weight("w", 16, 3, 3, 3), weight("wb", 16)]
    save(
        "cnn",
        [
            conv("/stem/conv/Conv", "x", "w", "c"),
            helper.make_node("Relu", ["c"], ["r"], name="/stem/act/Relu"),
            conv("/body/conv/Conv", "r", "v", "d", stride=2),
            helper.make_node("Sigmoid", ["d"], ["s"], name="/body/gate/Sigmoid"),
            helper.make_node("Mul", ["d", "s"], ["m"], name="/body/gate/Mul"),
            helper.make_node("GlobalAveragePool", ["m"], ["g"], name="/head/pool/GlobalAveragePool"),
            helper.make_node("Flatten", ["g"], ["f"], name="/head/Flatten"),
            helper.make_node("Gemm", ["f", "u", "ub"], ["z"], name="/head/fc/Gemm"),
            helper.make_node("Softmax", ["z"], ["y"], name="/head/Softmax", axis=1),
        ],
        [1, 10],
        [*first, weight("v", 32, 16, 3, 3), weight("vb", 32), weight("u", 32, 10), weight("ub", 10)],
    )
    branch = [node for i in "ab" for node in (
        conv(f"/{i}/Conv", "x", "w", f"c{i}"), helper.make_node("Tanh", [f"c{i}"], [f"t{i}"], name=f"/{i}/Tanh"),
        helper.make_node("Erf", [f"t{i}"], [f"e{i}"], name=f"/{i}/Erf"),
    )]  # fmt: skip
    # Not equal, or one would be taken for the other.
    branch[3].input[1:] = ["v", "vb"]
    join = helper.make_node("Add", ["ea", "eb"], ["y"], name="/join/Add")
    second = [weight("v", 16, 3, 3, 3), weight("vb", 16)]
    save("branches", [*branch, join], [1, 16, 32, 32], [*first, *second])

    flat = info("s", TensorProto.FLOAT, None)
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["s", "q"], ["t"], name="/loop/MatMul"),
            helper.make_node("Identity", ["k"], ["k2"], name="/loop/Identity"),
        ],
        "body",
        [info("i", TensorProto.INT64, []), info("k", TensorProto.BOOL, []), flat],
        [info("k2", TensorProto.BOOL, []), info("t", TensorProto.FLOAT, None)],
    )
    loop = helper.make_node("Loop", ["turns", "yes", "x"], ["l"], name="/if/Loop", body=body)
    then = helper.make_graph([loop], "then", [], [info("l", TensorProto.FLOAT, [1, 3, 32, 32])])
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["n"], name="/if/Neg")],
        "else",
        [],
        [info("n", TensorProto.FLOAT, [1, 3, 32, 32])],
    )
    save(
        "loop",
        [
            helper.make_node("ReduceMax", ["x"], ["top"], name="/ReduceMax", keepdims=0),
            helper.make_node("Greater", ["top", "zero"], ["yet"], name="/Greater"),
            helper.make_node("If", ["yet"], ["o"], name="/If", then_branch=then, else_branch=other),
            helper.make_node("Sin", ["o"], ["y"], name="/Sin"),
        ],
        [1, 3, 32, 32],
        [
            weight("q", 32, 32),
            numpy_helper.from_array(np.array(4), "turns"),
            numpy_helper.from_array(np.array(True), "yes"),
            numpy_helper.from_array(np.float32(0), "zero"),
        ],
    )
    return {name: folder / f"{name}.onnx" for name in ("cnn", "branches", "loop")}


def run_here(model: str, prefix: str, options: dict[str, object]) -> None:
    """Profiles three runs in this interpreter; the file's name is the last line of what is printed."""
    import numpy as np
    import onnxruntime as ort

    asked = ort.SessionOptions()
    asked.enable_profiling = True
    asked.profile_file_prefix = prefix
    asked.intra_op_num_threads = 2
    providers = [*options.get("providers", []), "CPUExecutionProvider"]  # type: ignore[misc]
    if options.get("parallel"):
        asked.execution_mode = ort.ExecutionMode.ORT_PARALLEL
        asked.inter_op_num_threads = 2
    if plugin := options.get("plugin"):
        library = __import__(str(plugin))
        ort.register_execution_provider_library(library.get_ep_name(), library.get_library_path())
        device = next(d for d in ort.get_ep_devices() if d.ep_name != "CPUExecutionProvider")
        settings = (
            {"backend_path": library.get_qnn_htp_path()} if hasattr(library, "get_qnn_htp_path") else {}
        )
        asked.add_provider_for_devices([device], settings)
    session = ort.InferenceSession(model, asked, **({} if plugin else {"providers": providers}))
    used = session.get_providers()
    assert len(used) == len(providers) + bool(plugin), f"not on its provider but on {used}"
    feeds = {"x": np.ones((1, 3, 32, 32), np.float32)}
    callers = [
        threading.Thread(target=lambda: [session.run(None, feeds) for _ in range(RUNS)])
        for _ in range(options.get("callers", 0))  # type: ignore[call-overload]
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for _ in range(0 if callers else RUNS):
        session.run(None, feeds)
    print(session.end_profiling())


def record_python(work: Path, asked: Python, models: dict[str, Path]) -> bytes:
    """A profile of a wheel in a venv of its own."""
    label = "_".join(package.replace("=", "").replace("<", "") for package in asked.packages)
    python = work / f"venv-{label}" / "bin" / "python"
    if not python.exists():
        subprocess.run([f"python{asked.python}", "-m", "venv", python.parent.parent], check=True)
        subprocess.run([python, "-m", "pip", "-q", "install", *asked.packages], check=True)
    with tempfile.TemporaryDirectory() as folder:
        what = json.dumps([str(models[asked.model]), str(Path(folder) / "profile"), asked.options])
        done = subprocess.run(
            [python, __file__, "--run-here", what],
            env={**os.environ, **asked.env},
            check=True,
            stdout=subprocess.PIPE,
        )
        return Path(done.stdout.decode().strip().splitlines()[-1]).read_bytes()


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the page, the model and the package, isolated as onnxruntime-web wants it."""

    page = b""
    over: threading.Event
    error = ""

    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def do_GET(self) -> None:
        if self.path.startswith(("/page", "/over")):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(type(self).page)
            if self.path.startswith("/over"):
                type(self).error = self.path.partition("?")[2]
                type(self).over.set()
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


def record_web(work: Path, asked: Web, models: dict[str, Path]) -> bytes:
    """The console's log, as Chromium writes it to its standard error."""
    package = work / f"web-{WEB}"
    root = package / "node_modules" / "onnxruntime-web"
    if not root.exists():
        package.mkdir(parents=True, exist_ok=True)
        npm = ["npm", "install", "--ignore-scripts", "--prefix", package, f"onnxruntime-web@{WEB}"]
        subprocess.run(npm, check=True)
    shutil.copy(models["cnn"], root / "cnn.onnx")
    values = {
        "build": asked.build,
        "provider": asked.provider,
        "runs": RUNS,
        "profile": json.dumps(asked.profile),
        "kernels": json.dumps(asked.kernels),
    }
    handler = type("Handler", (_Handler,), {"page": (PAGE % values).encode(), "over": threading.Event()})
    served = functools.partial(handler, directory=str(root))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), served)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder, server, tempfile.TemporaryFile() as log:
        flags = [
            "--headless", "--no-sandbox", "--no-first-run", "--disable-background-networking", "--disable-sync",
            "--disable-component-update", "--enable-unsafe-webgpu", "--enable-logging=stderr",
            f"--user-data-dir={folder}", f"http://127.0.0.1:{server.server_port}/page",
        ]  # fmt: skip
        browser = subprocess.Popen(["chromium", *flags], stderr=log, stdout=subprocess.DEVNULL)
        try:
            assert handler.over.wait(180), "the page did not finish"
            assert not handler.error, handler.error
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()
        log.seek(0)
        return b"".join(line for line in log if b"CONSOLE" in line)


def write(name: str, data: bytes) -> None:
    """The trace, and the answers counted from it."""
    sys.path.insert(0, str(ROOT / "tests"))
    from direct_count import answers

    for old in GOLDEN.glob(f"{name}.*"):
        old.unlink()
    GOLDEN.mkdir(parents=True, exist_ok=True)
    end = ".log" if name.startswith("web-") else ".json"
    if len(data) > LARGEST:
        (GOLDEN / f"{name}{end}.gz").write_bytes(gzip.compress(data, mtime=0))
    else:
        (GOLDEN / f"{name}{end}").write_bytes(data)
    (GOLDEN / f"{name}.answers.json").write_text(json.dumps(answers(data), indent=1, sort_keys=True) + "\n")
    print(f"{name}: {len(data):,} bytes")


def main() -> None:
    if sys.argv[1:2] == ["--run-here"]:
        run_here(*json.loads(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path)
    parser.add_argument("names", nargs="*", default=[*RECORDINGS])
    asked = parser.parse_args()
    work = asked.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    made = models(work)
    for name in asked.names:
        what = RECORDINGS[name]
        data = record_web(work, what, made) if isinstance(what, Web) else record_python(work, what, made)
        write(name, data)
        if name == TRUNCATED[1]:
            run = b'"model_run"'
            second = data.index(run, data.index(run) + 1)
            write(TRUNCATED[0], data[: second - 700])


if __name__ == "__main__":
    main()
