"""What browsers have compiled, kept for later ones: profiles as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortune.targets.browser.compiled_code import CompiledCode


def left(folder: Path, compiled: int) -> Path:
    """A profile as a browser leaves it that has compiled so many bytes."""
    (folder / "Default" / "Cache").mkdir(parents=True)
    (folder / "Default" / "Cache" / "build").write_text(folder.name)
    code = folder / "Default" / "Code Cache" / "wasm"
    code.mkdir(parents=True)
    (code / "0123_0").write_bytes(bytes(compiled))
    return folder


def given(kept: CompiledCode, profile: Path) -> int:
    """Compiled bytes that a new profile begins with."""
    assert kept.copy_into(profile)
    return (profile / "Default" / "Code Cache" / "wasm" / "0123_0").stat().st_size


def test_the_browser_that_compiled_most_is_the_one_that_is_kept(tmp_path: Path) -> None:
    kept = CompiledCode(tmp_path / "scratch", ("chromium", "ort.min.mjs"))
    kept.store(left(tmp_path / "hardly", 1000))
    assert not kept.copy_into(tmp_path / "empty") and not (tmp_path / "empty").exists()
    for number, (compiled, expected) in enumerate(
        [(400_000, 400_000), (300_000, 400_000), (900_000, 900_000)]
    ):
        kept.store(left(tmp_path / f"left{number}", compiled))
        assert given(kept, tmp_path / f"next{number}") == expected
    assert (tmp_path / "next2" / "Default" / "Cache" / "build").read_text() == "left2"
    other = CompiledCode(tmp_path / "scratch", ("chromium", "ort.wasm.min.mjs"))
    assert not other.copy_into(tmp_path / "other")
    # What takes long to come is waited for once.
    assert [kept.is_awaited(), other.is_awaited(), other.is_awaited()] == [True, False, True]


@pytest.mark.parametrize("lacking", ["Cache", "Code Cache"])
def test_a_profile_of_another_make_leaves_nothing(tmp_path: Path, lacking: str) -> None:
    profile = left(tmp_path / "profile", 400_000)
    (profile / "Default" / lacking).rename(profile / "elsewhere")
    kept = CompiledCode(tmp_path / "scratch", ("chromium",))
    kept.store(profile)
    assert not kept.copy_into(tmp_path / "next")
