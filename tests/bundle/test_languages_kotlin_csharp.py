"""Emitted Kotlin and C# under their compilers, against stubs made from the table; skipped where these are missing."""

from __future__ import annotations

import json
from pathlib import Path

import api_stubs
from compiling import judged, needs, on_hosts, run, said
from emitted_code import plans


def kotlin(folder: Path, texts: list[str], *more: Path) -> str:
    """What the compiler says of these files, each in a package of its own; "" when it accepts without a warning."""
    compiler, java = needs("kotlinc"), needs("javac")
    stub = folder / "stub"
    if not stub.is_dir():
        api_stubs.java(stub)
        assert run(java, "-d", folder / "classes", *stub.rglob("*.java")) == ""
    files = []
    for number, text in enumerate(texts):
        file = folder / f"p{number}" / "Load.kt"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"package p{number}\n{text}", encoding="utf-8")
        files.append(file)
    words = (compiler, "-Werror", "-no-reflect", "-include-runtime", "-cp", folder / "classes")
    return run(*words, "-d", folder / "out.jar", *files, *more)


def test_kotlin_compiles(tmp_path: Path) -> None:
    assert kotlin(tmp_path, [files["Load.kt"] for files in plans().values()]) == ""
    planted = plans()["everything"]["Load.kt"].replace("setCPUArenaAllocator", "setCpuArena")
    assert "setCpuArena" in kotlin(tmp_path, [planted])


def test_kotlin_knows_its_machine(tmp_path: Path) -> None:
    machine = needs("java")
    lines = [f"println(p{number}.Load.otherHardware())" for number in range(5)]
    lines += [f"println({call}())" for call in ("p0.Load.cpus", "p0.Load.startLine", "p4.Load.startLine")]
    main = tmp_path / "Main.kt"
    main.write_text("fun main() {\n" + "\n".join(lines) + "\n}\n")
    assert kotlin(tmp_path, on_hosts("Load.kt"), main) == ""
    classes = f"{tmp_path / 'out.jar'}:{tmp_path / 'classes'}"
    judged(said(machine, "-XX:TieredStopAtLevel=1", "-cp", classes, "MainKt"))


def csharp(folder: Path, texts: list[str], main: str = "") -> str:
    """What the compiler says of these files, each in a namespace of its own; "" when it accepts without a warning."""
    dotnet = needs("dotnet")
    version, place = said(dotnet, "--list-sdks").splitlines()[-1].split(" ", 1)
    root = Path(place.strip("[]"))
    packs = root.parent / "packs" / "Microsoft.NETCore.App.Ref"
    references = sorted(max(packs.glob("*/ref/*"), key=lambda pack: pack.stat().st_mtime).glob("*.dll"))
    files = [api_stubs.csharp(folder)]
    for number, text in enumerate([*texts, main] if main else texts):
        file = folder / f"p{number}.cs"
        own = main and number == len(texts)
        file.write_text(text if own else f"namespace p{number} {{\n{text}\n}}\n", encoding="utf-8")
        files.append(file)
    compiler = root / version / "Roslyn" / "bincore" / "csc.dll"
    words = ["-nologo", "-nostdlib", "-warnaserror", f"-target:{'exe' if main else 'library'}"]
    words += [f"-r:{one}" for one in references]
    return run(dotnet, compiler, *words, "-langversion:8", f"-out:{folder / 'out.dll'}", *files)


def test_csharp_compiles(tmp_path: Path) -> None:
    assert csharp(tmp_path, [files["Load.cs"] for files in plans().values()]) == ""
    planted = plans()["everything"]["Load.cs"].replace("EnableCpuMemArena", "EnableArena")
    assert "EnableArena" in csharp(tmp_path, [planted])


def test_csharp_knows_its_machine(tmp_path: Path) -> None:
    dotnet = needs("dotnet")
    lines = [f"System.Console.WriteLine(p{number}.Load.OtherHardware());" for number in range(5)]
    lines += [
        f"System.Console.WriteLine({c}());"
        for c in ("p0.Load.Cpus", "p0.Load.StartLine", "p4.Load.StartLine")
    ]
    main = "class Program { static void Main() {\n" + "\n".join(lines) + "\n} }\n"
    assert csharp(tmp_path, on_hosts("Load.cs"), main) == ""
    runtime = said(dotnet, "--list-runtimes").splitlines()
    version = next(line.split()[1] for line in reversed(runtime) if line.startswith("Microsoft.NETCore.App "))
    framework = {"name": "Microsoft.NETCore.App", "version": version}
    (tmp_path / "out.runtimeconfig.json").write_text(json.dumps({"runtimeOptions": {"framework": framework}}))
    judged(said(dotnet, tmp_path / "out.dll"))
