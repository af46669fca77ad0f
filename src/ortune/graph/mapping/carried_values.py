"""Matching of values: the original value that each value of the optimized graph carries, in any layout or type."""

from __future__ import annotations

from collections.abc import Iterator

from ortune.graph.attributes import int_of, signature, small_contents, text_of
from ortune.graph.mapping import names
from ortune.graph.mapping.model_view import Body, GraphStep, ModelView, Value

NOTHING = frozenset(("Identity", "Dropout"))
"""Operators that return their first input unchanged in inference."""

_SUMS = frozenset(("Add", "Sum"))
_GATES = frozenset(("HardSigmoid", "Sigmoid"))
_GATED = frozenset(("HardSwish", "Swish"))
_MOST_STEPS_BACK = 8


class CarriedValues:
    """Maps each value of an optimized graph to the original value that it carries.

    Attributes:
        originals: Original value by optimized value.
        inserted: Steps of the optimized graph that only move or convert values.
        taken: Maps each original If step to the branch that was inlined.
    """

    def __init__(self, original: ModelView, optimised: ModelView) -> None:
        self.originals: dict[Value, Value] = {}
        self.inserted: set[GraphStep] = set()
        self.taken: dict[GraphStep, Body] = {}
        self._original, self._optimised = original, optimised
        self._bodies: dict[Body, Body] = {}
        self._same: dict[Value, Value] = {}
        self._carried: set[Value] = set()
        self._by_name: dict[Body, dict[tuple[str, str], list[GraphStep]]] = {}
        bodies = optimised.bodies()
        texts = (name for body in bodies for name in (*body.values, *(s.own_name for s in body.steps)))
        self._calls = names.call_numbers(texts, original.functions)
        self._pair(optimised.main, original.main)
        self._follow()

    def same(self, value: Value) -> Value:
        """Return the representative of a value: for an output of an If, the output of the inlined branch."""
        while value in self._same:
            value = self._same[value]
        return value

    def merge(self, value: Value, into: Value) -> None:
        """Record that ``value`` is the same value as ``into``."""
        if self.same(into) is not value:
            self._same[value] = into

    def carried(self) -> set[Value]:
        """Return every original value that the optimised graph still contains."""
        return {self.same(value) for value in self.originals.values()}

    def get(self, value: Value | None) -> Value | None:
        """Return the original value that an optimised value carries; None if unknown."""
        carried = self.originals.get(value) if value is not None else None
        return None if carried is None else self.same(carried)

    # --- by name -------------------------------------------------------------------------------------------

    def _pair(self, new: Body, old: Body) -> None:
        """Match two versions of one graph, and their subgraphs."""
        self._bodies[new] = old
        named = self._by_name[old] = {}
        for step in old.steps:
            named.setdefault((step.own_name, step.op_type), []).append(step)
        # Interfaces first, then names, then the subgraphs that names refer to: the first match of a value is kept,
        # so the most reliable methods come first.
        for value, was in zip(new.inputs, old.inputs, strict=False):
            self._set(value, old.values.get(value.name, was))
        for value in (*new.values.values(), *(v for step in new.steps for v in step.outputs)):
            original = self._named(old, value.name) if value not in self.originals else None
            if original is not None:
                self._set(value, original)
                self._note_branch(original.body, old)
            else:
                self._note_path(value.name, old)
        for step in old.steps:
            if step.op_type == "If" and step not in self.taken:
                self._guess_branch(step, new)
        for step, body in self.taken.items():
            for output, result in zip(step.outputs, body.outputs, strict=False):
                self.merge(output, result)
        self._pair_bodies([step for step in new.steps if step.bodies], old)
        # The order of a subgraph's outputs is kept even if the optimizer renames them.
        for value, was in zip(new.outputs, old.outputs, strict=False):
            self._set(value, was)

    def _set(self, value: Value, was: Value) -> None:
        if value not in self.originals:
            self.originals[value] = was
            self._carried.add(self.same(was))

    def _pair_bodies(self, steps: list[GraphStep], old: Body) -> None:
        """Match subgraphs of If, Loop and Scan by node name or outputs, or in order if the number is unchanged."""
        pairs = {step: was for step in steps if (was := self._same_control(step)) is not None}
        for kind in dict.fromkeys(_control(step) for step in steps):
            open_new = [step for step in steps if step not in pairs and _control(step) == kind]
            taken = set(pairs.values())
            open_old = [
                was for was in old.steps if _control(was) == kind and was not in {*taken, *self.taken}
            ]
            # With a different number of nodes, matching in order would shift all that follow.
            if len(open_new) == len(open_old):
                pairs.update(zip(open_new, open_old, strict=True))
        for step, was in pairs.items():
            for branch, body in step.bodies.items():
                self._pair(body, was.bodies[branch])

    def _same_control(self, step: GraphStep) -> GraphStep | None:
        producers = [
            self.behind(original).step for value in step.outputs if (original := self.get(value)) is not None
        ]
        for was in (self.origin(step), *producers):
            if was is not None and _control(was) == _control(step):
                return was
        return None

    def _named(self, old: Body, name: str) -> Value | None:
        if not name:
            return None
        if name in old.values:
            return old.values[name]
        candidates = [
            value for body, local in self._places(old, name) for value in self._values_in(body, local)
        ]
        if len(candidates) == 1:
            return candidates[0]
        # Ambiguous names are not matched: a wrong origin is worse than none. The output of an inserted Cast carries
        # the value before it.
        return self._named(old, names.cast_value(name)) or self._by_producer(old, name)

    def _by_producer(self, old: Body, name: str) -> Value | None:
        """Return the only output of the node named ``name``, since a layout change names the output after its node."""
        steps = [step for step in old.steps if step.own_name == name and len(step.outputs) == 1]
        return steps[0].outputs[0] if len(steps) == 1 else None

    def _values_in(self, body: Body, name: str) -> list[Value]:
        call = names.called(name, self._original.functions)
        if call is None:
            return [body.values[name]] if name in body.values else []
        function, token, local = call
        candidates = body.local.get((function, local), [])
        if not candidates and local in body.values:
            return [body.values[local]]  # a subgraph within a function
        tokens = self._calls.get(function, [])
        if len(candidates) > 1 and len(tokens) == len(candidates):
            return [candidates[tokens.index(token)]]
        return candidates

    def _places(self, old: Body, name: str) -> Iterator[tuple[Body, str]]:
        """Yield the (body, local name) pairs that a name may refer to: the graph itself, or inlined branches."""
        yield old, name
        path, local = names.branches(name)
        within = [old] if path else []
        for branch in path:
            within = [s.bodies[branch] for body in within for s in body.steps if branch in s.bodies]
        yield from ((body, local) for body in within)

    def _note_branch(self, body: Body, old: Body) -> None:
        """Mark the branches from ``body`` up to ``old`` as inlined, because a value of ``body`` was matched."""
        while body is not old and body.parent is not None:
            self.taken[body.parent] = body
            body = body.parent.body

    def _note_path(self, name: str, old: Body) -> None:
        """Mark the If branches that occur in an unmatched name as inlined, if the name refers to only one path."""
        bodies = [body for body, _ in self._places(old, names.cast_value(name) or name)][1:]
        if len(bodies) == 1:
            self._note_branch(bodies[0], old)

    def _guess_branch(self, step: GraphStep, new: Body) -> None:
        """Identify the inlined branch of an If from the producers of its outputs, if no branch has matches."""
        makers = [new.values[v.name].step for v in step.outputs if v.name in new.values]
        for maker in makers:
            if maker is None or maker.op_type == "If":
                continue
            path, _ = names.branches(maker.name)
            if path and path[0] in step.bodies:
                self.taken[step] = step.bodies[path[0]]
                return

    # --- by what is around ---------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Match values by their names until no new match is found, then also by node names and neighbours."""
        for by_neighbours in (False, True):
            while self._round(by_neighbours):
                pass

    def _round(self, by_neighbours: bool) -> bool:
        # Forwards, inputs identify outputs; backwards, outputs identify inputs. Repeated, since each match may
        # enable others.
        before = len(self.originals)
        for step in self._optimised.steps:
            self._through(step)
            if step.body in self._bodies and any(v.name and v not in self.originals for v in step.outputs):
                self._blocked(step)
                if by_neighbours:
                    self._by_node(step)
        for step in reversed(self._optimised.steps):
            self._through(step)
            if by_neighbours and step.body in self._bodies:
                self._reads_of_node(step)
        return len(self.originals) > before

    def _through(self, step: GraphStep) -> None:
        """Propagate the match of a value through a step that only moves it, in either direction."""
        if not step.outputs or not step.inputs or step.inputs[0] is None or not self._is_inserted(step):
            return
        self.inserted.add(step)
        source, result = step.inputs[0], step.outputs[0]
        if source in self.originals:
            self._set(result, self.originals[source])
        elif result in self.originals and not source.constant:
            self._set(source, self.originals[result])

    def _is_inserted(self, step: GraphStep) -> bool:
        if step in self.inserted:
            return True
        last = bool(int_of(step.node, "channels_last", 0))
        if names.is_inserted(step.name, step.domain, step.op_type, last):
            return True
        if step.op_type not in names.MOVES or not step.own_name or names.is_moved_out(step.own_name):
            return False
        # A moving step with a name unknown to the model was inserted, unless it replaces a step of the same
        # operator.
        was = self.get(step.outputs[0])
        same_kind = was is not None and was.step is not None and was.step.op_type == step.op_type
        return not (last or same_kind) and self.origin(step) is None

    def origin(self, step: GraphStep) -> GraphStep | None:
        """Return the original step with this step's name and operator; None if there is none or several."""
        old = self._bodies.get(step.body)
        if old is None or not step.own_name:
            return None
        call = names.called(step.own_name, self._original.functions)
        if call is not None:
            steps = old.local_steps.get((call[0], call[2]), [])
            return steps[0] if len(steps) == 1 and steps[0].op_type == step.op_type else None
        # An original Transpose may be named "Transpose"; an inserted one is then "Transpose_token_3".
        for name in names.node_names(step.own_name, copies=step.op_type not in names.MOVES):
            same = self._by_name[old].get((name, step.op_type), [])
            if len(same) == 1:
                return same[0]
        return None

    def _blocked(self, step: GraphStep) -> None:
        """Match the output of a blocked step by the step's name, including nodes fused into the step later."""
        old = self._bodies[step.body]
        if step.domain != names.NCHWC:
            return
        for name in names.blocked_values(step.own_name):
            value = self._named(old, name)
            if value is not None:
                self._set(step.outputs[0], self._fused(step, self.same(value)))
                return

    def _fused(self, step: GraphStep, value: Value) -> Value:
        """Return the output of a blocked convolution, after the addition and activation that were fused into it."""
        if len(step.inputs) > 3 and step.inputs[3] is not None and not self._adds(step, value):
            value = self._after(value, _SUMS)
        activation = text_of(step.node, "activation", "")
        if activation and (value.step is None or value.step.op_type != activation):
            after = self._after(value, frozenset((activation,)))
            # An activation without its own operator in the model is written as x * HardSigmoid(x).
            value = self._gated(value) if after is value and activation in _GATED else after
        return value

    def _adds(self, step: GraphStep, value: Value) -> bool:
        """Return whether there is an addition between a convolution's inputs and a value."""
        stops = {carried for v in step.inputs if (carried := self.get(v)) is not None}
        waiting, back = [value], 0
        while waiting and back < _MOST_STEPS_BACK:
            producer = waiting.pop().step
            back += 1
            if producer is None or producer.op_type in ("Conv", "BatchNormalization"):
                continue
            if producer.op_type in _SUMS and any(self.same(v) in stops for v in producer.reads()):
                return True
            waiting += [
                self.same(v) for v in producer.reads() if self.same(v) not in stops and not v.constant
            ]
        return False

    def _after(self, value: Value, operators: frozenset[str]) -> Value:
        """Return the output of the only reader with one of these operators; the value itself without such a reader."""
        steps = [step for step in self.users(value) if step.op_type in operators]
        return self.same(steps[0].outputs[0]) if len(steps) == 1 else value

    def _gated(self, value: Value) -> Value:
        """Return the only product (Mul) of a value and its gate; the value itself if there is none or several."""
        users = self.users(value)
        gates = {user.outputs[0] for user in users if user.op_type in _GATES}
        products = [s for s in users if s.op_type == "Mul" and gates.intersection(map(self.same, s.reads()))]
        return self.same(products[0].outputs[0]) if len(products) == 1 else value

    def users(self, value: Value) -> list[GraphStep]:
        """List the original steps that read a value, directly or through no-op steps."""
        readers: list[GraphStep] = []
        waiting = [value]
        while waiting:
            users = waiting.pop().users
            readers += users
            waiting += [step.outputs[0] for step in users if step.op_type in NOTHING]
        return readers

    def _by_node(self, step: GraphStep) -> None:
        """Match the outputs of a step by the step's name, or by its inputs."""
        was = self.origin(step)
        if was is None and not any(v in self.originals for v in step.outputs):
            was = self._reading_the_same(step)
        if was is not None:
            for value, old in zip(step.outputs, was.outputs, strict=False):
                self._set(value, self.same(old))

    def _reads_of_node(self, step: GraphStep) -> None:
        """Match the inputs of a step to those of its original step, for values without a name or a known producer."""
        if all(v is None or v.constant or v in self.originals for v in step.inputs):
            return
        was = self._maker(step)
        if was is None or not _same_attributes(step, was):
            return
        pairs = [
            (value, self.same(old))
            for value, old in zip(step.inputs, was.inputs, strict=False)
            if value is not None and old is not None and not value.constant and not old.constant
        ]
        known = [(self.originals[value], old) for value, old in pairs if value in self.originals]
        # A convolution absorbs a preceding Pad.
        padded = any(old.step is not None and old.step.op_type == "Pad" for _, old in pairs)
        if not padded and all(self.behind(carried) is self.behind(read) for carried, read in known):
            for value, old in pairs:
                if value.step is not None:
                    self._set(value, old)

    def _maker(self, step: GraphStep) -> GraphStep | None:
        """Return the original step with the same operator, before those fused into it; None if there is none."""
        value = self.get(step.outputs[0]) if step.outputs else None
        if step.domain == names.NCHWC:
            named = (
                self._named(self._bodies[step.body], name) for name in names.blocked_values(step.own_name)
            )
            value = next((self.same(candidate) for candidate in named if candidate is not None), value)
        for _ in range(_MOST_STEPS_BACK):
            was = value.step if value is not None else None
            if was is None or was.op_type == step.op_type:
                return was
            # Back through fused steps, as long as there is only one path.
            reads = [self.same(v) for v in was.reads() if not v.constant]
            value = reads[0] if len(reads) == 1 else None
        return None

    def _reading_the_same(self, step: GraphStep) -> GraphStep | None:
        if step.bodies or step in self.inserted:
            return None
        reads = [self.get(v) for v in step.inputs if v is not None and not v.constant]
        if not reads or reads[0] is None:
            return None
        carried = {self.behind(v) for v in reads if v is not None}
        fits = [
            s
            for s in self.users(reads[0])
            if s.op_type == step.op_type
            and len(s.inputs) == len(step.inputs)
            and carried <= {self.behind(v) for v in s.reads()}
            and not any(self.same(v) in self._carried for v in s.outputs)
        ]
        # Projections to queries, keys and values read the same value; the names of their weights distinguish them.
        if len(fits) > 1:
            stored = {v.name for v in step.inputs if v is not None and v.constant}
            fits = [s for s in fits if stored & {v.name for v in s.reads()}]
        return fits[0] if len(fits) == 1 else None

    def behind(self, value: Value) -> Value:
        """Follow no-op steps backwards from a value, and return the value that they copy."""
        value = self.same(value)
        while value.step is not None and value.step.op_type in NOTHING and value.step.inputs[0] is not None:
            value = self.same(value.step.inputs[0])
        return value


def _same_attributes(step: GraphStep, was: GraphStep) -> bool:
    """Return whether the attributes that two steps have in common are equal; an absorbed Transpose changes them."""
    mine, theirs = (
        {name: rest for name, *rest in signature(one.node, small_contents)} for one in (step, was)
    )
    return all(mine[name] == theirs[name] for name in mine.keys() & theirs.keys())


def _control(step: GraphStep) -> tuple[str, frozenset[str]]:
    return step.op_type, frozenset(step.bodies)
