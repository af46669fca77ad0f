"""Plants defects in real models without any, and counts which of them the rules find from the file alone.

    python benchmarks/rule_mutations.py [MODEL ...] [--only CODE ...]

Each defect is planted wherever a model has room for it, and each such model is written in ten ways: operands in another
order, constants as nodes or as initializers, other versions of the operators, names, declared sizes. A defect is found
where its rule fires that did not before. What fires above a note on the untouched models, however they are written, is
printed, to be looked at by hand. Nothing is run.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "rewrites"))

from ortune import rules
from ortune.model.open import open_model
from ortune.records import Host
from ortune.rules import ABOUT_MODELS, Facts, Selection
from ortune.targets.machine import Machine
from planted_defects import DEFECTS, SPELLINGS, Defect, respelled
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
            for spelling in SPELLINGS:
                model = respelled(healthy, spelling)
                untouched += model is not None
                fired = {} if model is None else codes(model, Path(folder), Defect(code=""), host, asked)
                wrong += [
                    f"{name}, {spelling}: {code} {what}"
                    for code, (severity, what) in fired.items()
                    if severity != "note"
                ]
            for title, defect in defects.items():
                model = onnx.ModelProto()
                model.CopyFrom(healthy)
                if not defect.plant(model):
                    continue
                rule = rules.all_rules()[defect.code]  # asked whatever its tier
                right = Defect(code="", plan=defect.right, target=defect.target)
                was = codes(healthy, Path(folder), right, host, [rule])
                for spelling in SPELLINGS if defect.respelled else list(SPELLINGS)[:1]:
                    other = respelled(model, spelling)
                    if other is None:
                        continue
                    after = codes(other, Path(folder), defect, host, [rule])
                    hit = defect.code in after and after[defect.code] != was.get(defect.code)
                    planted[title] += 1
                    found[title] += hit
                    if not hit:
                        missed.append(f"{name}: {title}, {spelling}")
    print("| defect | rule | found | planted |\n|---|---|---|---|")
    for title, count in planted.items():
        print(f"| {title} | {DEFECTS[title].code} | {found[title]} | {count} |")
    share = 100 * found.total() / planted.total()
    print(f"\nFound {found.total()} of {planted.total()} ({share:.1f} %).")
    print(f"{len(wrong)} findings above a note on {untouched} writings of {len(names)} untouched models:")
    print("\n".join([*wrong, "", "missed:", *missed]))


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
