"""Do ordinary TFLite files and fitted estimators still open, and export? Run by hand.

    python benchmarks/ordinary_sources.py [tflite scikit-learn lightgbm xgboost]

Each family is written by its framework. One confined process, as `ortune convert` starts it, opens and exports one
source after another. A row counts the sources that opened and were exported, and names the others with the reason.
The exit code is 1 where a source did not open. Converters come from the environments of ``ortune runtime add``, which
are made where they are missing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ortune.records import ExportSource, OpenSource, SourceExported, SourceFormat, SourceOpened
from ortune.runtimes import made
from ortune.runtimes.converters import SKLEARN, TENSORFLOW, Converter
from ortune.targets.fence import fence_of
from ortune.targets.source import SourceProcess, SourceProcessFailed

SCIKIT_LEARN = {
    "logistic": "linear_model.LogisticRegression().fit(X, two)",
    "logistic_of_three": "linear_model.LogisticRegression().fit(X, three)",
    "linear": "linear_model.LinearRegression().fit(X, real)",
    "ridge": "linear_model.Ridge().fit(X, real)",
    "ridge_of_two_outputs": "linear_model.Ridge().fit(X, both)",
    "lasso": "linear_model.Lasso(0.01).fit(X, real)",
    "elastic_net": "linear_model.ElasticNet(0.01).fit(X, real)",
    "bayesian_ridge": "linear_model.BayesianRidge().fit(X, real)",
    "huber": "linear_model.HuberRegressor().fit(X, real)",
    "poisson": "linear_model.PoissonRegressor().fit(X, abs(real))",
    "sgd_classifier": "linear_model.SGDClassifier(loss='log_loss', random_state=0).fit(X, two)",
    "sgd_regressor": "linear_model.SGDRegressor(random_state=0).fit(X, real)",
    "perceptron": "linear_model.Perceptron().fit(X, three)",
    "linear_svc": "svm.LinearSVC().fit(X, three)",
    "svc": "svm.SVC().fit(X, three)",
    "svc_with_probabilities": "svm.SVC(probability=True, random_state=0).fit(X, two)",
    "svr": "svm.SVR().fit(X, real)",
    "one_class_svm": "svm.OneClassSVM().fit(X)",
    "neighbours_classifier": "neighbors.KNeighborsClassifier().fit(X, three)",
    "neighbours_regressor": "neighbors.KNeighborsRegressor().fit(X, real)",
    "outlier_factor": "neighbors.LocalOutlierFactor(novelty=True).fit(X)",
    "gaussian_bayes": "naive_bayes.GaussianNB().fit(X, three)",
    "bernoulli_bayes": "naive_bayes.BernoulliNB().fit(X, two)",
    "multinomial_bayes": "naive_bayes.MultinomialNB().fit(abs(X), three), abs(X)[:16]",
    "tree_classifier": "tree.DecisionTreeClassifier(random_state=0).fit(X, three)",
    "tree_regressor": "tree.DecisionTreeRegressor(random_state=0).fit(X, real)",
    "tree_of_two_outputs": "tree.DecisionTreeRegressor(random_state=0).fit(X, both)",
    "forest_classifier": "ensemble.RandomForestClassifier(20, random_state=0).fit(X, three)",
    "forest_regressor": "ensemble.RandomForestRegressor(20, random_state=0).fit(X, real)",
    "extra_trees": "ensemble.ExtraTreesClassifier(20, random_state=0).fit(X, two)",
    "boosting_classifier": "ensemble.GradientBoostingClassifier(n_estimators=20, random_state=0).fit(X, three)",
    "boosting_regressor": "ensemble.GradientBoostingRegressor(n_estimators=20, random_state=0).fit(X, real)",
    "histogram_classifier": "ensemble.HistGradientBoostingClassifier(max_iter=20, random_state=0).fit(X, two)",
    "histogram_regressor": "ensemble.HistGradientBoostingRegressor(max_iter=20, random_state=0).fit(X, real)",
    "ada_classifier": "ensemble.AdaBoostClassifier(n_estimators=20, random_state=0).fit(X, two)",
    "bagging": "ensemble.BaggingClassifier(random_state=0).fit(X, two)",
    "isolation_forest": "ensemble.IsolationForest(n_estimators=20, random_state=0).fit(X)",
    "voting": "ensemble.VotingClassifier([('a', naive_bayes.GaussianNB()), "
    "('b', tree.DecisionTreeClassifier(max_depth=4))], voting='soft').fit(X, two)",
    "stacking": "ensemble.StackingClassifier([('a', naive_bayes.GaussianNB())]).fit(X, two)",
    "calibrated": "calibration.CalibratedClassifierCV(svm.LinearSVC()).fit(X, two)",
    "one_against_rest": "multiclass.OneVsRestClassifier(linear_model.LogisticRegression()).fit(X, three)",
    "of_two_outputs": "multioutput.MultiOutputRegressor(linear_model.Ridge()).fit(X, both)",
    "mlp_classifier": "neural_network.MLPClassifier(max_iter=50, random_state=0).fit(X, three)",
    "mlp_regressor": "neural_network.MLPRegressor(max_iter=50, random_state=0).fit(X, real)",
    "gaussian_regressor": "gaussian_process.GaussianProcessRegressor().fit(X[:40], real[:40])",
    "linear_discriminants": "discriminant_analysis.LinearDiscriminantAnalysis().fit(X, three)",
    "quadratic_discriminants": "discriminant_analysis.QuadraticDiscriminantAnalysis().fit(X, three)",
    "k_means": "cluster.KMeans(4, n_init=1, random_state=0).fit(X)",
    "gaussian_mixture": "mixture.GaussianMixture(3, random_state=0).fit(X)",
    "partial_least_squares": "cross_decomposition.PLSRegression().fit(X, real)",
    "pca": "decomposition.PCA(3).fit(X)",
    "truncated_svd": "decomposition.TruncatedSVD(3, random_state=0).fit(X)",
    "standard_scaler": "preprocessing.StandardScaler().fit(X)",
    "min_max_scaler": "preprocessing.MinMaxScaler().fit(X)",
    "polynomial": "preprocessing.PolynomialFeatures().fit(X)",
    "imputer": "impute.SimpleImputer().fit(X)",
    "best_columns": "feature_selection.SelectKBest(k=3).fit(X, two)",
    "scaled_logistic": "pipeline.make_pipeline(preprocessing.StandardScaler(), "
    "linear_model.LogisticRegression()).fit(X, two)",
    "columns": "compose.ColumnTransformer([('a', preprocessing.StandardScaler(), [0, 1]), "
    "('b', 'passthrough', [2])]).fit(X)",
}
LIGHTGBM = {
    "classifier": "lightgbm.LGBMClassifier(n_estimators=20, verbose=-1).fit(X, two)",
    "classifier_of_three": "lightgbm.LGBMClassifier(n_estimators=20, verbose=-1).fit(X, three)",
    "regressor": "lightgbm.LGBMRegressor(n_estimators=20, verbose=-1).fit(X, real)",
    "quantile": "lightgbm.LGBMRegressor(objective='quantile', n_estimators=20, verbose=-1).fit(X, real)",
    "poisson": "lightgbm.LGBMRegressor(objective='poisson', n_estimators=20, verbose=-1).fit(X, abs(real))",
    "dart": "lightgbm.LGBMRegressor(boosting_type='dart', n_estimators=20, verbose=-1).fit(X, real)",
    "forest": "lightgbm.LGBMClassifier(boosting_type='rf', bagging_freq=1, bagging_fraction=0.7, n_estimators=20, "
    "verbose=-1).fit(X, two)",
    "ranker": "lightgbm.LGBMRanker(n_estimators=20, verbose=-1).fit(X, two, group=[100] * 3)",
    "booster": "lightgbm.train({'objective': 'binary', 'verbose': -1}, lightgbm.Dataset(X, two), 20)",
    "booster_regression": "lightgbm.train({'objective': 'l2', 'verbose': -1}, lightgbm.Dataset(X, real), 20)",
}
XGBOOST = {
    "classifier": "xgboost.XGBClassifier(n_estimators=20).fit(X, two)",
    "classifier_of_three": "xgboost.XGBClassifier(n_estimators=20).fit(X, three)",
    "regressor": "xgboost.XGBRegressor(n_estimators=20).fit(X, real)",
    "poisson": "xgboost.XGBRegressor(objective='count:poisson', n_estimators=20).fit(X, abs(real))",
    "absolute_error": "xgboost.XGBRegressor(objective='reg:absoluteerror', n_estimators=20).fit(X, real)",
    "dart": "xgboost.XGBRegressor(booster='dart', n_estimators=20).fit(X, real)",
    "linear": "xgboost.XGBRegressor(booster='gblinear', n_estimators=20).fit(X, real)",
    "forest": "xgboost.XGBRFClassifier(n_estimators=20).fit(X, two)",
    "ranker": "xgboost.XGBRanker(n_estimators=20).fit(X, two, group=[100] * 3)",
    "regressor_of_two_outputs": "xgboost.XGBRegressor(n_estimators=20).fit(X, both)",
    "trees_of_two_outputs": "xgboost.XGBRegressor(n_estimators=20, multi_strategy='multi_output_tree').fit(X, both)",
    "classifier_of_two_labels": "xgboost.XGBClassifier(n_estimators=20).fit(X, both > 0)",
}
_HEAD = """
import os
os.environ["OMP_NUM_THREADS"] = "1"  # more threads would only wait for each other on a busy machine
import numpy as np
{imports}

