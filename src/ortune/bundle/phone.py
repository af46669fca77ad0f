"""Benchmarks for phones: a Gradle project for Android and a Swift file, which time the models of a set."""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Iterator

import msgspec

from ortune.bundle.languages import java, swift
from ortune.bundle.languages._templates import templates
from ortune.catalogue.providers import COREML, CPU, NNAPI, QNN, XNNPACK
from ortune.catalogue.versions import parse_version
from ortune.records import Matrix

TESTS = "android/src/androidTest"
SOURCES = f"{TESTS}/java/ortune/bench"
SETS = f"{TESTS}/assets"
"""Folder of the models for Android."""

APPLE = (COREML.target, XNNPACK.target, CPU.target)
ANDROID = (NNAPI.target, XNNPACK.target, QNN.target, CPU.target)
_PLAIN = "com.microsoft.onnxruntime:onnxruntime-android"
_WITH_QNN = "com.microsoft.onnxruntime:onnxruntime-android-qnn"
_PUBLISHED = {
    _PLAIN: (
        "1.18.0", "1.19.0", "1.19.2", "1.20.0", "1.21.0", "1.21.1", "1.22.0", "1.23.0", "1.23.1", "1.23.2", "1.24.2",
        "1.24.3", "1.25.0", "1.25.1", "1.26.0", "1.27.0", "1.29.0", "1.30.0", "1.31.0",
    ),
    _WITH_QNN: (
        "1.20.0", "1.21.0", "1.21.1", "1.22.0", "1.23.0", "1.23.1", "1.23.2", "1.24.1", "1.24.2", "1.24.3", "1.25.0",
        "1.25.1", "1.26.0", "1.27.0", "1.28.0", "1.29.0",
    ),
}  # fmt: skip
"""Releases on Maven Central, by package. Not every release of ONNX Runtime is there: 1.24.4 has no Android package."""
_SWIFT_KINDS = {
    "FLOAT": ".float", "INT8": ".int8", "UINT8": ".uInt8", "INT32": ".int32", "INT64": ".int64",
}  # fmt: skip
"""Swift's names of the element types that both bindings support, keyed by Java's names."""
_LINE = 96

# Gradle packs the models in memory, with a default limit of 512 MiB.
_PROPERTIES = "android.useAndroidX=true\norg.gradle.jvmargs=-Xmx4g\n"
GRADLEW = "android/gradlew"
"""Path of the only file that must be executable."""
_GRADLE, _GRADLE_SHA256 = "8.9", "d725d707bfabd4dfdc958c624003b3c80accc03f7037b5122c4b1d0ef15cecab"
_WRAPPER = f"""distributionBase=GRADLE_USER_HOME
distributionPath=wrapper/dists
distributionUrl=https\\://services.gradle.org/distributions/gradle-{_GRADLE}-bin.zip
distributionSha256Sum={_GRADLE_SHA256}
zipStoreBase=GRADLE_USER_HOME
zipStorePath=wrapper/dists
"""
_MANIFEST = '<manifest xmlns:android="http://schemas.android.com/apk/res/android" />\n'
_TEST_MANIFEST = """<manifest xmlns:android="http://schemas.android.com/apk/res/android">
    <application>
        <!-- Access to Qualcomm's NPU. -->
        <uses-native-library android:name="libcdsprpc.so" android:required="false" />
    </application>
</manifest>
"""


def benches(matrix: Matrix, ort_version: str) -> Iterator[tuple[str, str]]:
    """Yield the files of the benchmarks as (path in the set's folder, text).

    Args:
        matrix: The set.
        ort_version: The ONNX Runtime release that wrote the models.
    """
    used = {entry.provider for entry in matrix.entries}
    manifest = textwrap.wrap(base64.b64encode(msgspec.json.encode(matrix)).decode(), _LINE)
    env = templates()
    if used <= {*ANDROID}:
        names = ("Bench.java", "Matrix.java", "OrtEngine.java", "PhoneTest.java")
        for name in names:
            text = env.get_template(f"phone/{name}.j2")
            yield (
                f"{SOURCES}/{name}",
                text.render(matrix=matrix, manifest=manifest, q=java.LANGUAGE.quote),
            )
        package = _WITH_QNN if QNN.target in used else _PLAIN
        release = _release(package, ort_version)
        gradle = env.get_template("phone/build.gradle.j2").render(
            package=f"{package}:{release}", written_by=ort_version
        )
        yield "android/build.gradle", gradle
        yield "android/settings.gradle", env.get_template("phone/settings.gradle.j2").render()
        yield "android/gradle.properties", _PROPERTIES
        yield "android/gradle/wrapper/gradle-wrapper.properties", _WRAPPER
        yield GRADLEW, env.get_template("phone/gradlew.j2").render()
        yield "android/README.md", env.get_template("phone/README.md.j2").render(written_by=ort_version)
        yield "android/src/main/AndroidManifest.xml", _MANIFEST
        yield f"{TESTS}/AndroidManifest.xml", _TEST_MANIFEST
    if used <= {*APPLE} and all(value.type in _SWIFT_KINDS for value in matrix.inputs):
        swift_text = env.get_template("phone/Bench.swift.j2")
        yield (
            "apple/Bench.swift",
            swift_text.render(matrix=matrix, manifest=manifest, q=swift.LANGUAGE.quote, kinds=_SWIFT_KINDS),
        )


def _release(package: str, ort_version: str) -> str:
    """Return the package release to build with: the one that wrote the models, or else the newest earlier one.

    If ``ort_version`` is newer than all known releases, the result is a version range, in which Gradle finds the newest
    existing release.
    """
    numbers = parse_version(ort_version)
    own = ".".join(map(str, numbers))
    older = [release for release in _PUBLISHED[package] if parse_version(release) <= numbers]
    if not older:
        return _PUBLISHED[package][0]  # newer releases read older files
    return own if older[-1] == own else f"[{older[-1]},{own}]"
