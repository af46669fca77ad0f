"""Print, as Markdown, which inputs ortune chooses for every model of the zoo, and whether they run."""

from __future__ import annotations

import sys
from pathlib import Path

import onnxruntime as ort

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import zoo
from ortune.graph.model.open import open_model
from ortune.inputs import workload


def main() -> int:
    """Print the table; the exit code is 1 when a model does not run."""
    ort.set_default_logger_severity(4)
    failures = 0
    print("| model | inputs chosen | runs |\n|---|---|---|")
    for name in zoo.MODELS:
        path = zoo.model_path(name)
        model = open_model(path).ir
        proposed = workload.propose(model)
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        runs = "yes"
        try:
            for _, feeds in workload.feeds(model, proposed):
                session.run(None, feeds)
        except (RuntimeError, ValueError, ort.capi.onnxruntime_pybind11_state.InvalidArgument) as error:
            failures += 1
            runs = f"no: {str(error).splitlines()[0]}"
        chosen = workload.describe(proposed).removeprefix("inputs: ").replace("|", "\\|")
        print(f"| {name} | {chosen} | {runs} |")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
