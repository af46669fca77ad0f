"""Small models that every rewrite is tried on, with the feeds that run them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from corpus_models import (
    Feeds,
    branches,
    dynamic,
    for_phones,
    hard_in_a_branch,
    in_half,
    joined_in_steps,
    loop,
    old_exporter,
    paddle_block,
    plain,
    up_and_normalise,
    used_twice,
    values,
    with_function,
)
from written_out_steps import written_out


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A model of the corpus.

    Attributes:
        build: Makes the model, the same every time.
        feeds: Feeds by input name.
        external: Saved with external data.
        holds: Names of the rewrites whose pattern it has.
    """

    name: str
    build: Callable[[], onnx.ModelProto]
    feeds: Feeds
    external: bool = False
    holds: frozenset[str] = field(default=frozenset())

    def feeds_shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(array.shape) for name, array in self.feeds.items()}

    def write(self, folder: Path) -> Path:
        path = folder / f"{self.name}.onnx"
        if self.external:
            onnx.save(
                self.build(), path, save_as_external_data=True, location=f"{self.name}.data", size_threshold=0
            )
        else:
            onnx.save(self.build(), path)
        return path


OUT = "initializers-out-of-inputs"
SAVED = "ort-optimized-model"
FIXED = "fixed-dimensions"
SWISH = "hard-swish"
INTO = "affine-into-weights"
BETWEEN = "affine-as-convolution"
SINGLE = "float16-to-float32"
CHANNELS = "transpose-before-concat"
UNROLLED = "loop-unrolling"
STEPS = "unrolled-recurrence"
CASCADED = "cascaded-nodes"
SIZES = "constant-reshape"
NOTHING = "no-op-nodes"


PHONES = frozenset(
    {"activations-as-clip", "plain-arithmetic", "clip-as-min-max", "pad-as-concat", "resize-asymmetric"}
)

CORPUS = (
    Sample(
        name="old-exporter",
        build=old_exporter,
        feeds={"x": values(1, 3, 16, 16)},
        holds=frozenset({INTO, OUT, SAVED}),
    ),
    Sample(
        name="branches-old",
        build=lambda: branches(weights_are_inputs=True),
        feeds={"x": values(4, 4), "go": np.array(True)},
        holds=frozenset({OUT}),
    ),
    Sample(
        name="branches",
        build=lambda: branches(weights_are_inputs=False),
        feeds={"x": values(4, 4), "go": np.array(False)},
    ),
    Sample(
        name="paddle",
        build=paddle_block,
        feeds={"x": values(1, 3, 9, 7)},
        holds=frozenset({SWISH, INTO, FIXED, SAVED}),
    ),
    Sample(
        name="used-twice",
        build=used_twice,
        feeds={"x": values(1, 3, 9, 7)},
        holds=frozenset({BETWEEN, SAVED}),
    ),
    Sample(
        name="hard-branch",
        build=hard_in_a_branch,
        feeds={"x": values(4, 4), "go": np.array(True)},
        holds=frozenset({SWISH}),
    ),
    Sample(
        name="up", build=up_and_normalise, feeds={"x": values(1, 4, 5, 5)}, holds=frozenset({INTO, SAVED})
    ),
    Sample(
        name="steps",
        build=lambda: written_out("torch gru", steps=8),
        feeds={"x": values(1, 8, 12)},
        holds=frozenset({STEPS}),
    ),
    Sample(name="loop", build=loop, feeds={"x": values(2, 4)}, holds=frozenset({FIXED, UNROLLED})),
    Sample(
        name="dynamic",
        build=dynamic,
        feeds={"x": values(2, 6, 4), "z": values(2, 6, 4)},
        holds=frozenset({FIXED, SAVED, SIZES}),
    ),
    Sample(
        name="joined-in-steps",
        build=joined_in_steps,
        feeds={"a": values(2, 3, 40), "b": values(2, 5, 40)},
        holds=frozenset({CASCADED, FIXED}),
    ),
    Sample(name="phones", build=for_phones, feeds={"x": values(1, 2, 5, 6)}, holds=PHONES | {SAVED, NOTHING}),
    Sample(name="plain", build=plain, feeds={"x": values(8, 32)}, holds=frozenset({SAVED, NOTHING})),
    Sample(
        name="external",
        build=plain,
        feeds={"x": values(8, 32)},
        external=True,
        holds=frozenset({SAVED, NOTHING}),
    ),
    Sample(name="function", build=with_function, feeds={"x": values(4)}, holds=frozenset({SAVED})),
    Sample(
        name="half",
        build=in_half,
        feeds={"x": values(1, 3, 6, 6).astype(np.float16), "go": np.array(True)},
        holds=frozenset({SINGLE}),
    ),
)
