"""Complete documents of ``tune`` of every kind, built by hand, for the tests of what is shown."""

from __future__ import annotations

import math
import random

import msgspec

import golden
import golden_profile
from golden_tune_parts import STATISTIC, WINNER, blocks, candidates, confirmed, usual, workload
from ortune.records import (
    Adoption,
    Candidate,
    CaseResult,
    Comparison,
    Envelope,
    Finding,
    Headroom,
    OutputDifference,
    Plan,
    ProviderCost,
    ProviderSpec,
    Refused,
    RewriteSpec,
    UntestedTarget,
)
from ortune.verbs.tune.result import BudgetReport, TuneResult

CURRENT = Plan(settings={"intra_op_num_threads": 8})
BASIC = Plan(settings={"graph_optimization_level": "basic"})
BASIC_CODE = "options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC\n"
WRONG: dict[str, object] = {
    "default": BASIC,
    "wrong_default": Plan(),
    "wrong_default_figures": golden.figures(8.8e6),
    "wrong_against_default": confirmed(
        0.8, 0.78, 0.83, guards=(), phase="race", verdict="inconclusive", n_blocks=9
    ),
}
"""A default whose outputs are wrong, beside the level that is right."""
CODE = usual().code
HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{7*7}}",
    "a\u202eb\x1b[31m\n",
)


def tuned(**changes: object) -> Envelope:
    """A document of ``tune``; ``changes`` are fields of the TuneResult."""
    result = msgspec.structs.replace(usual(), **changes)
    return Envelope(
        schema="ortune/tune/1",
        ortune="0.1.0",
        host=golden.HOST,
        workload=workload(),
        status="ok",
        verdict=result.against_default.verdict if result.against_default else "equivalent",
        result=result,
    )


def default_best(**changes: object) -> Envelope:
    """Nothing beat the default, and nothing challenged it."""
    fates = {"winner": "eliminated", "pruned": "eliminated"}
    lost = tuple(
        msgspec.structs.replace(
            c, status=fates.get(c.status, c.status), ratio=c.ratio and max(c.ratio, 0.997)
        )
        for c in candidates()
    )
    points = tuple(p for p in blocks(1.0) if p.phase != "confirm")
    none = {
        "winner": Plan(),
        "winner_figures": None,
        "against_default": None,
        "outputs": None,
        "settings": (),
        "candidates": lost,
        "trade": (),
        "points": points,
        "code": "",
        "smallest_effect_ratio": 0.015,
        "reproduce": "ortune tune model.onnx --dim seq=128 --budget 120s",
        "why": None,
        "headroom": Headroom(settings_ratio=0.03, sentence="3 % of the run is outside the kernels"),
        "default_profile": golden_profile.usual(),
    }
    return tuned(**{**none, **changes})


def exploratory(ratio: float = 0.9, **changes: object) -> Envelope:
    """A budget that held a look at two plans, and no confirmation."""
    one, *others = candidates()
    best = msgspec.structs.replace(
        one, status="eliminated", ratio=ratio, ratio_low=None, ratio_high=None, n_blocks=2
    )
    rest = tuple(msgspec.structs.replace(c, status="not-tried", ratio=None, n_blocks=0) for c in others)
    budget = BudgetReport(
        budget_s=40, trial_s=1.5, promise="", n_trials=6, race_s=14, enough_s=150, exploratory=True
    )
    seen = {"candidates": (best, *rest), "budget": budget, "controls": (), "smallest_effect_ratio": None}
    return default_best(**{**seen, **changes})


def refused(comparison: Comparison) -> Refused:
    """The race's leader, which is not shipped."""
    return Refused(
        plan=WINNER, comparison=comparison, why=f"{WINNER.describe()} led the race: no change proposed"
    )


def with_current(**changes: object) -> Envelope:
    """Today's plan beside the default, which would be far slower."""
    usual_changes = {
        "current": CURRENT,
        "default_figures": golden.figures(178e6),
        "current_figures": golden.figures(12.1e6),
        "winner_figures": golden.figures(10.3e6),
        "against_default": confirmed(0.058, 0.055, 0.061),
        "against_current": confirmed(1 / 1.17, 1 / 1.21, 1 / 1.14),
        "points": blocks(10.3 / 178, today_ns=12.1e6, base_ns=178e6),
    }
    return tuned(**{**usual_changes, **changes})


def wrong_default(**changes: object) -> Envelope:
    """A winner over the level with correct outputs; the requested default, which is wrong, is quicker than that."""
    return tuned(**{"winner": Plan(settings={**BASIC.settings, **WINNER.settings}), **WRONG, **changes})


def mixed() -> Envelope:
    """Two shapes in one mix."""
    cases = (
        CaseResult(
            case="seq=16", weight=0.5, base_ns=8e6, new_ns=7e6, ratio=0.875, ratio_low=0.86, ratio_high=0.89
        ),
        CaseResult(
            case="seq=128", weight=0.5, base_ns=20e6, new_ns=19e6, ratio=0.95, ratio_low=0.8, ratio_high=None
        ),
    )
    return msgspec.structs.replace(tuned(cases=cases), workload=workload(("seq=16", "seq=128")))


