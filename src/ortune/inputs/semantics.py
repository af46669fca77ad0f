"""Determines the role of an input from its name, type, rank and the operators that read it."""

from __future__ import annotations

import re

import onnx_ir as ir

from ortune.errors import InputError
from ortune.graph.shapes.symbols import Size, kind_of_name

Consumers = tuple[tuple[str, int], ...]

_INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
_FLOATS = frozenset({"float", "double", "float16", "bfloat16"})
_INDEXING = frozenset({("Gather", 1), ("GatherElements", 1), ("OneHot", 0), ("EmbedLayerNormalization", 0)})
_RECURRENT = frozenset({"LSTM", "GRU", "RNN"})

# Tried in order; the types are those that are valid for the role ("" for any).
_BY_NAME: tuple[tuple[str, str, str], ...] = (
    ("sample-rate", r"^sr$|sample_?rate|sampling_?rate", ""),
    ("past-flag", r"use_cache|cache_branch|is_first|use_past", "b"),
    ("total-length", r"^total_seq", "i"),
    ("past-length", r"seqlens_k|^past_(seq|len)|past_lengths?$|^offset$|start_pos", "i"),
    ("past", r"past|cache_(k|v)|(k|v|key|value)_?cache|kv_cache|layer_past|^cache$|^cache[._]\d", "f"),
    ("positions", r"position|cache_pos", "i"),
    ("mask", r"mask|padding", ""),
    ("token-types", r"token_?type|segment", "i"),
    ("lengths", r"lengths?$|_lens?$|(^|_)num_(frames|tokens)$|seqlen|^seq_?len", "i"),
    ("image-size", r"orig.*size|^im_?shape|image_?(size|shape)|target_size|input_?size", ""),
    ("one", r"scale_factor|temperature|speed|length_scale|alpha$|guidance", "f"),
    ("threshold", r"thresh", "f"),
    ("scales", r"^scales$", "f"),
    ("count", r"max_(output_)?(boxes|dets|detections)|top_?k|^num_beams|max_length|max_new", "i"),
    ("timestep", r"timestep|^t$|time_?step", ""),
    ("labels", r"point_labels|^labels?$", ""),
    ("mel", r"input_features|^mels?$|mel_?spec|spectrogram|fbank|filter_?banks?$|log_?mel|mfcc", "f"),
    ("audio", r"audio|wave|^wav|speech|input_values|^samples$|^signal|pcm", "f"),
    ("image", r"pixel_values|^images?$|^img", ""),
    ("data", r"hidden_states|embeds|embeddings?$", "f"),
    ("state", r"^(h|c|hn|cn|h0|c0|h_0|c_0|hx|cx)$|state|hidden_in|^h_in|^c_in|initial_[hc]|memory", "f"),
    ("token-ids", r"ids?$|tokens?$|token_|^bytes$|phoneme|^text$|word", "i"),
)


def dtype_of(value: ir.Value) -> str:
    """Return the type of a graph input as in ``InputChoice``, such as "float", "seq(float)" or "optional(float)".

    Raises:
        InputError: The type is a map or not declared, so no value can be generated.
    """
    return _type_name(value.type, value.name or "")


def _type_name(kind: ir.TypeProtocol | None, name: str) -> str:
    if isinstance(kind, ir.SequenceType):
        return f"seq({_type_name(kind.elem_type, name)})"
    if isinstance(kind, ir.OptionalType):
        return f"optional({_type_name(kind.elem_type, name)})"
    if isinstance(kind, ir.TensorType) and kind.dtype.name != "UNDEFINED":
        return kind.dtype.name.lower()
    raise InputError(
        "its type is neither a tensor, a sequence nor an optional, so no value can be generated",
        where=f"input {name!r}",
        do="measure the part of the model after this input, extracted with onnx.utils.extract_model",
    )


def element_type(dtype: str) -> str:
    """Return the element type inside of "seq(...)" and "optional(...)"."""
    while "(" in dtype:
        dtype = dtype[dtype.index("(") + 1 : -1]
    return dtype


