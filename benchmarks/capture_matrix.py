"""Captures on a real GPU: every workload in every way, the samples, and what going through tracetui costs.

    python benchmarks/capture_matrix.py overhead OUT    # against capture_by_hand.py, alternating
    python benchmarks/capture_matrix.py samples OUT     # what sample_traces/ holds
    python benchmarks/capture_matrix.py matrix OUT      # every workload x eager, compiled x warm, cold
    python benchmarks/capture_matrix.py ranks OUT       # examples/ddp.py on two GPUs; the sample train_ddp

OUT is a folder. Each part prints a line per capture and ends with exit code 1 if one failed or shows
something else than it should. `--device cpu` (small sizes) is for trying the script itself.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from tracetui.capture.catalog import WORKLOADS
from tracetui.capture.events import Done
from tracetui.capture.options import CaptureOptions
from tracetui.capture.run import start

SMALL = {"layers": 1, "heads": 4, "batch": 1}
"""Sizes on the CPU. Those of other names are at most 32."""

SHAPES = {"record_shapes": True}
SAMPLES = {
    # Without any step before it, the very first call is in the trace.
    "matmul_add_64_cold": CaptureOptions("matmul_add", warmup=False, wait=0, schedule_warmup=0),
    "matmul_add_64_warm": CaptureOptions("matmul_add"),
    "matmul_add_64_20_steps": CaptureOptions("matmul_add", wait=0, schedule_warmup=0, active=20),
    "matmul_add_4096_eager": CaptureOptions("matmul_add", {"size": 4096}, **SHAPES),
    "matmul_add_4096_compile": CaptureOptions("matmul_add", {"size": 4096}, compile=True, **SHAPES),
    "linear": CaptureOptions("linear", **SHAPES),
    "mlp_eager": CaptureOptions("mlp", **SHAPES),
    "mlp_compile": CaptureOptions("mlp", compile=True, **SHAPES),
    "mlp_liger": CaptureOptions("mlp", {"kernel": "liger"}, **SHAPES),
    "mlp_cuda_graph": CaptureOptions("mlp", compile=True, mode="reduce-overhead", **SHAPES),
    "attention_naive": CaptureOptions("attention", {"backend": "naive"}, **SHAPES),
    "attention_sdpa": CaptureOptions("attention", {"backend": "sdpa"}, **SHAPES),
    "attention_math": CaptureOptions("attention", {"backend": "math"}, **SHAPES),
    "llm_decode": CaptureOptions("llm", {"phase": "decode"}, **SHAPES),
    "train": CaptureOptions("train", active=2, **SHAPES),
    "train_memory": CaptureOptions("train", {"layers": 2}, active=1, profile_memory=True, **SHAPES),
}


def read(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)["traceEvents"]


def facts(path: Path) -> dict[str, Any]:
    """What a trace shows, counted from its JSON alone. Times in microseconds."""
    events = [e for e in read(path) if e.get("ph") == "X"]
    steps = [e for e in events if e["name"].startswith("ProfilerStep#") and e["cat"] == "user_annotation"]
    by_category: dict[str, Counter[str]] = {}
    for e in events:
        by_category.setdefault(e["cat"], Counter())[e["name"]] += 1
    launches = {e["args"].get("correlation") for e in events if e["cat"] in ("cuda_runtime", "cuda_driver")}
    kernels: Counter[str] = Counter()
    early = 0
    for e in events:
        if e["cat"] == "kernel" and e["args"].get("correlation") in launches:
            kernels[e["name"][:90]] += 1
        elif e["cat"] == "kernel":
            early += 1  # of the step before the recording, when the GPU is that far behind
    return {
        "events": len(events),
        "steps": [round(e["dur"], 1) for e in sorted(steps, key=lambda e: e["ts"])],
        "kernels": dict(kernels.most_common()),
        "early": early,
        "ops": dict(by_category.get("cpu_op", Counter())),
        "launches": {
            name: count
            for name, count in (
                by_category.get("cuda_runtime", Counter()) + by_category.get("cuda_driver", Counter())
            ).items()
            if "aunch" in name or "Memcpy" in name
        },
    }


def expect(options: CaptureOptions, seen: dict[str, Any]) -> list[str]:
    """What is wrong with a trace from a GPU, in words; nothing where it shows what the series says."""
    wrong = []
    steps, ops, kernels = len(seen["steps"]), seen["ops"], seen["kernels"]
    if steps != options.active:
        wrong.append(f"{steps} steps instead of {options.active}")
    if not kernels:
        return [*wrong, "no kernel"]
    launched = sum(seen["kernels"].values())
    graphs = options.mode == "reduce-overhead"
    if options.target == "matmul_add":
        product = "aten::bmm" if options.params.get("batch") else "aten::mm"
        fused = "aten::baddbmm" if options.params.get("batch") else "aten::addmm"
        if not options.compile and not {product, "aten::add"} <= set(ops):
            wrong.append(f"eager without {product} and aten::add")
        if options.compile and not options.params.get("batch") and (fused not in ops or "aten::mm" in ops):
            wrong.append(f"compiled without {fused}, or with aten::mm")
    if options.target == "mlp" and not options.compile and options.dtype != "fp32":
        wanted = 4 if options.params.get("kernel") == "liger" else 5
        if launched != wanted * steps:
            wrong.append(f"{launched} kernels in {steps} steps, not {wanted} per step")
    if options.target == "mlp" and options.compile and options.mode != "max-autotune":
        triton = {name: count for name, count in kernels.items() if name.startswith("triton")}
        if list(triton.values()) != [steps] or "gelu_mul" not in next(iter(triton)):
            wrong.append(f"not one fused Triton kernel per step: {triton}")
    if not (options.warmup or options.wait or options.schedule_warmup):
        first, *others = seen["steps"]
        if first < 10 * max(others):
            wrong.append(f"the cold first step is not the slow one: {seen['steps']}")
    if graphs and seen["launches"].get("cudaGraphLaunch", 0) < steps:
        wrong.append(f"not a cudaGraphLaunch per step: {seen['launches']}")
    return wrong


def capture(options: CaptureOptions) -> tuple[CaptureOptions, Done | None, str]:
    end = start(options).wait()
    if isinstance(end, Done):
        return options, end, ""
    return options, None, "\n".join([str(getattr(end, "message", end)), *getattr(end, "tail", ())])


def report(options: CaptureOptions, done: Done | None, error: str, out: Path) -> bool:
    """Print a line, add it to OUT/facts.jsonl; True when the capture is what it should be."""
    if done is None:
        print(f"FAILED {options.command()}: {error}", flush=True)
        return False
    seen = facts(done.result.trace)
    wrong = expect(options, seen) if done.result.info["device"]["type"] == "cuda" else []
    record = {"command": options.command(), "wrong": wrong, "seconds": done.result.info["seconds"], **seen}
    with (out / "facts.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n")
    launched = sum(seen["kernels"].values())
    verdict = "; ".join(wrong) or "ok"
    numbers = f"{done.elapsed:.1f} s, steps {seen['steps'][:4]} us, {launched} + {seen['early']} kernels"
    print(f"{verdict}  {options.command()}  {numbers}", flush=True)
    return not wrong


def portable(path: Path, options: CaptureOptions) -> None:
    """Leave out of a .meta.json what is true on one machine only, and give the command for another."""
    meta = json.loads(path.read_text())
    del meta["cwd"], meta["executable"]
    meta["command"] = options.command()
    meta["options"] |= {"output": options.output, "device": options.device}
    path.write_text(json.dumps(meta, indent=2) + "\n")


def samples(out: Path, device: str, names: list[str]) -> bool:
    good = True
    for name in names:
        sample = replace(SAMPLES[name], gzip=True, averages_json=True)
        options = adapt(sample, device, out / "captures" / name)
        Path(options.output).mkdir(parents=True, exist_ok=True)
        options, done, error = capture(options)
        good &= report(options, done, error, out)
        if done is not None:
            for path in done.result.files:
                shutil.copyfile(path, out / (name + "." + path.name.partition("_rank0.")[2]))
            portable(out / (name + ".meta.json"), sample)
    return good


def ranks(out: Path, device: str) -> bool:
    """Two ranks of data-parallel training, each capturing itself; rank 0's is the sample `train_ddp`."""
    script = Path(__file__).resolve().parent.parent / "examples" / "ddp.py"
    folder = out / "ranks"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    asked = ["capture", str(script), "--no-open", "--gzip", "--averages-json", "--record-shapes"]
    tracetui = [sys.executable, "-m", "tracetui", *asked, "--device", device, "-o", str(folder)]
    sizes = ["--", "--dim", "64", "--batch", "32"] if device == "cpu" else []
    ended = subprocess.run(
        [*launch, "--no-python", *tracetui, *sizes], capture_output=True, text=True, check=False
    )
    if ended.returncode:
        print("FAILED", ended.stderr[-3000:])
        return False
    good = True
    for rank in (0, 1):
        (path,) = (folder / "ddp").glob(f"ddp*_rank{rank}.json.gz")
        events = [e for e in read(path) if e.get("ph") == "X"]
        own = {e["args"]["device"] for e in events if e["cat"] == "kernel"}
        words = "nccl" if device == "cuda" else "gloo"
        shared = [
            e for e in events if words in e["name"].lower() and e["cat"] in ("kernel", "user_annotation")
        ]
        right = bool(shared) and (own == {rank} or device == "cpu")
        good &= right
        print(
            f"{'ok' if right else 'NOT ok'}  rank {rank}: kernels of GPU {own}, {len(shared)} x communication"
        )
    for path in (folder / "ddp").glob("ddp*_rank0.*"):
        shutil.copyfile(path, out / ("train_ddp." + path.name.partition("_rank0.")[2]))
    meta = out / "train_ddp.meta.json"
    values = json.loads(meta.read_text())
    command = "torchrun --nproc-per-node 2 --no-python tracetui capture examples/ddp.py --record-shapes"
    values["options"] |= {"target": "examples/ddp.py", "output": "traces", "device": "auto"}
    del values["cwd"], values["executable"]
    meta.write_text(json.dumps(values | {"command": command}, indent=2) + "\n")
    return good


