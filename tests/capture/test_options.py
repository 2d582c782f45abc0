"""Options: what is refused, what the files are called, and that the printed command repeats the capture."""

import ast
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

import tracetui.cli.capture as cli
from tracetui.capture import options as capture_options
from tracetui.capture.catalog import WORKLOADS, Workload
from tracetui.capture.files import scratch_of
from tracetui.capture.options import OPTIONS, CaptureOptions, OptionError
from tracetui.core.option import Option


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (CaptureOptions("mpl"), "no workload 'mpl': choose from matmul_add"),
        (CaptureOptions("mlp", {"size": 3}), "mlp has no option --size; it has --batch, --seq"),
        (CaptureOptions("mlp", {"batch": 0}), "--batch must be a number above 0"),
        (CaptureOptions("mlp", {"kernel": "cuda"}), "--kernel of mlp must be one of eager, liger"),
        (CaptureOptions("llm", {"heads": 3}), "--dim 512 is not divisible by --heads 3"),
        (CaptureOptions("llm", {"kv_heads": 3}), "--heads 8 is not divisible by --kv-heads 3"),
        (CaptureOptions("llm", {"dim": 8, "heads": 8}), "rotary positions need an even number"),
        (CaptureOptions("mlp", mode="reduce-overhead"), "--mode reduce-overhead needs --compile"),
        (CaptureOptions("mlp", active=0), "--active must be at least 1"),
        (CaptureOptions("mlp", wait=-1), "cannot be negative"),
        (CaptureOptions("mlp", device="gpu"), "--device must be cuda, cuda:N, cpu or xpu"),
        (CaptureOptions("mlp", dtype="int8"), "--dtype must be one of auto, bf16, fp16, fp32"),
        (CaptureOptions("mlp", script_args=("x",)), "x: only a script takes arguments"),
        (CaptureOptions("nothing_here.py"), "no such script: nothing_here.py"),
        (CaptureOptions("x" * 300 + ".py"), "no such script: xxx"),
        (CaptureOptions(__file__, compile=True), "call torch.compile in the script"),
        (CaptureOptions("m:f", {"size": 3}), "--size: only built-in workloads"),
        (CaptureOptions("../x"), "no workload '../x'"),
        (CaptureOptions("m:f/../../x"), "no workload"),
        (CaptureOptions("mlp", against=""), "--against takes a target and its options; got ''"),
        (CaptureOptions("mlp", against="'"), "--against takes a target and its options"),
        (CaptureOptions("mlp", against="train.py"), "--against takes a built-in workload or module:function"),
        (CaptureOptions("mlp", against="mpl"), "--against: no workload 'mpl'"),
        (CaptureOptions("mlp", against="mlp --size 3"), "--against: --size is not an option of mlp, nor one"),
        (CaptureOptions("mlp", against="mlp --active 3"), "--against: --active is not an option of mlp"),
        (CaptureOptions("mlp", against="mlp --batch x"), "--against: argument --batch: invalid int value"),
        (CaptureOptions("mlp", against="--mode max-autotune"), "--against: --mode max-autotune needs"),
        (CaptureOptions("m:f", against="m:f --batch 3"), "--batch is not an option of m:f"),
        (CaptureOptions(__file__, against="mlp"), "--against does not apply to scripts"),
        (CaptureOptions("mlp", rounds=3), "--rounds needs --against"),
        (CaptureOptions("mlp", against="mlp", active=4), "--against records --rounds, not --active steps"),
        (CaptureOptions("mlp", against="mlp", rounds=1), "--rounds must be at least 2"),
    ],
)
def test_refused_in_one_line(options, words):
    with pytest.raises(OptionError) as error:
        options.check()
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("options", [{"output": "~nosuchuser/x"}, {"target": "x" * 300 + ":f"}])
def test_a_place_that_cannot_be_is_an_error_of_the_disk(options, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError):
        scratch_of(CaptureOptions(**{"target": "mlp", **options})).make()
    assert list(tmp_path.iterdir()) == []


