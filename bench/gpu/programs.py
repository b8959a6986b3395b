#!/usr/bin/env python3
"""Usage: bench/gpu/programs.py --dist dist/divvy-*.tar.gz --out DIR [--only NAME,NAME]

Real programs, unmodified, in a slice of half the GPU and 20 GiB. Each is a short Python program that
checks its own answer; what is not installed is left out and said so. Writes programs.json and
programs.md. A program that fails in a slice is tried without one too, so that Divvy is not blamed for
what does not work on the machine at all.
"""
import argparse
import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import fleet
import machine

LIMIT_GIB = 20


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    needs: tuple       # modules that have to be importable
    source: str
    variables: tuple = ()
    seconds: int = 120


TRAIN = """
import torch, workloads
w = workloads.Resnet()
w.build()
for _ in range(20):
    w.step()
loss = w.loss.item()
assert loss == loss and loss < 20, loss
"""

INFER = """
import torch, workloads
model = workloads.resnet50().cuda().half().eval()
with torch.no_grad():
    images = torch.randn(32, 3, 224, 224, device="cuda", dtype=torch.half)
    first, again = model(images), model(images)
assert torch.isfinite(first).all() and torch.allclose(first, again, atol=1e-2)
"""

COMPILE = """
import torch
layer = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.Linear(512, 512))
layer = layer.cuda()
fast = torch.compile(layer)
x = torch.randn(64, 512, device="cuda", requires_grad=True)
torch.testing.assert_close(fast(x), layer(x), atol=1e-3, rtol=1e-3)
fast(x).sum().backward()
assert torch.isfinite(x.grad).all()
"""

GRAPHED = """
import torch, workloads
w = workloads.Graph()
w.build()
with torch.no_grad():
    w.graph.replay(); torch.cuda.synchronize(); first = w.answers.clone()
    w.images.copy_(torch.randn_like(w.images))
    w.graph.replay(); torch.cuda.synchronize()
assert torch.isfinite(first).all() and not torch.equal(first, w.answers)
"""

# Grows one tensor again and again: with expandable segments one range of addresses grows.
GROW = """
import os, torch
kept = [torch.full((n << 18,), n, device="cuda") for n in range(1, 40)]
total = sum(int(t[-1].item()) for t in kept)
assert total == sum(range(1, 40))
del kept[::2]
kept.append(torch.ones(512 << 18, device="cuda"))
if "DIVVY_SOCKET" in os.environ:
    try:
        torch.empty(LIMIT << 30, dtype=torch.uint8, device="cuda")
        raise SystemExit("the limit did not hold")
    except torch.cuda.OutOfMemoryError:
        pass
    assert torch.cuda.mem_get_info()[1] <= LIMIT << 30
""".replace("LIMIT", str(LIMIT_GIB))

JAX = """
import os, jax, jax.numpy as jnp
assert jax.devices()[0].platform == "gpu", jax.devices()
f = jax.jit(lambda a, b: (a @ b).sum())
a = jnp.ones((2048, 2048), jnp.float32)
assert abs(float(f(a, a)) / 2048.0**3 - 1) < 1e-3
stats = jax.devices()[0].memory_stats()
assert "DIVVY_SOCKET" not in os.environ or stats["bytes_limit"] <= LIMIT << 30, stats
""".replace("LIMIT", str(LIMIT_GIB))

CUPY = """
import os, cupy
a = cupy.arange(1 << 20, dtype=cupy.float32)
assert float((a * 2).sum()) > 0
kernel = cupy.RawKernel(r'extern "C" __global__ void twice(float* x) '
                        r'{ x[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }', "twice")
kernel((4096,), (256,), (a,))
assert float(a[3]) == 6.0
if "DIVVY_SOCKET" in os.environ:
    try:
        cupy.empty(LIMIT << 30, dtype=cupy.uint8)
        raise SystemExit("the limit did not hold")
    except cupy.cuda.memory.OutOfMemoryError:
        pass
""".replace("LIMIT", str(LIMIT_GIB))

TRITON = """
import torch, triton, triton.language as tl

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)

n = 100_003
x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
out = torch.empty_like(x)
add[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
torch.testing.assert_close(out, x + y)
"""

NCCL = """
import os, torch, torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", NCCL_SOCKET_IFNAME="lo")
dist.init_process_group("nccl", rank=0, world_size=1, device_id=torch.device("cuda", 0))
x = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
expected = x.clone()
dist.all_reduce(x)
dist.broadcast(x, 0)
torch.cuda.synchronize()
assert torch.equal(x, expected)
dist.destroy_process_group()
"""

LOADER = """
import torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 512
    def __getitem__(self, i):
        return torch.full((1024,), float(i))

if __name__ == "__main__":
    torch.zeros(1, device="cuda")
    total = torch.zeros((), device="cuda")
    for batch in DataLoader(Numbers(), 32, num_workers=4, pin_memory=True):
        total += batch[:, 0].cuda(non_blocking=True).sum()
    assert total.item() == sum(range(512))
"""

SPAWN = """
import torch, torch.multiprocessing as mp

def work(rank, back):
    x = torch.full((1 << 20,), float(rank + 1), device="cuda")
    back.put((x * 2).mean().item())

if __name__ == "__main__":
    torch.zeros(1, device="cuda")
    context = mp.get_context("spawn")
    back = context.Queue()
    family = [context.Process(target=work, args=(rank, back)) for rank in range(3)]
    for member in family:
        member.start()
    answers = sorted(back.get(timeout=90) for _ in family)
    for member in family:
        member.join()
    assert answers == [2.0, 4.0, 6.0], answers
"""

