"""A git repository of a test's own, whatever the user's configuration says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def git(folder: Path, *words: str) -> str:
    """Runs git in a folder and returns what it said."""
    environment = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    done = subprocess.run(
        ["git", "-C", str(folder), *words], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(folder: Path, message: str = "a change") -> str:
    """Commits all that is there; the commit."""
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD")
