"""Prints what the recorder finds of the outputs that calls read; runs under interpreters from Python 3.8."""

import contextlib
import importlib.util
import sys

spec = importlib.util.spec_from_file_location("ortune_recorder", sys.argv[1])
recorder = importlib.util.module_from_spec(spec)
spec.loader.exec_module(recorder)

SOURCE = """
def first(s, x): return s.run(None, x)[0]
def last(s, x): return s.run(None, x)[-1].sum()
def unpacked(s, x):
    label, _ = s.run(None, x)
    return label
def ignored(s, x):
    heat, scale, rest = s.run(["a", "b", "c"], input_feed=x)
    return heat + scale
def all_of_them(s, x):
    a, b = s.run(None, x)
    return a, b
def later(s, x):
    out = s.run(None, x)
    if x: return out[0] + out[1][0]
    return out[-1]
def looped(s, x):
    for _ in range(3):
        out = s.run(None, x)
        print(out[1])
def starred(s, x):
    words = (None, x)
    return s.run(*words)[1]
def returned(s, x): return s.run(None, x)
def passed(s, x):
    out = s.run(None, x)
    return out[0], list(out)
def iterated(s, x): return [each for each in s.run(None, x)]
def sliced(s, x): return s.run(None, x)[1:2]
def variable(s, x, n=0): return s.run(None, x)[n]
def rest(s, x):
    a, *b = s.run(None, x)
    return a
def closure(s, x):
    out = s.run(None, x)
    return lambda: out[0]
def attribute(s, x):
    a, s.state = s.run(None, x)
    return a
def nested(s, x):
    (a,), b = s.run(None, x)
    return a
def all_names(s, x):
    a, b = s.run(None, x)
    return a, locals()
def warm_up(s, x): s.run(None, x)
def kept(s, x): out = s.run(None, x)
def written(s, x):
    out = s.run(None, x)
    out[0] = 1
    return out[1]
"""


class Session:
    """Reads the caller's code as the recorder does, through a Python function that the call inlines."""

    def run(self, names, input_feed=None):
        frame = sys._getframe(1)
        found[frame.f_code.co_name] = recorder.indices_read(frame.f_code, frame.f_lasti)
        raise KeyError


found = {}
names = {}
exec(compile(SOURCE, "source", "exec"), names)
for function in [value for value in names.values() if callable(value)]:
    with contextlib.suppress(KeyError):
        function(Session(), {})
for line in ("y, _ = s.run(None, x)", "y, z = s.run(None, x)", "y = s.run(None, x); y[0]"):
    try:
        exec(compile(line, "module", "exec"), {"s": Session(), "x": {}})
    except KeyError:
        found[line] = found.pop("<module>")
print({name: None if indices is None else sorted(indices) for name, indices in found.items()})
