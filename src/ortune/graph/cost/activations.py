"""Operations per element of the activation functions, alone or fused into another operator."""

from __future__ import annotations

PER_ELEMENT: dict[str, int] = {
    "Celu": 6,  # two of max/min, divide, exp, subtract, multiply
    "Clip": 2,
    "Elu": 4,  # compare, exp, subtract, multiply
    "FastGelu": 9,  # 0.5 x (1 + tanh(a x + b x x x)): five products by x or b, an inner sum, tanh, sum, half
    "Gelu": 5,  # divide, erf, add, two products
    "HardSigmoid": 4,
    "HardSwish": 5,
    "LeakyRelu": 2,
    "Mish": 5,  # softplus, tanh, product
    "PRelu": 2,
    "QuickGelu": 6,  # x * sigmoid(a x)
    "Relu": 1,
    "Selu": 5,
    "Shrink": 2,
    "Sigmoid": 4,  # negate, exp, add, divide
    "Silu": 5,
    "Softplus": 3,  # exp, add, log
    "Softsign": 3,
    "Swish": 6,
    "Tanh": 1,
    "ThresholdedRelu": 1,
}
"""Operations per element by activation operator; exp, erf and tanh count as one operation each."""


def activation(name: str) -> int:
    """Return the operations per element of a fused activation; 1 for an unknown name, 0 for ""."""
    return PER_ELEMENT.get(name, 1 if name else 0)
