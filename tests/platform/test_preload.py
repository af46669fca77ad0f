from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from ortune.bundle.machine import PACKAGES
from ortune.catalogue.named import ALLOCATOR
from ortune.platform import INSTALL_HINTS, allocator_library, allocators

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ELF libraries")


def library(path: Path) -> Path:
    """A file with this interpreter's own ELF header: enough for the loader's first check."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with Path(sys.executable).open("rb") as source:
        path.write_bytes(source.read(64))
    return path


def test_found_in_a_usual_folder(tmp_path):
    path = library(tmp_path / "usr/lib/x86_64-linux-gnu/libjemalloc.so.2")
    assert allocator_library("jemalloc", tmp_path, {}) == path
    assert allocators(tmp_path, {}) == {"jemalloc": str(path)}


def test_the_users_library_path_comes_first(tmp_path):
    library(tmp_path / "usr/lib/libmimalloc.so.2")
    own = library(tmp_path / "own/libmimalloc.so.2.1")
    environment = {"LD_LIBRARY_PATH": f"{tmp_path / 'absent'}::{tmp_path / 'own'}"}
    assert allocator_library("mimalloc", tmp_path, environment) == own


def test_the_minimal_tcmalloc_is_preferred(tmp_path):
    full = library(tmp_path / "usr/lib/libtcmalloc.so.4")
    assert allocator_library("tcmalloc", tmp_path, {}) == full
    minimal = library(tmp_path / "usr/lib/libtcmalloc_minimal.so.4")
    assert allocator_library("tcmalloc", tmp_path, {}) == minimal


def test_passes_over_what_cannot_be_preloaded(tmp_path):
    folder = tmp_path / "usr/lib"
    library(folder / "libjemalloc.so.2.debug")
    (folder / "libjemalloc.so").write_text("/* GNU ld script */ INPUT(libjemalloc.so.2)")
    foreign = bytearray(library(folder / "libjemalloc.so.1").read_bytes())
    foreign[18] ^= 0xFF
    (folder / "libjemalloc.so.1").write_bytes(foreign)
    (folder / "libjemalloc.so.3").symlink_to(folder / "gone")
    assert allocator_library("jemalloc", tmp_path, {}) is None
    good = library(folder / "libjemalloc.so.2")
    assert allocator_library("jemalloc", tmp_path, {}) == good


def test_an_unknown_allocator_is_not_found(tmp_path):
    assert allocator_library("malloc9", tmp_path, {}) is None


def test_every_allocator_says_how_to_get_it():
    assert set(ALLOCATOR.choices) == set(INSTALL_HINTS) == set(PACKAGES)


@pytest.mark.skipif(shutil.which("ldconfig", path="/sbin:/usr/sbin") is None, reason="needs ldconfig")
def test_this_machines_cache_names_only_files_that_exist():
    assert all(Path(path).is_file() for path in allocators().values())
