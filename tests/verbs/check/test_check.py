"""``ortune check`` on files, as it is typed."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from typer.testing import CliRunner, Result

import ortune
from facts import facts
from onnx_text import assemble
from ortune import rules
from ortune.cli import main
from ortune.errors import UsageError
from ortune.records import Envelope, Finding
from ortune.show.html import pages
from ortune.verbs.check import run as check
from ortune.verbs.check.result import CheckedModel, CheckResult

OLD = """
<ir_version: 4, opset_import: ["" : 17]>
old (float[2,96] x, float[96,96] w) => (float[2,96] y)
{
    [product] p = MatMul (x, w)
    y = Relu (p)
}
"""
CLEAN = OLD.replace("<ir_version: 4", "<ir_version: 8").replace(", float[96,96] w) =>", ") =>")


def write(folder: Path, text: str, name: str = "m.onnx") -> Path:
    """A model with its weight, which the text does not hold."""
    model = onnx.parser.parse_model(text)
    values = np.random.default_rng(1).standard_normal((96, 96)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(values, "w"))
    onnx.save(model, folder / name)
    return folder / name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(*words: str) -> Result:
    main.register("check", "explain")
    return CliRunner().invoke(main.app, list(words))


def document(*words: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(asked(*words, "--json").stdout)["result"]
    return result


def test_a_finding_is_a_line_and_fails_the_check(folder: Path) -> None:
    write(folder, OLD)
    said = asked("check", "m.onnx")
    line = said.stdout.splitlines()[0]
    assert line.startswith("m.onnx: GRA002 [*] 1 initializer")
    assert "1 fixable with --fix" in said.stdout
    assert said.exit_code == 1
    assert asked("check", "m.onnx", "--fail-on", "error").exit_code == 0
    assert asked("check", "m.onnx", "--fail-on", "never").exit_code == 0


@pytest.mark.parametrize("code", ["GRA022", "SHP004"])
def test_what_the_file_alone_shows_is_a_note_without_being_asked_for(folder: Path, code: str) -> None:
    example = rules.find_rule(code)
    assert example.bad is not None and example.good is not None
    onnx.save(example.bad(), "bad.onnx")
    onnx.save(example.good(), "good.onnx")
    bad, good = document("check", "bad.onnx", "good.onnx")["models"]
    assert [each["severity"] for each in bad["findings"] if each["code"] == code] == ["note"]
    assert code not in [each["code"] for each in good.get("findings", ())]
    assert asked("check", "bad.onnx", "--select", code).exit_code == 0


def test_a_clean_model_passes(folder: Path) -> None:
    write(folder, CLEAN)
    said = asked("check", "m.onnx")
    assert said.exit_code == 0 and said.stdout.startswith("No findings in 1 model (")


def test_fix_writes_a_copy_that_is_clean_and_gives_the_same(folder: Path) -> None:
    path = write(folder, OLD)
    before = path.read_bytes()
    said = asked("check", "m.onnx", "--fix")
    assert said.exit_code == 0, said.stdout
    assert "ortune compare m.onnx m.fixed.onnx" in " ".join(said.stdout.split())
    assert path.read_bytes() == before
    assert asked("check", "m.fixed.onnx").exit_code == 0
    feeds = {"x": np.ones((2, 96), np.float32)}
    was, now = (
        onnxruntime.InferenceSession(name, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
        for name in ("m.onnx", "m.fixed.onnx")
    )
    np.testing.assert_array_equal(was, now)
    assert [each.name for each in onnx.load("m.fixed.onnx").graph.input] == ["x"]


def test_weights_in_files_of_their_own_are_written_beside_the_copy(folder: Path) -> None:
    model = onnx.load(write(folder, OLD))
    onnx.save(model, "big.onnx", save_as_external_data=True, location="big.data", size_threshold=0)
    Path("m.onnx").unlink()
    assert asked("check", "big.onnx", "--fix").exit_code == 0
    assert sorted(p.name for p in folder.iterdir()) == [
        "big.data", "big.fixed.onnx", "big.fixed.onnx.data", "big.onnx",
    ]  # fmt: skip
    Path("big.data").unlink()
    onnxruntime.InferenceSession("big.fixed.onnx", providers=["CPUExecutionProvider"])
    refused = asked("check", "big.fixed.onnx", "--fix", "--in-place", "--select", "GRA002")
    assert refused.exit_code == 0  # nothing to fix, nothing to refuse


def test_a_fixed_model_is_run_before_it_is_called_so(folder: Path) -> None:
    """Its weights lie beside it, and the sizes of its Reshape do not."""
    text = OLD.replace("y = Relu (p)", "r = Reshape (p, s) y = Relu (r)")
    model = onnx.load(write(folder, text.replace("{\n", "<int64[2] s = {2,96}>\n{\n", 1)))
    onnx.save(model, "m.onnx", save_as_external_data=True, location="m.data", size_threshold=1024)
    said = asked("check", "m.onnx", "--fix")
    assert said.exit_code == 0, said.stdout
    assert "m.onnx: fixed in m.fixed.onnx" in said.stdout
    assert f"verified with onnxruntime {onnxruntime.__version__}: outputs identical" in said.stdout
    shown = document("check", "m.onnx", "--fix")["models"][0]["fixed"]["verification"]
    assert (shown["status"], shown["outputs"]["ok"]) == ("equal", True)
    assert {p.name for p in folder.iterdir()} == {"m.onnx", "m.data", "m.fixed.onnx", "m.fixed.onnx.data"}


def test_outputs_that_are_nearly_zero_verify_nothing(folder: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[1,4,8,8] x) => (float[1,4,6,6] y)
        <float[4,4,3,3] w = {0}, float[4,1,1] s = {3,5,7,9}>
        { m = Mul (x, s)
          y = Conv (m, w) }"""
    )
    weights = 1e-9 * np.random.default_rng(0).standard_normal((4, 4, 3, 3))
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights.astype(np.float32), "w"))
    onnx.save(model, "m.onnx")
    said = asked("check", "m.onnx", "--fix", "--select", "GRA016").stdout
    assert "m.onnx: written to m.fixed.onnx" in said
    assert "not verified: outputs are nearly zero" in said