def matrix(out: Path, device: str, jobs: int) -> bool:
    plain = [
        CaptureOptions("matmul_add"),
        CaptureOptions("matmul_add", {"batch": 64}),
        CaptureOptions("linear"),
        CaptureOptions("mlp"),
        CaptureOptions("attention", {"backend": "naive"}),
        CaptureOptions("attention", {"backend": "sdpa"}),
        CaptureOptions("llm", {"phase": "prefill"}),
        CaptureOptions("llm", {"phase": "decode"}),
        CaptureOptions("train"),
    ]
    todo = [replace(o, compile=c, warmup=w) for c in (True, False) for w in (True, False) for o in plain]
    todo += [replace(o, compile=True, mode="reduce-overhead") for o in plain if o.target != "matmul_add"]
    todo.append(CaptureOptions("linear", compile=True, mode="max-autotune"))
    backends = ["inplace", "flash", "efficient", "math"] + (["cudnn"] if device == "cuda" else [])
    todo += [
        CaptureOptions("attention", {"backend": b}) for b in backends if b != "efficient" or device == "cuda"
    ]
    todo += [CaptureOptions("train", {"optimizer": o}) for o in ("foreach", "plain")]
    todo += [CaptureOptions("mlp", dtype=d) for d in ("fp16", "fp32")]
    todo.append(
        CaptureOptions("mlp", record_shapes=True, profile_memory=True, with_stack=True, with_flops=True)
    )
    folder = out / "matrix"
    folder.mkdir(exist_ok=True)
    good = True
    with ThreadPoolExecutor(jobs) as pool:
        for result in pool.map(capture, [adapt(o, device, folder) for o in todo]):
            good &= report(*result, out)
    return good


