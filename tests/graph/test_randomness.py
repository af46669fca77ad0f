"""Every operator that draws numbers is known as one: of ONNX, and of those that ONNX Runtime brings."""

from __future__ import annotations

from ortune.graph import randomness
from ortune.graph.model import operators

HASHES = {"MurmurHash3"}
"""Operators with a seed that give the same for the same inputs."""


def test_what_has_a_seed_draws() -> None:
    seeded = {op_type for (_, op_type), attributes in operators._schemas().items() if "seed" in attributes}
    assert {"Bernoulli", "BiasDropout", "Dropout", "RandomNormal"} <= seeded
    assert seeded - HASHES <= randomness.RANDOM | randomness._TRAINING_INPUT.keys()