def test_a_fix_of_what_does_not_run_here_is_written_and_not_called_verified(folder: Path) -> None:
    text = OLD.replace('"" : 17]', '"" : 17, "own" : 1]').replace("Relu", "own.Secret")
    write(folder, text)
    said = asked("check", "m.onnx", "--fix")
    assert said.exit_code == 0, said.stdout
    assert "m.onnx: written to m.fixed.onnx" in said.stdout
    facts(said.stdout, "not verified: m.onnx", "--custom-ops")
    assert document("check", "m.onnx", "--fix")["models"][0]["fixed"]["verification"]["reason"] == "source"


def test_in_place_and_output_say_where(folder: Path) -> None:
    write(folder, OLD)
    assert asked("check", "m.onnx", "--fix", "--output", "other.onnx").exit_code == 0
    assert Path("other.onnx").exists() and not Path("m.fixed.onnx").exists()
    assert asked("check", "m.onnx", "--fix", "--in-place").exit_code == 0
    assert asked("check", "m.onnx").exit_code == 0
    assert sorted(p.name for p in folder.iterdir()) == ["m.onnx", "other.onnx"]


@pytest.mark.parametrize(
    "plan",
    [None, "{", '{"setings": {}}', '{"settings": {"intra": "many"}}'],
    ids=["none", "cut", "part", "value"],
)
def test_a_plan_that_cannot_be_used_is_to_blame_and_no_model(folder: Path, plan: str | None) -> None:
    write(folder, OLD)
    if plan is not None:
        Path("plan.json").write_text(plan)
    said = asked("check", "m.onnx", "--plan", "plan.json")
    assert said.exit_code == 2
    assert "m.onnx" not in said.output and "ortune: " in said.output


def test_inputs_that_cannot_be_read_are_named(folder: Path) -> None:
    write(folder, OLD)
    said = asked("check", "m.onnx", "--inputs", "none.npz")
    assert said.exit_code == 2
    assert "m.onnx: --inputs none.npz: " in said.stdout


def test_what_proves_a_fix_can_be_pasted(folder: Path) -> None:
    write(folder, OLD, "my model.onnx")
    said = asked("check", "my model.onnx", "--fix")
    assert "ortune compare 'my model.onnx' 'my model.fixed.onnx'" in said.stdout


def test_a_configuration_of_lists_within_lists_is_one_clear_error(folder: Path) -> None:
    write(folder, OLD)
    Path("ortune.toml").write_text("a = " + "[" * 5000 + "]" * 5000)
    said = asked("check", "m.onnx")
    assert said.exit_code == 2
    assert "ortune.toml: cannot be read" in said.output


def test_a_model_that_is_fixed_in_place_stays_its_owners_alone(folder: Path) -> None:
    write(folder, OLD).chmod(0o600)
    assert asked("check", "m.onnx", "--fix", "--in-place").exit_code == 0
    assert Path("m.onnx").stat().st_mode & 0o777 == 0o600


def test_a_link_in_the_way_is_not_followed(folder: Path) -> None:
    write(folder, OLD)
    Path("precious").write_text("as it was")
    Path("m.fixed.onnx").symlink_to("precious")
    said = asked("check", "m.onnx", "--fix")
    assert said.exit_code == 2 and "link" in said.stdout
    assert Path("precious").read_text() == "as it was"


