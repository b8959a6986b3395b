"""Limits of memory, and what one call costs: the cases that measure no sharing of time. Part of the
suite; used by its thread."""
import json
import subprocess
import time

import fleet
import machine
from fleet import Native, Slice, WorkerFailed

FAMILIES = ("plain", "pitch", "managed", "vmm", "async", "pool", "array", "mipmap", "graph", "ipc")
GIB = 1 << 30


class Limits:
    def __init__(self, suite):
        self.suite = suite

    def run(self):
        if "memory" in self.suite.cases:
            with self.suite.step("memory", "divvy") as go:
                if go:
                    self.suite.results["memory"] = self.torch_until_refused(10)
        if "families" in self.suite.cases:
            with self.suite.step("families", "divvy") as go:
                if go:
                    self.suite.results["families"] = [self.family(name, 4) for name in FAMILIES]
        if "nanoseconds" in self.suite.cases:
            with self.suite.step("nanoseconds", "native and divvy") as go:
                if go:
                    self.suite.results["nanoseconds"] = [self.call_costs() for _ in range(3)]

    def torch_until_refused(self, limit_gib):
        with machine.MemoryWatch() as watch:
            workers = self.suite.fleet.start_ready(("memory", Slice("0.3", memory=f"{limit_gib}GiB")))
            try:
                workers[0].ask(do="allocate", chunk_bytes=256 << 20)
                report = workers[0].answer(60)
                time.sleep(self.suite.lead)  # the watch looks at the full slice a few times more
            finally:
                self.suite.fleet.stop(workers)
        report.update(limit_bytes=limit_gib * GIB, nvml_samples=watch.samples,
                      nvml_peak_bytes=watch.peak(workers[0].process.pid),
                      nvml_problem=watch.problem)
        return report

    def family(self, name, limit_gib):
        command = [self.suite.fleet.gpuload, "alloc", "--family", name, "--chunk", "128MiB", "--exact",
                   "--limit", f"{2 * limit_gib}GiB", "--hold-seconds", "0.2", "-o", "json"]
        with machine.MemoryWatch() as watch:
            words, environment = self.suite.fleet.launch(
                f"family-{name}", Slice("0.2", memory=f"{limit_gib}GiB"), command)
            process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True,
                                       stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                       start_new_session=True)
            try:
                output, errors = process.communicate(timeout=40)
            except subprocess.TimeoutExpired:
                errors, output = "no end within 40 s", ""
            finally:
                fleet.end_group(process.pid)
                process.wait()
        found = {"family": name, "limit_bytes": limit_gib * GIB, "status": process.returncode,
                 "nvml_peak_bytes": watch.peak(process.pid), "nvml_problem": watch.problem}
        try:
            found.update({k: v for k, v in json.loads(output)["families"][0].items()
                          if k in ("bytes", "stopped", "error", "all_came_back")})
        except (ValueError, KeyError, IndexError):
            found["error"] = errors[-500:]
        return found

    def call_costs(self):
        """What the shim adds to single calls, in a slice of the whole GPU: through the shim and past
        it by turns in one process. Natively the same program shows what it cannot resolve."""
        return {mode: self.gpuload_report(how, "cost", "--rounds", "1000")["costs"]
                for mode, how in (("native", Native()), ("divvy", Slice("1")))}

    def gpuload_report(self, how, *words):
        done = self.suite.fleet.run("gpuload", how, [self.suite.fleet.gpuload, *words, "-o", "json"], 60)
        if done.returncode != 0:
            raise WorkerFailed(f"gpuload {' '.join(words)} ended with {done.returncode}",
                               done.stderr[-2000:])
        return json.loads(done.stdout)
