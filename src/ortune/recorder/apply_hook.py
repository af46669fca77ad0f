"""Changes how a Python program uses ONNX Runtime. This file runs inside the program.

It is copied to a separate folder as ``ortune_applier.py``, needs only the standard library from Python 3.8, and never
imports onnxruntime: when the program does, methods of its classes are wrapped in place. The changes are read
from ``apply.json`` in the folder that the environment variable names; sessions of other models are not changed. The
applied changes are written to ``PID-TIME.log`` in that folder, one JSON object per line.

An exception in this file switches the changes off, and the program continues.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
import threading
import time
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

FORMAT = 1
VARIABLE, WARNING = "ORTUNE_APPLY", "default::getpass.GetPassWarning"
"""Environment variable with the folder of the changes (this file does nothing if it is unset), and the warning filter
that loads this file (see ``doors.py``)."""
CHANGES = "apply.json"
PACKAGE = "onnxruntime"
MODULE = "onnxruntime.capi.onnxruntime_inference_collection"
MARK = "_ortune_applied"
CALLS = {"run": "input_feed", "run_with_ort_values": "input_dict_ort_values", "run_with_ortvaluevector": ""}
"""Methods with input shapes that a guard checks, mapped to the name of their argument for the inputs ("" if none)."""
OWNING = ("set_providers", "end_profiling", "set_tuning_results", "set_ep_dynamic_options", "run_async")
"""Methods that need an unshared session: run_async fails with one thread, and all others change the session."""
SHAREABLE = {"CPUExecutionProvider", "AzureExecutionProvider"}
ENTRY = "add_session_config_entry"
PLAIN = (
    ENTRY,
    "add_free_dimension_override_by_name",
    "add_free_dimension_override_by_denotation",
)
"""SessionOptions methods that take only numbers and strings, so their calls on two objects can be compared."""
UNCHANGED: Dict[str, Any] = {"options": {}, "entries": {}, "providers": []}
LOG_BYTES = 16 << 20
BLOCK_BYTES = 1 << 20

_now = time.monotonic


class Shared:
    """A C++ session that several objects use.

    Attributes:
        values: Attributes that the creation set on the first object; None if there is no session.
        users: Number of objects that use the session.
        idle_s: Time when the last user was freed; None while the session is in use.
        keep_s: Seconds for which an unused session is kept.
    """

    def __init__(self, keep_s: float) -> None:
        self.lock = threading.RLock()
        self.values: Optional[Dict[str, Any]] = None
        self.users, self.keep_s = 0, keep_s
        self.idle_s: Optional[float] = None


class Held:
    """State of a session object whose session has changes.

    Attributes:
        number: Index of the changes that apply to the object.
        asked: Positional and keyword arguments with which the program created its session.
        create: Function that creates its session.
        replaced: Whether it runs the replacement model.
        plain: Whether its session was created without the changes.
        original: An object with the program's own model, for calls with shapes that the replacement does not support;
            None before the first such call.
    """

    def __init__(self, number: int, create: Callable[..., Any], asked: Any, ref: Any) -> None:
        self.number, self.create, self.asked, self.ref = number, create, asked, ref
        self.shared: Optional[Shared] = None
        self.replaced = self.plain = False
        self.original: Any = None
        self.calls = 0
        self.lock = threading.Lock()


class Node:
    """An input or output of the program's own model, which the program sees if the replacement has fixed sizes."""

    def __init__(self, name: str, type: str, shape: List[Any]) -> None:
        self.name, self.type, self.shape = name, type, shape

    def __repr__(self) -> str:
        return "NodeArg(name=%r, type=%r, shape=%r)" % (self.name, self.type, self.shape)


