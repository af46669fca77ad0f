"""Operations and bytes of every node of a model, from its shapes or from those in a profile.

Counting rules:

- A multiply-add is two operations. So is a multiply followed by an add; integer arithmetic counts like floating point.
- An addition, multiplication, division, comparison, logical operation, rounding, root, power, exp, log, erf, tanh or
  sine of one element is one operation. A fused operator counts as its parts: Softmax 5 per element (max, subtract, exp,
  sum, divide), LayerNormalization 7, Sigmoid 4, Gelu 5 (``activations`` and ``pool_norm`` list them).
- The bias of a convolution or matrix product is one operation per output element, and not a multiply-add.
- Moving, selecting or casting elements costs bytes but no operations. Quantizing is 3 operations per element,
  dequantizing 2; packed weights of MatMulNBits are multiplied without unpacking.
- Attention is counted over the whole score matrix, regardless of masks.
- A tree costs its expected path, with both sides of a split equally likely. A Fourier transform is 5 n log2 n.
- Bytes count each input and output once, as if nothing stayed in a cache; weights count in their stored type (int8
  before a DequantizeLinear). Gather and Slice read only selected elements; Reshape and similar operators move nothing.
- An If counts its larger branch unless its condition is known, for example from a fed input; a Loop its trip count, or
  one iteration if that is unknown (see ``notes``); a Scan its sequence length. If the carried values of a Loop grow
  linearly, each iteration counts with its own sizes. LSTM, GRU and RNN count each sequence's own length if
  ``sequence_lens`` is known. Nodes fed only by constants are listed with ``times`` 0, since they run once and not in
  every run. Functions are inlined, as in ONNX Runtime.
- ONNX Runtime computes convolutions over blocks of 8 or 16 channels. Padding of the last block is not counted, but
  ``note`` reports it. A model that was saved in blocked layout, without its original, counts the padding.

A node with unknown shapes, or an operator without a formula, is ``known=False`` with the reason.
"""

from __future__ import annotations

from ortune.graph.cost.graph import CountingStopped
from ortune.graph.cost.totals import costs

__all__ = ["CountingStopped", "costs"]
