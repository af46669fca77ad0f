"""Programs that are not Python: a program of C with ONNX Runtime's own library, recorded and changed."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnxruntime import datasets
from programs import applied, recorded

from onnx_text import model_of
from ortune import launcher
from ortune.recorder import native, program
from ortune.records import SessionChange

LIBRARIES = sorted((Path(ort.__file__).parent / "capi").glob("libonnxruntime.so*"))
CC = launcher.program("cc")
pytestmark = pytest.mark.skipif(
    not (CC and LIBRARIES), reason="NOT TESTED: no C compiler, or no libonnxruntime.so in this onnxruntime"
)
MODEL = Path(datasets.get_example("sigmoid.onnx"))
SOURCE = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
typedef void *P;
typedef struct { void **(*api)(uint32_t); const char *(*version)(void); } Base;
extern const Base *OrtGetApiBase(void);
extern P OrtSessionOptionsAppendExecutionProvider_CPU(P, int);
extern P OrtSessionOptionsAppendExecutionProvider_Dnnl(P, int) __attribute__((weak));  /* not in this build */
static void **api;
static void ok(P status) { if (status) { puts(((const char *(*)(P))api[2])(status)); exit(9); } }
static P session_of(P env, P options, const char *path, int bytes) {
  P session = 0;
  static char data[1 << 20];
  if (!bytes) { ok(((P(*)(P, const char *, P, P *))api[7])(env, path, options, &session)); return session; }
  FILE *file = fopen(path, "rb");
  size_t n = fread(data, 1, sizeof data, file);
  ok(((P(*)(P, const void *, size_t, P, P *))api[8])(env, data, n, options, &session));
  return session;
}
static volatile int ended;
static void end(void *data, P *outputs, size_t n, P status) { ok(status); ended = 1; }
static void call_otherwise(P session, P memory, P value, const char *how) {
  const char *in[1] = {"x"}, *names[1] = {"y"};
  static P outs[1];
  if (!strcmp(how, "async")) {
    typedef void (*End)(void *, P *, size_t, P);
    typedef P (*Run)(P, P, const char **, P *, size_t, const char **, size_t, P *, End, void *);
    outs[0] = 0; ended = 0;
    ok(((Run)api[260])(session, 0, in, &value, 1, names, 1, outs, end, 0));
    while (!ended) usleep(100);
  } else {
    P binding = 0;
    ok(((P(*)(P, P *))api[134])(session, &binding));
    ok(((P(*)(P, const char *, P))api[136])(binding, "x", value));
    ok(((P(*)(P, const char *, P))api[138])(binding, "y", memory));
    ok(((P(*)(P, P, P))api[133])(session, 0, binding));
    ((void (*)(P))api[135])(binding);
  }
}
static const char *how = "";
static void call(P session) {
  static float x[60];
  static P before;
  int64_t shape[3] = {3, 4, 5};
  P memory = 0, value = 0, out = 0;
  const char *in[1] = {"x"}, *names[1] = {"y"};
  ok(((P(*)(int, int, P *))api[69])(0, 0, &memory));
  ok(((P(*)(P, void *, size_t, int64_t *, size_t, int, P *))api[49])(memory, x, sizeof x, shape, 3, 1, &value));
  if (!strcmp(how, "async") || !strcmp(how, "bound")) { call_otherwise(session, memory, value, how); return; }
  if (!strcmp(how, "chained") && before) value = before;
  typedef P (*Run)(P, P, const char **, P *, size_t, const char **, size_t, P *);
  ok(((Run)api[9])(session, 0, in, &value, 1, names, 1, &out));
  before = out;
}
int main(int argc, char **argv) {
  P env = 0, options = 0, session;
  int bytes = argc > 3 && !strcmp(argv[3], "bytes"), forks = argc > 3 && !strcmp(argv[3], "fork");
  how = argc > 3 ? argv[3] : "";
  api = OrtGetApiBase()->api(22);
  ok(((P(*)(int, const char *, P *))api[3])(3, "t", &env));
  ok(((P(*)(P *))api[10])(&options));
  ok(((P(*)(P, int))api[24])(options, 3));
  if (!strcmp(how, "azure")) ok(((P(*)(P, const char *, P, P, size_t))api[216])(options, "AZURE", 0, 0, 0));
  if (!strcmp(how, "exported")) ok(OrtSessionOptionsAppendExecutionProvider_CPU(options, 1));
  if (!strcmp(how, "falls-back")) {
    P status = ((P(*)(P, const char *, P, P, size_t))api[216])(options, "SNPE", 0, 0, 0);
    if (OrtSessionOptionsAppendExecutionProvider_Dnnl)
      status = OrtSessionOptionsAppendExecutionProvider_Dnnl(options, 1);
    puts(((const char *(*)(P))api[2])(status));
  }
  if (!strcmp(how, "gives-up")) {
    puts(((P(*)(P, const char *, P, P, size_t))api[216])(options, "SNPE", 0, 0, 0) ? "failed" : "appended");
    ((void (*)(P))api[100])(options);
    return 0;
  }
  if (!strcmp(how, "writes")) ok(((P(*)(P, const char *))api[11])(options, "/dev/null"));
  if (!strcmp(how, "devices") || !strcmp(how, "policy")) {
    P *devices = 0;
    size_t n = 0;
    ok(((P(*)(P, P **, size_t *))api[303])(env, &devices, &n));
    if (*how == 'd') ok(((P(*)(P, P, P *, size_t, P, P, size_t))api[304])(options, env, devices, 1, 0, 0, 0));
    else ok(((P(*)(P, int))api[305])(options, 1));
  }
  if (!strcmp(how, "slots"))
    for (int i = 4; i < argc; i++) {
      static char nothing[8192];
      P status = ((P(*)(P, P, P, size_t))api[atoi(argv[i])])(options, nothing, 0, 0);
      printf("%s\n", status ? ((const char *(*)(P))api[2])(status) : "ok");
    }
  session = session_of(env, options, argv[1], bytes);
  for (int i = 0; i < atoi(argv[2]); i++) call(session);
  if (forks && !fork()) { call(session); _exit(0); }
  if (forks) wait(0);
  FILE *status = fopen("/proc/self/status", "r");
  for (char line[256]; fgets(line, sizeof line, status);) if (!strncmp(line, "Threads", 7)) fputs(line, stdout);
  ((void (*)(P))api[95])(session);
  if (argc > 3 && !strcmp(argv[3], "missing")) {
    P status = ((P(*)(P, const char *, P, P *))api[7])(env, "/nowhere/m.onnx", options, &session);
    printf("missing: %s\n", status ? "error" : "none");
  }
  puts("out");
  return 0;
}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("host")
    # The name that a program asks for when it starts.
    (folder / "libonnxruntime.so.1").symlink_to(LIBRARIES[-1])
    return built(folder, SOURCE, "host")


def built(folder: Path, source: str, name: str) -> Path:
    """Compile a program of ONNX Runtime."""
    (folder / f"{name}.c").write_text(source)
    words = [CC, "-w", f"{name}.c", "-o", name, str(folder / "libonnxruntime.so.1"), f"-Wl,-rpath,{folder}"]
    subprocess.run(words, cwd=folder, check=True)
    return folder / name


def test_a_program_of_c_is_recorded(host: Path) -> None:
    recording = recorded([host, MODEL, 250])
    assert (recording.code, recording.missed) == (0, ())
    (process,), (session,) = recording.processes, recording.sessions
    assert process.onnxruntime == ort.__version__ and process.python == ""
    assert not any("ortune" in value for value in process.variables.values())
    (model,) = recording.models
    assert (model.path, model.sha256) == (str(MODEL), hashlib.sha256(MODEL.read_bytes()).hexdigest())
    assert session.options is not None and session.options["intra_op_num_threads"] == 3
    assert session.threads == 2 and len(session.thread_cpus) == 2
    (calls,) = session.calls
    (value,) = calls.inputs
    assert (value.name, value.dtype, value.shape) == ("x", "float32", (3, 4, 5))
    assert [value.shape for value in calls.outputs] == [(3, 4, 5)]
    assert (calls.count, calls.failed, len(process.arrivals)) == (250, 0, 250)
    assert 200 <= calls.inspected < 250
    assert 0 < calls.least_ns <= calls.most_ns <= calls.total_ns
    assert session.end_ns is not None
    assert recording.places[session.place][0].file == str(host)


def test_execution_providers_have_their_full_names(host: Path) -> None:
    (plain,) = recorded([host, MODEL, 1]).sessions
    assert (plain.providers, plain.providers_used) == (None, ("CPUExecutionProvider",))
    (appended,) = recorded([host, MODEL, 1, "azure"]).sessions
    assert appended.providers == ("AzureExecutionProvider",)
    assert appended.providers_used == ("AzureExecutionProvider", "CPUExecutionProvider")
    (devices,) = recorded([host, MODEL, 1, "devices"]).sessions
    assert (devices.providers, devices.providers_used) == (
        ("CPUExecutionProvider",),
        ("CPUExecutionProvider",),
    )
    (selected,) = recorded([host, MODEL, 1, "policy"]).sessions
    assert (selected.providers, selected.providers_used) == (None, ())  # ONNX Runtime's own choice


def test_providers_of_exported_functions_are_recorded(host: Path) -> None:
    (exported,) = recorded([host, MODEL, 1, "exported"]).sessions
    assert (exported.providers, exported.providers_used) == (("CPUExecutionProvider",),) * 2


def test_a_provider_that_could_not_be_appended_is_recorded_with_and_without_a_session(host: Path) -> None:
    (session,) = recorded([host, MODEL, 1, "falls-back"]).sessions
    assert session.providers == ("SNPEExecutionProvider", "DnnlExecutionProvider")
    assert (session.providers_used, session.error, session.n_calls) == (("CPUExecutionProvider",), "", 1)
    (failed,) = recorded([host, MODEL, 1, "gives-up"]).sessions
    assert (failed.providers, failed.providers_used, failed.error) == (
        ("SNPEExecutionProvider",),
        (),
        "OrtStatus",
    )
    assert "SNPE" in failed.error_message


def test_a_session_that_writes_a_model_is_marked(host: Path) -> None:
    sessions = [recorded([host, MODEL, 0, how]).sessions[0] for how in ("", "writes")]
    assert [session.writes_model for session in sessions] == [False, True]


def test_each_provider_has_its_place_in_the_table(host: Path) -> None:
    """Their functions fail in this build, and each says whose it is."""
    source = Path(native.__file__).with_name("native.c").read_text()
    places = dict(re.findall(r"(APPEND_\w+) = (\d+)", source))
    # These look at their arguments first, or name a library alone.
    for name in ("NAMED", "DEVICES", "CUDA_V2", "MIGRAPHX", "CANN"):
        del places[f"APPEND_{name}"]
    done = subprocess.run([host, MODEL, "1", "slots", *places.values()], capture_output=True, text=True)
    said = done.stdout.replace(f"Failed to load library {Path(ort.__file__).parent}", "").splitlines()
    for place, message in zip(places, [line for line in said if line], strict=False):
        name = place.removeprefix("APPEND_").removesuffix("_V2").lower()
        assert name in message.lower(), (place, message)


def test_bytes_failures_and_forks(host: Path) -> None:
    found = recorded([host, MODEL, 2, "bytes"])
    assert found.models[0].sha256 == hashlib.sha256(MODEL.read_bytes()).hexdigest()
    failed = recorded([host, MODEL, 2, "missing"])
    assert [(each.error, each.n_calls) for each in failed.sessions] == [("", 2), ("OrtStatus", 0)]
    forked = recorded([host, MODEL, 2, "fork"])
    own, inherited = forked.sessions
    assert (own.n_calls, inherited.n_calls, inherited.inherited) == (2, 1, own.id)
    assert (inherited.inherited_threads, inherited.threads, inherited.model) == (own.threads, 0, own.model)
    assert [process.parent for process in forked.processes] == [-1, 0]
    assert own.memory_bytes is not None and own.memory_bytes > 0 and inherited.memory_bytes is None


@pytest.mark.parametrize(("how", "method"), [("async", "run_async"), ("bound", "run_with_iobinding")])
def test_other_kinds_of_calls(host: Path, how: str, method: str) -> None:
    (session,) = recorded([host, MODEL, 20, how]).sessions
    (calls,) = session.calls
    assert (calls.method, calls.count, calls.failed) == (method, 20, 0)
    (value,) = calls.inputs
    assert (value.name, value.dtype, value.shape) == ("x", "float32", (3, 4, 5))


def test_outputs_that_come_back_and_values(host: Path) -> None:
    recording = recorded([host, MODEL, 20, "chained"], with_inputs=2)
    (calls,) = recording.sessions[0].calls
    assert (calls.inspected, calls.chained) == (20, 19)
    first, second = (np.frombuffer(each.inputs[0].data, "<f4") for each in recording.values)
    assert (first.tolist(), second.tolist()) == ([0.0] * 60, [0.5] * 60)
    (calls,) = recorded([host, MODEL, 20]).sessions[0].calls
    assert calls.chained == 0


def test_a_filled_mask(host: Path, tmp_path: Path) -> None:
    source = (host.parent / "host.c").read_text().replace('"x"', '"attention_mask"')
    source = source.replace("static float x[60]", "static int64_t x[60] = {1, 1}").replace(
        "shape, 3, 1, &value", "shape, 3, 7, &value"
    )
    masked = built(host.parent, source, "masked")
    onnx.save(
        model_of("g (int64[3,4,5] attention_mask) => (int64[3,4,5] y) { y = Neg (attention_mask) }"),
        tmp_path / "m.onnx",
    )
    (calls,) = recorded([masked, tmp_path / "m.onnx", 3]).sessions[0].calls
    assert (calls.mask_elements, calls.mask_set) == (180, 6)


LOADS = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
  for (int i = 1; i < argc; i += 2) {
    char path[4096];
    snprintf(path, sizeof path, "%s/libonnxruntime.so.1", argv[i]);
    if (!dlopen(path, RTLD_NOW)) { puts(dlerror()); return 8; }
    snprintf(path, sizeof path, "%s/libuser.so", argv[i]);
    void *user = dlopen(path, RTLD_NOW);
    if (!user) { puts(dlerror()); return 9; }
    char *words[] = {"user", argv[i + 1], "5", 0};
    ((int (*)(int, char **))dlsym(user, "use"))(3, words);
  }
  return 0;
}
"""


