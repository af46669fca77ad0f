"""Build the wheel and the source distribution into ``dist/``, and try the wheel as users get it.

    python tools/make_dist.py

Two environments are made from nothing: one with ``ortune[cpu]``, as ``pip install`` makes it, and one with ortune
alone, as ``uvx`` and ``pipx`` make it, which measures with the ONNX Runtime of the other.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
SHIPPED = (
    "ortune/py.typed",
    "ortune/__init__.pyi",
    "ortune/show/html/style.css",
    "ortune/show/html/page.js",
    "ortune/show/html/templates/document.html.j2",
    "ortune/targets/browser/page.html",
    "ortune/runtimes/wheels.json",
)
"""What is no Python and is needed all the same: one file of each kind."""
MODEL = "import onnxruntime.datasets as d; print(d.get_example('sigmoid.onnx'))"


def main() -> None:
    """Builds, looks into what was built, and tries it."""
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        maker = environment(folder / "maker", "build>=1.2")
        run(maker, "-m", "build", "--outdir", DIST, ROOT)
        wheel, source = contents()
        whole = environment(folder / "whole", f"{wheel}[cpu]")
        smoke(whole, whole, folder)
        alone = environment(folder / "alone", str(wheel))
        smoke(alone, whole, folder)
    print(
        f"made {wheel.relative_to(ROOT)} and {source.relative_to(ROOT)}; both ways to install the wheel work"
    )


def contents() -> tuple[Path, Path]:
    """The two files that were built, with what they must hold in them."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    wheel, source = DIST / f"ortune-{version}-py3-none-any.whl", DIST / f"ortune-{version}.tar.gz"
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    lacking = [name for name in SHIPPED if name not in names]
    others = sorted({name.partition("/")[0] for name in names} - {"ortune", f"ortune-{version}.dist-info"})
    if lacking or others:
        raise SystemExit(f"{wheel.name} lacks {lacking}, and holds {others} besides the package")
    with tarfile.open(source) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    if not {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "src/ortune/py.typed"} <= names:
        raise SystemExit(f"{source.name} is not whole")
    return wheel, source


def environment(folder: Path, *requirements: str) -> Path:
    """The interpreter of a new environment with these packages."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
    return python


def smoke(python: Path, runtime: Path, scratch: Path) -> None:
    """The program and the package do what they are for, from a folder that is not the checkout."""
    program = python.with_name("ortune")
    model = run(runtime, "-c", MODEL).strip()
    run(program, "--version")
    run(program, "check", model)
    out = scratch / f"{python.parent.parent.name}.json"
    words = [model, "--runtime", runtime, "--store", scratch / "store", "--json", "--output", out]
    run(program, *words)
    looked = json.loads(out.read_text("utf-8"))
    if looked["status"] != "ok" or looked["result"]["timing"] is None:
        raise SystemExit(f"the first look failed: {looked.get('error')}")
    page = scratch / f"{python.parent.parent.name}.html"
    run(program, "explain", "GRA002", "--report", page)
    if "<main>" not in page.read_text("utf-8"):
        raise SystemExit("a page could not be written")
    run(python, "-c", "import ortune; print(ortune.check.__doc__)")


def run(*words: str | Path) -> str:
    """What a command prints; ends where it fails."""
    # Not the temporary folder: `python -m build` would take a build.py that somebody left there.
    done = subprocess.run(
        [str(word) for word in words], cwd=ROOT.anchor, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip()
        raise SystemExit(f"{shlex.join(map(str, words))} ended with {done.returncode}:\n{said}")
    return done.stdout


if __name__ == "__main__":
    main()
