"""Folders of images as inputs: what the model's shape tells, what --image says, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest
from PIL import Image

from facts import facts
from ortune.errors import InputError, UsageError
from ortune.inputs import images, input_folders, user_feeds, workload


def model(kind: str = "float", shape: str = "N,3,8,12", more: str = "") -> ir.Model:
    head = '<ir_version: 8, opset_import: ["" : 17]>'
    text = f"{head} g ({kind}[{shape}] x{more}) => ({kind}[{shape}] y) {{ y = Identity(x) }}"
    return ir.from_proto(onnx.parser.parse_model(text))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A red and a green picture, wider than high, with a blue stripe at the left."""
    place = tmp_path_factory.mktemp("pictures")
    for name, colour in (("a.png", (255, 0, 0)), ("b.jpg", (0, 255, 0))):
        picture = Image.new("RGB", (48, 16), colour)
        picture.paste((0, 0, 255), (0, 0, 8, 16))
        picture.save(place / name, quality=100, subsampling=0)
    (place / "notes.txt").write_text("not an image")
    return place


def test_the_shape_tells_size_layout_and_channels(folder: Path) -> None:
    sets = user_feeds.load(folder, model(), "--data")
    assert [value["x"].shape for value in sets] == [(1, 3, 8, 12)] * 2
    red, green = (value["x"][0, :, 4, 6] for value in sets)
    np.testing.assert_allclose(red, [1, 0, 0], atol=0.02)
    np.testing.assert_allclose(green, [0, 1, 0], atol=0.02)
    facts(images.describe(folder, model(), ""), "2 images", "12x8 rgb nchw", "/ 255", "mean guessed")


@pytest.mark.parametrize(
    ("kind", "shape", "said", "middle"),
    [
        ("float", "1,8,12,3", "mean=0.5,0.5,0.5,std=0.5", [1, -1, -1]),
        ("float", "1,8,12,3", "channels=bgr", [0, 0, 1]),
        ("uint8", "1,8,12,3", "", [255, 0, 0]),
        ("float16", "1,8,12,3", "scale=1,mean=127.5", [127.5, -127.5, -127.5]),
        ("float", "1,8,12,1", "", [0.298]),
    ],
)
def test_values_are_those_that_the_options_say(
    folder: Path, kind: str, shape: str, said: str, middle: list[float]
) -> None:
    first = user_feeds.load(folder, model(kind, shape), "--data", said)[0]["x"]
    assert isinstance(first, np.ndarray) and first.dtype == {"float": "float32"}.get(kind, kind)
    np.testing.assert_allclose(first[0, 4, 6].astype(float), middle, atol=0.02)


@pytest.mark.parametrize(("fit", "blue"), [("crop", 0), ("stretch", 2), ("pad", 2)])
def test_an_image_of_another_form_is_cropped_padded_or_stretched(folder: Path, fit: str, blue: int) -> None:
    value = user_feeds.load(folder, model(shape="1,3,12,12"), "--data", f"fit={fit}")[0]["x"]
    assert isinstance(value, np.ndarray)
    assert int((value[0, 2, 1] > 0.5).sum()) == blue  # the stripe in the second row
    below = value[0, :, -1, -1]
    assert (below.max() == 0) == (fit == "pad")


def test_a_dynamic_size_has_to_be_said(folder: Path) -> None:
    with pytest.raises(UsageError) as refused:
        user_feeds.load(folder, model(shape="N,3,H,W"), "--data")
    facts(refused.value.do, "--image size=")
    value = user_feeds.load(folder, model(shape="N,3,H,W"), "--data", "size=20x10")[0]["x"]
    assert isinstance(value, np.ndarray) and value.shape == (1, 3, 10, 20)


@pytest.mark.parametrize(
    "said",
    ["size=big", "size=0", "mean=a", "mean=1,2", "std=0", "layout=nhcw", "colour=rgb", "rgb", "size=224,3", "fit=zoom",
     "scale=1,2", "mean=nan"],
)  # fmt: skip
def test_options_that_cannot_be_read_are_refused_before_anything_is_opened(said: str, folder: Path) -> None:
    with pytest.raises(UsageError) as refused:
        images.image_input(model(), said)
    assert refused.value.where == "--image" and refused.value.do


@pytest.mark.parametrize(
    ("takes", "said", "told"),
    [
        (model(shape="N,4"), "", "no input of the model takes images"),
        (model(shape="1,4,8,8"), "", "no input of the model takes images"),
        (model(shape="1,3,8,8"), "channels=gray", "3 channels"),
        (model(shape="1,3,8,8"), "input=z", "takes no images"),
        (model(shape="1,3,8,8", more=", float[1] t"), "", "no value for t"),
    ],
)
def test_what_does_not_fit_the_model_is_named(folder: Path, takes: ir.Model, said: str, told: str) -> None:
    with pytest.raises(InputError) as refused:
        user_feeds.load(folder, takes, "--data", said)
    assert told in refused.value.what


def test_a_broken_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "cut.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    with pytest.raises(InputError, match=r"cannot be read") as refused:
        user_feeds.load(tmp_path, model(), "--data")
    assert "cut.png" in (refused.value.where or "")


def test_other_formats_are_never_opened(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.gif")
    (tmp_path / "a.gif").rename(tmp_path / "a.png")
    with pytest.raises(InputError, match="cannot be read"):
        user_feeds.load(tmp_path, model(), "--data")


def test_of_many_images_some_at_equal_distances_are_read(tmp_path: Path) -> None:
    for i in range(7):
        Image.new("RGB", (8, 8)).save(tmp_path / f"{i}.png")
    assert [path.stem for path in images.listed(tmp_path, 3)] == ["0", "2", "4"]


def test_few_images_are_measured_and_many_calibrate(tmp_path: Path) -> None:
    for i in range(input_folders.MEASURED + 4):
        Image.new("RGB", (8, 8)).save(tmp_path / f"{i:02}.png")
    measured = user_feeds.load(tmp_path, model())
    assert len(measured) == input_folders.MEASURED
    assert len(user_feeds.labelled(tmp_path, model())) == input_folders.MEASURED + 4
    facts(images.describe(tmp_path, model(), "", input_folders.MEASURED), "8 of 12 images")
    facts(images.describe(tmp_path, model(), ""), "12 images")


def test_arrays_beside_images_are_what_counts(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes((folder / "a.png").read_bytes())
    np.savez(tmp_path / "a.npz", x=np.ones((1, 3, 8, 12), np.float32))
    sets = user_feeds.load(tmp_path, model(), "--data")
    assert len(sets) == 1 and isinstance(sets[0]["x"], np.ndarray) and sets[0]["x"].min() == 1


def test_the_workload_keeps_how_images_are_read(folder: Path) -> None:
    work = workload.propose(model(shape="N,3,H,W"), inputs_path=folder, image="size=16")
    assert (work.image, len(work.cases)) == ("size=16", 2)
    (_, first), _ = workload.feeds(model(shape="N,3,H,W"), work)
    assert isinstance(first["x"], np.ndarray) and first["x"].shape == (1, 3, 16, 16)
