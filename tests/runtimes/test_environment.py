from __future__ import annotations

from ortune.runtimes.environment import clean_environment, recorded

USERS = {
    "PATH": "/bin",
    "HOME": "/home/a",
    "LC_ALL": "C.UTF-8",
    "LD_LIBRARY_PATH": "/opt/cuda/lib64",
    "CUDA_VISIBLE_DEVICES": "1",
    "NVIDIA_TF32_OVERRIDE": "0",
    "NVIDIA_API_KEY": "nvapi-secret",
    "OMP_NUM_THREADS": "3",
    "ORT_INTRA_OP_NUM_THREADS": "3",
    "LD_PRELOAD": "/usr/lib/libjemalloc.so.2",
    "MALLOC_ARENA_MAX": "2",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "HF_TOKEN": "secret",
    "PYTHONNOUSERSITE": "1",
}


def test_only_what_a_program_needs_passes():
    clean = clean_environment(base=USERS)
    assert set(clean) == {
        "PATH", "HOME", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_TF32_OVERRIDE",
        "ORT_DISABLE_TELEMETRY", "OPENBLAS_NUM_THREADS",
    }  # fmt: skip
    assert clean["ORT_DISABLE_TELEMETRY"] == "1"
    assert clean["OPENBLAS_NUM_THREADS"] == "1"


def test_settings_under_test_win():
    clean = clean_environment({"OMP_NUM_THREADS": "4", "PATH": "/other"}, USERS)
    assert clean["OMP_NUM_THREADS"] == "4"
    assert clean["PATH"] == "/other"


def test_this_process_is_the_default(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/tmp/cache")
    monkeypatch.setenv("HF_TOKEN", "secret")
    clean = clean_environment()
    assert clean["XDG_CACHE_HOME"] == "/tmp/cache"
    assert "HF_TOKEN" not in clean


def test_recorded_are_the_names_that_affect_speed_and_no_secret():
    kept = recorded({**USERS, "ORT_AUTH_TOKEN": "secret", "OPENBLAS_NUM_THREADS": "1"})
    assert kept == {
        "CUDA_VISIBLE_DEVICES": "1",
        "LD_PRELOAD": "/usr/lib/libjemalloc.so.2",
        "MALLOC_ARENA_MAX": "2",
        "NVIDIA_TF32_OVERRIDE": "0",
        "OMP_NUM_THREADS": "3",
        "OPENBLAS_NUM_THREADS": "1",
        "ORT_INTRA_OP_NUM_THREADS": "3",
    }
    assert list(kept) == sorted(kept)
