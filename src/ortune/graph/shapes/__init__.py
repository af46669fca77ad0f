"""Shapes and types of values, from onnx's shape inference, from a symbolic walk, and from nearby nodes.

There are two engines, since neither can replace the other:

- ``known`` runs onnx's own inference over a whole model. It is written in C++, supports all standard operators with
  their subgraphs, and gives the types and sizes that rules and rewrites rely on. It does not support contributed
  operators or relations between dynamic dimensions, and cannot determine which input sizes are possible.
- ``walk``, with ``operators`` and ``rules_*``, visits the nodes in order and keeps sizes as linear expressions over the
  input dimensions, together with each operator's constraints on them. It chooses and checks the sizes of inputs. It is
  also used to count operations (``graph/cost``): every size is a number there, so onnx can infer a single node whose
  operator has no rule (``single_nodes``).

``complete`` runs both, for values that depend on contributed operators.

``nearby`` is not an engine: it returns the rank or axes of one value from the few nodes before it, for patterns that
are matched many times in a model, where inference would cost more than the match.

Contents of values are computed only by ``graph/evaluation``. Three modules select which contents to follow:

- ``graph/constants``: values that depend only on constants.
- ``elements``: lists of sizes, backwards from the value to its Shape nodes. Nodes are evaluated on element indices, so
  this works for any kind of element, but not through arithmetic on sizes.
- ``walk``: small integer tensors, forwards, as expressions, including arithmetic on sizes. When nodes are counted, all
  elements are numbers, and they are evaluated instead.

``rewrites/_probe`` is separate: it samples functions of one float value at chosen points to recognize them, with
``FUNCTIONS`` of ``graph/evaluation``, because calling the reference evaluator for every node and point would be far
slower.
"""
