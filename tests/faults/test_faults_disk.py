"""Places that cannot be written, and disks that fill up: what was measured still reaches the user."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from box import FEW, Box, refused
from facts import facts
from hostile.data import trace

# A comparison that ends soon: wrong outputs are found before anything is raced.
QUICK = ("m.onnx", "other.onnx")


def save_trace(path: Path) -> str:
    trace(path)
    return path.name


def fill(disk: Path, *, leave: int) -> None:
    """Fills the small disk up to so many bytes."""
    (disk / "ballast").write_bytes(bytes((1 << 20) - leave))


@pytest.mark.parametrize("place", ["none/x.onnx", "m.onnx/x.onnx", "home", "/proc/x.onnx", "round"])
@pytest.mark.parametrize(
    "words",
    [
        ("bench", "m.onnx", "--output"),
        ("bench", "m.onnx", "--report"),
        ("bench", "m.onnx", "--save-workload"),
        ("compare", *QUICK, "--report"),
        ("tune", "m.onnx", "--report"),
        ("profile", "m.onnx", "--keep"),
        ("profile", "m.onnx", "--export"),
        ("lock", "m.onnx", "--output"),
        ("rewrite", "m.onnx", "constant-folding", "--output"),
        ("skeleton", "m.onnx", "--output"),
        ("check", "m.onnx", "--fix", "--output"),
    ],
    ids=lambda words: f"{words[0]} {words[-1]}",
)
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_done(
    box: Box, words: tuple[str, ...], place: str
) -> None:
    (box.folder / "round").symlink_to("round")  # leads nowhere
    done = box.here(*words, f"csv={place}" if words[-1] == "--export" else place)
    assert done.code == 2
    where = {"none/x.onnx": "none", "m.onnx/x.onnx": "m.onnx"}.get(place, place)
    assert done.err.startswith(f"ortune: {where}: ")  # nothing was said before
    assert words[-1] in done.err
    assert (done.out, box.journal()) == ("", [])


@pytest.mark.parametrize("words", [("lock", "m.onnx"), ("skeleton", "m.onnx")], ids=" ".join)
def test_so_is_the_usual_place_where_none_is_named(box: Box, words: tuple[str, ...]) -> None:
    for name in ("m.onnx.lock.json", "skeleton.onnx"):
        (box.folder / name).mkdir()
    done = box.here(*words)
    assert done.code == 2
    assert "is a folder" in done.err and "looking" not in done.err


def test_an_output_whose_disk_fills_up_goes_to_stdout(box: Box) -> None:
    done = box.here("profile", save_trace(box.folder / "t.json"), "--json", "--output", "/dev/full")
    assert done.code == 2
    assert done.document["result"]["categories"]
    facts(done.err, "/dev/full", os.strerror(errno.ENOSPC), "printed instead")


def test_an_output_that_is_a_device_stays_one(box: Box) -> None:
    device = box.folder / "device"
    os.mkfifo(device)
    reader = os.open(device, os.O_RDONLY | os.O_NONBLOCK)
    done = box.here("profile", save_trace(box.folder / "t.json"), "--json", "--output", str(device))
    assert done.code == 0, done.err
    assert device.is_fifo()
    assert b'"schema":"ortune/profile/1"' in os.read(reader, 1 << 20)
    os.close(reader)


def test_a_full_stdout(box: Box) -> None:
    trace = save_trace(box.folder / "t.json")
    with Path("/dev/full").open("wb") as full:
        done = box.run("profile", trace, "--json", stdout=full)
    assert done.code == 2
    facts(done.err, "ortune: stdout", os.strerror(errno.ENOSPC))
    assert "Traceback" not in done.err
    assert len(box.events("result")) == 1


def test_a_reader_that_has_seen_enough_is_no_error(box: Box) -> None:
    trace = save_trace(box.folder / "t.json")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = box.run("profile", trace, "--json", stdout=closed)
    assert done.code == 0, done.err
    assert "Broken" not in done.err


@pytest.mark.parametrize("command", [["--help"], ["tune", "--help"], ["--version"]], ids=" ".join)
def test_help_for_a_reader_that_has_seen_enough(box: Box, command: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = box.run(*command, stdout=closed)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("command", [["--help"], ["report"], ["report", "--json"]], ids=" ".join)
def test_a_closed_stdout(box: Box, command: list[str]) -> None:
    box.here("profile", save_trace(box.folder / "t.json"))  # something to report
    done = box.run(*command, prepare=lambda: os.close(1))
    assert done.code == 2
    assert done.err.startswith("ortune: stdout: cannot be written: ")


def test_everything_closed(box: Box) -> None:
    before = save_trace(box.folder / "t.json")
    assert box.run("profile", before, prepare=lambda: os.closerange(0, 3)).code == 2
    assert len(box.events("result")) == 1


def test_a_working_folder_that_is_gone(box: Box) -> None:
    def leave() -> None:
        gone = box.folder / "gone"
        gone.mkdir()
        os.chdir(gone)
        gone.rmdir()

    error = refused(box.run("look", str(box.folder / "m.onnx"), "--json", prepare=leave), 2, "usage")
    assert "working directory" in error["what"]
    assert box.run("--help", prepare=leave).code == 0


@pytest.mark.parametrize("locale", ["C", pytest.param("POSIX", marks=pytest.mark.long)])
def test_a_name_of_many_alphabets_in_a_locale_of_one(box: Box, locale: str) -> None:
    name = "modèle 模型.onnx"
    (box.folder / name).write_bytes((box.folder / "m.onnx").read_bytes())
    done = box.run("lock", name, env={"LC_ALL": locale})
    assert done.code == 0, done.err
    assert name in done.out
    assert (box.folder / f"{name}.lock.json").is_file()


@pytest.mark.parametrize("store", ["m.onnx/store", "/proc/1/store"])
def test_a_store_that_cannot_be_written(box: Box, store: str) -> None:
    error = refused(box.compare(*QUICK, "--store", store), 2, "store")
    assert error["where"] == store
    assert "--store" in error["do"]
    assert box.journal() == []


def test_a_store_that_is_no_database(box: Box) -> None:
    (box.folder / "store").mkdir()
    (box.folder / "store" / "ortune.sqlite").write_bytes(b"something else" * 100)
    refused(box.compare(*QUICK, "--store", "store"), 2, "store")
    assert (box.folder / "store" / "ortune.sqlite").read_bytes() == b"something else" * 100


def test_a_home_that_cannot_be_written(box: Box) -> None:
    done = box.here("look", "m.onnx", "--json", env={"HOME": str(box.folder / "m.onnx")})
    assert (done.code, done.document["status"]) == (0, "ok"), done.err
    assert "not stored" in done.err
    assert done.document["result"]["session"] == ""


def test_a_lock_that_cannot_be_had(box: Box) -> None:
    done = box.here("look", "m.onnx", env={"ORTUNE_LOCK": str(box.folder / "m.onnx" / "lock")})
    assert done.code == 0, done.err
    facts(done.err, "another ortune", "may disturb")


def test_a_store_on_a_full_disk(box: Box, small_disk: Path) -> None:
    fill(small_disk, leave=0)
    refused(box.compare(*QUICK, "--store", str(small_disk)), 2, "store")


def test_a_store_that_fills_up_in_the_middle(box: Box, small_disk: Path) -> None:
    # The empty store takes 24 KiB, and a page for each change while it is made; the index of its log takes 32 KiB.
    fill(small_disk, leave=96 << 10)
    done = box.compare(*QUICK, "--store", str(small_disk))
    assert (done.code, done.document["verdict"]) == (1, "wrong-output"), done.err
    assert "no longer stored" in done.err


@pytest.mark.parametrize(
    ("batch", "trials", "untimed"),
    [
        pytest.param(4096, 0, 0, id="inputs do not fit"),  # 1 MiB
        # 220 KiB: inputs tried, inputs, outputs, outputs without optimisation
        pytest.param(830, 1, 1, id="outputs without optimisation do not fit"),
        # 134 KiB: the same, and outputs of two that take turns
        pytest.param(322, 4, 1, id="outputs do not fit"),
    ],
)
def test_a_temporary_folder_that_fills_up(
    box: Box, small_disk: Path, batch: int, trials: int, untimed: int
) -> None:
    """The first trial that meets the full disk is the last: of its plan, that tells nothing."""
    how = {"env": {"TMPDIR": str(small_disk)}}
    error = refused(box.compare(*QUICK, "--dim", f"batch={batch}", **how), 3, "disk-full")
    assert "TMPDIR" in error["do"]
    assert len(box.events("outcome")) == trials
    assert len(box.events("untimed-outcome")) == untimed
    assert list(small_disk.iterdir()) == []


def test_a_limit_on_the_size_of_files(box: Box) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))

    # Else this very installation may be left with a module that was compiled in part.
    env = {"PYTHONDONTWRITEBYTECODE": "1"}
    refused(box.run("compare", *QUICK, *FEW, prepare=limit, env=env), 3, "disk-full")
