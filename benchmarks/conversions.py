"""Does ``ortune convert --tune`` bring the usual kinds of models from their framework into a bundle? Run by hand.

    python benchmarks/conversions.py [torch_sources:vit ...] [--budget 75s]

Each source is converted, checked and tuned by one command. A row says what the check saw and whether a bundle was
delivered. The exit code is 1 where a source did not get that far; a busy machine needs a longer budget. Converters come
from the environments of ``ortune runtime add``, which are made where they are missing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import msgspec

from ortune.records import Envelope
from ortune.runtimes import made
from ortune.runtimes.converters import Converter
from ortune.verbs.convert.result import ConvertResult
from ortune.verbs.tune.result import TuneResult
from ten_sources import TEN, SmallSource, write

BUDGET = "75s"


def python_of(converter: Converter) -> str:
    """The interpreter of a converter's environment."""
    return made.require_installed(converter.name, print).runtime.python


def converted(source: SmallSource, budget: str, folder: Path) -> Envelope[ConvertResult]:
    """The document of one command; its cache is empty, or tuning would race other builds that are installed here."""
    command = [sys.executable, "-m", "ortune", "convert", source.text, "--tune", "--budget", budget, "--json"]
    command += ["--source-python", python_of(source.converter), "--output", "converted.onnx", "--force"]
    command += ["--dynamic", source.dynamic] if source.dynamic else []
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(done.stderr[-2000:])
    return msgspec.json.decode(done.stdout, type=Envelope[ConvertResult])


def row(source: SmallSource, envelope: Envelope[ConvertResult]) -> str:
    """One Markdown row."""
    result = envelope.result
    last = result.conversions[-1]
    others = [f"{c.exporter}: {'failed' if c.failed else 'differs'}" for c in result.conversions if not c.ok]
    race = result.raced.comparison if result.raced is not None else None
    raced = [f"both right; the second was {race.verdict}"] if race is not None else []
    axes = [f"{axis.name} {axis.status}" for axis in last.axes]
    sets = len({case.name for case in last.cases})
    worst = max((case.outputs.relative_l2 for case in last.cases if case.outputs), default=0.0)
    cells = [
        source.what,
        f"`{source.text}`",
        "; ".join([f"{last.exporter}, opset {last.opset}" if last.opset else last.exporter, *others, *raced]),
        f"{envelope.verdict}, within {worst:.0e} on {sets} sets",
        ", ".join(axes) or "-",
        *_tuned(result.tuned),
    ]
    return f"| {' | '.join(cells)} |"


def _tuned(result: TuneResult | None) -> tuple[str, str]:
    """What the bundle holds, and its speed."""
    if result is None or not result.bundle:
        return "no bundle, nothing was confirmed", "-"
    claim = result.against_default
    speed = "-"
    if claim is not None and claim.ratio_high:
        speed = f"{1 / claim.ratio:.2f}x ({1 / claim.ratio_high:.2f}-{1 / claim.ratio_low:.2f})"
    return result.winner.describe(), speed


def reached_bundle(source: SmallSource, envelope: Envelope[ConvertResult]) -> bool:
    """Whether it was converted with its axes dynamic, and a bundle was delivered."""
    result = envelope.result
    dynamic = {axis.name for axis in result.conversions[-1].axes if axis.status == "open"}
    delivered = result.tuned is not None and bool(result.tuned.bundle)
    return envelope.verdict == "written" and source.axes <= dynamic and delivered


def main() -> None:
    """Prints the table, a row a source as it ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sources", nargs="*", metavar="SOURCE")
    parser.add_argument("--budget", default=BUDGET)
    options = parser.parse_args()
    sources = [source for source in TEN if source.text in (options.sources or [each.text for each in TEN])]
    print(f"{datetime.now(UTC):%Y-%m-%d}\n")
    print("| source | named | exporter | check | axes | bundle holds | against the default |")
    print("|---|---|---|---|---|---|---:|", flush=True)
    complete = True
    with tempfile.TemporaryDirectory(prefix="ortune-bench-") as name:
        folder = Path(name)
        write(folder, python_of, *{source.converter for source in sources})
        for source in sources:
            envelope = converted(source, options.budget, folder)
            print(row(source, envelope), flush=True)
            complete = complete and reached_bundle(source, envelope)
    raise SystemExit(not complete)


if __name__ == "__main__":
    main()