AGAINST_32 = "against_linear-in-dim=32"
AGAINST, AGAINST_4 = "64_bf16_warm_eager_against_", "against_matmul_add-batch=4"


@pytest.mark.parametrize(
    ("options", "stem"),
    [
        (CaptureOptions("mlp", compile=True), "64x128x768x3072_bf16_warm_compile"),
        (CaptureOptions("matmul_add", warmup=False), "64_bf16_cold_eager"),
        (CaptureOptions("matmul_add", {"batch": 8, "size": 16}), "8x16_bf16_warm_eager"),
        (CaptureOptions("attention", {"backend": "naive"}), "naive_8x16x1024x64_bf16_warm_eager"),
        (
            CaptureOptions("linear", compile=True, mode="max-autotune"),
            "1024x32x64_bf16_warm_compile_max-autotune",
        ),
        (CaptureOptions("pkg.mod:Class.run"), "Class.run"),
        (CaptureOptions("pkg.mod:run", warmup=False), "run_cold"),
        (CaptureOptions("pkg.mod:run", compile=True), "run_compile"),
        (CaptureOptions("pkg.mod:run", compile=True, mode="max-autotune"), "run_compile_max-autotune"),
        (CaptureOptions("matmul_add", against="matmul_add --compile"), AGAINST + "matmul_add-compile"),
        (CaptureOptions("matmul_add", {"size": 32}, against="--batch 4"), "32_bf16_warm_eager_" + AGAINST_4),
        (
            CaptureOptions("linear", {"in_dim": 8}, against="linear"),
            "1024x8x64_bf16_warm_eager_" + AGAINST_32,
        ),
        (CaptureOptions("matmul_add", against="m.n:run --dtype fp16"), AGAINST + "m.n.run-dtype=fp16"),
        (CaptureOptions("dir/train.py"), "train"),
        (CaptureOptions("dir/train.py", script_args=("--lr", "0.1"), warmup=False), "train-lr=0.1_cold"),
    ],
)
def test_names_of_files(options, stem):
    assert options.on("cuda").stem == stem
    assert options.on("cpu").stem == stem.replace("_bf16_", "_fp32_")


def test_what_it_takes_turns_with():
    a = CaptureOptions("mlp", {"batch": 2}, compile=True, mode="max-autotune", seed=3, against="mlp --seq 4")
    assert a.other() == CaptureOptions("mlp", {"seq": 4}, seed=3)
    assert replace(a, against="--seq 4").other() == replace(a, params={"batch": 2, "seq": 4}, against=None)
    assert replace(a, against="--no-compile").other() == CaptureOptions("mlp", {"batch": 2}, seed=3)
    other = replace(a, against="pkg.mod:run --compile --dtype fp16").other()
    assert other == CaptureOptions("pkg.mod:run", compile=True, dtype="fp16", seed=3)
    assert CaptureOptions("mlp").other() is None


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_data_type_that_was_asked_for_stays(device):
    assert CaptureOptions("linear", dtype="fp16").on(device).stem == "1024x32x64_fp16_warm_eager"


def test_folders():
    assert CaptureOptions("pkg.mod:run").folder == "pkg.mod.run"
    assert CaptureOptions("some/dir/train.py").folder == "train"


COMMANDS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("mlp", {}, {}),
    ("mlp", {"batch": 2, "kernel": "liger"}, {"compile": True, "mode": "reduce-overhead", "dtype": "fp32"}),
    (
        "llm",
        {"phase": "decode", "kv_heads": 4},
        {"warmup": False, "wait": 0, "active": 7, "with_stack": True},
    ),
    (__file__, {}, {"script_args": ("--lr", "0.1", "a b"), "device": "cuda:1", "gzip": True, "seed": 3}),
    ("mlp", {"batch": 2}, {"against": "mlp --batch 4 --compile", "rounds": 20}),
    ("module:function", {}, {"python": "/opt/x y/bin/python", "output": "here", "force": True}),
]


