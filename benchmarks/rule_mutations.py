"""Plants defects in real models without any, and counts which of them the rules find from the file alone.

    python benchmarks/rule_mutations.py

Each defect is planted wherever a model has room for it. A defect is found where its rule fires that did not before.
What fires on the untouched models above a note is printed, to be looked at by hand. Nothing is run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from ortune import rules
from ortune.model.open import open_model
from ortune.records import Host
from ortune.rules import ABOUT_MODELS, Facts, Selection
from ortune.targets.machine import Machine
from planted_defects import DEFECTS, Defect
from zoo import model_path

HEALTHY = (
    "ppocrv4-rec", "ppocrv2-cls", "magika", "basic-pitch", "oww-embedding", "oww-alexa", "oww-hey-jarvis",
    "oww-timer", "silero-vad-16k-sequence", "oww-melspectrogram",
)  # fmt: skip


def main() -> None:
    """Prints what was found, defect by defect, and what fires on the untouched models."""
    # With the instructions that some defects are slow on, whatever this machine has.
    host = msgspec.structs.replace(Machine().host, features=("avx2", "avx512_vnni"))
    asked = [rule for rule in Selection(preview=True).rules() if rule.family in ABOUT_MODELS]
    found: dict[str, list[int]] = {name: [0, 0] for name in DEFECTS}
    wrong: list[str] = []
    missed: list[str] = []
    with TemporaryDirectory() as folder:
        for name in HEALTHY:
            healthy = onnx.load(model_path(name))
            before = codes(healthy, Path(folder), Defect(code=""), host, asked)
            wrong += [
                f"{name}: {code} {what}" for code, (severity, what) in before.items() if severity != "note"
            ]
            for title, defect in DEFECTS.items():
                model = onnx.ModelProto()
                model.CopyFrom(healthy)
                if defect.plant(model):
                    rule = rules.all_rules()[defect.code]  # asked whatever its tier
                    with_it = [*(each for each in asked if each is not rule), rule]
                    right = Defect(code="", plan=defect.right, target=defect.target)
                    was = codes(healthy, Path(folder), right, host, [rule])
                    after = codes(model, Path(folder), defect, host, with_it)
                    hit = defect.code in after and after[defect.code] != was.get(defect.code)
                    if not hit:
                        missed.append(f"{name}: {title}")
                    found[title][0] += hit
                    found[title][1] += 1
    print("| defect | rule | found | planted |\n|---|---|---|---|")
    for title, (hits, planted) in found.items():
        print(f"| {title} | {DEFECTS[title].code} | {hits} | {planted} |")
    hits, planted = (sum(pair[i] for pair in found.values()) for i in (0, 1))
    print(
        f"\nFound {hits} of {planted}; {len(wrong)} findings above a note on {len(HEALTHY)} untouched models:"
    )
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
    return {f.code: (f.severity, f.what) for f in rules.found_by(asked, facts)}


if __name__ == "__main__":
    main()