X = np.random.default_rng(0).normal(size=(300, 6)).astype(np.float32)
two, three = (X[:, 0] > 0).astype(int), np.digitize(X[:, 0], [-0.5, 0.5])
real = X[:, 0] ** 2 + X[:, 1]
both = np.stack([real, X[:, 2]], 1)
"""
_OF_SKLEARN = (
    "calibration cluster compose cross_decomposition decomposition discriminant_analysis ensemble feature_selection "
    "gaussian_process impute linear_model mixture multiclass multioutput naive_bayes neighbors neural_network pipeline "
    "preprocessing svm tree"
)
FITTED = {
    "scikit-learn": (f"from sklearn import {', '.join(_OF_SKLEARN.split())}", SCIKIT_LEARN),
    "lightgbm": ("import lightgbm", LIGHTGBM),
    "xgboost": ("import xgboost", XGBOOST),
}
IMAGE, SOUND, WORDS = "Input((32, 32, 3))", "Input((64, 8))", "Input((16,), dtype='int32')"
TFLITE = {
    "dense": ["Input((16,))", "L.Dense(32, 'relu')", "L.Dense(4, 'softmax')"],
    "cnn": [IMAGE, "L.Conv2D(8, 3, activation='relu')", "L.MaxPooling2D()", "L.Flatten()", "L.Dense(10)"],
    "depthwise": [
        IMAGE,
        "L.DepthwiseConv2D(3)",
        "L.BatchNormalization()",
        "L.ReLU(6)",
        "L.GlobalAveragePooling2D()",
    ],
    "separable": [IMAGE, "L.SeparableConv2D(8, 3)", "L.AveragePooling2D(2)", "L.Activation('hard_silu')"],
    "strided_padded": [IMAGE, "L.ZeroPadding2D(1)", "L.Conv2D(8, 3, strides=2)", "L.LeakyReLU()"],
    "dilated": [IMAGE, "L.Conv2D(8, 3, dilation_rate=2, padding='same')", "L.PReLU()"],
    "upsampled": [
        IMAGE,
        "L.Conv2D(8, 3)",
        "L.UpSampling2D(2)",
        "L.UpSampling2D(2, interpolation='bilinear')",
    ],
    "transposed": [IMAGE, "L.Conv2DTranspose(8, 3, strides=2)", "L.Activation('tanh')"],
    "sound": [SOUND, "L.Conv1D(8, 5)", "L.MaxPooling1D(2)", "L.GlobalMaxPooling1D()", "L.Dense(3)"],
    "lstm": [SOUND, "L.LSTM(8, unroll=True)", "L.Dense(3)"],
    "gru": ["Input((8, 8), batch_size=1)", "L.GRU(8, unroll=True)"],
    "both_directions": ["Input((8, 8), batch_size=1)", "L.Bidirectional(L.LSTM(4, unroll=True))"],
    "words": [WORDS, "L.Embedding(50, 8)", "L.GlobalAveragePooling1D()", "L.Dense(2, 'sigmoid')"],
    "normalised": [SOUND, "L.LayerNormalization()", "L.Dense(8, 'gelu')"],
    "grouped": [IMAGE, "L.Conv2D(8, 3)", "L.GroupNormalization(4)", "L.Activation('swish')"],
    "permuted": [IMAGE, "L.Permute((3, 1, 2))", "L.Reshape((3, -1))", "L.Softmax()"],
    "cropped": [IMAGE, "L.Cropping2D(2)", "L.Dense(4, 'softplus')"],
}
APPLICATIONS = (
    "MobileNet",
    "MobileNetV2",
    "MobileNetV3Small",
    "EfficientNetB0",
    "NASNetMobile",
    "DenseNet121",
)
_TFLITE_HEAD = """
import keras, numpy as np, tensorflow as tf
from keras import Input, layers as L