def large() -> Envelope:
    """Sixty plans and three hundred blocks."""
    rng = random.Random(3)
    many = []
    for n in range(60):
        ratio = math.exp(rng.gauss(0.02, 0.06))
        settings = {"intra_op_num_threads": n + 1, "allow_spinning": n % 2 == 0, "allocator": "mimalloc"}
        why = "not better by 1 % after 8 blocks, and the leader beats it"
        plan = Plan(settings=settings)
        many.append(
            Candidate(
                plan=plan,
                origin="combination of two survivors",
                status="eliminated",
                why=why,
                ratio=ratio,
                ratio_low=ratio * 0.95,
                ratio_high=ratio * 1.05,
                n_blocks=8,
            )
        )
    return tuned(candidates=(*candidates(), *many), points=blocks(0.9, race=275))


def hostile(text: str) -> Envelope:
    """The text wherever a name of the user, the model or the machine can stand."""
    base = usual()
    plan = Plan(settings={text: text}, rewrites=(RewriteSpec(name=text),))
    side = msgspec.structs.replace(
        base.side,
        label=text,
        model=msgspec.structs.replace(base.side.model, path=text, producer=text, opsets={text: 1}),
        runtime=msgspec.structs.replace(base.side.runtime, python=text, ort_version=text, providers=(text,)),
    )
    row = {"plan": plan, "origin": text, "why": text}
    changes = {
        "side": side,
        "winner": plan,
        "settings": tuple(
            msgspec.structs.replace(s, name=text, value=text, why=text, summary=text) for s in base.settings
        ),
        "candidates": tuple(msgspec.structs.replace(c, **row) for c in base.candidates),
        "trade": tuple(msgspec.structs.replace(t, title=text, plan=plan) for t in base.trade),
        "cases": (
            CaseResult(
                case=text, weight=1, base_ns=2e6, new_ns=1e6, ratio=0.5, ratio_low=0.4, ratio_high=0.6
            ),
        ),
        "findings": (Finding(code=text, what=text, where=(text,), evidence=text, fix=text),),
        "notes": (text,),
        "not_tried": (text,),
        "untested_targets": (
            UntestedTarget(target=text, reason="no-time", enough_s=1),
            UntestedTarget(
                target=text,
                reason="lower-precision",
                plan=plan,
                settings={text: text},
                difference=OutputDifference(ok=False, what=text),
            ),
        ),
        "points": tuple(
            msgspec.structs.replace(p, dropped=text if p.index == 12 else "") for p in base.points
        ),
        "why": golden_profile.hostile(text).against,
        "default_profile": golden_profile.hostile(text),
        "code": text,
        "reproduce": text,
        "bundle": text,
        "session": text,
        "objective": text,
    }
    host = msgspec.structs.replace(golden.HOST, cpu=text, system=text, features=(text,), gpus=(text,))
    work = workload((text,))
    inputs = tuple(msgspec.structs.replace(i, name=text, note=text, role=text) for i in work.cases[0].inputs)
    case = msgspec.structs.replace(work.cases[0], inputs=inputs)
    work = msgspec.structs.replace(work, cases=(case,), inputs_path=text, custom_ops=(text,), notes=(text,))
    return msgspec.structs.replace(tuned(**changes), host=host, workload=work)


def bare() -> Envelope:
    """As little as a document can hold."""
    result = TuneResult(
        side=golden.side("model.onnx"),
        objective="latency",
        statistic=STATISTIC,
        worth_ratio=0.01,
        winner=Plan(),
        default_figures=golden.figures(11e6),
        budget=BudgetReport(budget_s=10, trial_s=1, promise="nothing fits"),
    )
    return Envelope(schema="ortune/tune/1", ortune="0.1.0", status="interrupted", result=result)


def elsewhere() -> Envelope:
    """A winner on another execution provider, whose build takes the place of the default's."""
    name = "OpenVINOExecutionProvider"
    runtime = msgspec.structs.replace(
        golden.RUNTIME, package="onnxruntime-openvino", ort_version="1.24.1", name="openvino"
    )
    cost = ProviderCost(
        provider=name,
        device="CPU",
        load_ns=98e6,
        default_load_ns=12e6,
        first_load_ns=812e6,
        peak_bytes=231 * 2**20,
        default_peak_bytes=90 * 2**20,
        shipped=True,
    )
    adoption = Adoption(
        requirements=("onnxruntime-openvino==1.24.1",),
        instead_of="onnxruntime",
        size_bytes=317 * 2**20,
        licenses=("MIT License",),
    )
    plan = Plan(providers=(ProviderSpec(name=name),))
    return tuned(winner=plan, runtime=runtime, adoption=adoption, costs=(cost,), settings=())


KINDS: dict[str, Envelope] = {
    "winner": tuned(),
    "elsewhere": elsewhere(),
    "default-best": default_best(),
    "exploratory": exploratory(),
    "not-confirmed": default_best(refused=refused(confirmed(0.99, 0.97, 1.01)), points=blocks(0.99)),
    "with-current": with_current(),
    "current-best": with_current(
        winner=CURRENT, against_current=None, winner_figures=None, settings=(), smallest_effect_ratio=0.015
    ),
    "wrong-default": wrong_default(),
    "wrong-default-stays": default_best(**WRONG, winner=BASIC, code=BASIC_CODE),
    "wrong-default-once": wrong_default(wrong_against_default=None),
    "mixed": mixed(),
    "large": large(),
    "bare": bare(),
    "memory": tuned(
        statistic="peak memory",
        objective="memory",
        points=(),
        against_default=confirmed(0.7, 0.65, 0.75, statistic="peak memory", guards=()),
        default_figures=msgspec.structs.replace(golden.figures(11e6), peak_bytes=4e8),
        winner_figures=msgspec.structs.replace(golden.figures(11e6), peak_bytes=2.8e8),
    ),
    **{f"hostile-{n}": hostile(text) for n, text in enumerate(HOSTILE)},
}
