"""Options of ``ortune convert``: the source, its framework and exporter, and the check of the result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ortune.errors import UsageError
from ortune.verbs._shared.common import Framework, NoWait, Page, RuntimeOption, Seed, Tolerance, TrustSource
from ortune.verbs._shared.groups import FeedOptions, with_tolerance
from ortune.verbs._shared.quantities import seconds
from ortune.verbs._shared.spelling import MODEL, OUT, RUN, AnyPath, Argument, Option, path

if TYPE_CHECKING:
    from ortune.engines.conversion.kinds import SourceKind
    from ortune.measuring.input_options import InputOptions

FORMATS = ("text", "json", "github", "markdown", "html")
STOPPING = ""
TABLE = "conversions"
EXAMPLE = 'ortune.convert("model.pt2", output="model.onnx")'
TO = ("onnx", "ort")
AUTO = "auto"
SET_BUDGET = "1m"
"""Default time for measuring the files of --matrix."""


@dataclass(frozen=True, kw_only=True)
class Options(FeedOptions):
    """Convert a PyTorch, TensorFlow, Keras, TFLite, scikit-learn, LightGBM or XGBoost model to ONNX, and check it.

    Exports with the framework's maintained converter in a separate environment. Compares the outputs of the
    source and the ONNX model on several inputs, at several sizes of each dynamic axis, with ONNX Runtime's optimiser
    on and off, and writes the model only if they match. --verify checks an existing conversion. --to ort converts an
    ONNX model to ORT format for the device or browser given with --for.
    """

    source: Annotated[
        str,
        Argument("SOURCE", "model.pt2, model.keras, a SavedModel folder, model.tflite, or module:function."),
    ]
    model: Annotated[AnyPath | None, Argument("[MODEL.onnx]", "The ONNX model to check, with --verify.")] = (
        None
    )
    to: Annotated[str, Option("--to", "onnx|ort", "The format to write; ort takes an .onnx.", OUT)] = "onnx"
    runs_on: Annotated[
        str,
        Option(
            "--for",
            "PLACE",
            "Where the .ort will run: cpu-arm64, cpu-amd64, nnapi, coreml, xnnpack, qnn, web-webgpu or web-wasm.",
            OUT,
        ),
    ] = ""
    level: Annotated[
        str,
        Option(
            "--level",
            "LEVEL",
            "Optimisation level of the .ort: basic, extended or all. Default: depends on --for.",
            OUT,
        ),
    ] = ""
    style: Annotated[
        str,
        Option(
            "--style",
            "STYLE",
            "Style of the .ort: fixed, or runtime (CPU fusions are applied at load time).",
            OUT,
        ),
    ] = ""
    needed: Annotated[
        str,
        Option(
            "--needed",
            "operators|types",
            "Also write the operator list for a reduced build of ONNX Runtime.",
            OUT,
        ),
    ] = ""
    aware: Annotated[
        bool,
        Option("--aware", "", "Do not fuse nodes that the provider supports; optimise all others.", OUT),
    ] = False
    matrix: Annotated[
        bool,
        Option(
            "--matrix",
            "",
            "Write a folder of .ort files (CPU, provider, both) with benchmark apps for phones.",
            OUT,
        ),
    ] = False
    verify: Annotated[
        bool, Option("--verify", "", "Check MODEL.onnx against SOURCE; write nothing.", RUN)
    ] = False
    dynamic: Annotated[
        str,
        Option(
            "--dynamic", "batch,seq", "Axes to keep dynamic: batch, seq, height, width, or INPUT:AXIS=NAME.", MODEL
        ),
    ] = ""  # fmt: skip
    exporter: Annotated[
        str,
        Option(
            "--exporter", "NAME",
            "dynamo or torchscript (PyTorch). Default: the first whose outputs match.", MODEL,
        ),
    ] = AUTO  # fmt: skip
    opset: Annotated[
        int, Option("--opset", "N", "ONNX opset. Default: the exporter's own choice.", MODEL, least=0)
    ] = 0
    framework: Framework = None
    trust_source: TrustSource = False
    source_python: Annotated[
        AnyPath | None,
        Option(
            "--source-python", "PATH",
            "Interpreter or venv with the framework and its converter. Default: one that ortune installs once.", MODEL,
        ),
    ] = None  # fmt: skip
    data: Annotated[
        AnyPath | None,
        Option(
            "--data", "PATH", "More real inputs to compare on: a folder of .npz or test_data_set_*.", MODEL
        ),
    ] = None
    tune: Annotated[
        bool,
        Option("--tune", "", "Tune the new model; its bundle records the source.", RUN),
    ] = False
    budget: Annotated[
        str,
        Option(
            "--budget",
            "3m",
            "Total time for --tune (default 3m); for --matrix, to compare its files here (default 1m, 0 to skip).",
            RUN,
        ),
    ] = ""
    runtime: RuntimeOption = None
    tolerance: Tolerance = None
    seed: Seed = 0
    no_wait: NoWait = False
    force: Annotated[
        bool,
        Option("--force", "", "Overwrite an existing file; write an .ort that does not suit --for.", OUT),
    ] = False
    output: Annotated[
        AnyPath | None,
        Option(
            "--output",
            "FILE",
            "File for the new model. Default: NAME.onnx or NAME.ort in the current folder.",
            OUT,
            short="-o",
        ),
    ] = None
    report: Page = None

    def read_feeds(self) -> InputOptions:
        """Parse the options for inputs, tolerance and seed."""
        feeds = with_tolerance(super().read_feeds(), self.tolerance)
        return replace(feeds, data=path(self.data), seed=self.seed)

    @cached_property
    def consistent(self) -> bool:
        """Raise UsageError if options contradict each other."""
        if self.to not in TO:
            raise UsageError(
                f"{self.to!r} is not a supported format", where="--to", do=f"one of {', '.join(TO)}"
            )
        if self.to != "ort":
            for name in ("runs_on", "level", "style", "needed", "aware", "matrix"):
                if getattr(self, name):
                    option = "--for" if name == "runs_on" else f"--{name}"
                    raise UsageError("applies to files in ORT format only", where=option, do="add --to ort")
        elif self.verify or self.model is not None or self.dynamic:
            raise UsageError(
                "a file in ORT format is converted from one .onnx file",
                where="--to ort",
                do="omit the others",
            )
        if self.verify != (self.model is not None):
            raise UsageError(
                "--verify checks a model against its source"
                if self.verify
                else "checking a model needs --verify",
                do=f"ortune convert --verify {self.source} MODEL.onnx",
            )
        if self.tune and self.verify:
            raise UsageError("--tune works only for a new conversion", where="--tune", do="omit --verify")
        if self.budget and not (self.tune or self.matrix):
            raise UsageError(
                "applies to --tune and --matrix only", where="--budget", do="add --tune, or --to ort --matrix"
            )
        return True

    @cached_property
    def set_budget_s(self) -> float:
        """Seconds for measuring the files of --matrix; 0 measures nothing."""
        return seconds(self.budget or SET_BUDGET, "--budget")

    def place(self, kind: SourceKind) -> Path:
        """Return the path of the written model.

        Raises:
            UsageError: The path is not writable, or an existing file must not be replaced.
        """
        from ortune.graph.model.save import require_place

        place = path(self.output) or Path(f"{kind.stem}.onnx")
        require_place(place, replace=self.force)
        return place