class Applier:
    """Applies the changes in one process; after a fork, existing sessions are kept but no longer shared."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.off = False
        self.home = self.version = ""
        self.module: Any = None
        self.usual: Any = None
        with open(os.path.join(folder, CHANGES), "rb") as file:
            self.changes: List[Dict[str, Any]] = json.loads(file.read().decode())["sessions"]
        self.numbers = {digest: n for n, each in enumerate(self.changes) for digest in each["sha256"]}
        sizes = [size for each in self.changes for size in each["sizes"]]
        # A file of another size has other content, so it need not be read.
        self.sizes = set(sizes) if all(each["sizes"] for each in self.changes) else None
        self.held: Dict[int, Held] = {}
        self.history: Any = weakref.WeakKeyDictionary()
        self.kept_for_ever: List[Any] = []
        self.begin()

    def begin(self) -> None:
        """Reset the state for a new process."""
        self.lock = threading.RLock()
        self.wake = threading.Condition(threading.Lock())
        self.cache: Dict[Any, Shared] = {}
        self.reaper: Optional[threading.Thread] = None
        self.digests: Dict[Any, str] = {}
        self.local = threading.local()
        self.log_fd = self.log_bytes = -1

    def forked(self) -> None:
        """Reset the state in a forked child, which has the objects of its parent's sessions but not their threads."""
        # Freeing such a session would wait for its threads forever.
        self.kept_for_ever += self.cache.values()
        os.close(self.log_fd) if self.log_fd >= 0 else None
        self.begin()
        for held in self.held.values():
            held.shared, held.lock = None, threading.Lock()

    def stopped(self) -> bool:
        """Return whether the applier is off or the interpreter is ending."""
        # At the end of the interpreter a thread that held a lock is gone, so waiting for the lock would never end.
        return self.off or sys.is_finalizing()

    # Log.

    def write(self, **event: Any) -> None:
        """Append an event to the log; drop it if the log would exceed its size limit."""
        line = (
            json.dumps(event, separators=(",", ":"), default=repr).encode("utf-8", "backslashreplace") + b"\n"
        )
        with self.lock:
            if self.log_fd < 0:
                name = "%d-%d.log" % (os.getpid(), time.time_ns())
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
                self.log_fd = os.open(os.path.join(self.folder, name), flags, 0o600)
                self.log_bytes = 0
                self.write(e="process", format=FORMAT, pid=os.getpid(), home=self.home, version=self.version)
            if self.log_bytes + len(line) <= LOG_BYTES:
                self.log_bytes += len(line)
                os.write(self.log_fd, line)

    def fail(self) -> None:
        """Switch the applier off after an internal error, and report the error once."""
        if self.off or sys is None or sys.is_finalizing():
            self.off = True
            return
        self.off = True
        kind, error, trace = sys.exc_info()
        if isinstance(error, OSError) and not os.access(self.folder, os.W_OK):
            return  # the run has ended, and this process outlives it
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        text = "ortune: changes stopped in process %d: %s: %s (line %d)\n" % (
            os.getpid(), getattr(kind, "__name__", ""), error, trace.tb_lineno if trace is not None else 0,
        )  # fmt: skip
        try:
            self.write(e="off", why=text)
            os.write(2, text.encode("utf-8", "backslashreplace"))
        except Exception:
            pass

    # Sessions.

    def number(self, session: Any) -> Tuple[int, str, str]:
        """Return the index of the changes for a session's model (-1 for none), and the model's sha256 and file name."""
        path: Any = getattr(session, "_model_path", None)
        data = getattr(session, "_model_bytes", None)
        if path is not None:
            path = os.path.abspath(os.fsdecode(path))
            name = os.path.basename(path)
            try:
                status = os.stat(path)
            except OSError:
                return -1, "", name
            key: Any = (path, status.st_size, status.st_mtime_ns)
            size = status.st_size
        elif data is not None:
            key, size, name = (len(data), hash(data)), len(data), "bytes"
        else:
            return -1, "", ""
        if self.sizes is not None and size not in self.sizes:
            return -1, "", name
        digest = self.digests.get(key)
        if digest is None:
            digest = file_digest(path) if data is None else hashlib.sha256(data).hexdigest()
            self.digests[key] = digest
        return self.numbers.get(digest, -1), digest, name

    def create(self, original: Callable[..., Any], session: Any, args: Any, kwargs: Any) -> Any:
        """Create a session with the changes for its model, if there are any."""
        if self.stopped():
            return original(session, *args, **kwargs)
        try:
            number, digest, name = self.number(session)
            if number < 0:
                self.write(e="session", n=-1, name=name, how="unmatched")
        except Exception:
            self.fail()
            return original(session, *args, **kwargs)
        if number < 0:
            return original(session, *args, **kwargs)
        resetting = getattr(self.local, "resetting", None) is session
        return self.changed(original, session, args, kwargs, number, digest, resetting)

    def changed(
        self, original: Callable[..., Any], session: Any, args: Any, kwargs: Any, number: int, digest: str,
        resetting: bool,
    ) -> Any:  # fmt: skip
        """Create a session with its changes, or share an existing one; unchanged if preparing the changes fails."""
        change = self.changes[number]
        try:
            held = self.hold(session, number, original, (args, kwargs))
            why = "set_providers" if resetting else self.unshareable(session)
            share = bool(change["share"]) and not why
            replacement = "" if resetting else self.replacement(change)
            shared = self.shared(session, args, kwargs, digest, change) if share else None
            args, kwargs = (args, kwargs) if resetting else self.placed(change, args, kwargs)
        except Exception:
            self.fail()
            return original(session, *args, **kwargs)
        if shared is None:
            kept = ["not shared: " + why] if change["share"] and why else []
            return self.new(original, session, args, kwargs, held, replacement, kept)
        with shared.lock:
            values = self.use(shared, held)
            if values is None:
                before = dict(vars(session))
                result = self.new(original, session, args, kwargs, held, replacement, [])
                self.guarded(self.keep, shared, session, held, before)
                return result
            held.replaced = bool(replacement)
            vars(session).update({name: copied(value) for name, value in values.items()})
            what = described_change(change, replacement)
            self.guarded(self.write, e="session", n=number, how="shared", what=what, kept=[])
            return None

    def new(
        self, original: Callable[..., Any], session: Any, args: Any, kwargs: Any, held: Held, replacement: str,
        kept: List[str],
    ) -> Any:  # fmt: skip
        """Create a session with the changed settings and model, or as requested if ONNX Runtime refuses the changes."""
        change = self.changes[held.number]
        before = dict(vars(session))
        why = ""
        try:
            with Changes(self, session, change, replacement):
                result = original(session, *args, **kwargs)
        except Exception as error:
            why = "%s: %s" % (type(error).__name__, str(error)[:300])
        if why:
            vars(session).clear()
            vars(session).update(before)
            args, kwargs = held.asked
            result = original(session, *args, **kwargs)  # an error here is the program's own
            self.guarded(self.write, e="session", n=held.number, how="failed", what=[], kept=[why])
            return result
        held.replaced = bool(replacement)
        self.guarded(self.finish, session, held, change, replacement, kept)
        return result

    def finish(self, session: Any, held: Held, change: Any, replacement: str, kept: List[str]) -> None:
        """Set the inputs and outputs of the program's own model on a new session, and log the changes."""
        if replacement:
            for attribute, nodes in (
                ("_inputs_meta", change["inputs"]),
                ("_outputs_meta", change["outputs"]),
            ):
                if nodes:
                    setattr(session, attribute, [Node(*node) for node in nodes])
        if change["replacement"] and not replacement:
            kept = [*kept, "model not replaced: " + self.local.refused]
        what = described_change(change, replacement)
        if change["providers"] and getattr(self.local, "resetting", None) is not session:
            name = change["providers"][0][0]
            placed = name in session.get_providers()
            (what if placed else kept).append(("on " if placed else "not on ") + name)
        self.write(e="session", n=held.number, how="created", what=what, kept=kept)

    def guarded(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call an applier function and return its result; on an error, switch the applier off and return None."""
        try:
            return function(*args, **kwargs)
        except Exception:
            self.fail()
            return None

    def hold(self, session: Any, number: int, create: Callable[..., Any], asked: Any) -> Held:
        """Track a session object until it is freed, and return its state."""
        key = id(session)
        old = self.held.get(key)
        if old is not None:
            self.leave(old)
        held = Held(number, create, asked, weakref.ref(session, functools.partial(_gone, key)))
        self.held[key] = held
        return held

    def replacement(self, change: Any) -> str:
        """Return the path of the replacement model; "" if the program's own model is used."""
        path = change["replacement"]
        self.local.refused = ""
        if not path:
            return ""
        if change["version"] and change["version"] != self.version:
            self.local.refused = "made for onnxruntime " + change["version"]
            return ""
        try:
            status = os.stat(path)
            key = path, status.st_size, status.st_mtime_ns
            if key not in self.digests:
                self.digests[key] = file_digest(path)
            if self.digests[key] == change["replacement_sha256"]:
                return str(path)
            self.local.refused = "its file was changed"
        except OSError as error:
            self.local.refused = str(error.strerror)
        return ""

    def placed(self, change: Any, args: Any, kwargs: Any) -> Tuple[Any, Any]:
        """Return the arguments of a session with a change's providers if this build has all of them; else unchanged."""
        wanted = change["providers"]
        if not self.has(wanted):
            return args, kwargs
        names, options = [name for name, _ in wanted], [options for _, options in wanted]
        return (names, options, *args[2:]), {n: v for n, v in kwargs.items() if not n.startswith("provider")}

    def has(self, providers: Any) -> bool:
        """Return whether the list of providers is not empty and this build contains all of them."""
        names = {name for name, _ in providers}
        return bool(names) and names <= set(self.module.C.get_available_providers())

    def chosen_in(self, options: Any) -> bool:
        """Return whether the program added execution providers to its session options."""
        history = {} if options is None else self.history.get(options, {})
        return any("provider" in name for name, _, _ in history.get("calls", {}).values())

    # Sharing.

    def options(self, given: Any, change: Any, *, moves: bool = False) -> Any:
        """Return new session options: a copy of the program's options with the changes.

        Args:
            given: The program's options; None if it passed none.
            change: The changes.
            moves: Whether the change replaces the providers that the program chose in its options.

        Raises:
            ValueError: The options were obtained from another session, so some of them cannot be read.
        """
        fresh = type(self.usual)()
        if given is not None:
            history = self.history.get(given, {})
            if history.get("foreign"):
                raise ValueError("its options are those of another session")
            for name in readable(given):
                value = getattr(given, name)
                if value != getattr(fresh, name):
                    setattr(fresh, name, value)
            for name, args, kwargs in history.get("calls", {}).values():
                if moves and "provider" in name:
                    continue
                if name != ENTRY or args[0] not in change["entries"]:
                    getattr(fresh, name)(*args, **kwargs)
        for name, value in change["options"].items():
            now = getattr(fresh, name)
            setattr(fresh, name, getattr(type(now), value) if isinstance(value, str) else value)
        for key, value in change["entries"].items():
            fresh.add_session_config_entry(key, value)
        return fresh

    def unshareable(self, session: Any) -> str:
        """Return the reason why a session cannot be shared; "" if it can."""
        options = session._sess_options
        if options is None:
            return ""
        if options.enable_profiling:
            return "profiling"
        if options.optimized_model_filepath:
            return "it writes an optimised model"
        history = self.history.get(options, {})
        if history.get("foreign"):
            return "its options are those of another session"
        calls = history.get("calls", {}).values()
        return next((name for name, args, kwargs in calls if not is_plain(name, args, kwargs)), "")

    def shared(self, session: Any, args: Any, kwargs: Any, digest: str, change: Any) -> Shared:
        """Return the session shared by all requests with equal model, options, arguments and changes."""
        options = session._sess_options
        asked = {} if options is None else {name: repr(getattr(options, name)) for name in readable(options)}
        # An untouched options object is equivalent to none.
        plain = {} if options is None else {n: repr(getattr(self.usual, n)) for n in readable(self.usual)}
        asked = {name: value for name, value in asked.items() if plain.get(name) != value}
        history = {} if options is None else self.history.get(options, {})
        calls = repr(sorted(history.get("calls", {}).values()))
        flag = bool(getattr(session, "_read_config_from_model", False))
        own = json.dumps(change, sort_keys=True)
        words = (*args, *([None] * (3 - len(args)))), sorted(kwargs.items())
        key = digest, own, tuple(sorted(asked.items())), calls, repr(words), flag
        with self.lock:
            if key not in self.cache:
                self.cache[key] = Shared(float(change["keep_s"]))
            return self.cache[key]

    def keep(self, shared: Shared, session: Any, held: Held, before: Dict[str, Any]) -> None:
        """Share a new session, unless it uses providers with sessions that cannot be shared."""
        others = sorted(set(session.get_providers()) - SHAREABLE)
        if others:
            self.write(e="own", n=held.number, why=", ".join(others))
            return
        now = vars(session)
        shared.values = {n: value for n, value in now.items() if n not in before or before[n] is not value}
        self.use(shared, held)

    def use(self, shared: Shared, held: Held) -> Optional[Dict[str, Any]]:
        """Register an object as a user of a session; return the session's attributes, None if they are not set yet."""
        with self.lock:
            if shared.values is not None:
                held.shared = shared
                shared.users += 1
                shared.idle_s = None
            return shared.values

    def leave(self, held: Held) -> None:
        """Unregister an object from its shared session."""
        shared, held.shared = held.shared, None
        if shared is None:
            return
        with self.lock:
            shared.users -= 1
            if shared.users > 0:
                return
            shared.idle_s = _now()
            if shared.keep_s <= 0:
                shared.values = None
                return
            alive = self.reaper is not None and self.reaper.is_alive()
            if not alive and not sys.is_finalizing():
                self.reaper = threading.Thread(target=self.reap, name="ortune-applier", daemon=True)
                try:
                    self.reaper.start()
                except RuntimeError:  # the interpreter is ending
                    self.reaper = None

    def reap(self) -> None:
        """Free sessions that have been idle for ``keep_s``; return when no idle session is left."""
        while True:
            with self.lock:
                now_s = _now()
                idle = [s for s in self.cache.values() if s.idle_s is not None and s.values is not None]
                old = [s for s in idle if s.idle_s is not None and now_s - s.idle_s >= s.keep_s]
                dropped = [s.values for s in old]
                for each in old:
                    each.values = None
                waits = [s.idle_s + s.keep_s - now_s for s in idle if s.idle_s is not None and s not in old]
                if not waits:
                    self.reaper = None
            del dropped
            if not waits:
                return
            with self.wake:
                self.wake.wait(min(waits))

    def own(self, session: Any, why: str, *, model: bool = False, settings: bool = True) -> None:
        """Give an object its own session, because a shared one does not support its use.

        Args:
            session: The object.
            why: The reason, for the log.
            model: Whether the program's own model is needed too, because a guard cannot check the shapes.
            settings: Whether the new session gets the changed settings.
        """
        held = self.held.get(id(session))
        if self.stopped() or held is None or held.plain:
            return
        change = self.changes[held.number]
        model = held.replaced and (not settings or (model and bool(change["shapes"])))
        if held.shared is None and not model and settings:
            return
        args, kwargs = held.asked
        replacement = self.replacement(change) if held.replaced and not model else ""
        fresh = self.bare(session)
        if settings:
            args, kwargs = self.placed(change, args, kwargs)
        with Changes(self, fresh, change if settings else UNCHANGED, replacement):
            held.create(fresh, *args, **kwargs)
        self.leave(held)
        vars(session).update(
            {n: v for n, v in vars(fresh).items() if n not in ("_model_path", "_model_bytes")}
        )
        held.replaced, held.plain = bool(replacement), not settings
        self.write(e="own", n=held.number, why=why)

    def bare(self, session: Any) -> Any:
        """Return a new session object with the program's model and options, but without a C++ session."""
        fresh = object.__new__(self.module.InferenceSession)
        vars(fresh).update(vars(session))
        fresh._sess = None
        fresh._sess_options = session._sess_options_initial
        return fresh

    # Calls.

    def other(self, held: Held, session: Any, method: str, feed: Any) -> Any:
        """Return the session, or an object with the program's model if the replacement does not support the shapes."""
        change = self.changes[held.number]
        shapes = shapes_of(feed)
        if shapes is not None and shapes in change["shapes"]:
            return session
        with held.lock:
            held.calls += 1
            if not held.calls & (held.calls - 1):
                self.write(e="guard", n=held.number, calls=held.calls, of=id(session), shapes=shapes)
            if held.original is None:
                fresh = self.bare(session)
                args, kwargs = self.placed(change, *held.asked)
                with Changes(self, fresh, change, ""):
                    held.create(fresh, *args, **kwargs)
                held.original = fresh
            return held.original


class Changes:
    """Context that sets options and model for the creation of a session; the program's own options are not modified."""

    def __init__(self, applier: Applier, session: Any, change: Any, replacement: str) -> None:
        self.session, self.replacement = session, replacement
        self.model = session._model_path, session._model_bytes
        self.options = session._sess_options
        resetting = getattr(applier.local, "resetting", None) is session
        moves = not resetting and applier.chosen_in(self.options) and applier.has(change["providers"])
        if change["options"] or change["entries"] or moves:
            self.options = applier.options(self.options, change, moves=moves)

    def __enter__(self) -> None:
        self.session._sess_options = self.options
        if self.replacement:
            self.session._model_path, self.session._model_bytes = self.replacement, None

    def __exit__(self, *error: Any) -> None:
        self.session._model_path, self.session._model_bytes = self.model


def _gone(key: int, ref: Any) -> None:
    """Release the session of an object that was freed."""
    applier = _APPLIER
    if applier is None or sys is None:
        return
    if not applier.lock.acquire(not sys.is_finalizing()):
        return  # the thread that held the lock ended with the interpreter
    try:
        held = applier.held.get(key)
        if held is not None and held.ref is ref:
            del applier.held[key]
            applier.leave(held)
    except Exception:
        applier.fail()
    finally:
        applier.lock.release()


def copied(value: Any) -> Any:
    """Return a copy of a list, dictionary or set; return other values unchanged."""
    return type(value)(value) if type(value) in (list, dict, set) else value


def readable(options: Any) -> List[str]:
    """Return the names of the readable properties of an options object."""
    return [
        n
        for n in dir(type(options))
        if not n.startswith("_") and isinstance(vars(type(options)).get(n), property)
    ]


def described_change(change: Any, replacement: str) -> List[str]:
    """Return the changes as ``name=value`` texts, and "model replaced" if the model was replaced."""
    return [*change["what"], *(["model replaced"] if replacement else [])]


def shapes_of(feed: Any) -> Any:
    """Return the names and shapes of inputs, sorted by name; None if the inputs are not in a dictionary."""
    if not isinstance(feed, dict):
        return None
    found = []
    for name, value in feed.items():
        shape = getattr(value, "shape", None)
        if callable(shape):  # an OrtValue
            shape = shape()
        elif shape is None:
            shape = []
            while isinstance(value, (list, tuple)):
                shape.append(len(value))
                value = value[0] if value else None
        found.append([str(name), list(shape)])
    return sorted(found)


def file_digest(path: str) -> str:
    """Return the sha256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(BLOCK_BYTES), b""):
            digest.update(block)
    return digest.hexdigest()


# Wrapping.


def patch(module: Any, applier: Applier) -> None:
    """Wrap the methods of onnxruntime's classes, unless they are wrapped already."""
    sessions, base = module.InferenceSession, module.Session
    if MARK in vars(sessions):
        return
    setattr(sessions, MARK, True)
    applier.module = module
    applier.home = os.path.dirname(os.path.dirname(os.path.abspath(module.__file__))) + os.sep
    package = sys.modules.get(PACKAGE)
    applier.version = str(getattr(package, "__version__", "") or version_in(applier.home))
    options = module.C.SessionOptions
    applier.usual = options()
    sessions._create_inference_session = wrapped_create(vars(sessions)["_create_inference_session"])
    for name in OWNING:
        if name in vars(base):
            setattr(base, name, wrapped_owner(vars(base)[name], name))
    base.get_session_options = wrapped_options(vars(base)["get_session_options"])
    module.IOBinding.__init__ = wrapped_binding(vars(module.IOBinding)["__init__"])
    for name in [n for n in vars(options) if n.partition("_")[0] in ("add", "register", "set", "clear")]:
        setattr(options, name, wrapped_setter(vars(options)[name], name))
    if any(change["shapes"] for change in applier.changes):
        for name in CALLS:
            if name in vars(base):
                setattr(base, name, wrapped_call(vars(base)[name], name))
    applier.write(e="begun")


def wrapped_create(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a wrapper that creates sessions with the changes."""

    @functools.wraps(original)
    def create(self: Any, *args: Any, **kwargs: Any) -> Any:
        applier = _APPLIER
        return (original(self, *args, **kwargs) if applier is None
                else applier.create(original, self, args, kwargs))  # fmt: skip

    return create


def wrapped_owner(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a wrapper that gives the object an unshared session before it calls the method."""

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        applier = _APPLIER
        if applier is None or applier.stopped() or id(self) not in applier.held:
            return original(self, *args, **kwargs)
        if name != "set_providers":
            applier.guarded(applier.own, self, name, settings=name != "run_async")
            return original(self, *args, **kwargs)
        before, applier.local.resetting = getattr(applier.local, "resetting", None), self
        try:
            return original(self, *args, **kwargs)
        finally:
            applier.local.resetting = before

    return call


def wrapped_binding(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a wrapper of IOBinding's constructor that first gives the object an unshared session."""

    @functools.wraps(original)
    def create(self: Any, session: Any, *args: Any, **kwargs: Any) -> Any:
        applier = _APPLIER
        if applier is not None:
            applier.guarded(applier.own, session, "IO binding", model=True)
        return original(self, session, *args, **kwargs)

    return create


def wrapped_options(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a wrapper of ``get_session_options`` that marks its result, since some entries cannot be read."""

    @functools.wraps(original)
    def get(self: Any) -> Any:
        result = original(self)
        applier = _APPLIER
        if applier is not None and not applier.stopped():
            applier.guarded(note, applier, result, None)
        return result

    return get


def wrapped_setter(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a wrapper of a SessionOptions method that records its calls, since their values cannot be read back."""

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        applier = _APPLIER
        if applier is not None and not applier.stopped():
            applier.guarded(note, applier, self, (name, args, kwargs))
        return result

    return call


def is_plain(name: str, args: Any, kwargs: Any) -> bool:
    """Return whether a call that changed options has only numbers and strings as arguments."""
    return name in PLAIN and not kwargs and all(isinstance(each, (str, int)) for each in args)


def note(applier: Applier, options: Any, call: Any) -> None:
    """Record a method call that changed options; None marks options that were obtained from another session."""
    with applier.lock:
        history = applier.history.setdefault(options, {"calls": {}})
        if call is None:
            history["foreign"] = True
        else:
            # A later call with the same first argument replaces it.
            key = repr(call[:2]) if not is_plain(*call) else (call[0], call[1][0])
            history["calls"].pop(key, None)
            history["calls"][key] = call


def wrapped_call(original: Callable[..., Any], method: str) -> Callable[..., Any]:
    """Return a wrapper that runs the program's own model for shapes that the replacement does not support."""
    feed_name = CALLS[method]

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        applier = _APPLIER
        held = None if applier is None else applier.held.get(id(self))
        if applier is None or held is None or not held.replaced or not applier.changes[held.number]["shapes"]:
            return original(self, *args, **kwargs)
        feed = args[1] if feed_name and len(args) > 1 else kwargs.get(feed_name)
        chosen = applier.guarded(applier.other, held, self, method, feed)
        return original(self if chosen is None else chosen, *args, **kwargs)

    return call


class ApplyFinder:
    """Import finder that wraps onnxruntime's classes after their import; other finders find the module."""

    def __init__(self, applier: Applier) -> None:
        self.applier, self.busy = applier, False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec of onnxruntime's module, with a loader that wraps its classes; None for other modules."""
        if name == PACKAGE:
            self.applier.guarded(loading, self.applier.folder)
        if name != MODULE or self.busy:
            return None
        self.busy = True
        while WARNING in sys.warnoptions:  # not earlier, since the list may still be iterated
            sys.warnoptions.remove(WARNING)
        try:
            finders = [
                finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")
            ]
            specs = (finder.find_spec(name, path, target) for finder in finders)
            spec = next((spec for spec in specs if spec is not None), None)
        finally:
            self.busy = False
        if spec is not None and spec.loader is not None:
            self.applier.guarded(self.follow, spec.loader)
        return spec

    def follow(self, loader: Any) -> None:
        """Make a loader wrap the classes of the next module that it executes."""
        original = loader.exec_module

        def exec_module(module: Any) -> None:
            vars(loader).pop("exec_module", None)
            original(module)
            self.applier.guarded(patch, module, self.applier)

        loader.exec_module = exec_module


def loading(folder: str) -> None:
    """Create a file that marks this process as loading ONNX Runtime; the process may end before it writes a log."""
    path = os.path.join(folder, "%d.loading" % os.getpid())
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def version_in(home: str) -> str:
    """Return the version in the source of a package's ``__init__``, which is still being imported; "" if none."""
    with open(os.path.join(home, "__init__.py"), encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("__version__"):
                return line.partition("=")[2].strip().strip("\"'")
    return ""


_APPLIER: Optional[Applier] = None


def begin() -> None:
    """Start applying changes in this process if ``ORTUNE_APPLY`` names a folder of changes and no applier is active."""
    global _APPLIER  # noqa: PLW0603 -- methods of onnxruntime's classes read it, also in the child of a fork
    folder = os.environ.get(VARIABLE, "")
    if _APPLIER is not None or not os.path.isabs(folder) or not os.path.isfile(os.path.join(folder, CHANGES)):
        return
    if any(type(finder).__name__ == "ApplyFinder" for finder in sys.meta_path):
        return
    applier = _APPLIER = Applier(folder)
    os.register_at_fork(after_in_child=applier.forked)
    if MODULE in sys.modules:
        applier.guarded(patch, sys.modules[MODULE], applier)
    else:
        sys.meta_path.insert(0, ApplyFinder(applier))


begin()