def test_diff_writes_nothing_and_tells_the_operators(folder: Path) -> None:
    write(folder, OLD)
    said = asked("check", "m.onnx", "--diff")
    assert said.exit_code == 1
    assert "would be fixed" in said.stdout and "all: 2 -> 2" in said.stdout
    assert [p.name for p in folder.iterdir()] == ["m.onnx"]


def test_one_file_that_cannot_be_read_keeps_no_other_from_being_checked(folder: Path) -> None:
    write(folder, CLEAN)
    Path("broken.onnx").write_bytes(b"\x08")
    found = document("check", "broken.onnx", "m.onnx")
    broken, clean = found["models"]
    assert broken["error"]["do"] and clean["n_nodes"] == 2
    assert asked("check", "broken.onnx", "m.onnx").exit_code == 2


def test_rules_are_chosen_by_codes_beginnings_and_names(folder: Path) -> None:
    write(folder, OLD)
    assert document("check", "m.onnx", "--select", "GRA")["models"][0]["findings"]
    assert document("check", "m.onnx", "--select", "initializers-in-inputs")["n_rules"] == 1
    assert document("check", "m.onnx", "--select", "GRA002, GRA004")["n_rules"] == 2
    assert not document("check", "m.onnx", "--ignore", "GRA002")["models"][0].get("findings")
    assert asked("check", "m.onnx", "--select", "GRA999").exit_code == 2


def test_a_project_says_what_it_wants_and_what_is_typed_comes_first(folder: Path) -> None:
    write(folder, OLD)
    Path("pyproject.toml").write_text('[tool.ortune.check]\nignore = ["GRA002"]\nfail-on = "error"\n')
    found = document("check", "m.onnx")
    assert not found["models"][0].get("findings") and found["fail_on"] == "error"
    assert found["configuration"].endswith("pyproject.toml")
    assert document("check", "m.onnx", "--fail-on", "note")["fail_on"] == "note"
    Path("ortune.toml").write_text("[check]\nselect = 3\n")
    said = asked("check", "m.onnx")
    assert said.exit_code == 2
    for wrong in ('[check]\noutput = "/etc/passwd"\n', "[check"):
        Path("ortune.toml").write_text(wrong)
        with pytest.raises(UsageError, match=r"ortune\.toml"):
            check.Options(models=["m.onnx"])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('ignore = ["GRA99"]', "unknown rule 'GRA99'"),
        ('fail-on = "loud"', "'loud' is not a severity"),
        ('ignore = "GRA002"', "ignore is a list of strings"),
        ("preview = 1", "preview is true or false"),
        ('ignor = ["GRA002"]', "valid keys: select, ignore"),
    ],
)
def test_what_is_wrong_in_a_project_s_file_is_told_with_the_file(folder: Path, line: str, told: str) -> None:
    write(folder, OLD)
    Path("ortune.toml").write_text(f"[check]\n{line}\n")
    said = asked("check", "m.onnx")
    assert said.exit_code == 2 and told in said.stderr and "ortune.toml" in said.stderr


def test_fixes_that_would_do_nothing_are_refused(folder: Path) -> None:
    write(folder, OLD)
    said = asked("check", "m.onnx", "--unsafe-fixes")
    assert said.exit_code == 2 and "add --fix, or --diff" in said.stderr
    assert asked("check", "m.onnx", "--unsafe-fixes", "--diff").exit_code == 1


def test_each_finding_is_one_line_where_no_terminal_shows_it(folder: Path) -> None:
    path = write(folder, OLD, f"{'m' * 80}.onnx")
    first, *_ = asked("check", str(path)).stdout.splitlines()
    assert first.startswith(f"{path}: GRA002 [*] ") and first.endswith(")") and len(first) > 150