def classify(name: str, dtype: str, shape: tuple[Size, ...], consumers: Consumers) -> str:
    """Return the role of an input; "data" if unknown.

    Returns:
        One of the roles that ``feeds`` can generate values for.
    """
    element = element_type(dtype)
    if element == "string":
        return "text"
    low = re.sub(r"[:.]\d+$", "", name.lower()).rsplit("/", 1)[-1].replace("-", "_")
    letter = "i" if element in _INTEGERS else "f" if element in _FLOATS else "b" if element == "bool" else "?"
    for role, pattern, types in _BY_NAME:
        if types and letter not in types:
            continue
        match = re.search(pattern, low) or (role == "past" and re.search(pattern, name.lower()))
        if match and _plausible(role, len(shape)):
            return "mel" if role == "audio" and _rows_of_features(shape) else role
    return _by_graph(letter, element, shape, consumers)


_RANKS: dict[str, tuple[int, int]] = {
    "sample-rate": (0, 1),
    "past-flag": (0, 1),
    "total-length": (0, 1),
    "count": (0, 1),
    "threshold": (0, 1),
    "scales": (1, 1),
    "past": (3, 6),
    "lengths": (0, 2),
    "timestep": (0, 2),
    "one": (0, 2),
    "image": (3, 5),
    "mel": (2, 4),
    "audio": (1, 3),
    "image-size": (1, 2),
    "token-ids": (0, 3),
    "positions": (0, 3),
    "token-types": (0, 3),
}
"""Minimum and maximum rank of a role, since names may mislead."""


_BINS = frozenset({10, 13, 20, 26, 32, 39, 40, 64, 80, 96, 128})
"""Usual numbers of mel bands and cepstral coefficients."""
_FRAMES_TO_BINS = 1.5
_BINS_FIRST = {40: _FRAMES_TO_BINS, 80: _FRAMES_TO_BINS, 64: 8, 128: 8}
"""Minimum ratio of frames to bins, by numbers of bins that may come before the frames.

The ratio excludes lines of text, which are images with 32, 48 or 64 rows.
"""


def _rows_of_features(shape: tuple[Size, ...]) -> bool:
    """Return whether an audio input consists of feature frames (batch, frames, features) rather than of samples."""
    if len(shape) != 3 or shape[1].value is not None:
        return False
    return shape[2].value is not None and 8 < shape[2].value <= 640


def _spectrogram(shape: tuple[Size, ...], consumers: Consumers) -> bool:
    """Return whether a float tensor is a spectrogram, with one channel, bins and frames."""
    if len(shape) == 3:
        return shape[1].value == 80 and any(op == "Conv" for op, _ in consumers)
    if len(shape) != 4 or (shape[1].value, shape[3].value).count(1) != 1:
        return False
    first, last = shape[2:] if shape[1].value == 1 else shape[1:3]
    kinds = {kind_of_name(s) for d in (first, last) for s, _ in d.terms}
    if kinds & {"height", "width"}:
        return False
    if "frames" in kinds:
        return True
    if last.value in _BINS and (first.value is None or first.value >= _FRAMES_TO_BINS * last.value):
        return True
    least = _BINS_FIRST.get(first.value or 0)
    return least is not None and (last.value is None or last.value >= least * (first.value or 0))


def _plausible(role: str, rank: int) -> bool:
    low, high = _RANKS.get(role, (0, rank))
    return low <= rank <= high


def _by_graph(letter: str, element: str, shape: tuple[Size, ...], consumers: Consumers) -> str:  # noqa: PLR0911 -- one return a role
    rank = len(shape)
    ops = {op for op, _ in consumers}
    if letter == "i" and (_INDEXING & set(consumers)) and rank <= 3:
        return "token-ids"
    if any(op in _RECURRENT and position in {5, 6} for op, position in consumers):
        return "state"
    if any(op in _RECURRENT and position == 4 for op, position in consumers):
        return "lengths"
    if letter == "b":
        return "mask" if rank >= 1 else "past-flag"
    if letter == "f" and _spectrogram(shape, consumers):
        return "mel"
    if rank == 4 and (letter == "f" or element in {"uint8", "int8"}):
        first = shape[1].value
        kinds = [kind_of_name(s) for d in shape for s, _ in d.terms]
        named = "height" in kinds or "width" in kinds
        if first in {1, 3, 4} or shape[3].value in {1, 3, 4} or named or ops & {"Conv", "QLinearConv"}:
            return "image"
    # A float matrix that is padded or convolved can only be a batch of waveforms.
    if letter == "f" and (
        (rank == 2 and ops & {"Pad", "Conv"}) or (rank in {2, 3} and ops & {"STFT", "DFT"})
    ):
        return "audio"
    if rank <= 3 and any(kind_of_name(s) == "samples" for d in shape for s, _ in d.terms):
        return "audio"
    return "data"


