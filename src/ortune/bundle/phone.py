"""Benches for phones: a Gradle project for Android and one Swift file, which time the files of a set."""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Iterator

import msgspec

from ortune.bundle.languages import java, swift
from ortune.bundle.languages._source import templates
from ortune.providers import CPU
from ortune.providers.coreml import PROVIDER as COREML
from ortune.providers.nnapi import PROVIDER as NNAPI
from ortune.providers.qnn import PROVIDER as QNN
from ortune.providers.xnnpack import PROVIDER as XNNPACK
from ortune.records import Matrix

TESTS = "android/src/androidTest"
SOURCES = f"{TESTS}/java/ortune/bench"
SETS = f"{TESTS}/assets"
"""Where the files of the set lie for Android."""

APPLE = (COREML.target, XNNPACK.target, CPU.target)
ANDROID = (NNAPI.target, XNNPACK.target, QNN.target, CPU.target)
_PACKAGES = {QNN.target: "com.microsoft.onnxruntime:onnxruntime-android-qnn"}
_PACKAGE = "com.microsoft.onnxruntime:onnxruntime-android"
_SWIFT_KINDS = {
    "FLOAT": ".float", "INT8": ".int8", "UINT8": ".uInt8", "INT32": ".int32", "INT64": ".int64",
}  # fmt: skip
"""Element types that both bindings take, by the name that Java has for them."""
_LINE = 96

# Gradle packs the models in memory, of which it takes 512 MiB by itself.
_PROPERTIES = "android.useAndroidX=true\norg.gradle.jvmargs=-Xmx4g\n"
GRADLEW = "android/gradlew"
"""A script; the other files are read alone."""
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
    """The files of the benches, by their paths in the set's folder.

    Args:
        matrix: The set.
        ort_version: The release that wrote its files.
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
        package = next((_PACKAGES[name] for name in used if name in _PACKAGES), _PACKAGE)
        gradle = env.get_template("phone/build.gradle.j2").render(package=f"{package}:{ort_version}")
        yield "android/build.gradle", gradle
        yield "android/settings.gradle", env.get_template("phone/settings.gradle.j2").render()
        yield "android/gradle.properties", _PROPERTIES
        yield "android/gradle/wrapper/gradle-wrapper.properties", _WRAPPER
        yield GRADLEW, env.get_template("phone/gradlew.j2").render()
        yield "android/README.md", env.get_template("phone/README.md.j2").render()
        yield "android/src/main/AndroidManifest.xml", _MANIFEST
        yield f"{TESTS}/AndroidManifest.xml", _TEST_MANIFEST
    if used <= {*APPLE} and all(value.type in _SWIFT_KINDS for value in matrix.inputs):
        swift_text = env.get_template("phone/Bench.swift.j2")
        yield (
            "apple/Bench.swift",
            swift_text.render(matrix=matrix, manifest=manifest, q=swift.LANGUAGE.quote, kinds=_SWIFT_KINDS),
        )