PROGRAMS = (
    Program("PyTorch training (ResNet-50, bf16)", ("torch",), TRAIN),
    Program("PyTorch inference (ResNet-50, fp16)", ("torch",), INFER),
    Program("torch.compile, forward and backward", ("torch", "triton"), COMPILE, seconds=180),
    Program("CUDA graph of ResNet-50", ("torch",), GRAPHED),
    Program("PyTorch expandable_segments", ("torch",), GROW,
            (("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
             ("PYTORCH_ALLOC_CONF", "expandable_segments:True"))),
    Program("PyTorch backend cudaMallocAsync", ("torch",), GROW,
            (("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync"),
             ("PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync"))),
    Program("PyTorch, plain allocator", ("torch",), GROW),
    Program("JAX with preallocation", ("jax",), JAX, seconds=180),
    Program("CuPy, raw kernel", ("cupy",), CUPY),
    Program("Triton kernel", ("torch", "triton"), TRITON),
    Program("NCCL, one rank", ("torch",), NCCL),
    Program("DataLoader with four forked workers", ("torch",), LOADER),
    Program("three spawned processes on the GPU", ("torch",), SPAWN),
)


def missing(program):
    """Modules that cannot even be found; finding does not import, which would take seconds."""
    probe = "import importlib.util as u, sys; print(*[m for m in sys.argv[1:] if not u.find_spec(m)])"
    done = subprocess.run([sys.executable, "-c", probe, *program.needs], capture_output=True,
                          text=True, timeout=60, check=False)
    return done.stdout.split()


def attempt(workers, program, how, script):
    words, environment = workers.launch("program", how, [sys.executable, str(script)])
    environment.update(program.variables)
    began = time.monotonic()
    try:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False,
                              timeout=program.seconds, stdin=subprocess.DEVNULL)
        status, said = done.returncode, done.stderr[-1500:]
    except subprocess.TimeoutExpired:
        status, said = -1, f"no end within {program.seconds} s"
    return {"status": status, "seconds": round(time.monotonic() - began, 1), "stderr": said}


def try_program(workers, program, how, folder):
    absent = missing(program)
    if absent:
        return {"program": program.name, "result": f"not installed ({', '.join(absent)})"}
    script = folder / "program.py"
    script.write_text(program.source)
    found = attempt(workers, program, how, script)
    found["program"] = program.name
    if found["status"] == 0:
        found["result"] = "pass"
        del found["stderr"]
        return found
    found["result"] = "FAIL"
    found["without_slice"] = attempt(workers, program, fleet.Native(), script)
    if found["without_slice"]["status"] != 0:
        found["result"] = "fails without a slice too"
    return found


def table(results):
    environment = results["environment"]
    lines = ["# Real programs in a slice", "",
             f"{environment.get('date', '?')} · {environment.get('gpu', 'unknown GPU')} · driver "
             f"{environment.get('driver', '?')} · PyTorch {environment.get('torch', '?')} · commit "
             f"{environment.get('commit', '?')}", "",
             f"Each under `divvy run --gpu 0.5 --gpu-mem {LIMIT_GIB}GiB`, start-up included.", "",
             "| program | result | seconds |", "|---|---|---|"]
    for found in results["programs"]:
        lines.append(f"| {found['program']} | {found['result']} | {found.get('seconds', '–')} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="Run real programs in a slice.")
    parser.add_argument("--dist", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="", help="words, comma separated; a name has to hold one")
    parser.add_argument("--commit", default="")
    parser.add_argument("--budget", type=float, default=420.0,
                        help="seconds after which no further program begins")
    parser.add_argument("--mode", default="", help="mps: over MPS")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="divvy-bench-", dir="/tmp"))
    workers = fleet.Fleet(fleet.unpack(given.dist, work), work)
    results = {"environment": machine.describe(sys.executable, given.commit), "programs": []}
    how = fleet.Slice("0.5", memory=f"{LIMIT_GIB}GiB", mode=given.mode)
    wanted = [word.lower() for word in given.only.split(",") if word]
    began = time.monotonic()
    try:
        workers.wake_daemon()
        for program in PROGRAMS:
            if wanted and not any(word in program.name.lower() for word in wanted):
                continue
            if time.monotonic() - began > given.budget:
                found = {"program": program.name, "result": "not tried: out of time"}
            else:
                found = try_program(workers, program, how, work)
            results["programs"].append(found)
            print(f"{found['program']}: {found['result']} ({found.get('seconds', '-')} s)",
                  flush=True)
            if found["result"] == "FAIL":
                print(found["stderr"][-600:], flush=True)
    finally:
        workers.stop_all()
        results["divvyd_log"] = workers.daemon_log()
        (given.out / "programs.json").write_text(json.dumps(results, indent=1) + "\n")
        (given.out / "programs.md").write_text(table(results))
        shutil.rmtree(work, ignore_errors=True)
    print(table(results))
    return 1 if any(f["result"] == "FAIL" for f in results["programs"]) else 0


if __name__ == "__main__":
    sys.exit(main())
