"""Options that other tools have: what ortune says to write instead is what it takes."""

from __future__ import annotations

import functools
import importlib
import re
import shlex
from typing import Any

import pytest
import typer.main

from ortune.api import verbs
from ortune.cli import main
from ortune.cli.guesses import COMMANDS, GUESSES, instead
from ortune.verbs._shared.spelling import option_fields

MEASURING = ("bench", "compare", "look", "profile", "tune")


@functools.cache
def command(verb: str) -> Any:
    """A verb as the program offers it; making all of them takes a while."""
    main.register(verb)
    return typer.main.get_command(main.app).commands[verb]  # type: ignore[attr-defined]


def parsed(verb: str, words: list[str]) -> object:
    """The options that a command line of that verb gives; raises what the program refuses."""
    given = command(verb).make_context(verb, words).params
    options = importlib.import_module(f"ortune.verbs.{verb}.options").Options
    names = {each.name for each in option_fields(options)}
    return options(**{name: value for name, value in given.items() if name in names})


def offered(verb: str) -> set[str]:
    return {flag for each in command(verb).params for flag in each.opts}


@pytest.mark.parametrize("verb", MEASURING)
def test_every_suggestion_is_taken(verb: str) -> None:
    told = 0
    for guess in GUESSES:
        for flag in guess.flags.split():
            said = instead(f"--{flag}", [verb, "m.onnx", f"--{flag}"], offered(verb))
            assert said or all(text.split()[0] not in offered(verb) for text in guess.instead), flag
            for text in re.findall(r"(?:write|or) (--[\w-]+ [^ ,]+)", said):
                parsed(verb, ["m.onnx", *shlex.split(text)])
                told += 1
    assert told > 40


@pytest.mark.parametrize(
    ("verb", "written", "better"),
    [
        ("bench", "--threads 4", "--set intra=4"),
        ("bench", "--threads=6", "--set intra=6"),
        ("bench", "--batch 8", "--dim batch=8"),
        ("bench", "--provider openvino", "--runtime openvino"),
        ("tune", "--ep CUDAExecutionProvider", "--target cuda"),
        ("look", "--device cuda:0", "--target cuda"),
        ("look", "--gpu", "--target cuda"),
        ("bench", "--trt", "--target tensorrt"),
        ("tune", "--use-dml", "--target directml"),
        ("bench", "--input 'my inputs.npz'", "--inputs 'my inputs.npz'"),
        ("compare", "--iterations 100", "--budget 2m"),
        ("bench", "--iterations 100", "--runs 100"),
        ("bench", "-e openvino", "--runtime openvino"),
        ("bench", "-d CPU", "--target cpu"),
        ("bench", "-r 100", "--runs 100"),
        ("compare", "-t 30", "--budget 30"),
        ("tune", "-hint throughput", "--objective throughput"),
        ("bench", "-nthreads=3", "--set intra=3"),
        ("bench", "-m model.onnx", "the model is an argument"),
        ("tune", "--onnx=model.onnx", "the model is an argument"),
        ("compare", "--baseline old.onnx", "ortune compare A.onnx B.onnx"),
        ("bench", "--warmup 5", "warmed up automatically"),
        ("bench", "--loadInputs=x.npz", "--inputs x.npz"),
        ("lock", "--host pi=./on-pi", "runs on this machine"),
        ("check", "--on ray", "runs on this machine"),
        ("bench", "-nstreams 3", "--set openvino_streams=3"),
        ("tune", "--precision fp16", "ortune quantize MODEL"),
        ("tune", "--bf16", "ortune compare model.onnx converted.onnx"),
        ("tune", "--fp16", "--allow numerics"),
        ("compare", "--fp16", "--b-rewrite float32-to-float16"),
        ("bench", "--int8", "--rewrite dynamic-int8"),
        ("tune", "--quantize", "--allow numerics"),
        ("diagnose", "--half", "--allow numerics"),
        ("compare", "--quantise", "--b-rewrite dynamic-int8"),
        ("compare", "--int8", "--b-rewrite dynamic-int8"),
        ("compare", "--threads 2", "--b-set intra=2"),
        ("bench", "--graph_optimization_level basic", "--set graph_optimization_level=basic"),
        ("rewrite", "--rewrite gelu", "ortune rewrite MODEL NAME"),
        ("check", "--rewrite gelu", "ortune rewrite MODEL NAME"),
        ("bench", "--intra-op-num-threads 3", "--set intra_op_num_threads=3"),
    ],
)
def test_a_guess_is_answered(
    verb: str, written: str, better: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main._run([verb, "m.onnx", *shlex.split(written)]) == 2
    assert better in capsys.readouterr().err


def test_a_model_alone_and_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main._run(["m.onnx", "--threads", "4"]) == 2
    assert "--set intra=4" in capsys.readouterr().err


def test_what_nobody_can_know_is_left_to_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main._run(["bench", "m.onnx", "--colour"]) == 2
    said = capsys.readouterr().err
    assert "--colour" in said and "ortune bench --help" in said


@pytest.mark.parametrize(
    ("word", "command"),
    [
        ("optimize", "tune"),
        ("optimise", "tune"),
        ("quantise", "quantize"),
        ("benchmark", "bench"),
        ("surgeon", "rewrite"),
        ("lookk", "look"),
        ("diff", "compare"),
    ],
)
def test_a_command_of_another_tool_is_answered(
    word: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main._run([word, "m.onnx"]) == 2
    assert f"did you mean ortune {command}?" in capsys.readouterr().err


def test_words_of_other_tools_name_commands_and_are_none() -> None:
    assert set(COMMANDS) <= set(verbs())
    assert not {w for name, words in COMMANDS.items() for w in words.split()} & set(verbs())
