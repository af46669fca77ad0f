"""Creates the errors for failed trials, with advice."""

from __future__ import annotations

import re

from ortune.catalogue import providers
from ortune.catalogue.provider import DeviceFailure
from ortune.errors import MeasurementError, ModelError, RuntimeNotFound
from ortune.measuring.executor import Arm
from ortune.records import Failed, Plan
from ortune.runtimes import lacking


def raise_if_unrunnable(outcome: Failed, arm: Arm) -> None:
    """Raise an error for a failure that other inputs cannot avoid.

    Raises:
        RuntimeNotFound: The interpreter does not start or has no onnxruntime.
        ModelError: ONNX Runtime does not load the model.
        MeasurementError: The plan's settings cannot be applied, or the process ended abnormally.
    """
    where = place(arm)
    if outcome.reason == "no-runtime":
        # --runtime cannot provide a browser or onnxruntime-web; their errors contain the advice.
        what, _, do = outcome.what.partition(" -> ")
        where = "" if do else arm.runtime.python
        raise RuntimeNotFound(what, where=where, do=do or "pip install onnxruntime, or --runtime PATH")
    loading = outcome.phase in ("starting", "importing", "preparing", "loading")
    # What fails while the plan is applied is the plan's fault, not the model's.
    if outcome.phase != "preparing" and loading and outcome.reason in ("load-error", "unsupported"):
        newer = _too_new(outcome.what, arm.runtime.build)
        if newer:
            web = bool(arm.runtime.ort_web_dist)
            other = "onnxruntime-web (--ort-web VERSION)" if web else "onnxruntime (--runtime PATH)"
            do = f"use a newer {other}, or export the model for this one"
            raise ModelError(newer, where=where, do=do)
        plain = device_failure(outcome, arm.plan)
        if plain is not None:
            raise ModelError(f"{plain.what}\n{outcome.what}", where=where, do=plain.do)
        do = _of_rewritten(outcome, arm) or remedy(outcome, in_page=arm.plan.is_web)
        raise ModelError(outcome.what, where=where, do=do)
    if loading or outcome.reason in (
        "crash", "timeout", "out-of-memory", "disk-full", "hidden", "protocol", "not-applied"
    ):  # fmt: skip
        plain = device_failure(outcome, arm.plan)
        what = f"{plain.what}\n{describe(outcome)}" if plain is not None else describe(outcome)
        do = plain.do if plain is not None else _made_for(outcome) or remedy(outcome, in_page=arm.plan.is_web)
        raise MeasurementError(what, where=where, code=outcome.reason, do=do)


def device_failure(outcome: Failed, plan: Plan) -> DeviceFailure | None:
    """Return the known failure of the plan's device or device libraries that matches the outcome; None if none does."""
    text = "\n".join((outcome.what, *outcome.log))
    known = (failure for spec in plan.providers for failure in providers.find(spec.name).failures)
    return next((one for one in known if re.search(one.pattern, text, re.IGNORECASE)), None)


def _of_rewritten(outcome: Failed, arm: Arm) -> str:
    """Return advice if a rewritten model has contradicting shapes; "" for other failures."""
    if not arm.plan.rewrites or _SHAPES not in outcome.what:
        return ""
    return f"omit {arm.plan.rewrites[-1].name}, or pass sizes that the model accepts with --dim or --shape"


def _made_for(outcome: Failed) -> str:
    """Return advice to install a provider that the build lacks; "" for other failures."""
    provider, fell_back, _ = outcome.what.partition(" fell back to ")
    if outcome.reason != "not-applied" or not fell_back or _HAS_IT in outcome.what:
        return ""
    return lacking.remedy(providers.find(provider))


def _too_new(what: str, build: str) -> str:
    """Return the error for a model that is too new for the build, from ONNX Runtime's message; "" for other models."""
    ir = re.search(r"Unsupported model IR version: (\d+), max supported IR version: (\d+)", what)
    if ir:
        return f"IR version {ir[1]} is newer than {build}, which reads up to {ir[2]}"
    opset = re.search(r"Opset (\d+) is under development.*support for domain (\S+) is till opset (\d+)", what)
    if opset:
        return f"opset {opset[1]} of {opset[2]} is newer than {build}, which has up to {opset[3]}"
    return ""


def place(arm: Arm) -> str:
    """Return the location of a failed trial: the model, and the plan if it is not the default."""
    return f"{arm.model} with {arm.plan.describe()}" if arm.plan.id != Plan().id else str(arm.model)


def describe(outcome: Failed) -> str:
    """Return the text of a failure; for a crash or protocol error, with the last lines that the process printed."""
    silent = outcome.reason in ("crash", "protocol")
    # These texts are sentences already.
    what = (
        outcome.what if outcome.reason in ("not-applied", "timeout") else f"{outcome.reason}: {outcome.what}"
    )
    return "\n".join([what, *(outcome.log[-5:] if silent else ())])


