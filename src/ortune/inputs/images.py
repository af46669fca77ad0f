"""Reads the JPEG and PNG images of a folder as model inputs, resized and normalized as in training."""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import onnx_ir as ir

from ortune.errors import InputError, UsageError
from ortune.graph.shapes.symbols import Size, feedable, input_sizes
from ortune.inputs import input_folders
from ortune.inputs.feed_files import Array
from ortune.inputs.feeds import MOST_BYTES, numpy_dtype
from ortune.inputs.semantics import dtype_of, element_type

SUFFIXES = (".jpg", ".jpeg", ".png")
EXAMPLE = "size=224,mean=0.485,0.456,0.406,std=0.229,0.224,0.225"
MOST = 500
"""Maximum number of images that are read from a folder; from larger folders a uniform sample is read."""
_COLOURS = {"rgb": 3, "bgr": 3, "gray": 1}
_LAYOUTS = ("nchw", "nhwc")
_FITS = ("crop", "pad", "stretch")
Layout = Literal["nchw", "nhwc"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageInput:
    """Conversion of an image to a model's input; each value is (pixel / scale - mean) / std.

    Attributes:
        name: Name of the input.
        height, width: Size in pixels.
        layout: "nchw" or "nhwc".
        colours: "rgb", "bgr" or "gray".
        fit: "crop" at the centre, "pad" at right and bottom, or "stretch", for images of a different aspect ratio.
        scale: Divisor of the pixel values, which are from 0 to 255.
        mean, std: One number, or one per channel.
        guessed: Names of the options that the user did not set.
    """

    name: str
    height: int
    width: int
    layout: Layout
    colours: str
    fit: str = "crop"
    scale: float = 255.0
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    guessed: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape of the input for one image."""
        sides = (self.height, self.width)
        n = _COLOURS[self.colours]
        return (1, n, *sides) if self.layout == "nchw" else (1, *sides, n)

    def describe(self) -> str:
        """Format the conversion in one line, which marks the guessed options."""
        numbers = f"pixels / {self.scale:g}"
        if any(self.mean):
            numbers += f", mean {_listed(self.mean)}"
        if set(self.std) != {1.0}:
            numbers += f", std {_listed(self.std)}"
        text = f"{self.width}x{self.height} {self.colours} {self.layout}, {self.fit}, {numbers}"
        return f"{text} ({', '.join(self.guessed)} guessed: --image)" if self.guessed else text


def listed(folder: Path, most: int = MOST) -> list[Path]:
    """Return at most ``most`` images of a folder, sorted by name; empty if it has none or has other inputs."""
    if any(folder.glob("*.np[yz]")) or any(folder.glob("*.pb")) or any(folder.glob("test_data_set_*")):
        return []
    found = sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())
    return input_folders.spread(found, most)


def describe(folder: Path, ir_model: ir.Model, text: str, most: int = MOST) -> str:
    """Describe in one line how the images of a folder are read; "" if the folder has none.

    Args:
        folder: The folder.
        ir_model: The model.
        text: The options of ``--image``.
        most: Maximum number of images to read.

    Raises:
        UsageError, InputError: See ``image_input``.
    """
    images = listed(folder, most) if folder.is_dir() else []
    if not images:
        return ""
    there = len(listed(folder, sys.maxsize))
    count = f"{len(images)} of {there}" if there > len(images) else f"{there}"
    return f"{count} images, {image_input(ir_model, text).describe()}"


def load(
    folder: Path, ir_model: ir.Model, text: str, most: int = MOST
) -> list[tuple[Path, dict[str, Array]]]:
    """Read the images of a folder, each as a value of the model's image input; empty if the folder has none.

    Args:
        folder: The folder.
        ir_model: The model.
        text: The options of ``--image``.
        most: Maximum number of images to read.

    Raises:
        UsageError: Pillow is not installed, or the options are invalid.
        InputError: An image cannot be read, the model has no input for images, or the images need too much memory.
    """
    images = listed(folder, most)
    if not images:
        return []
    wanted = image_input(ir_model, text)
    if len(images) * math.prod(wanted.shape) * 4 > MOST_BYTES:
        raise InputError(
            f"{len(images)} images of {wanted.width}x{wanted.height} need more than {MOST_BYTES >> 30} GiB",
            where=str(folder),
            do="pass fewer images, or a smaller --image size=N",
        )
    dtype = np.dtype(numpy_dtype(element_type(_dtype(ir_model, wanted.name))))
    pillow = _pillow()
    return [(image, {wanted.name: _values(pillow, image, wanted, dtype)}) for image in images]


def image_input(ir_model: ir.Model, text: str) -> ImageInput:
    """Return the conversion of images to a model's input, from the options and otherwise from the input's shape.

    Raises:
        UsageError: The options are invalid, or the size is unknown.
        InputError: The model has no input for images, or the number of channels does not fit.
    """
    said = _parse_options(text)
    name, sizes, layout = _place(
        ir_model, said.pop("input", ""), cast("Layout | None", said.pop("layout", None))
    )
    channels, height, width = _parts(sizes, layout)
    guessed = [] if "layout=" in text else ["layout"]
    if "size" in said:
        height, width = _pair(said.pop("size"))
    if height is None or width is None:
        raise UsageError(
            f"the height and width of input {name!r} are dynamic",
            where="--image",
            do="pass the size: --image size=640, or size=640x480 (width x height)",
        )
    colours = said.pop("channels", "gray" if channels == 1 else "rgb")
    if channels not in (None, _COLOURS[colours]):
        raise InputError(
            f"input {name!r} has {channels} channels, and {colours} has {_COLOURS[colours]}",
            where="--image",
            do="pass channels=rgb, bgr or gray as the model takes them",
        )
    whole = element_type(_dtype(ir_model, name)) in ("uint8", "int8", "int32", "int64")
    guessed += ["channels"] if "channels=" not in text and channels != 1 else []
    guessed += ["mean"] if "mean=" not in text and not whole else []
    read = ImageInput(
        name=name, height=height, width=width, layout=layout, colours=colours, scale=1.0 if whole else 255.0,
        guessed=tuple(guessed),
    )  # fmt: skip
    numbers = {
        key: _numbers(key, value, _COLOURS[colours]) for key, value in said.items() if key in ("mean", "std")
    }
    if "scale" in said:
        numbers["scale"] = _numbers("scale", said["scale"], 1)
    if 0.0 in (*numbers.get("std", ()), *numbers.get("scale", ())):
        raise UsageError("std and scale cannot be 0", where="--image", do=f"for example {EXAMPLE}")
    return replace(
        read,
        fit=said.get("fit", read.fit),
        mean=numbers.get("mean", read.mean),
        std=numbers.get("std", read.std),
        scale=numbers.get("scale", (read.scale,))[0],
    )


_CHOICES = {"layout": _LAYOUTS, "channels": tuple(_COLOURS), "fit": _FITS}
_KEYS = ("size", "mean", "std", "scale", "layout", "channels", "fit", "input")


def check(text: str) -> str:
    """Return the options of ``--image`` unchanged if they are valid.

    Raises:
        UsageError: The options are invalid.
    """
    _parse_options(text)
    return text


def _parse_options(text: str) -> dict[str, str]:
    """Parse "size=224,mean=0.5,0.5,0.5"; a part without "=" continues the list before it."""
    said: dict[str, str] = {}
    key = ""
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if equals:
            key = name.strip()
            said[key] = value.strip()
        elif key in ("mean", "std"):
            said[key] += f",{part.strip()}"
        else:
            raise UsageError(f"{part!r} is not KEY=VALUE", where="--image", do=f"for example {EXAMPLE}")
    for key, value in said.items():
        if key not in _KEYS:
            raise UsageError(
                f"{key!r} is not a key of --image", where="--image", do=f"one of {', '.join(_KEYS)}"
            )
        if value not in _CHOICES.get(key, (value,)):
            raise UsageError(
                f"{key}={value} is unknown", where="--image", do=f"one of {', '.join(_CHOICES[key])}"
            )
    return said


def _pair(text: str) -> tuple[int, int]:
    """Parse height and width from "224" or "640x480" (width x height)."""
    width, _, height = text.partition("x")
    try:
        pair = int(height or width), int(width)
    except ValueError:
        pair = 0, 0
    if not all(0 < side <= 1 << 14 for side in pair):
        raise UsageError(
            f"size={text} is not a size", where="--image", do="for example size=224 or size=640x480"
        )
    return pair


def _numbers(key: str, text: str, most: int) -> tuple[float, ...]:
    try:
        numbers = tuple(map(float, text.split(",")))
    except ValueError:
        numbers = ()
    if len(numbers) not in (1, most) or not all(map(math.isfinite, numbers)):
        many = f"one number, or {most}" if most > 1 else "one number"
        raise UsageError(f"{key}={text} is not {many}", where="--image", do=f"for example {EXAMPLE}")
    return numbers


def _place(ir_model: ir.Model, wanted: str, layout: Layout | None) -> tuple[str, tuple[Size, ...], Layout]:
    """Return the image input's name, sizes and layout: the named input, or one of rank 4 with 1 or 3 channels."""
    names = []
    for value in feedable(ir_model):
        sizes, name = input_sizes(value), value.name or ""
        names.append(name)
        if (wanted and name != wanted) or sizes is None or len(sizes) != 4:
            continue
        first, last = sizes[1].value, sizes[3].value
        if layout is not None:
            return name, sizes, layout
        if first in (1, 3) or (wanted and last not in (1, 3)):
            return name, sizes, "nchw"
        if last in (1, 3):
            return name, sizes, "nhwc"
    what = (
        f"{wanted!r} takes no images"
        if wanted
        else "no input of the model takes images (4 dimensions, 1 or 3 channels)"
    )
    raise InputError(
        what,
        where="--image",
        do=f"inputs are {', '.join(names)}; pass --image input=NAME,layout=nchw, or save arrays with numpy.savez",
    )


def _parts(sizes: Sequence[Size], layout: Layout) -> tuple[int | None, int | None, int | None]:
    """Return channels, height and width, with None for each dynamic size."""
    channels, height, width = (sizes[i] for i in ((1, 2, 3) if layout == "nchw" else (3, 1, 2)))
    return channels.value, height.value, width.value


def _dtype(ir_model: ir.Model, name: str) -> str:
    return next(dtype_of(value) for value in feedable(ir_model) if value.name == name)


def _pillow() -> Any:
    try:
        return importlib.import_module("PIL.Image"), importlib.import_module("PIL.ImageOps")
    except ModuleNotFoundError as error:
        raise UsageError(
            "reading images needs Pillow, which is not installed here",
            where="images",
            do="pip install 'ortune[images]', or save arrays with numpy.savez",
        ) from error


def _values(pillow: Any, path: Path, wanted: ImageInput, dtype: np.dtype[Any]) -> Array:
    """Read one image as a batch of one."""
    image_of, operations = pillow
    size = (wanted.width, wanted.height)
    try:
        with image_of.open(path, formats=("JPEG", "PNG")) as opened:
            image = operations.exif_transpose(opened).convert("L" if wanted.colours == "gray" else "RGB")
        if wanted.fit == "crop":
            image = operations.fit(image, size)
        elif wanted.fit == "pad":
            image = operations.pad(image, size, centering=(0, 0))
        else:
            image = image.resize(size, image_of.Resampling.BICUBIC)
        pixels = np.asarray(image, np.float32)
    except (OSError, ValueError, SyntaxError, ArithmeticError, image_of.DecompressionBombError) as error:
        raise InputError(
            f"the image cannot be read: {error}", where=str(path), do="remove it from the folder"
        ) from error
    pixels = pixels.reshape(*pixels.shape[:2], -1)
    if wanted.colours == "bgr":
        pixels = pixels[..., ::-1]
    values = (pixels / wanted.scale - np.asarray(wanted.mean, np.float32)) / np.asarray(
        wanted.std, np.float32
    )
    batch = values[None] if wanted.layout == "nhwc" else values.transpose(2, 0, 1)[None]
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        batch = np.clip(np.rint(batch), limits.min, limits.max)
    return np.ascontiguousarray(batch).astype(dtype)


def _listed(numbers: Sequence[float]) -> str:
    return ",".join(f"{number:g}" for number in numbers)