def test_two_libraries_in_one_process(host: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.onnx"
    onnx.save(model_of("g (float[3,4,5] x) => (float[3,4,5] y) { y = Neg (x) }"), other)
    (tmp_path / "user.c").write_text((host.parent / "host.c").read_text().replace("int main(", "int use("))
    (tmp_path / "loads.c").write_text(LOADS)
    subprocess.run([CC, "-w", "loads.c", "-o", "loads", "-ldl"], cwd=tmp_path, check=True)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        shutil.copy(LIBRARIES[-1], tmp_path / name / "libonnxruntime.so.1")
        words = [CC, "-w", "-shared", "-fPIC", "user.c", "-o", f"{name}/libuser.so"]
        subprocess.run(words, cwd=tmp_path, check=True)
    recording = recorded([tmp_path / "loads", tmp_path / "a", MODEL, tmp_path / "b", other])
    assert (recording.code, recording.missed) == (0, ())
    found = [(Path(recording.models[each.model].path).name, each.n_calls) for each in recording.sessions]
    assert sorted(found) == [("other.onnx", 5), ("sigmoid.onnx", 5)]
    assert len({process.pid for process in recording.processes}) == 1


def test_settings_are_changed_by_the_content_of_the_model(host: Path, tmp_path: Path) -> None:
    change = SessionChange(
        name="sigmoid.onnx",
        sha256=(hashlib.sha256(MODEL.read_bytes()).hexdigest(),),
        sizes=(MODEL.stat().st_size,),
        what=("intra_op_num_threads=1", "allow_spinning=0"),
        options={"intra_op_num_threads": 1},
        entries={"session.intra_op.allow_spinning": "0"},
        share=True,
        providers=(("CUDAExecutionProvider", {}),),
        replacement="/nowhere/m.onnx",
    )
    other = SessionChange(name="other.onnx", sha256=("0" * 64,), options={"intra_op_num_threads": 5})
    left, usual, _ = applied([host, MODEL, 2], other, folder=tmp_path)
    assert left.unmatched == {"sigmoid.onnx": 1}
    for form in ("path", "bytes"):
        done, out, _ = applied([host, MODEL, 2, form], other, change, folder=tmp_path)
        assert n_threads(out) == n_threads(usual) - 2
        assert (done.code, done.missed, done.stopped) == (0, (), ())
        assert done.onnxruntime == (ort.__version__,)
        unused, model = done.models
        assert (unused.created, model.created, model.failed) == (0, 1, 0)
        assert model.what == ("intra_op_num_threads=1", "allow_spinning=0")
        parts = ("not shared", "execution provider not changed", "model not replaced")
        assert model.kept == {f"{part}: not a Python program": 1 for part in parts}


def n_threads(printed: str) -> int:
    first, last = printed.splitlines()
    assert last == "out"
    return int(first.removeprefix("Threads:"))


def test_without_a_compiler_the_process_is_missed(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "library", lambda: "")
    recording = recorded([host, MODEL, 2000])
    assert recording.sessions == () and recording.code == 0
    assert {missed.reason for missed in recording.missed} == {"not-python"}
    assert program.exit_code(recording) == 3


def test_what_the_user_preloads_comes_first_and_is_kept() -> None:
    library = native.library()
    assert native.preloaded({"LD_PRELOAD": "/x/a.so"}) == {"LD_PRELOAD": f"/x/a.so:{library}"}
    assert native.without(f"/x/a.so:{library}") == "/x/a.so"
    assert native.without(library) == ""
