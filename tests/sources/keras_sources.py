"""Keras and TensorFlow models, small, with weights of a seed."""

from __future__ import annotations

from pathlib import Path

import keras
import tensorflow as tf
from keras import layers


def cnn():
    keras.utils.set_random_seed(0)
    return keras.Sequential([
        keras.Input((28, 28, 1)), layers.Conv2D(8, 3, activation="relu"), layers.BatchNormalization(),
        layers.MaxPooling2D(), layers.Flatten(), layers.Dense(10, activation="softmax"),
    ])  # fmt: skip


class Detector(tf.Module):
    """Boxes with scores, of which non-maximum suppression keeps some."""

    def __init__(self):
        super().__init__()
        tf.random.set_seed(0)
        self.weight = tf.Variable(tf.random.normal((3, 3, 3, 5)) * 0.3)

    @tf.function(input_signature=[tf.TensorSpec((1, 32, 32, 3), tf.float32, name="image")])
    def __call__(self, image):
        grid = tf.reshape(tf.nn.conv2d(image, self.weight, 4, "SAME"), (64, 5))
        corner = tf.range(64, dtype=tf.float32)
        y, x = corner // 8 / 8, corner % 8 / 8
        size = 0.1 + tf.nn.sigmoid(grid[:, :2]) * 0.1
        boxes = tf.stack([y, x, y + size[:, 0], x + size[:, 1]], 1)
        scores = tf.nn.sigmoid(grid[:, 4])
        kept = tf.image.non_max_suppression(boxes, scores, 10, 0.4)
        return {"boxes": tf.gather(boxes, kept), "scores": tf.gather(scores, kept)}


class CallsPython(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec((2, 3), tf.float32, name="x")])
    def __call__(self, x):
        return {"y": tf.py_function(lambda value: value * 2, [x], tf.float32)}


def write(folder):
    """A ``.keras`` file, one with code, a TFLite file, a detector as a SavedModel, and one that calls Python."""
    model = cnn()
    model.save(f"{folder}/cnn.keras")
    writes = layers.Lambda(lambda x: (Path("it-ran-in-keras").touch(), x * 2)[1])
    keras.Sequential([keras.Input((4,)), writes]).save(f"{folder}/code.keras")
    model.export(f"{folder}/cnn", verbose=False)
    Path(folder, "cnn.tflite").write_bytes(
        tf.lite.TFLiteConverter.from_saved_model(f"{folder}/cnn").convert()
    )
    detector = Detector()
    tf.saved_model.save(detector, f"{folder}/detector", signatures={"serving_default": detector.__call__})
    calls = CallsPython()
    tf.saved_model.save(calls, f"{folder}/calls_python", signatures={"serving_default": calls.__call__})
    Path(folder, "it-ran-in-keras").unlink(missing_ok=True)
