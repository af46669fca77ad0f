"""Shapes and types of values: by onnx's inference, by a walk over symbols, and from one node up.

There are two engines, since each computes what the other cannot:

- ``known`` runs onnx's own inference over a whole model. It is written in C++, knows all standard operators with their
  subgraphs, and gives the types and sizes that rules and rewrites rely on. It knows no contributed operators, keeps no
  relation between dynamic dimensions, and does not say which sizes of the inputs are possible.
- ``walk``, with ``operators`` and ``rules_*``, visits the nodes in order and keeps sizes as linear expressions over the
  dimensions of the inputs, together with what each operator demands of them. Sizes of inputs are chosen and checked by
  it. Nodes are counted with it as well (``graph/cost``): every size is a number there, so an operator without a rule is
  left to onnx's inference of that single node (``single_nodes``).

``nearby`` is no engine: it answers for the rank or the axes of one value from the few nodes above it, for patterns that
are matched many times in a model whose inference would cost more than the match.

Contents of values are computed by ``graph/evaluation`` alone. Three places decide which contents to follow:

- ``graph/constants``: a value that depends on nothing but constants.
- ``elements``: a list of sizes, backwards from the value to the Shape nodes behind it. Each node is evaluated on the
  places of its elements, so it works for any kind of element, but not through arithmetic on sizes.
- ``walk``: small integer tensors, forwards and as expressions, through arithmetic on sizes as well. While nodes are
  counted, where all elements are numbers, they are evaluated instead.

``rewrites/_probe`` is separate: it samples functions of one float value at chosen points to recognize them, with
numpy's functions of ``graph/evaluation``, because a call of the reference
evaluator for every node and point would be far slower.
"""
