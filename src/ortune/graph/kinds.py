"""Operators grouped by how their outputs depend on the elements of their inputs."""

from __future__ import annotations

from ortune.graph.model.graphs import op_set

VIEWS = op_set("Flatten Identity Reshape Squeeze Unsqueeze")
"""Operators whose output contains the elements of the first input in the same order, with a different shape."""

MOVES = VIEWS | op_set("Slice Transpose")
"""Operators whose output contains elements of the first input, in any order."""

UNARY = op_set(
    "Abs Acos Acosh Asin Asinh Atan Atanh BiasGelu BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh DequantizeLinear "
    "Dropout Elu Erf Exp FastGelu Floor Gelu HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Log Mish Neg Not "
    "QLinearLeakyRelu QLinearSigmoid QuantizeLinear QuickGelu Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh "
    "Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu"
)
"""Operators whose output elements each depend on the same element of the first input, and on parameters."""

COMPARISONS = op_set("Equal Greater GreaterOrEqual Less LessOrEqual")

LOGICAL = op_set("And Not Or Xor")

BROADCASTING = COMPARISONS | op_set(
    "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Max Mean Min Mod Mul Or Pow QLinearAdd QLinearMul Sub Sum "
    "Where Xor"
)
"""Operators whose output elements each depend on one element of each input; input shapes are broadcast."""
