"""Plants defects in real models without any, and counts which of them the rules find from the file alone.

    python benchmarks/rule_mutations.py [MODEL ...] [--only CODE ...]

Each defect is planted wherever a model has room for it, and each such model is written in ten ways: operands in another
order, constants as nodes or as initializers, other versions of the operators, names, declared sizes. Then it is planted
once in each version of the operators from 9 to 22 to which the model can be converted. A defect is found where its rule
fires that did not before. What fires above a note on the untouched models, however they are written, is
printed, to be looked at by hand. Nothing is run.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "rewrites"))

from ortune import rules
from ortune.graph.model.open import open_model
from ortune.records import Host
from ortune.rules import ABOUT_MODELS, Facts, Selection
from ortune.targets.machine import Machine
from planted_defects import DEFECTS, SPELLINGS, VERSIONS, Defect, at_version, respelled
from zoo import model_path

HEALTHY = (
    "ppocrv4-rec", "ppocrv2-cls", "magika", "basic-pitch", "oww-embedding", "oww-alexa", "oww-hey-jarvis",
    "oww-timer", "silero-vad-16k-sequence", "oww-melspectrogram",
)  # fmt: skip


def main(names: Sequence[str], only: Sequence[str]) -> None:
    """Prints what was found, defect by defect, and what fires on the untouched models.

    Args:
        names: Of the models.
        only: Codes of the rules whose defects are planted, and which alone are asked of the untouched models.
    """
    # With the instructions that some defects are slow on, whatever this machine has.
    host = msgspec.structs.replace(Machine().host, features=("avx2", "avx512_vnni"))
    asked = [rule for rule in Selection(preview=True, select=only).rules() if rule.family in ABOUT_MODELS]
    defects = {title: defect for title, defect in DEFECTS.items() if not only or defect.code in only}
    planted, found = Counter[str](), Counter[str]()
    wrong, missed, untouched = list[str](), list[str](), 0
    with TemporaryDirectory() as folder:
        for name in names:
            healthy = onnx.load(model_path(name))
            versions = {version: at_version(healthy, version) for version in VERSIONS}
            for spelling in [*SPELLINGS, *versions]:
                model = versions[spelling] if isinstance(spelling, int) else respelled(healthy, spelling)
                untouched += model is not None
                fired = {} if model is None else codes(model, Path(folder), Defect(code=""), host, asked)
                wrong += [
                    f"{name}, {spelling}: {code} {what}"
                    for code, (severity, what) in fired.items()
                    if severity != "note"
                ]
            for title, defect in defects.items():
                rule = rules.all_rules()[defect.code]  # asked whatever its tier
                was: dict[int, tuple[str, str] | None] = {}
                right = Defect(code="", plan=defect.right, target=defect.target)
                for writing, other, before in _planted(defect, healthy, versions):
                    if id(before) not in was:
                        was[id(before)] = codes(before, Path(folder), right, host, [rule]).get(defect.code)
                    after = codes(other, Path(folder), defect, host, [rule])
                    hit = defect.code in after and after[defect.code] != was[id(before)]
                    planted[title] += 1
                    found[title] += hit
                    if not hit:
                        missed.append(f"{name}: {title}, {writing}")
            print(f"{name}: {found.total()} of {planted.total()} so far", file=sys.stderr, flush=True)
    print("| defect | rule | found | planted |\n|---|---|---|---|")
    for title, count in planted.items():
        print(f"| {title} | {DEFECTS[title].code} | {found[title]} | {count} |")
    share = 100 * found.total() / planted.total()
    print(f"\nFound {found.total()} of {planted.total()} ({share:.1f} %).")
    print(f"{len(wrong)} findings above a note on {untouched} writings of {len(names)} untouched models:")
    print("\n".join([*wrong, "", "missed:", *missed]))


def _planted(
    defect: Defect, healthy: onnx.ModelProto, versions: Mapping[int, onnx.ModelProto | None]
) -> Iterator[tuple[str, onnx.ModelProto, onnx.ModelProto]]:
    """Each writing of the defect in a model: its name, the model, and the model without it."""
    model = with_defect(defect, healthy)
    for spelling in SPELLINGS if defect.respelled else list(SPELLINGS)[:1]:
        other = model and respelled(model, spelling)
        if other is not None:
            yield spelling, other, healthy
    for version, before in versions.items() if defect.respelled else ():
        other = before and with_defect(defect, before)
        if before is not None and other is not None:
            yield f"in opset {version}", other, before


def with_defect(defect: Defect, healthy: onnx.ModelProto) -> onnx.ModelProto | None:
    """A copy of the model with the defect; None where it has no room for it."""
    model = onnx.ModelProto()
    model.CopyFrom(healthy)
    return model if defect.plant(model) else None


def codes(
    model: onnx.ModelProto, folder: Path, defect: Defect, host: Host, asked: Sequence[rules.Rule]
) -> dict[str, tuple[str, str]]:
    """What fires, by code."""
    path = folder / "model.onnx"
    data = folder / "model.data"
    data.unlink(missing_ok=True)
    if defect.external:
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        onnx.save(
            copy,
            path,
            save_as_external_data=True,
            location=data.name,
            size_threshold=0,
            convert_attribute=True,
        )
    else:
        onnx.save(model, path)
    facts = Facts(model=open_model(path), plan=defect.plan, target=defect.target, host=host)
    fired: dict[str, tuple[str, str]] = {}
    for f in rules.found_by(asked, facts):  # a rule may have several findings
        severity, what = fired.get(f.code, (f.severity, ""))
        fired[f.code] = severity if f.severity == "note" else f.severity, f"{what}; {f.what}".strip("; ")
    return fired


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=list(HEALTHY))
    parser.add_argument("--only", nargs="+", default=[], metavar="CODE")
    options = parser.parse_args()
    main(options.models, options.only)
