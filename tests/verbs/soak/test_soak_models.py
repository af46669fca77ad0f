"""Real models, ten minutes each: their memory does not grow, and an hour agrees, also for a made leak."""

from __future__ import annotations

from pathlib import Path

import pytest

import leaking
import ortune
import zoo
from ortune.verbs.soak.result import SoakResult

MODELS = (
    "silero-vad", "silero-vad-16k-sequence", "minilm-int8", "piper-joe", "ppocrv4-det", "ppocrv4-rec", "ppocrv2-cls",
    "magika", "basic-pitch", "oww-melspectrogram", "oww-embedding", "light-squeezenet",
)  # fmt: skip
FOR_AN_HOUR = ("light-squeezenet", "ppocrv2-cls", "minilm-int8")
STAYS = ("flat", "bounded", "fragmented")


def stays(result: SoakResult) -> bool:
    """Whether memory does not grow, or the soak was too short to decide and names a budget that is enough."""
    return result.verdict in STAYS or (result.verdict == "undecided" and result.enough_budget_s is not None)


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_memory_of_a_real_model_does_not_grow(name: str, tmp_path: Path) -> None:
    result = ortune.soak(zoo.model_path(name), budget="10m", store=tmp_path).result
    print(name, result.verdict, result.growth, result.enough_budget_s)
    assert stays(result)
    assert result.fixed == ()


@pytest.mark.long
@pytest.mark.parametrize("name", FOR_AN_HOUR)
def test_an_hour_agrees_with_ten_minutes(name: str, tmp_path: Path) -> None:
    short, long = (
        ortune.soak(zoo.model_path(name), budget=budget, store=tmp_path).result for budget in ("10m", "1h")
    )
    print(name, short.verdict, long.verdict, short.growth, long.growth)
    assert long.verdict in STAYS and short.verdict == long.verdict


@pytest.mark.long
def test_a_leak_grows_for_an_hour_as_fast_as_in_ten_minutes(tmp_path: Path) -> None:
    """No real model of the zoo grows."""
    leak = leaking.model(tmp_path, "Leak")
    asked = {"custom_ops": [leaking.library()], "gap": "100ms", "store": tmp_path}
    short, long = (ortune.soak(leak, budget=budget, **asked).result for budget in ("10m", "1h"))
    assert short.verdict == long.verdict == "growing"
    for result in (short, long):
        assert result.growth.low < 1000 * 1040 < result.growth.high