@pytest.mark.parametrize(("target", "params", "others"), COMMANDS)
def test_the_command_repeats_the_options(target, params, others, monkeypatch):
    options = CaptureOptions(target, params, **others)
    seen = []

    def capture(given: CaptureOptions) -> None:
        seen.append(given)
        raise SystemExit(0)

    monkeypatch.setattr(cli, "_capture", capture)
    words = shlex.split(options.command())
    assert words[:2] == ["tracetui", "capture"]
    with pytest.raises(SystemExit):
        cli.capture_command.main(words[2:])
    assert seen == [options]


def test_every_workload_has_a_module_that_takes_its_options():
    folder = Path(cli.__file__).parent.parent / "capture" / "workloads"
    assert ({path.stem for path in folder.glob("*.py")} - {"__init__", "transformer"}) == set(WORKLOADS)
    for name, workload in WORKLOADS.items():  # read, not imported: that needs torch
        body = ast.parse((folder / f"{name}.py").read_text(encoding="utf-8")).body
        build = next(f for f in body if isinstance(f, ast.FunctionDef) and f.name == "build")
        assert {a.arg for a in build.args.args} == {"setup", *(p.name for p in workload.params)}


def test_no_two_options_of_one_name_contradict_each_other():
    kinds = {option.name: "of every capture" for option in OPTIONS}
    for workload in WORKLOADS.values():
        for option in workload.params:
            assert kinds.setdefault(option.name, option.kind) == option.kind, f"{workload.name} {option.flag}"


def test_help_says_what_an_option_means_to_each_workload(monkeypatch):
    texts = {"a": ("rows", "a seed"), "b": ("rows", "a seed"), "c": ("images", "a seed")}
    made = {
        name: Workload(name, "", (Option("size", 1, size), Option("seed", 1, seed)))
        for name, (size, seed) in texts.items()
    }
    monkeypatch.setattr(cli, "WORKLOADS", made)
    size, seed = (option.help for option in cli.workload_options() if isinstance(option, click.Option))
    assert (size, seed) == ("a, b: rows; c: images.", "A seed (a, b, c).")


def test_a_name_that_two_workloads_share_takes_the_words_of_both(monkeypatch):
    def workload(name: str, *words: str) -> Workload:
        return Workload(name, "", (Option("kind", words[0], "", words),))

    both = {"a": workload("a", "x", "y"), "b": workload("b", "y", "z")}
    monkeypatch.setattr(cli, "WORKLOADS", both)
    (option,) = cli.workload_options()
    assert list(option.type.choices) == ["x", "y", "z"]  # type: ignore[attr-defined]
    monkeypatch.setattr(capture_options, "WORKLOADS", both)
    with pytest.raises(OptionError, match="--kind of b must be one of y, z; got 'x'"):
        CaptureOptions("b", {"kind": "x"}).check()


def test_the_api_imports_nothing_heavy():
    code = "import sys, tracetui.capture, tracetui.cli.capture; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"torch", "numpy", "textual", "rich"} & set(modules)


def test_help_names_every_option_of_every_workload():
    text = subprocess.run(
        [sys.executable, "-m", "tracetui", "capture", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for workload in WORKLOADS.values():
        assert f"  {workload.name}: " in text
        for param in workload.params:
            assert param.flag in text


def test_the_rank_of_a_launcher_is_in_the_name(monkeypatch):
    options = CaptureOptions("train.py")
    monkeypatch.setenv("RANK", "3")
    for world, stem in (("1", "train"), ("", "train"), ("4", "train_rank3")):
        monkeypatch.setenv("WORLD_SIZE", world)
        assert options.stem == stem
    monkeypatch.setenv("RANK", "../x")
    assert options.stem == "train"
