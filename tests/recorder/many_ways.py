"""A program that uses ONNX Runtime in many ways, and the releases on which it runs."""

from __future__ import annotations

import pytest
from programs import python_with

from pythons import python_of

SEMANTICS = '''
import asyncio, copy, inspect, pickle, threading, time, traceback, weakref
from unittest import mock

session = opened()
run = InferenceSession.run
print(type(session) is ort.InferenceSession, isinstance(session, ort.InferenceSession))
print(run.__name__, run.__qualname__, run.__doc__ == InferenceSession.__mro__[1].run.__doc__, inspect.signature(run))
print(sorted(vars(session)) == sorted(k for k in vars(opened())), [name for name in vars(session) if "ortune" in name])

class Mine(InferenceSession):
    """A subclass that can be pickled, with a run of its own."""
    def __init__(self, path): super().__init__(path); self.path = path
    def run(self, *words, **named): print("mine"); return super().run(*words, **named)
    def __getstate__(self): return {"path": self.path}
    def __setstate__(self, state): self.__init__(state["path"])

again = pickle.loads(pickle.dumps(Mine(MODEL)))
print(type(again).__name__, again.run(None, X)[0].sum())
print(InferenceSession(open(MODEL, "rb").read()).run(["y"], X)[0].shape)
print(session.run(output_names=None, input_feed=X, run_options=ort.RunOptions())[0].dtype)
print(session.run(None, {"x": X["x"].tolist()})[0].shape)
print(session.run(None, {"x": X["x"][:, :, ::-1]})[0].flags.c_contiguous)
value = ort.OrtValue.ortvalue_from_numpy(X["x"])
print(session.run_with_ort_values(None, {"x": value})[0].shape())
binding = session.io_binding()
binding.bind_cpu_input("x", X["x"]); binding.bind_output("y")
session.run_with_iobinding(binding); print(binding.copy_outputs_to_cpu()[0].shape)
if hasattr(session, "run_async"):
    done = threading.Event()
    def called(results, data, error): print(len(results), data, error); done.set()
    pooled = opened(2); pooled.run_async(None, X, called, "data"); done.wait(10)
session.set_providers(["CPUExecutionProvider"]); print(session.get_providers(), session.run(None, X)[0].shape)
with mock.patch.object(InferenceSession, "run", return_value="patched"):
    print(session.run(None, X))
copied = copy.copy(session); print(copied.run(None, X)[0].shape)

def failing(call):
    try: call()
    except BaseException as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "/ortune_" not in f.filename]
        print(type(error).__module__, type(error).__name__, [f.name for f in frames], type(error.__context__).__name__)
        print(str(error).split(chr(10))[0][:60])

failing(lambda: session.run(None, {"wrong": X["x"]}))
failing(lambda: session.run(None, {"x": np.ones(3, np.float32)}))
failing(lambda: session.run(None, {"x": X["x"].astype(np.float64)}))
failing(lambda: session.run(None))
failing(lambda: session.run(None, None))
failing(lambda: session.run(["none"], X))
failing(lambda: InferenceSession("none.onnx"))
failing(lambda: InferenceSession(b"no model"))
failing(lambda: InferenceSession(MODEL, providers=["NoSuchProvider"], provider_options=[{}, {}]))
failing(lambda: InferenceSession(3))

options = ort.SessionOptions(); options.intra_op_num_threads = 1
InferenceSession(MODEL, options); print(options.intra_op_num_threads)
ref = weakref.ref(session); binding = copied = value = None
del session; print(ref() is None)
async def served(): return (await asyncio.to_thread(opened().run, None, X))[0].shape
print(asyncio.run(served()) if hasattr(asyncio, "to_thread") else (3, 4, 5))
late = opened()
threads = [threading.Thread(target=lambda: [late.run(None, X) for _ in range(5)]) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
import atexit
def at_end():
    last = threading.Thread(target=lambda: print(opened().run(None, X)[0].shape, late.run(None, X)[0].shape))
    last.start(); last.join()
if sys.version_info < (3, 12): atexit.register(at_end)
print("end")
'''

RELEASES = [
    ("1.16.3", "3.8", "numpy<2"),
    ("1.20.1", "3.11", "numpy"),
    ("1.24.1", "3.11", "numpy"),
    ("1.28.0", "3.11", "numpy"),
]


def environment(release: str, python: str, numpy: str) -> str:
    """An interpreter with that release."""
    found = python_of(python)
    if found is None:
        pytest.skip(f"NOT TESTED, Python {python} is needed")
    return python_with([f"onnxruntime=={release}", numpy], f"{release}-py{python}", found)