def test_sarif_names_rule_file_and_place(folder: Path) -> None:
    path = write(folder, OLD, "a model.onnx")
    said = asked("check", path.name, "--format", "sarif")
    (run,) = json.loads(said.stdout)["runs"]
    (result,) = run["results"]
    (rule,) = run["tool"]["driver"]["rules"]
    assert rule["id"] == "GRA002" and "ortune explain GRA002" in rule["help"]["text"]
    assert rule["fullDescription"]["text"] == f"{rule['shortDescription']['text']}."
    assert (result["ruleId"], result["level"]) == ("GRA002", "warning")
    (location,) = result["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "a%20model.onnx"
    assert location["physicalLocation"]["region"] == {"startLine": 1}
    assert [each["fullyQualifiedName"] for each in location["logicalLocations"]] == ["w"]


def test_github_gets_an_annotation_a_finding(folder: Path) -> None:
    write(folder, OLD, "a,m.onnx")
    said = asked("check", "a,m.onnx", "--format", "github").stdout
    assert said.startswith("::warning file=a%2Cm.onnx,title=ortune GRA002::a,m.onnx: GRA002 [*] ")
    (folder / "bad.onnx").write_text("garbage", encoding="utf-8")
    said = asked("check", "bad.onnx", "--format", "github").stdout
    assert said.startswith("::error file=bad.onnx,title=ortune check::bad.onnx: ")


def test_python_has_the_same(folder: Path) -> None:
    path = write(folder, OLD)
    answer = ortune.check(path, ignore="GRA004")
    assert answer.result.models[0].findings[0].code == "GRA002"


_MEMORY = """
import re, sys
from pathlib import Path
from ortune.verbs.check import run as check

def mapped():
    return int(re.search(r"RssFile:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) >> 10

before = mapped()
for _ in range(2):  # pages that the system has by then are mapped sixteen at a time
    found = check.run(check.Options(models=[sys.argv[1]], fail_on="never")).result.models[0]
    assert found.error is None and found.n_nodes == 1000, found
print(mapped() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count memory in other ways")
@pytest.mark.parametrize("external", [False, True])
def test_weights_are_looked_at_and_not_read(tmp_path: Path, external: bool) -> None:
    """A thousand weights of 256 KiB: the pages around each number that is looked at would be a quarter of them."""
    model = sparse_on_disk(tmp_path / "m.onnx", n_weights=1000, size_bytes=256 << 10, external=external)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) > 1000 * (256 << 10)
    done = subprocess.run(
        [sys.executable, "-c", _MEMORY, str(model)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 40


def sparse_on_disk(path: Path, *, n_weights: int, size_bytes: int, external: bool) -> Path:
    """A chain of additions whose weights differ in their first number; what follows it takes no room on the disk."""
    names = ["x", *(f"y{i}" for i in range(n_weights))]
    pairs = itertools.pairwise(names)
    nodes = [onnx.helper.make_node("Add", [a, f"w{i}"], [b]) for i, (a, b) in enumerate(pairs)]
    sides = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [size_bytes // 4])
        for name in (names[0], names[-1])
    ]
    model = assemble(nodes, sides[:1], sides[1:])
    weight = onnx.TensorProto(data_type=onnx.TensorProto.FLOAT, dims=[size_bytes // 4])
    if external:
        with (path.parent / "data").open("wb") as data:
            for i in range(n_weights):
                tensor = model.graph.initializer.add()
                tensor.CopyFrom(weight)
                tensor.name, tensor.data_location = f"w{i}", onnx.TensorProto.EXTERNAL
                for key, value in (("location", "data"), ("offset", i * size_bytes), ("length", size_bytes)):
                    tensor.external_data.add(key=key, value=str(value))
                data.seek(i * size_bytes)
                data.write(np.float32(i + 1).tobytes())
            data.truncate(n_weights * size_bytes)
        onnx.save(model, path)
        return path
    # A message in parts is one message: each part here is a model whose graph has one weight.
    with path.open("wb") as file:
        file.write(model.SerializeToString())
        for i in range(n_weights):
            weight.name = f"w{i}"
            tensor = weight.SerializeToString() + _head(9, size_bytes)
            inner = _head(5, len(tensor) + size_bytes) + tensor
            file.write(_head(7, len(inner) + size_bytes) + inner + np.float32(i + 1).tobytes())
            file.seek(size_bytes - 4, 1)
        file.truncate()
    return path


def _head(number: int, length: int) -> bytes:
    """The head of a field of protobuf with so many bytes."""
    found = bytearray([number << 3 | 2])
    while length >= 0x80:
        found.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*found, length])


def test_the_page_has_a_row_for_each_finding_with_its_share_as_a_bar(folder: Path) -> None:
    write(folder, OLD)
    asked("check", "m.onnx", "--report", "check.html")
    text = (folder / "check.html").read_text(encoding="utf-8")
    facts(text, "<b>1</b>", "finding in 1 model", "m.onnx", "rule", "GRA002", "warning")
    # Of the share of a finding whose nodes have work there is a bar.
    finding = Finding(code="GRA014", what="1 node", severity="warning", share_ratio=0.54)
    model = CheckedModel(path="m.onnx", findings=(finding,), n_nodes=2)
    result = CheckResult(models=(model,), n_rules=1, fail_on="warning", failed=True)
    page = pages.render(Envelope(schema="ortune/check/1", ortune="0.1.0", status="ok", result=result))
    facts(page, "GRA014", "54 %", 'class="box time sure"')


def test_of_no_model_at_all_nothing_is_said_to_be_found(folder: Path) -> None:
    said = asked("nosuch.onnx")
    assert said.exit_code == UsageError.exit_code
    assert "nosuch.onnx" in said.output and "No findings" not in said.output