def channels_last(shape: tuple[Size, ...], consumers: Consumers) -> bool:
    """Return whether an image of rank 3 to 5 has its channels in the last dimension."""
    few = {1, 3, 4}
    first, last = shape[-3].value, shape[-1].value
    if (last in few) != (first in few):
        return last in few
    kinds = [kind_of_name(d.terms[0][0]) if d.terms else "" for d in shape]
    if "height" in kinds:
        return kinds.index("height") < len(shape) - 2
    direct = any(op in {"Conv", "QLinearConv", "MaxPool", "Pad", "Resize"} for op, _ in consumers)
    return not direct and any(op == "Transpose" for op, _ in consumers)


def axis_kinds(
    name: str, role: str, dtype: str, shape: tuple[Size, ...], consumers: Consumers
) -> tuple[str, ...]:
    """Return the kind of each axis of an input: "batch", "seq", "past", "height", ... ("other" if unknown)."""
    named = [kind_of_name(d.terms[0][0]) if len(d.terms) == 1 else "" for d in shape]
    expected = _expected_axes(role, dtype, shape, consumers)
    if role in {"image", "audio", "mel"}:
        # The role is more reliable than a name such as "sequence_length" of a waveform.
        return tuple(n if n and e in {"batch", "other"} else e for n, e in zip(named, expected, strict=True))
    if role == "past" and re.search(r"\.encoder\.|cross", name.lower()):
        expected = tuple("encoder" if e == "past" else e for e in expected)
        named = ["encoder" if n == "past" else n for n in named]
    return tuple(n or e for n, e in zip(named, expected, strict=True))


def _expected_axes(  # noqa: PLR0911 -- one return a role
    role: str, dtype: str, shape: tuple[Size, ...], consumers: Consumers
) -> tuple[str, ...]:
    rank = len(shape)
    if rank == 0:
        return ()
    if role == "image" and rank >= 3:
        last = channels_last(shape, consumers)
        tail = ("height", "width", "channels") if last else ("channels", "height", "width")
        return ("batch", "frames")[: rank - 3] + tail
    if role == "mel":
        # The bins are fixed by the front end; the frames follow the length of the audio.
        fixed = [i for i in range(1, rank) if shape[i].value not in (None, 1)]
        # If both are fixed, the last usual number of bins is the bins.
        fixed = [i for i in fixed if shape[i].value in _BINS][-1:] or fixed
        bins = fixed[0] if fixed else rank - 2
        kinds = ["frames"] * rank
        kinds[bins] = "mels"
        kinds = ["channels" if rank == 4 and d.value == 1 else k for d, k in zip(shape, kinds, strict=True)]
        return ("batch", *kinds[1:]) if rank > 2 else tuple(kinds)
    axes = _AXES.get(role, {}).get(rank)
    if axes is not None:
        return axes
    if dtype.startswith("seq("):
        return ("other",) * rank
    if role in _BATCHED:
        return ("batch", *("other",) * (rank - 1))
    if role == "past":
        return ("other",) * (rank - 3) + ("heads", "past", "other")
    return ("batch", *("seq",) * (rank - 2), "other")[:rank]


_IDS = {1: ("seq",), 2: ("batch", "seq"), 3: ("batch", "seq", "other")}
_AXES: dict[str, dict[int, tuple[str, ...]]] = {
    "token-ids": _IDS,
    "positions": _IDS,
    "token-types": _IDS,
    "text": {1: ("batch",), 2: ("batch", "seq")},
    "mask": {
        1: ("seq",),
        2: ("batch", "seq"),
        3: ("batch", "seq", "seq"),
        4: ("batch", "heads", "seq", "seq"),
    },
    "past": {3: ("batch", "past", "other"), 4: ("batch", "heads", "past", "other")},
    "audio": {1: ("samples",), 2: ("batch", "samples"), 3: ("batch", "channels", "samples")},
    "state": {1: ("other",), 2: ("batch", "other"), 3: ("other", "batch", "other")},
}
"""Usual axes of a role, by rank."""

_BATCHED = frozenset({"lengths", "past-length", "total-length", "image-size", "timestep"})
