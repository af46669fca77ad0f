"""Write the pages of ``docs`` that are generated: ``knobs.md`` from the knobs' own descriptions."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from pathlib import Path

from ortune import knobs
from ortune.records import Knob

DOCS = Path(__file__).resolve().parents[1] / "docs"
HEADINGS = ("What it is", "Why it costs", "Evidence", "Fix and its safety", "Example", "References")

HEAD = """# Settings

Every setting that `--set`, `--a-set`, `--b-set` and a plan file know. This page is generated from the
descriptions in `src/ortune/knobs/`; to add one, see [add-a-knob.md](add-a-knob.md).

A setting that is left out means ONNX Runtime's own default. After each trial a setting is *read back*:
`effect` means that what it does was seen (threads counted, a library mapped), `echo` that ONNX Runtime
returned the value and knows the key, `none` that it was set and could not be verified.

| setting | short | values | default | |
|---|---|---|---|---|
"""


def knobs_page() -> str:
    """The page on settings: a table of all, then one section each."""
    found = _modules()
    rows = [_row(knob) for knob, _ in found]
    sections = [_section(knob, text) for knob, text in found]
    return HEAD + "\n".join(rows) + "\n\n" + "\n".join(sections)


def _modules() -> list[tuple[Knob, str]]:
    """Every knob with its module's docstring, by name."""
    found: dict[str, tuple[Knob, str]] = {}
    for folder in pkgutil.iter_modules(knobs.__path__):
        if not folder.ispkg:
            continue
        package = importlib.import_module(f"{knobs.__name__}.{folder.name}")
        for info in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{info.name}")
            found[module.KNOB.name] = (module.KNOB, module.__doc__ or "")
    return [found[name] for name in sorted(found)]


def _values(knob: Knob) -> str:
    if knob.choices:
        return ", ".join(f"`{choice}`" for choice in knob.choices)
    if knob.kind == "bool":
        return "`0`, `1`"
    if knob.kind == "int":
        return "a whole number" + (f" from {knob.minimum}" if knob.minimum is not None else "")
    return "text"


def _row(knob: Knob) -> str:
    short = ", ".join(f"`{alias}`" for alias in knob.aliases)
    link = f"[`{knob.name}`](#{knob.name})"
    return f"| {link} | {short} | {_values(knob)} | {knob.default} | {knob.summary} |"


def _section(knob: Knob, docstring: str) -> str:
    """One setting: the docstring's headings as bold words, its facts below."""
    title, _, body = docstring.partition("\n")
    flat = re.sub(r"\n {4}", " ", body.strip()).replace("``", "`")  # Markdown's code, not reST's
    lines = []
    for line in flat.splitlines():
        heading, sign, text = line.partition(":")
        known = sign and heading in HEADINGS
        words = text.strip()
        lines.append(f"**{heading}.** {words[:1].upper()}{words[1:]}\n" if known else f"{line}\n")
    since = "any version" if knob.since == "0" else f"ONNX Runtime {knob.since} and newer"
    facts = [f"channel `{knob.channel}`", f"key `{knob.key}`", since, f"safety: {knob.safety}"]
    if knob.conflicts:
        facts.append("excludes " + ", ".join(f"`{name}`" for name in knob.conflicts))
    return f"## {knob.name}\n\n{title}\n\n" + "\n".join(lines) + f"\n*{'; '.join(facts)}*\n"


def main() -> int:
    """Write every generated page."""
    (DOCS / "knobs.md").write_text(knobs_page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