def adapt(options: CaptureOptions, device: str, folder: Path) -> CaptureOptions:
    small = {}
    if device != "cuda":
        sizes = [p for p in WORKLOADS[options.target].params if type(p.default) is int]
        small = {p.name: min(p.default, SMALL.get(p.name, 32)) for p in sizes}
    return replace(options, params={**options.params, **small}, device=device, output=str(folder))


def overhead(out: Path, device: str, names: list[str], rounds: int, active: int) -> bool:
    """Medians of the recorded steps, by hand and by tracetui in turns; one process each."""
    script = Path(__file__).with_name("capture_by_hand.py")
    good = True
    for name in names:
        times: dict[str, list[float]] = {"by hand": [], "tracetui": []}
        for i in range(rounds):
            for way in sorted(times, reverse=bool(i % 2)):
                path = out / f"overhead_{name}_{i}.json"
                if way == "by hand":
                    command = [sys.executable, str(script), name, device, str(active), str(path)]
                    subprocess.run(command, check=True, capture_output=True)
                else:
                    options = CaptureOptions(name, active=active, device=device, output=str(out), force=True)
                    _, done, error = capture(options)
                    if done is None:
                        print("FAILED", error)
                        return False
                    path = done.result.trace
                times[way].append(statistics.median(facts(path)["steps"]))
        medians = {way: statistics.median(values) for way, values in times.items()}
        ratio = medians["tracetui"] / medians["by hand"]
        print(f"overhead {name}: {ratio - 1:+.1%}, medians of {rounds} runs x {active} steps: {medians} us")
        print(f"  all: {times}", flush=True)
        (out / f"overhead_{name}.json").write_text(json.dumps({"ratio": ratio, "times": times}))
        good &= ratio < 1.05
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("part", choices=["overhead", "samples", "matrix", "ranks"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--jobs", type=int, default=6, help="captures of the matrix at the same time")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="+", help="samples, or workloads of the overhead (matmul_add, mlp)")
    parser.add_argument("--active", type=int, default=50, help="recorded steps of the overhead's runs")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    if args.part == "overhead":
        good = overhead(args.out, args.device, args.only or ["matmul_add", "mlp"], args.rounds, args.active)
    elif args.part == "samples":
        good = samples(args.out, args.device, args.only or list(SAMPLES))
    elif args.part == "ranks":
        good = ranks(args.out, args.device)
    else:
        good = matrix(args.out, args.device, args.jobs)
    print(f"{args.part}: {'ok' if good else 'NOT ok'}, {time.monotonic() - began:.0f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
