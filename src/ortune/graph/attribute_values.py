"""Attribute values with a fixed meaning in ONNX operators, and the anonymization of all other values in a skeleton."""

from __future__ import annotations

import re
from collections.abc import Iterable

import onnx
from onnx import AttributeProto

from ortune.graph.model.graphs import op_set

WORDS = op_set(
    """NOTSET SAME_UPPER SAME_LOWER VALID constant reflect edge wrap nearest linear cubic bilinear bicubic half_pixel
    half_pixel_symmetric pytorch_half_pixel align_corners asymmetric tf_half_pixel_for_nn tf_crop_and_resize
    round_prefer_floor round_prefer_ceil floor ceil stretch not_larger not_smaller zeros border reflection forward
    reverse bidirectional Relu Tanh Sigmoid Affine LeakyRelu ThresholdedRelu ScaledTanh HardSigmoid Elu Softsign
    Softplus none add mul max min sum mean avg DCR CRD LEFT RIGHT tanh gelu relu silu swish swiglu identity fastgelu
    output_half_pixel LINEAR POLY RBF SIGMOID NONE SOFTMAX LOGISTIC SOFTMAX_ZERO PROBIT SUM AVERAGE MIN MAX L1 L2
    BRANCH_LEQ BRANCH_LT BRANCH_GTE BRANCH_GT BRANCH_EQ BRANCH_NEQ LEAF TF IDF TFIDF LOWER UPPER TO_FLOAT TO_STRING
    TO_INT64 DENSE SPARSE NCHW NHWC BSNH BNSH up down RGB BGR Grayscale linear gated delta gated_delta cosine
    euclidean sqeuclidean PER_TENSOR PER_CHANNEL int8 int4 fp8 fp4"""
)
"""String attribute values with a fixed meaning in operators; they reveal nothing about a model's owner."""
CHOICES = op_set(
    """auto_pad mode padding_mode direction activations activation activation_type reduction norm post_transform
    kernel_type nodes_modes aggregate_function cast_to map_form coordinate_transformation_mode nearest_mode
    keep_aspect_ratio_policy round_mode approximate pixel_format update_rule case_change_action metric quant_type
    k_quant_type v_quant_type gate_activation beta_activation kv_cache_layout"""
)
"""String attributes with values from ``WORDS``."""
OF_TREES = re.compile(
    r"(nodes|class|target|leaf|tree)_\w+|vectors_per_class|inputdimensions|membership_values"
)
"""Names of ``ai.onnx.ml`` attributes whose integers define the computation; integers in others may be private data."""


def kind_of(attribute: onnx.AttributeProto) -> int:
    """Infer the type of an attribute that has no type field, as in files before IR version 2, from its content."""
    fields: tuple[tuple[str, int], ...] = (
        ("f", AttributeProto.FLOAT), ("i", AttributeProto.INT), ("s", AttributeProto.STRING),
        ("t", AttributeProto.TENSOR), ("g", AttributeProto.GRAPH),
    )  # fmt: skip
    for name, kind in fields:
        if attribute.HasField(name):
            return kind
    if attribute.floats:
        return AttributeProto.FLOATS
    return AttributeProto.STRINGS if attribute.strings else AttributeProto.INTS


def ordinals(numbers: Iterable[int]) -> list[int]:
    """Replace each number with the index of its first occurrence; only equality is preserved."""
    places: dict[int, int] = {}
    return [places.setdefault(number, len(places)) for number in numbers]


def letters(equation: bytes) -> bytes:
    """Rename the letters of an einsum equation, keeping their alphabetical order, which may define the output."""
    letter_of: dict[str, str] = {}
    text = "".join(
        c for c in equation.decode(errors="replace") if c.isascii() and (c.isalpha() or c in ".,->")
    )
    for first, of_case in (("a", filter(str.islower, text)), ("A", filter(str.isupper, text))):
        letter_of |= {c: chr(ord(first) + place) for place, c in enumerate(sorted(set(of_case)))}
    return "".join(letter_of.get(c, c) for c in text).encode()
