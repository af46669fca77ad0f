"""Write ``src/ortune/rules/brought.json``: what rewrites brought, from the tables of ``docs/results.md``."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from ortune import rewrites
from ortune.graph.model.open import open_model
from ortune.records import Brought
from ortune.rules.expected_gains import TABLE, MeasuredGains, kind_of
from zoo import MODELS, model_path

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results.md"
_NUMBER = r"(\d+(?:\.\d+)?)"
_INTERVAL = rf"{_NUMBER}(?: times|x)? \({_NUMBER} ?- ?{_NUMBER}\)"


def main() -> None:
    """Writes the table again."""
    TABLE.write_text(table(RESULTS.read_text(encoding="utf-8")), encoding="utf-8")


def table(results: str) -> str:
    """The table, as JSON."""
    by_rewrite = defaultdict[str, list[Brought]](list)
    before = ""
    for model, named, _, _, gain, _ in _rows(results, "model", "winner"):
        before = before if named == "the same" else named
        names = [each.strip() for each in before.split(",")]
        for name in names:
            others = tuple(each for each in names if each != name)
            found = _times(gain, model.partition(",")[0], others=others)
            # Measured once more, in less noise: the later one counts.
            kept = [e for e in by_rewrite[name] if (e.model, e.others) != (found.model, found.others)]
            by_rewrite[name] = [*kept, found]
    for model, change, ratio, _ in _rows(results, "model", "rewrite", "time against the original"):
        name = change.partition(":")[0]
        if name in rewrites.all_rewrites() and model in MODELS:  # one made for it is like no other
            by_rewrite[name].append(_ratio(ratio, model))
    named = sorted({each.model for some in by_rewrite.values() for each in some})
    # What a model is made of does not change; only one that is new in the tables is opened.
    old = msgspec.json.decode(TABLE.read_bytes(), type=MeasuredGains).models
    found = MeasuredGains(
        rewrites=dict(sorted(by_rewrite.items())),
        models={name: old.get(name) or kind_of(open_model(model_path(name)).ir) for name in named},
    )
    return msgspec.json.format(msgspec.json.encode(found), indent=1).decode() + "\n"


def _rows(text: str, *heads: str) -> Iterator[list[str]]:
    """The cells of every row of the tables whose first columns have these heads."""
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            inside = False
        elif tuple(cells[: len(heads)]) == heads:
            inside = True
        elif inside and not set(cells[0]) <= set("-:"):
            yield cells


def _times(text: str, model: str, *, others: tuple[str, ...] = ()) -> Brought:
    """Of a gain: 2.0 times (1.5 - 2.5), or 1.38x (1.24-1.40)."""
    found = re.search(_INTERVAL, text)
    assert found is not None, text
    gain, low, high = (float(each) for each in found.groups())
    return Brought(
        model=model,
        ratio=round(1 / gain, 4),
        ratio_low=round(1 / high, 4),
        ratio_high=round(1 / low, 4),
        proven=True,
        others=others,
    )


def _ratio(text: str, model: str) -> Brought:
    """Of a ratio of times: 0.90 (0.80-1.00)."""
    found = re.search(_INTERVAL, text)
    assert found is not None, text
    ratio, low, high = (float(each) for each in found.groups())
    return Brought(model=model, ratio=ratio, ratio_low=low, ratio_high=high)


if __name__ == "__main__":
    main()
