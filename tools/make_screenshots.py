"""Writes docs/images: eight pages of real models as Chromium draws them, on light and on dark ground.

It measures for minutes: run it on a quiet machine.

    python tools/make_screenshots.py [NAME ...]

Models are fetched by ``tests/zoo.py``. Each picture shows the top of one page, 1,000 pixels wide: NAME.png and
NAME-dark.png.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from zoo import model_path  # noqa: E402

IMAGES = ROOT / "docs" / "images"
WIDTH_PX = 1000
MOST_BYTES = 150_000
PAGES: dict[str, tuple[str, int, list[str]]] = {
    "look": ("ppocrv4-det", 760, ["look"]),
    "profile": ("ppocrv4-rec", 720, ["profile"]),
    "difference": ("magika", 760, ["profile", "--b-set", "level=disable", "--processes", "3"]),
    "compare": (
        "magika",
        900,
        ["compare", "--b-set", "intra=1", "--c-set", "level=basic", "--budget", "60s"],
    ),
    "diagnose": ("silero-vad", 900, ["diagnose", "--budget", "60s"]),
    "check": ("silero-vad", 340, ["check", "--fail-on", "never"]),
    "bench": ("basic-pitch", 760, ["bench", "--budget", "15s"]),
    "tune": ("ppocrv4-rec", 1140, ["tune", "--budget", "90s", "--no-bundle"]),
}
"""By the picture's name: the model, the height in pixels, and what is run."""


def main(names: list[str]) -> int:
    """Measures, draws and writes the pictures that are named, or all."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit("no Chromium is on this machine")
    IMAGES.mkdir(exist_ok=True)
    for name in names or PAGES:
        zoo, height_px, (verb, *options) = PAGES[name]
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.html"
            # A short name: the page shows what the user typed.
            model = Path(folder) / f"{zoo}.onnx"
            shutil.copy(model_path(zoo), model)
            store = [] if verb == "check" else ["--store", "store"]
            command = [sys.executable, "-m", "ortune", verb, model.name, *options, *store]
            subprocess.run(
                [*command, "--report", page.name], cwd=folder, check=True, stdout=subprocess.DEVNULL
            )
            draw(browser, page, IMAGES / f"{name}.png", height_px, dark=False)
            draw(browser, page, IMAGES / f"{name}-dark.png", height_px, dark=True)
    return 0


def draw(browser: str, page: Path, image: Path, height_px: int, *, dark: bool) -> None:
    """The top of a page as a PNG."""
    profile = f"--user-data-dir={page.parent / 'browser'}"
    window = [f"--window-size={WIDTH_PX},{height_px}", f"--screenshot={image}", "--hide-scrollbars"]
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-lcd-text", profile]
    flags.append(f"--blink-settings=preferredColorScheme={0 if dark else 1}")
    subprocess.run([browser, *flags, *window, page.as_uri()], check=True, capture_output=True, timeout=120)
    size = image.stat().st_size
    if size > MOST_BYTES:
        sys.exit(f"{image}: {size} bytes are more than {MOST_BYTES}: show less of the page")
    print(f"{image.relative_to(ROOT)}: {size} bytes")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
