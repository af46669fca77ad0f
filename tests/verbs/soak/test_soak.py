"""``ortune soak`` end to end on small models, and its words for each verdict."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import leaking
import ortune
from onnx_text import model_of, saved
from ortune.errors import UsageError
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope, GrowthFigure
from ortune.verbs.soak import words
from ortune.verbs.soak.options import Options
from ortune.verbs.soak.result import LimitForecast, SoakKill, SoakResult
from ortune.verbs.soak.run import exit_code, run
from within import program

MIB = 1 << 20


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = "g (float[batch,seq,64] x) => (float[batch,seq,64] y) { y = Relu (x) }"
    return saved(tmp_path_factory.mktemp("soak") / "relu.onnx", model_of(text))


@pytest.fixture(autouse=True)
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))


@pytest.fixture(scope="module")
def document(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Envelope[SoakResult]:
    """The document that the command line prints."""
    store = str(tmp_path_factory.mktemp("store"))
    code, out, said = program(["soak", str(model), "--budget", "8s", "--json", "--store", store])
    assert code == 0, said
    return msgspec.json.decode(out, type=Envelope[SoakResult])


def test_each_process_is_called_with_all_sizes_and_new_values(document: Envelope[SoakResult]) -> None:
    result = document.result
    assert result is not None and document.verdict == result.verdict != "growing"
    assert result.fresh == ("x",) and result.fixed == ()
    assert len(result.sizes) == 3
    assert sum(size.calls for size in result.sizes) == len(result.processes) * result.calls > 0
    for process in result.processes:
        mine = [point for point in result.points if point.arm == process.arm]
        assert [point.calls for point in mine][:3] == [0, 1, 2]
        assert mine[-1].calls == result.calls and process.done is not None
        assert all(point.held_bytes > 5 * MIB and point.children_bytes == 0 for point in mine)


def test_a_stop_gives_the_verdict_of_what_is_there(model: Path, tmp_path: Path) -> None:
    steps: list[str] = []

    def stop() -> bool:
        return sum("calls a process" in step for step in steps) >= 5

    watcher = Watcher(stop=stop, step=lambda step: steps.append(step.what))
    envelope = run(Options(model=model, budget="10m", store=tmp_path), watcher)
    assert envelope.status == "interrupted" and envelope.result is not None
    result = envelope.result
    assert result.calls == 1 + 1 + 2 + 4 + 8
    assert all(process.done is not None for process in result.processes)
    assert result.verdict in ("undecided", "flat", "bounded")


@pytest.mark.parametrize(
    "options",
    [
        {"recreate": -1},
        {"target": "web-wasm", "rate": "5/s"},
        {"rate": "5/s", "gap": "30ms"},
        {"arrival": "poisson"},
        {"arrival": "recorded"},
        {"fail_on": "growing,slow"},
    ],
)
def test_options_that_contradict_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Options(model="model.onnx", **options)


def shown(document: Envelope[SoakResult], **changes: object) -> str:
    assert document.result is not None
    return words.headline(msgspec.structs.replace(document.result, **changes))


GROWTH = GrowthFigure(of="held", per_1000_calls=1.02 * MIB, low=0.99 * MIB, high=1.05 * MIB)


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"verdict": "growing", "growth": GROWTH}, ("1.02 MiB per 1,000 calls", "0.99 MiB to 1.05 MiB")),
        (
            {"verdict": "growing", "growth": msgspec.structs.replace(GROWTH, per_session=0.204 * MIB)},
            ("209 KiB per session", "203 KiB to 215 KiB"),
        ),
        (
            {
                "verdict": "bounded",
                "first_bytes": 10.0 * MIB,
                "held_bytes": 60.0 * MIB,
                "raised_by": "seq=512",
            },
            ("50.0 MiB", "seq=512", "60 MiB"),
        ),
        ({"verdict": "fragmented", "returned_bytes": 40.0 * MIB}, ("40.0 MiB", "malloc_trim")),
        (
            {"verdict": "killed", "killed": SoakKill(limit_bytes=256 * MIB, calls=3100, size="32 x 512")},
            ("killed at 256 MiB after 3,100 calls, by size 32 x 512",),
        ),
        ({"verdict": "undecided", "enough_budget_s": 900.0}, ("inconclusive", "--budget 18m")),
    ],
)
def test_a_verdict_has_its_figure(
    document: Envelope[SoakResult], changes: dict[str, object], facts: tuple[str, ...]
) -> None:
    text = shown(document, **changes)
    assert all(fact in text for fact in facts), text


def test_the_forecast_has_an_interval() -> None:
    found = LimitForecast(limit_bytes=2 << 30, after_s=31 * 3600.0, low_s=24 * 3600.0, high_s=40 * 3600.0)
    assert words.forecast(found) == "passes 2.00 GiB after 31 h (95 % interval 24 h to 40 h)"


def test_a_kill_at_the_limit_is_the_answer(tmp_path: Path) -> None:
    leak = leaking.model(tmp_path, "Leak")
    envelope = run(
        Options(
            model=leak,
            fail_on="growing,killed",
            budget="60s",
            memory="100m",
            custom_ops=[leaking.library()],
            store=tmp_path,
            seed=1,
        ),
        Watcher(),
    )
    result = envelope.result
    assert result is not None and result.verdict == "killed" and result.killed is not None
    assert result.failed and exit_code(envelope) == 1
    assert result.killed.limit_bytes == 100 << 20 and result.killed.calls > 0 and result.killed.size
    assert "killed at 100 MiB after" in words.headline(result)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("operator", "verdict", "options"),
    [
        ("Copy", "flat", {}),
        ("Leak", "growing", {}),
        ("CacheByInput", "growing", {}),
        ("LeakInChild", "growing", {}),
        ("Fragment", "fragmented", {}),
        ("KeepPerSession", "growing", {"recreate": 20}),
        ("Ratchet", "bounded", {"dim": {"n": "16,64,640"}}),
    ],
)
def test_made_leaks_are_told_apart(
    tmp_path: Path, operator: str, verdict: str, options: dict[str, object], seed: int
) -> None:
    leak = leaking.model(tmp_path, operator, "n,64" if operator == "Ratchet" else "16,64")
    asked = {"budget": "40s", "custom_ops": [leaking.library()], "seed": seed, **options}
    result = ortune.soak(leak, store=tmp_path, **asked).result
    assert result.verdict == verdict, result.growth
    if operator in ("Leak", "CacheByInput", "LeakInChild"):
        assert 0.95 * 1040 < result.growth.per_1000_calls / 1000 < 1.05 * 1040
