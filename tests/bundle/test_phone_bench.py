"""Benches for phones: Java that compiles and runs against signatures, and what it sends back is what ortune reads."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import phone_stubs
import pytest
from api_calls import TYPES
from compiling import needs, run

from facts import facts
from ortune.bundle import phone
from ortune.records import Matrix, MatrixEntry, MatrixInput
from ortune.verbs.compare.phone_result import PhoneResult
from within import program

NAME = 'mo"del \\ü.onnx'


def matrix(*providers: str) -> Matrix:
    entries = tuple(
        MatrixEntry(name=f"{name}-file", file=f"{name}.ort", provider=name, level="basic", sha256="0")
        for name in providers
    )
    inputs = (
        MatrixInput(name="x", file="input-0.bin", type="FLOAT", shape=(1, 2)),
        MatrixInput(name="n", file="input-1.bin", type="INT64", shape=()),
    )
    return Matrix(id="ab", model=NAME, place=providers[-1], entries=entries, inputs=inputs)


def written(folder: Path, providers: Sequence[str]) -> Matrix:
    made = matrix(*providers)
    for name, text in phone.benches(made, "1.31.0"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    assets = folder / phone.SETS
    assets.mkdir(parents=True)
    for entry in made.entries:
        (assets / entry.file).write_bytes(b"model")
    for value in made.inputs:
        (assets / value.file).write_bytes(np.zeros(2, np.int64).tobytes())
    return made


def test_the_android_bench_runs_and_its_result_is_read(tmp_path: Path) -> None:
    compiler, machine = needs("javac"), needs("java")
    made = written(tmp_path, ["cpu", "nnapi", "qnn"])
    sources = sorted((tmp_path / phone.SOURCES).glob("*.java"))
    assert [source.name for source in sources] == [
        "Bench.java", "Matrix.java", "OrtEngine.java", "PhoneTest.java",
    ]  # fmt: skip
    # What must be as on a phone is the code; what takes time there is made short.
    bench = sources[0]
    text = bench.read_text()
    bench.write_text(text.replace("BLOCKS = 14", "BLOCKS = 3").replace("0_000_000L", "0_000L"))
    stubs = phone_stubs.write(tmp_path / "stubs")
    words = (compiler, "--release", "11", "-encoding", "UTF-8", "-Xlint:all,-options,-try,-serial", "-Werror")
    assert run(*words, "-d", tmp_path / "classes", *sources, *stubs) == ""
    place = tmp_path / "files"
    place.mkdir()
    subprocess.run(
        [machine, "-cp", tmp_path / "classes", "Main", place, tmp_path / phone.SETS], check=True, timeout=60
    )
    result = msgspec.json.decode((place / "phone.json").read_bytes(), type=PhoneResult)
    assert result.matrix == made
    assert result.device == 'Acme Nine "ü", Android 15' and result.ort_version == "1.31.0"
    assert [bool(entry.error) for entry in result.entries] == [False, False, True]
    (output,) = result.entries[1].outputs
    assert (output.name, output.type, output.shape) == ("y", "FLOAT", (2,))
    assert np.frombuffer(output.data, np.float32).tolist() == [1.5, -2.0]
    assert len(result.blocks) == 3
    for block in result.blocks:
        assert block.thermal == 1
        arms = sorted((trial.entry, trial.identical) for trial in block.trials)
        assert arms == [("cpu-file", False), ("cpu-file", True), ("nnapi-file", False)]
        for trial in block.trials:
            assert len(trial.turn_runs) == 6 and sum(trial.turn_runs) == len(trial.latency_ns)
            assert trial.warmup_runs >= 3 and min(trial.latency_ns) >= 0
    code, told, said = program(["compare", str(place / "phone.json"), "--json"])
    if code == 0:  # three short blocks of a busy machine may fail the A/A check, which is then what is said
        read = json.loads(told)["result"]
        assert (read["base"]["label"], read["new"]["label"]) == ("cpu-file", "nnapi-file")
        assert any("qnn-file" in note for note in read["notes"])
    else:
        assert code == 3
        facts(" ".join(said.split()), "two sessions", "cpu-file", "differ")


def test_the_gradle_project_is_whole(tmp_path: Path) -> None:
    files = dict(phone.benches(matrix("cpu", "qnn"), "1.31.0"))
    assert "namespace 'ortune.bench'" in files["android/build.gradle"]
    assert "useAndroidX=true" in files["android/gradle.properties"]
    assert "libcdsprpc.so" in files[f"{phone.TESTS}/AndroidManifest.xml"]
    assert "apple/Bench.swift" not in files


@pytest.mark.parametrize(
    ("provider", "written_by", "dependency"),
    [
        ("nnapi", "1.31.0", "onnxruntime-android:1.31.0"),
        ("nnapi", "1.24.4", "onnxruntime-android:[1.24.3,1.24.4]"),
        ("nnapi", "1.17.1", "onnxruntime-android:1.18.0"),
        ("nnapi", "1.99.0", "onnxruntime-android:[1.31.0,1.99.0]"),
        ("qnn", "1.29.0", "onnxruntime-android-qnn:1.29.0"),
        ("qnn", "1.32.0", "onnxruntime-android-qnn:[1.29.0,1.32.0]"),
        ("qnn", "1.33.0.dev20261101", "onnxruntime-android-qnn:[1.29.0,1.33.0]"),
        ("qnn", "1.19.2", "onnxruntime-android-qnn:1.20.0"),
    ],
)
def test_gradle_is_given_a_package_that_exists(provider: str, written_by: str, dependency: str) -> None:
    """Not every release of ONNX Runtime is on Maven Central: of a range, Gradle takes the newest that is."""
    files = dict(phone.benches(matrix("cpu", provider), written_by))
    gradle = files["android/build.gradle"]
    assert f"androidTestImplementation 'com.microsoft.onnxruntime:{dependency}'" in gradle
    assert f"onnxruntime {written_by}" in gradle and f"onnxruntime {written_by}" in files["android/README.md"]


def test_gradlew_runs_the_pinned_gradle_and_no_other(tmp_path: Path) -> None:
    """The script runs what the properties pin: here a distribution whose gradle prints its words."""
    needs("curl")
    needs("unzip")
    written(tmp_path, ["cpu", "nnapi"])
    distribution = tmp_path / "gradle-8.9-bin.zip"
    with zipfile.ZipFile(distribution, "w") as file:
        file.writestr("gradle-8.9/bin/gradle", '#!/bin/sh\necho "$(basename "$PWD")" "$@"\n')
    properties = tmp_path / "android/gradle/wrapper/gradle-wrapper.properties"
    text = properties.read_text()
    assert re.search(r"^distributionUrl=https\\://services\.gradle\.org/\S+-bin\.zip$", text, re.M)
    (pinned,) = re.findall(r"^distributionSha256Sum=([0-9a-f]{64})$", text, re.M)
    text = re.sub(r"(?m)^distributionUrl=.*$", lambda _: f"distributionUrl={distribution.as_uri()}", text)
    properties.write_text(text)
    command = ["sh", tmp_path / "android/gradlew", "connectedAndroidTest"]
    own = {**os.environ, "GRADLE_USER_HOME": str(tmp_path / "home")}
    refused = subprocess.run(command, env=own, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1 and "nothing was run" in refused.stderr and not refused.stdout
    digest = hashlib.sha256(distribution.read_bytes()).hexdigest()
    properties.write_text(text.replace(pinned, digest))
    for _ in range(2):  # the second time without a download
        done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout == "android connectedAndroidTest\n"
        distribution.unlink(missing_ok=True)


def test_the_swift_bench_calls_what_there_is(tmp_path: Path) -> None:
    files = dict(phone.benches(matrix("cpu", "coreml"), "1.31.0"))
    assert set(files) == {"apple/Bench.swift"}
    text = files["apple/Bench.swift"]
    manifest = "".join(re.findall(r'^        "([A-Za-z0-9+/=]+)",$', text, re.M))
    assert msgspec.json.decode(base64.b64decode(manifest), type=Matrix) == matrix("cpu", "coreml")
    code = re.sub(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"', '""', text)
    for left, right in ("()", "[]", "{}"):
        assert code.count(left) == code.count(right)
    known = {**TYPES["swift"], **phone_stubs.SWIFT}
    used = set(re.findall(r"\b(ORT[A-Z]\w+)", code)) - {"ORTVersion"}
    assert used <= set(known), used - set(known)
    for call in ("addConfigEntry(", "setIntraOpNumThreads("):
        assert call not in code
    for type_, member in [
        ("ORTEnv", "init(loggingLevel:)"),
        ("ORTSession", "init(env:modelPath:sessionOptions:)"),
        ("ORTSession", "run(withInputs:outputNames:runOptions:)"),
        ("ORTSession", "outputNames()"),
        ("ORTSessionOptions", "appendExecutionProvider(_:providerOptions:)"),
        ("ORTValue", "init(tensorData:elementType:shape:)"),
    ]:
        assert member in known[type_]
        labels = [label for label in re.findall(r"(\w+):", member) if label != "_"]
        name = type_ if member.startswith("init") else f".{member.partition('(')[0]}"
        assert re.search(
            re.escape(name) + r"\([^)]*" + r"[^)]*".join(f"{label}:" for label in labels), code
        ), member


def test_a_model_that_swift_cannot_feed_has_no_swift_bench() -> None:
    made = msgspec.structs.replace(
        matrix("cpu", "xnnpack"),
        inputs=(MatrixInput(name="x", file="i.bin", type="FLOAT16", shape=(1,)),),
    )
    names = [name for name, _ in phone.benches(made, "1.31.0")]
    assert "apple/Bench.swift" not in names and f"{phone.SOURCES}/Bench.java" in names


@pytest.mark.parametrize("name", ["\u202e", '"; evil(); "', "evil\nmind", "\\u0022evil"])
def test_names_from_a_model_end_no_literal(name: str) -> None:
    made = msgspec.structs.replace(
        matrix("cpu", "xnnpack"), inputs=(MatrixInput(name=name, file="i.bin", type="FLOAT", shape=(1,)),)
    )
    for _, text in phone.benches(made, "1.31.0"):
        assert name not in text.replace("\\\\", "")
