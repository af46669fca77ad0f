"""Ways to load the recorder into a Python program: a folder on its search path, or files in its virtual environment."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from ortune import files
from ortune.errors import UsageError
from ortune.recorder import native

VARIABLE = "ORTUNE_RECORD"
"""Environment variable with the recorder's folder; repeated in ``hook.py``, which imports nothing from this package."""
HOOK = Path(__file__).with_name("hook.py")
NAME = "ortune_recorder"
APPLY_VARIABLE = "ORTUNE_APPLY"
"""Environment variable with the folder of changes; repeated in ``apply_hook.py``."""
APPLY_HOOK = Path(__file__).with_name("apply_hook.py")
APPLY_NAME = "ortune_applier"
WARNING = "default::getpass.GetPassWarning"
"""Warning filter without effect. At start-up, before any sitecustomize, Python imports the module of the filter's
category (getpass) from the first folder that contains it. The standard library has that module too, so the filter is
always valid."""

_ENTER = f"""
import os
import sys

try:
    import {APPLY_NAME}
    import {NAME}  # last, as it records what the program asked
except Exception:  # an interpreter that is too old
    pass
_own = os.path.dirname(__file__)
"""
SITE = f"""# Starts ortune's recorder, then the sitecustomize that this one hides.{_ENTER}
while "{WARNING}" in sys.warnoptions:
    sys.warnoptions.remove("{WARNING}")
sys.path[:] = [_folder for _folder in sys.path if _folder != _own]
_self = sys.modules.pop("sitecustomize")
try:
    import sitecustomize
except ImportError as _error:
    sys.modules["sitecustomize"] = _self
    if getattr(_error, "name", "sitecustomize") != "sitecustomize":
        raise
"""
GETPASS = f"""# Starts ortune's recorder, and becomes the getpass of the standard library.{_ENTER}
_path = [_folder for _folder in sys.path if _folder != _own]
_self = sys.modules.pop("getpass")
_all, sys.path[:] = list(sys.path), _path
try:
    import getpass
finally:
    sys.path[:] = _all
    if "getpass" not in sys.modules:
        sys.modules["getpass"] = _self
"""
PTH = "".join(
    f'import os; "{variable}" in os.environ and __import__("{name}")\n'
    for variable, name in ((APPLY_VARIABLE, APPLY_NAME), (VARIABLE, NAME))
)
INSTALLED = {NAME: HOOK, APPLY_NAME: APPLY_HOOK}
"""Source file of each installed module, by module name."""
OURS = "a Python program uses ONNX Runtime."
"""Text in the first line of each hook, which identifies installed hooks."""


def prepare(folder: Path) -> Path:
    """Write the files for a program's search path, and return their folder.

    Args:
        folder: Parent of the new folder.
    """
    door = folder / "door"
    door.mkdir(mode=0o700)
    (door / f"{NAME}.py").write_bytes(HOOK.read_bytes())
    (door / f"{APPLY_NAME}.py").write_bytes(APPLY_HOOK.read_bytes())
    (door / "sitecustomize.py").write_text(SITE, encoding="utf-8")
    (door / "getpass.py").write_text(GETPASS, encoding="utf-8")
    return door


def environment(
    folder: Path, door: Path, given: Mapping[str, str], variable: str = VARIABLE
) -> dict[str, str]:
    """Return the environment of a program that is recorded or changed.

    Args:
        folder: Folder for the logs of its processes.
        door: Folder to put first on its search path.
        given: The environment without the recorder.
        variable: Variable with ``folder``, which selects the hook.
    """
    path = given.get("PYTHONPATH", "")
    warnings = given.get("PYTHONWARNINGS", "")
    return {
        **given,
        variable: str(folder),
        "PYTHONPATH": str(door) + (os.pathsep + path if path else ""),
        # First, since the last of several filters takes precedence, which must be the user's.
        "PYTHONWARNINGS": WARNING + ("," + warnings if warnings else ""),
        **native.preloaded(given),
    }


def install(venv: Path) -> tuple[Path, ...]:
    """Install the recorder into a virtual environment, where it is inactive unless its variable is set.

    Returns:
        The written files.

    Raises:
        UsageError: The folder is not a virtual environment, or cannot be written.
    """
    site = _site(venv)
    modules = {site / f"{name}.py": hook for name, hook in INSTALLED.items()}
    start = site / f"{NAME}.pth"
    for module in modules:
        _require_ours(module)
    try:
        for module, hook in modules.items():
            files.write(module, hook.read_bytes())
        files.write(start, PTH)
    except OSError as error:
        raise UsageError(
            f"cannot be written: {error.strerror}", where=str(site), do="choose an environment of your own"
        ) from error
    return (*modules, start)


def uninstall(venv: Path) -> tuple[Path, ...]:
    """Remove the files that ``install`` wrote, and return them.

    Raises:
        UsageError: The folder is not a virtual environment, or cannot be written.
    """
    site = _site(venv)
    modules = [site / f"{name}.py" for name in INSTALLED]
    there = [path for path in (site / f"{NAME}.pth", *modules) if files.exists(path)]
    for module in modules:
        _require_ours(module)
    try:
        for path in there:
            path.unlink()
    except OSError as error:
        raise UsageError(f"cannot be removed: {error.strerror}", where=str(site)) from error
    return tuple(there)


def _site(venv: Path) -> Path:
    """Return the site-packages folder of a virtual environment; raise UsageError if there is none."""
    base = str(venv.resolve())
    if not files.is_file(venv / "pyvenv.cfg"):
        raise UsageError(
            "not a virtual environment", where=str(venv), do="pass the folder that has pyvenv.cfg"
        )
    found = sorted(Path(base).glob("lib/python3.*/site-packages"))
    if not found:
        found = [Path(sysconfig.get_path("purelib", "venv", vars={"base": base, "platbase": base}))]
    if not files.is_folder(found[-1]):
        raise UsageError("has no site-packages", where=str(venv), do="create it again with python -m venv")
    return found[-1]


def _require_ours(module: Path) -> None:
    if files.exists(module) and OURS not in files.read(module).decode("utf-8", "replace"):
        raise UsageError(f"{module.name} is not ortune's own", where=str(module.parent), do="remove it first")
