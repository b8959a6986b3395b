"""The whole bench with sleeping workloads and stand-ins for divvy, gpuload and MPS."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent

DIVVY = """#!/bin/sh
command=$1; shift
echo "$command $*" >> "$DIVVY_TEST_CALLS"
case $command in
run) while [ "$1" != -- ]; do shift; done; shift; exec "$@" ;;
ps) echo '{"tenants": []}' ;;
set) [ -z "$DIVVY_TEST_REFUSE_SET" ] || { echo "no live change" >&2; exit 1; } ;;
esac
"""

# Says what gpuload would, and does nothing: an iteration of 1 ms, a request of 2 ms.
GPULOAD = f"#!{sys.executable} -SE" + """
import json, sys, time
words = sys.argv[1:]
def after(option, default=None):
    return words[words.index(option) + 1] if option in words else default
if words[0] == "alloc":
    print('{"families": [{"bytes": 4026531840, "stopped": "refused", "error": "x"}]}')
elif words[0] == "cost":
    print('{"costs": [{"call": "launch plain", "added_ns": 4}]}')
else:
    start = after("--start")
    if start == "-":
        print("ready", file=sys.stderr, flush=True)
        start = sys.stdin.readline()
    spans = [tuple(map(float, span.split(":"))) for span in after("--run").split(",")]
    time.sleep(max(0, int(start) / 1e9 + spans[-1][1] - time.monotonic()))
    ends = [t for b, e in spans for t in range(int(1e3 * b) + 1, int(1e3 * e) + 1)]
    report = {"due_ms": ends, "latencies_ms": [2.0] * len(ends)}
    if words[0] == "loop":
        bins = [0.0] * (ends[-1] // 100 + 1)
        for end in ends:
            bins[(end - 1) // 100] += 1
        report = {"ends_ms": ends, "iterations_in_bin": bins, "gpu_us_per_iteration": 1000.0,
                  "iterations_per_us": 2000.0, "ready_ms": -1.0}
    with open(after("--out"), "w") as out:
        json.dump(report, out)
"""

SMI = """#!/bin/sh
[ "$1" = compute-policy ] || exit 1
[ -z "$DIVVY_TEST_REFUSE_TIMESLICE" ] || { echo "no permission"; exit 4; }
echo "timeslice $2" >> "$DIVVY_TEST_CALLS"
"""

MPS = """#!/bin/sh
if [ "$1" = -d ]; then echo "start $CUDA_MPS_PIPE_DIRECTORY" >> "$DIVVY_TEST_CALLS"
else read word rest; echo "mps $word" >> "$DIVVY_TEST_CALLS"; fi
"""


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.calls = self.folder / "calls"
        self.out = self.folder / "out"
        self.program("divvy-9/bin/divvy", DIVVY)
        self.program("divvy-9/bin/gpuload", GPULOAD)
        self.program("path/nvidia-cuda-mps-control", MPS)
        self.program("path/nvidia-smi", SMI)
        self.dist = self.folder / "divvy-9.tar.gz"
        with tarfile.open(self.dist, "w:gz") as archive:
            archive.add(self.folder / "divvy-9", "divvy-9")

    def program(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def bench(self, *words, **variables):
        environment = {**os.environ, "DIVVY_BENCH_WORKLOADS": "sleeping",
                       "DIVVY_TEST_CALLS": str(self.calls), "PYTHONDONTWRITEBYTECODE": "1",
                       "PATH": f"{self.folder / 'path'}:{os.environ['PATH']}", **variables}
        done = subprocess.run(
            [sys.executable, str(HERE / "run"), "--dist", str(self.dist), "--out", str(self.out),
             "--window", "0.08", "--commit", "c0ffee", *words],
            env=environment, capture_output=True, text=True, timeout=240, check=False)
        return done, json.loads((self.out / "results.json").read_text())

    def test_every_classic_case_is_measured_in_every_way(self):
        done, results = self.bench("--cases", "classic")
        self.assertEqual(results["failures"], [], done.stdout + done.stderr)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(results["environment"]["commit"], "c0ffee")
        self.assertEqual(set(results["pair"]), {"native", "mps", "divvy", "divvy_mps"})
        self.assertEqual(set(results["latency"]),
                         {"alone", "native", "mps_priority", "mps_threads", "divvy"})
        self.assertEqual([len(r) for r in results["four"].values()], [4, 4, 4])
        self.assertEqual(set(results["caps"]["resnet"]), {"0.25", "0.5", "0.75"})
        self.assertEqual(set(results["shim"]), {"resnet", "gemm", "graph", "gpt2"})
        self.assertEqual(len(results["families"]), 10)
        self.assertIn("| two resnets, 30/70 |", (self.out / "table.md").read_text())
        if importlib.util.find_spec("matplotlib"):
            for picture in ("shares.png", "latency.png", "jitter.png"):
                self.assertTrue((self.out / picture).exists())
        else:
            self.assertIn("matplotlib is not installed", done.stdout)
        calls = self.calls.read_text()
        self.assertIn("--gpu 0.4 --gpu-mem 24GiB --class latency", calls)
        self.assertIn("--gpu 0.7 --gpu-mem 24GiB --mode mps", calls)
        self.assertIn("--gpu 0.25 --cap", calls)
        self.assertEqual(calls.count("mps quit"), 1)

    def test_classic_cases_do_without_mps_and_workers_that_nobody_needs(self):
        done, results = self.bench("--cases", "pair", "--ways", "native,divvy")
        self.assertEqual(results["failures"], [], done.stdout + done.stderr)
        self.assertEqual(set(results["pair"]), {"native", "divvy"})
        self.assertNotIn("mps", self.calls.read_text())
        done, results = self.bench("--cases", "nanoseconds")
        self.assertEqual(results["failures"], [], done.stdout + done.stderr)
        self.assertEqual(len(results["nanoseconds"]), 3)
        self.assertEqual(results["alone"], {})

    def test_every_light_case_is_measured_in_every_way(self):
        done, results = self.bench("--cases", "light", "--window", "0.05")
        self.assertEqual(results["failures"], [], done.stdout + done.stderr)
        ways = {"native", "short", "mps", "divvy"}
        for variant in ("process starts", "idle one starts", "both start"):
            self.assertEqual(set(results["arrive"][variant]), ways)
        self.assertEqual(len(results["arrive"]["process starts"]["divvy"]["windows"]), 11)
        self.assertEqual(set(results["returns"]["after contention"]), {"native", "divvy"})
        self.assertEqual(len(results["returns"]["random pauses"]["divvy"]["rounds"]), 24)
        self.assertEqual(results["kills"]["20 of 3 tenants"]["divvy"]["kills"], 20)
        self.assertEqual(len(results["steady"]["server + training"]["mps"]["windows"]), 5)
        self.assertEqual(set(results["unlike"]["memory + plain 30/70"]),
                         {"native", "mps", "divvy"})
        self.assertEqual(len(results["kinds"]), 15)
        self.assertEqual(set(results["density"]["30 instants"]), {"native", "mps", "fcfs"})
        self.assertIn("divvy", results["density"]["30 spread, default class"])
        calls = self.calls.read_text()
        self.assertIn("--gpu 0.033 --gpu-mem 2GiB --class latency", calls)
        self.assertEqual(calls.count("timeslice --set-timeslice=1"),
                         calls.count("timeslice --set-timeslice=0"))
        self.assertIn("## Every window", (self.out / "table.md").read_text())

    def test_the_proof_is_one_run_with_every_case(self):
        done, results = self.bench("--cases", "proof", "--window", "0.1")
        self.assertEqual(results["failures"], [], done.stdout + done.stderr)
        self.assertEqual(len(results["kinds"]), 15)
        self.assertEqual(set(results["unlike"]["launchbound + long 50/50"]), {"native", "divvy"})
        self.assertEqual(set(results["density"]["30 instants"]), {"native", "fcfs"})
        self.assertIn("divvy", results["density"]["12 spread, latency class"])
        self.assertEqual(len(results["steady"]["server + training"]["divvy"]["windows"]), 5)
        self.assertEqual(set(results["arrive"]), {"alone", "process starts", "idle one starts"})
        self.assertEqual(set(results["returns"]), {"after contention", "random pauses"})
        self.assertEqual(set(results["steps"][1].values()) & {"density"}, {"density"})

    def test_what_was_measured_until_the_stop_is_kept(self):
        done, results = self.bench("--cases", "steady", "--only", "server", "--ways", "native",
                                   "--window", "2", "--stop", "2")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(results["failures"][-1]["error"], "interrupted")
        self.assertIn("plain", results["loads_alone"])

    def test_every_torch_case_is_measured(self):
        done, results = self.bench("--cases", "torch", "--window", "0.3")
        self.assertEqual(results["failures"], [], done.stdout + done.stderr)
        self.assertEqual(set(results["arrivetorch"]["process starts"]),
                         {"native", "short", "mps", "divvy"})
        self.assertEqual(set(results["unliketorch"]["resnet + gpt2 30/70"]),
                         {"native", "mps", "divvy"})
        self.assertEqual(len(results["kindstorch"]), 6)

    def test_a_way_that_is_not_permitted_is_left_out_with_a_note(self):
        done, results = self.bench("--cases", "steady", "--only", "server", "--ways", "short,native",
                                   DIVVY_TEST_REFUSE_TIMESLICE="1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(set(results["steady"]["server + training"]), {"native"})
        self.assertIn("cannot be set: no permission", results["notes"][0])

    def test_a_process_that_ends_too_soon_fails_its_step(self):
        self.program("divvy-9/bin/gpuload", "#!/bin/sh\necho no such GPU >&2; exit 1\n")
        with tarfile.open(self.dist, "w:gz") as archive:
            archive.add(self.folder / "divvy-9", "divvy-9")
        done, results = self.bench("--cases", "kills", "--ways", "native")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ended with 1 before it began", results["failures"][0]["error"])
        self.assertIn("no such GPU", results["failures"][0]["stderr"])

    def test_a_failing_workload_is_written_down_and_the_rest_goes_on(self):
        done, results = self.bench("--cases", "caps", DIVVY_BENCH_BREAK="gemm")
        self.assertEqual(done.returncode, 1)
        self.assertTrue(any("gemm was told to fail" in f["error"] for f in results["failures"]))
        self.assertIn("RuntimeError", results["failures"][0]["stderr"])
        self.assertEqual(set(results["caps"]), {"resnet", "graph"})
        self.assertIn("## What failed", (self.out / "table.md").read_text())

    def test_where_a_live_change_is_refused_a_new_tenant_takes_its_place(self):
        _, results = self.bench("--cases", "shim,caps", DIVVY_TEST_REFUSE_SET="1")
        self.assertEqual(set(results["caps"]["resnet"]), {"0.25", "0.5", "0.75"})
        self.assertIn("no live change", results["failures"][0]["stderr"])
        self.assertIn("run --gpu 0.25 --gpu-mem 24GiB --cap", self.calls.read_text())

    def test_no_step_begins_after_the_time_is_over(self):
        done, results = self.bench("--cases", "pair", "--budget", "0")
        self.assertEqual({f["error"] for f in results["failures"]}, {"out of time"})
        self.assertEqual(results["pair"], {})
        self.assertEqual(done.returncode, 1)

    def test_results_can_be_drawn_again(self):
        self.bench("--cases", "pair")
        again = self.folder / "again"
        done = subprocess.run([sys.executable, str(HERE / "run"), "--out", str(again), "--redraw",
                               str(self.out / "results.json")], timeout=60, check=False)
        self.assertEqual(done.returncode, 0)
        self.assertEqual((again / "table.md").read_text(), (self.out / "table.md").read_text())


if __name__ == "__main__":
    unittest.main()