def write(name, model, **more):
    model.export("saved", verbose=False)
    converter = tf.lite.TFLiteConverter.from_saved_model("saved")
    for key, value in more.items():
        setattr(converter, key, value)
    open(name + ".tflite", "wb").write(converter.convert())

def inputs():
    for i in range(8):
        yield [np.random.default_rng(i).normal(size=(1, 32, 32, 3)).astype(np.float32)]

small = keras.Sequential([%s])
optimise = dict(optimizations=[tf.lite.Optimize.DEFAULT])
write("dynamic_range", small, **optimise)
write("float16_weights", small, target_spec=tf.lite.TargetSpec(supported_types=[tf.float16]), **optimise)
write("int8", small, representative_dataset=inputs, **optimise)
write("flex", keras.Sequential([Input((8, 8)), L.Lambda(tf.linalg.det)]),
      target_spec=tf.lite.TargetSpec(supported_ops=[tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]))
"""


@dataclass(frozen=True)
class Outcome:
    """How far one source came."""

    name: str
    opened: bool
    exported: bool = False
    why: str = ""


def write_fitted(folder: Path, family: str) -> Iterator[tuple[str, str]]:
    """Write the module of a family; yield the name and the argument of each source."""
    imports, estimators = FITTED[family]
    module = f"of_{family.replace('-', '_')}"
    functions = (f"\n\ndef {name}():\n    return {text}\n" for name, text in estimators.items())
    (folder / f"{module}.py").write_text(_HEAD.format(imports=imports) + "".join(functions))
    yield from ((name, f"{module}:{name}") for name in estimators)


def write_tflite(folder: Path, python: str) -> Iterator[tuple[str, str]]:
    """Write the TFLite files, those that Keras cannot express in one list of layers at the end."""
    code = [_TFLITE_HEAD % ", ".join(TFLITE["cnn"])]
    code += [f"write({name!r}, keras.Sequential([{', '.join(given)}]))" for name, given in TFLITE.items()]
    shape = "input_shape=(96, 96, 3), weights=None"
    code += [f"write({name!r}, keras.applications.{name}({shape}))" for name in APPLICATIONS]
    (folder / "write.py").write_text("\n".join(code))
    done = subprocess.run([python, "write.py"], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    yield from ((path.stem, path.name) for path in sorted(folder.glob("*.tflite")))


def outcome(process: SourceProcess, name: str, source: str, folder: Path) -> Outcome:
    """Open one source, and export it with its first exporter."""
    factory = ":" in source
    kind: SourceFormat = "fitted" if factory else "tflite"
    request = OpenSource(
        kind=kind,
        source=source if factory else str(folder / source),
        factory=factory,
        folder=str(folder),
        example=str(process.folder / "example.npz"),
        fence=fence_of([folder], process.folder),
    )
    try:
        opened = process.ask(request, SourceOpened)
    except SourceProcessFailed as error:
        return Outcome(name, opened=False, why=error.what)
    output = str(process.folder / "exported.onnx")
    try:
        process.ask(
            ExportSource(exporter=opened.exporters[0], dynamic={}, opset=0, output=output), SourceExported
        )
    except SourceProcessFailed as error:
        return Outcome(name, opened=True, why=error.what)
    return Outcome(name, opened=True, exported=True)


def outcomes(python: str, sources: list[tuple[str, str]], folder: Path, own: Path) -> Iterator[Outcome]:
    """Yield the outcome of each source; what ends the process gets a new one for the others."""
    waiting = list(sources)
    while waiting:
        with SourceProcess(python, Path(tempfile.mkdtemp(dir=own)) / "process", "sources") as process:
            while waiting:
                found = outcome(process, *waiting.pop(0), folder)
                print(found, file=sys.stderr, flush=True)
                yield found
                if "its process ended" in found.why or "took more than" in found.why:
                    break


def row(family: str, found: list[Outcome]) -> str:
    """One Markdown row; sources of one reason share it."""
    reasons: dict[str, list[str]] = {}
    for each in found:
        if not each.exported:
            stage = "" if each.opened else "not opened: "
            reasons.setdefault(stage + " ".join(each.why.split())[:200], []).append(each.name)
    others = "; ".join(f"{', '.join(names)}: {why}" for why, names in reasons.items())
    counts = f"{len(found)} | {sum(each.opened for each in found)} | {sum(each.exported for each in found)}"
    return f"| {family} | {counts} | {others or '-'} |"


def main() -> None:
    """Prints the table, a row a family as it ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    families = ("tflite", *FITTED)
    parser.add_argument("families", nargs="*", choices=[*families, []], metavar="FAMILY")
    asked = parser.parse_args().families or families
    print(f"{datetime.now(UTC):%Y-%m-%d}\n")
    print("| source | tried | opened | exported | the others |")
    print("|---|---:|---:|---:|---|", flush=True)
    opened = True
    with tempfile.TemporaryDirectory(prefix="ortune-bench-") as name:
        folder, own = Path(name) / "sources", Path(name)
        folder.mkdir()
        for family in asked:
            converter: Converter = TENSORFLOW if family == "tflite" else SKLEARN
            python = made.require_installed(
                converter.name, lambda text: print(text, file=sys.stderr)
            ).runtime.python
            sources = write_tflite(folder, python) if family == "tflite" else write_fitted(folder, family)
            found = list(outcomes(python, list(sources), folder, own))
            print(row(family, found), flush=True)
            opened = opened and all(each.opened for each in found)
    raise SystemExit(not opened)


if __name__ == "__main__":
    main()