def remedy(outcome: Failed, *, in_page: bool = False) -> str:
    """Return advice for a failure of a process or of a page."""
    if outcome.phase == "preparing":
        return "omit that setting, or provide what it needs"
    if in_page and outcome.reason in _IN_PAGE:
        return _IN_PAGE[outcome.reason]
    load = next(
        (do for words, do in _NOT_LOADED if re.search(words, outcome.what, re.IGNORECASE)), _NOT_LOADED_ELSE
    )
    refused = next((do for words, do in _NOT_APPLIED if words in outcome.what), _LACKS_IT)
    return {
        "load-error": load,
        "unsupported": load,
        "run-error": "pass other inputs (--inputs, --shape, --dim)",
        "input-error": "pass other inputs (--inputs, --shape, --dim)",
        "timeout": "pass smaller inputs (--shape, --dim) or a larger --budget",
        "out-of-memory": "pass smaller inputs (--shape, --dim) or use a machine with more memory",
        "disk-full": "free space in the temporary folder, or set TMPDIR",
        "hidden": "keep the page in the foreground and the screen on, and measure again",
        "not-applied": refused,
        "unknown-key": "omit the setting, or use an onnxruntime that supports it (--runtime)",
        "protocol": "check what that interpreter prints on its own: nothing else may write to the worker's stdout",
    }.get(
        outcome.reason,
        "run it alone with the same onnxruntime to see whether the crash is unrelated to ortune",
    )


_SHAPES = "InferenceError"
_NOT_LOADED = (
    (
        r"FP16 .*soc_model is not specified",
        "name the chip too, such as --set qnn_device_model=60 for the Snapdragon X Elite",
    ),
    (
        r"^EPFail: .*dynamic shape is not supported",
        "fix the size of each dynamic dimension (--rewrite fixed-dimensions:NAME=SIZE), "
        f"or use the CPU (--target {providers.CPU.target})",
    ),
    (
        r"^EPFail: ",
        "omit the options of the execution provider or change them, "
        f"or run on the CPU (--target {providers.CPU.target})",
    ),
    (
        r"cannot use the graph capture feature",
        "omit graph capture, since some nodes of the model run elsewhere",
    ),
    # A file that was there when the model was opened.
    (
        r"no.?such.?file|file doesn't exist|does not exist|cannot get file size",
        "restore the file, and try again",
    ),
    (
        r"not a registered function|no op registered|no schema registered|unregistered|not registered",
        "pass the operator's library with --custom-ops LIB, or use a newer onnxruntime (--runtime)",
    ),
    (
        r"could not find an implementation|not.?implemented",
        "use an onnxruntime that supports this operator with these types (--runtime), or export the model with "
        "other types",
    ),
    # Shapes and scales that are inferred with are read before external data is.
    (
        r"cannot parse data from external",
        "keep small tensors in the model file: "
        "onnx.save(onnx.load(MODEL), NEW, save_as_external_data=True, size_threshold=1024)",
    ),
    # ONNX Runtime rejects the operator's shapes before any input is known, so other inputs cannot help.
    (
        _SHAPES,
        "export the model again: shapes in it contradict each other, whatever its inputs are",
    ),
    (
        r"custom.?op|dlopen|shared object|LoadLibrary",
        "pass a library that this onnxruntime can load with --custom-ops LIB",
    ),
    (r"permission denied", "make the file readable, and try again"),
    (
        r"invalid model|invalid.?graph|invalid.?protobuf|protobuf parsing|type error",
        "export the model again; onnx.checker.check_model shows what is wrong with it",
    ),
    (
        r"cannot be fed|cannot feed",
        "use an onnxruntime that accepts this type (--runtime), or export the model with another type",
    ),
)
"""Advice for models that ONNX Runtime does not load, by a pattern of its message."""
_NOT_LOADED_ELSE = "load the model alone with the same onnxruntime to see whether it fails there too"
_HAS_IT = "this build has it"
_LACKS_IT = "omit this option, or use an onnxruntime that has it (--runtime); ortune doctor lists the builds"
_NOT_APPLIED = (
    ("has no attribute", _LACKS_IT),
    (
        _HAS_IT,
        "omit or change the options of the execution provider; a library or device may also be missing",
    ),
    (
        "found no device",
        f"run ortune doctor to see what is missing, or use the CPU (--target {providers.CPU.target})",
    ),
    (
        "took none of the nodes",
        "omit the execution provider; if the model has dynamic dimensions, fix them first "
        "(--rewrite fixed-dimensions:NAME=SIZE)",
    ),
    (
        " fell back to ",
        "use an onnxruntime that has this execution provider (--runtime), or omit it; ortune doctor lists the builds",
    ),
    ("was refused", "omit the setting, or use another value"),
    ("was not applied", "omit the setting, or use another value"),
)
"""Advice for settings and providers that were not applied, by a part of the message."""
_LACKING = "use a browser or an onnxruntime-web that has it: --browser PATH, --headful, --ort-web VERSION"
_IN_PAGE = {
    "load-error": _LACKING,
    "unsupported": _LACKING,
    "not-applied": f"omit the setting, or {_LACKING}",
    "crash": "start the browser by hand to see whether it crashes there too, or use another: --browser PATH",
}
"""Advice for failures in a browser page, where it differs from the advice for a process."""
