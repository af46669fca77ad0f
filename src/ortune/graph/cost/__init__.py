"""Operations and bytes of every node of a model, from its shapes or from those in a profile.

What counts as what:

- A multiply-add is two operations. So is a multiply followed by an add; integer arithmetic counts like floating point.
- An addition, product, division, comparison, logical operation, rounding, root, power, exp, log, erf, tanh or sine of
  one element is one operation. A fused operator counts what its parts would: Softmax 5 an element (largest, subtract,
  exp, sum, divide), LayerNormalization 7, Sigmoid 4, Gelu 5 (``activations`` and ``pool_norm`` list them).
- The bias of a convolution or product is one operation an output element, and no multiply-add.
- Moving, selecting or casting elements is no operation, only bytes. Quantizing is 3 operations an element,
  dequantizing 2; packed weights of MatMulNBits are multiplied as they are.
- Attention is counted over the whole matrix of scores, whatever a mask would spare.
- A tree costs its expected path, both sides of a split equally likely. A Fourier transform is 5 n log2 n.
- Bytes are each input and output once, as if nothing stayed in a cache; weights by the type that is stored (int8 where
  a DequantizeLinear is in between). Gather and Slice read what they select; Reshape and its like move nothing.
- An If counts its larger branch unless its condition is known, as it is where an input that is fed decides it; a Loop
  its trip count, or one iteration where that is not known, which ``notes`` says; a Scan its sequence length. Of a Loop
  that carries what grows by as much each time, each iteration counts with its own sizes. LSTM, GRU and RNN count each
  sequence's own length where ``sequence_lens`` is known. Nodes that only constants feed are listed with ``times`` 0:
  that work is done once, not in every run. Functions are inlined, as ONNX Runtime does.
- ONNX Runtime computes convolutions over blocks of 8 or 16 channels. What fills the last block is no work of the model
  and not counted, but ``note`` says what runs; a model that was saved so, without the one it was made of, counts it.

A node whose shapes or formula are unknown is ``known=False`` with the reason, never silently nothing.
"""

from __future__ import annotations

from ortune.graph.cost.graph import CountingStopped
from ortune.graph.cost.totals import costs

__all__ = ["CountingStopped", "costs"]
