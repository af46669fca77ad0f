"""Fitted estimators, small; each function returns one."""

from __future__ import annotations

import lightgbm
import numpy as np
import xgboost
from sklearn.ensemble import RandomForestClassifier


def _rows():
    rows = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    return rows, (rows[:, 0] * rows[:, 1] > 0).astype(int)


def forest():
    return RandomForestClassifier(20, max_depth=6, random_state=0).fit(*_rows())


def boosted():
    return lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, random_state=0).fit(*_rows())


def booster():
    return lightgbm.train({"objective": "binary", "verbose": -1, "seed": 0}, lightgbm.Dataset(*_rows()), 20)


def booster_of_three():
    rows, _ = _rows()
    asked = {"objective": "softmax", "num_class": 3, "verbose": -1, "seed": 0}  # an alias of multiclass
    return lightgbm.train(asked, lightgbm.Dataset(rows, np.digitize(rows[:, 0], [-0.5, 0.5])), 10)


def named_columns():
    model = xgboost.XGBClassifier(n_estimators=20, random_state=0).fit(*_rows())
    model.get_booster().feature_names = [f"column {letter}" for letter in "abcdefgh"]
    return model


def boosted_regression():
    rows, _ = _rows()
    return xgboost.XGBRegressor(n_estimators=20, random_state=0).fit(rows, rows[:, 0] ** 2), rows[:32]


def of_two_outputs():
    rows, _ = _rows()
    return xgboost.XGBRegressor(n_estimators=5).fit(rows, rows[:, :2] ** 2)


def trees_of_two_outputs():
    rows, _ = _rows()
    model = xgboost.XGBRegressor(n_estimators=5, multi_strategy="multi_output_tree")
    return model.fit(rows, rows[:, :2] ** 2)


def of_two_labels():
    rows, _ = _rows()
    return xgboost.XGBClassifier(n_estimators=5).fit(rows, rows[:, :2] > 0)


def linear():
    rows, _ = _rows()
    return xgboost.XGBRegressor(n_estimators=5, booster="gblinear").fit(rows, rows[:, 0])
