"""A fitted estimator of scikit-learn, LightGBM or XGBoost, created by a user's function."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .source import ExportResult, Input, SourceRefused, made_by_function, onnx_type

PACKAGES = {"sklearn": "scikit-learn", "lightgbm": "lightgbm", "xgboost": "xgboost"}
_INPUT = "X"


class Fitted:
    """A fitted estimator, with example rows if the user's function returned them."""

    kind = "fitted estimator"
    styles: Sequence[str] = ("",)
    left_out = ""

    def __init__(self, estimator: Any, rows: Any) -> None:
        self.estimator = estimator
        self.family = next(
            (
                kind.__module__.partition(".")[0]
                for kind in type(estimator).__mro__
                if _root(kind) in PACKAGES
            ),
            "",
        )
        if not self.family:
            raise SourceRefused(
                "the function returned a %s, which is not an estimator of %s"
                % (type(estimator).__name__, ", ".join(PACKAGES.values())),
                "return a fitted estimator, or (estimator, rows)",
            )
        self.columns = _columns(estimator, rows)
        array = None if rows is None else np.asarray(rows)
        kind = np.float32 if array is None or array.dtype.kind in "fiub" else array.dtype
        self.inputs: Sequence[Input] = (Input(_INPUT, onnx_type(np.dtype(kind)), (None, self.columns)),)
        self.example: Mapping[str, Any] = {} if array is None else {_INPUT: array.astype(kind)}
        self.exporters = ("skl2onnx",) if self.family == "sklearn" else ("onnxmltools",)
        self.versions = _versions(self.family, self.exporters[0])
        package = PACKAGES[self.family]
        self.framework = (
            "%s %s" % (package, next(iter(self.versions.values()), "")) if self.versions else package
        )

    def export(
        self, exporter: str, dynamic: Mapping[str, Mapping[int, str]], opset: int, path: str
    ) -> ExportResult:
        """Export the model; the number of rows is always dynamic."""
        del dynamic
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = self._converted(opset or None)
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        return ExportResult(inputs={_INPUT: _INPUT}, messages=[str(warning.message) for warning in caught])

    def _converted(self, opset: int | None) -> Any:
        # A mixture has probabilities of its components, and no classes.
        classifies = hasattr(self.estimator, "predict_proba") and hasattr(self.estimator, "classes_")
        if self.family == "sklearn":
            import skl2onnx

            types = [(_INPUT, skl2onnx.common.data_types.FloatTensorType([None, self.columns]))]
            options = {id(self.estimator): {"zipmap": False}} if classifies else None
            return skl2onnx.to_onnx(self.estimator, initial_types=types, options=options, target_opset=opset)
        import onnxmltools
        from onnxmltools.convert.common.data_types import FloatTensorType

        types = [(_INPUT, FloatTensorType([None, self.columns]))]
        if self.family == "lightgbm":
            model = self.estimator
            if _is_booster(model):  # stored models contain LightGBM's own name of the objective
                model = type(model)(model_str=model.model_to_string())
            return onnxmltools.convert_lightgbm(model, initial_types=types, target_opset=opset, zipmap=False)
        with _without_names(self.estimator), _named_cause(self.estimator):
            model = onnxmltools.convert_xgboost(self.estimator, initial_types=types, target_opset=opset)
        if _outputs_written(model) < _n_outputs(self.estimator):
            raise SourceRefused(_unsupported(self.estimator))
        return model

    def threads(self) -> int | None:
        """Return None: an estimator has its own ``n_jobs``, and libraries use ``OMP_NUM_THREADS``."""
        return None

    def prepared(self, feeds: Mapping[str, Any], style: str = "") -> Callable[[], Any]:
        """Return a function that computes probabilities, or else predictions, or else a transformation of the rows."""
        rows, estimator = feeds[_INPUT], self.estimator
        warnings.simplefilter("ignore")  # rows have no names of columns here
        names = ("predict_proba", "predict", "transform")
        call = next(getattr(estimator, name) for name in names if hasattr(estimator, name))
        return lambda: call(rows)

    def outputs_of(self, result: Any, feeds: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return labels and probabilities of a classifier; for other estimators, one array with a row per input row."""
        rows, estimator = feeds[_INPUT], self.estimator
        output = np.asarray(result)
        if _has_classes(estimator):
            output = output if output.ndim == 2 else np.stack([1 - output, output], axis=1)
            return [
                ("label", output.argmax(axis=1).astype(np.int64)),
                ("probabilities", output.astype(np.float32)),
            ]
        if hasattr(estimator, "predict_proba"):
            labels = np.asarray(estimator.predict(rows))
            # Converters write classes of truth values as 0 and 1.
            labels = labels.astype(np.int64) if labels.dtype == bool else labels
            return [("label", labels), ("probabilities", output.astype(np.float32))]
        if not hasattr(estimator, "predict"):
            return [("variable", output.astype(np.float32))]
        if getattr(estimator, "_estimator_type", "") in ("clusterer", "outlier_detector"):
            return [("label", output)]
        return [("variable", output.reshape(len(rows), -1).astype(np.float32))]


def open_source(request: Mapping[str, Any]) -> Fitted:
    """Return the estimator that the user's function returns, with its example rows if any."""
    product = made_by_function(request["source"], request["folder"])
    estimator, rows = product if isinstance(product, tuple) and len(product) == 2 else (product, None)
    if _root(type(estimator)) == "xgboost" and not hasattr(estimator, "get_params"):
        raise SourceRefused(
            "the function returned XGBoost's Booster, which predicts from no array",
            "return an XGBClassifier or XGBRegressor; load_model(file) of a new one reads a saved Booster",
        )
    return Fitted(estimator, rows)


@contextlib.contextmanager
def _without_names(estimator: Any) -> Iterator[None]:
    """Omit the names of an XGBoost model's columns, since its converter understands only f0, f1 and so on."""
    booster = estimator.get_booster() if hasattr(estimator, "get_booster") else estimator
    names = booster.feature_names
    booster.feature_names = None
    try:
        yield
    finally:
        booster.feature_names = names


@contextlib.contextmanager
def _named_cause(estimator: Any) -> Iterator[None]:
    """Name the property of an XGBoost model that its converter does not support, if that explains an error."""
    try:
        yield
    except Exception as error:
        unsupported = _unsupported(estimator)
        if not unsupported:
            raise
        raise SourceRefused(unsupported) from error


def _unsupported(estimator: Any) -> str:
    """Return the property of an XGBoost model that its converter does not support; "" if there is none."""
    booster, n_outputs = str(_config(estimator)["gradient_booster"]["name"]), _n_outputs(estimator)
    if n_outputs > 1:
        what = "with several outputs (this one has %d): train and convert one for each output" % n_outputs
    elif booster != "gbtree":
        what = "with another booster than gbtree (this one has %s)" % booster
    else:
        return ""
    return "onnxmltools %s converts no XGBoost model %s" % (importlib.metadata.version("onnxmltools"), what)


def _n_outputs(estimator: Any) -> int:
    """Return the number of values or sets of classes that an XGBoost model predicts for each row."""
    return int(_config(estimator)["learner_model_param"].get("num_target", 1))


def _config(estimator: Any) -> dict[str, Any]:
    learner: dict[str, Any] = json.loads(estimator.get_booster().save_config())["learner"]
    return learner


def _outputs_written(model: Any) -> int:
    """Return the number of values for each row to which the trees of an ONNX model contribute; 1 for one class."""
    ids = [
        attribute.ints
        for node in model.graph.node
        for attribute in node.attribute
        if attribute.name == "target_ids"
    ]
    return max((len(set(each)) for each in ids), default=1)


def _has_classes(estimator: Any) -> bool:
    """Return whether an estimator is LightGBM's Booster for classes, which predicts probabilities."""
    if not _is_booster(estimator):
        return False
    # The parameters contain the name that the user chose, of which LightGBM has several for one objective.
    objective = str(estimator.dump_model(num_iteration=1).get("objective", ""))
    return objective.startswith(("binary", "multiclass"))


def _is_booster(estimator: Any) -> bool:
    return _root(type(estimator)) == "lightgbm" and not hasattr(estimator, "get_params")


def _columns(estimator: Any, rows: Any) -> int:
    if rows is not None:
        return int(np.asarray(rows).shape[1])
    count = getattr(estimator, "n_features_in_", None)
    if count is None and hasattr(estimator, "num_feature"):
        count = estimator.num_feature()
    if count is None and hasattr(estimator, "num_features"):
        count = estimator.num_features()
    if not count or count < 1:
        raise SourceRefused(
            "the estimator is not fitted", "fit it in the function, or return (estimator, rows)"
        )
    return int(count)


def _root(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _versions(family: str, exporter: str) -> dict[str, str]:
    versions = {}
    for name in (PACKAGES[family], "xgboost-cpu" if family == "xgboost" else "", exporter, "onnx"):
        try:
            versions[name] = importlib.metadata.version(name)
        except (importlib.metadata.PackageNotFoundError, ValueError):
            continue
    return versions
