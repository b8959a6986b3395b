"""The suite, and its classic cases: PyTorch workers that are warm before anything is counted. Who runs
beside whom, in which way, for how long. Fills the results, judges nothing. The cases in which
somebody arrives, pauses or is killed are in light.py (gpuload) and torch_cases.py.

One Suite per run, used by one thread. A step that fails is written down with the worker's last words
and the suite goes on. Fractions of running alone are worked out later (report.py), from the rates
that were measured in the same run.
"""
import contextlib
import json
import subprocess
import time
import traceback

import light
import machine
import torch_cases
from crew import WAYS
from fleet import Mps, Native, Slice, WorkerFailed
from limits import Limits

CLASSIC = ("shim", "caps", "pair", "latency", "four", "launchbound", "memory", "families",
           "nanoseconds", "mpsgates")
CASES = CLASSIC + light.CASES + torch_cases.CASES
GROUPS = {"all": CASES, "classic": CLASSIC, "light": light.CASES, "torch": torch_cases.CASES,
          "proof": ("proof",)}
FOUR = ("0.1", "0.2", "0.3", "0.4")


class Suite:
    def __init__(self, workers, results, cases, window, budget, save, say=print, ways=WAYS,
                 only="", contend=20.0):
        self.fleet = workers
        self.results = results
        self.cases = cases
        self.window = window
        self.save = save
        self.say = say
        self.began = time.monotonic()
        self.budget = budget
        self.ramp = min(1.0, window / 4)
        self.lead = min(0.2, window / 2)  # all workers have heard of it by then
        self.ways = ways
        self.natives = {}
        results.update(alone={}, shim={}, caps={}, pair={}, latency={}, four={}, launchbound={},
                       mpsgates={}, failures=[], steps=[], ps={}, window_seconds=window)
        self.light = light.Light(self, ways, only, contend)
        self.torch = torch_cases.TorchCases(self, ways, only)

    # --- Steps and windows ---

    @contextlib.contextmanager
    def step(self, case, mode):
        """What goes wrong inside ends the step, not the suite. Yields False when it is too late."""
        began = time.monotonic()
        if began - self.began > self.budget:
            self.results["failures"].append({"case": case, "mode": mode, "error": "out of time"})
            self.say(f"{case} {mode}: left out, {self.budget:.0f} s are over")
            yield False
            return
        try:
            yield True
        except (WorkerFailed, OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
            self.results["failures"].append({
                "case": case, "mode": mode, "error": f"{type(error).__name__}: {error}",
                "stderr": getattr(error, "stderr_tail", "") or traceback.format_exc()[-1500:]})
            self.say(f"{case} {mode}: FAILED: {error}")
        seconds = time.monotonic() - began
        self.results["steps"].append({"case": case, "mode": mode, "seconds": round(seconds, 1)})
        self.say(f"[{time.monotonic() - self.began:5.0f} s] {case} {mode}: {seconds:.1f} s")
        self.save()

    def measure(self, *workers, seconds=None, settle=1.0):
        """All of them at the same time; one report each. `settle` times as long as usual pass
        before anything is counted."""
        ramp = settle * (self.ramp if seconds is None else self.ramp / 2)
        seconds = seconds or self.window
        start = time.monotonic() + self.lead
        tail = min(0.3, seconds / 4)
        for worker in workers:
            worker.ask(do="loop", start=start, ramp=ramp, seconds=seconds, tail=tail)
        time.sleep(max(0.0, start + ramp + seconds / 2 - time.monotonic()))
        clock = machine.clock_and_power()
        reports = self._answers(workers, seconds)
        for report in reports:
            report.update(clock)
        return reports

    def serve(self, server, *beside):
        """Requests at random moments, 200 a second, and what trains beside. The same requests in
        every way of sharing."""
        seconds = 2 * self.window
        start = time.monotonic() + self.lead
        server.ask(do="serve", start=start, ramp=self.ramp, seconds=seconds, rate=200, seed=7)
        for worker in beside:
            worker.ask(do="loop", start=start, ramp=self.ramp, seconds=seconds, tail=self.ramp / 3)
        return self._answers((server, *beside), seconds)

    def _answers(self, workers, seconds):
        deadline = time.monotonic() + seconds + self.ramp + 60
        reports = [worker.answer(deadline - time.monotonic()) for worker in workers]
        for report in reports:  # the windows of these cases are in it already
            report.pop("ends_ms", None)
            report.pop("due_ms", None)
        self.say("    " + "  ".join(describe(w, r) for w, r in zip(workers, reports)))
        return reports

    # --- Natively ---

    def native(self, workload, index=0):
        worker = self.natives.get((workload, index))
        if worker is None or not worker.alive:
            worker = self.fleet.start_ready((workload, Native()))[0]
            self.natives[(workload, index)] = worker
        return worker

    def wanted_natives(self):
        wanted = set()
        if {"shim", "caps", "pair", "latency", "four", "mpsgates"} & self.cases:
            wanted.add(("resnet", 0))
        if {"shim", "caps"} & self.cases:
            wanted |= {("gemm", 0), ("graph", 0)}
        if "pair" in self.cases:
            wanted.add(("resnet", 1))
        if "four" in self.cases:
            wanted |= {("resnet", i) for i in range(4)}
        if "latency" in self.cases:
            wanted.add(("graph", 0))
        if "mpsgates" in self.cases:
            wanted.add(("graph", 0))
        if "launchbound" in self.cases:
            wanted |= {("gpt2", 0), ("gpt2", 1)}
        return sorted(wanted)

    def alone(self, workload, seconds=None):
        report = self.measure(self.native(workload), seconds=seconds)[0]
        self.results["alone"].setdefault(workload, []).append(report)
        return report

    def run_native(self):
        with self.step("start", "native") as go:
            if go:
                starting = {key: self.fleet.start(key[0], Native())
                            for key in self.wanted_natives()}
                for (workload, index), worker in starting.items():
                    with self.step("start", f"native {workload} {index}"):
                        worker.wait_ready()
                        self.natives[workload, index] = worker
                self.fleet.stop([w for w in starting.values() if not w.is_ready])
        for workload in sorted({name for name, _ in self.wanted_natives()}):
            with self.step("alone", workload) as go:
                if go:
                    self.alone(workload)
        if "pair" in self.cases:
            with self.step("pair", "native") as go:
                if go:
                    self.results["pair"]["native"] = self.measure(
                        self.native("resnet", 0), self.native("resnet", 1))
        if "four" in self.cases:
            with self.step("four", "native") as go:
                if go:
                    self.results["four"]["native"] = self.measure(
                        *(self.native("resnet", i) for i in range(4)))
        if "latency" in self.cases:
            with self.step("latency", "native") as go:
                if go:
                    self.results["latency"]["alone"] = self.serve(self.native("graph"))
                    self.results["latency"]["native"] = self.serve(
                        self.native("graph"), self.native("resnet"))
        if "launchbound" in self.cases:
            with self.step("launchbound", "native") as go:
                if go:
                    self.native_gpt2_pair()
        # Those that only this part needed give their memory back.
        for key in [key for key in self.natives if key[0] == "resnet" and key[1] > 0]:
            self.fleet.stop([self.natives.pop(key)])

    def native_gpt2_pair(self):
        reports = self.measure(self.native("gpt2", 0), self.native("gpt2", 1))
        self.results["launchbound"].setdefault("native", []).append(reports)

    # --- Over MPS alone ---

    def run_mps(self):
        if "mps" not in self.ways or not {"pair", "four", "latency", "launchbound"} & self.cases:
            return
        shares = set()
        shares |= {30, 70} if "pair" in self.cases else set()
        shares |= {10, 20, 30, 40} if "four" in self.cases else set()
        shares |= {30} if "latency" in self.cases else set()
        wanted = {("resnet", share): ("resnet", Mps(share)) for share in sorted(shares)}
        if "latency" in self.cases:
            wanted["graph"] = ("graph", Mps(100))
            wanted["training"] = ("resnet", Mps(100, priority=1))
        if "launchbound" in self.cases:
            wanted["gpt2", 0] = wanted["gpt2", 1] = ("gpt2", Mps(100))
        found = {}
        with self.step("start", "mps") as go:
            if go:
                self.fleet.mps.start()
                found = dict(zip(wanted, self.fleet.start_ready(*wanted.values())))
        if found:
            self.measure_mps(found)
        with self.step("stop", "mps"):
            self.fleet.stop(list(found.values()))
            self.fleet.mps.stop()

    def measure_mps(self, found):
        if "pair" in self.cases:
            with self.step("pair", "mps") as go:
                if go:
                    self.results["pair"]["mps"] = self.measure(
                        found["resnet", 30], found["resnet", 70])
        if "four" in self.cases:
            with self.step("four", "mps") as go:
                if go:
                    self.results["four"]["mps"] = self.measure(
                        *(found["resnet", share] for share in (10, 20, 30, 40)))
        if "latency" in self.cases:
            with self.step("latency", "mps") as go:
                if go:
                    self.results["latency"]["mps_priority"] = self.serve(
                        found["graph"], found["training"])
                    self.results["latency"]["mps_threads"] = self.serve(
                        found["graph"], found["resnet", 30])
        if "launchbound" in self.cases:
            with self.step("launchbound", "mps") as go:
                if go:
                    self.results["launchbound"]["mps"] = [
                        self.measure(found["gpt2", 0], found["gpt2", 1])]

    # --- In slices ---

    def run_divvy(self):
        """What matters most comes first, should the time not be enough."""
        with self.step("start", "divvy") as go:
            if go:
                self.fleet.wake_daemon()
        if {"shim", "caps"} & self.cases:
            self.one_tenant("resnet", ("0.25", "0.5", "0.75"))
        if "pair" in self.cases:
            self.tenants("pair", "divvy", ("resnet", Slice("0.3")), ("resnet", Slice("0.7")))
        if "latency" in self.cases:
            self.tenants("latency", "divvy", ("graph", Slice("0.4", tenant_class="latency")),
                         ("resnet", Slice("0.6")))
        Limits(self).run()
        if "launchbound" in self.cases:
            self.gpt2_tenants()
        if {"shim", "caps"} & self.cases:
            self.one_tenant("gemm", ("0.25", "0.5", "0.75"))
            self.one_tenant("graph", ("0.5",))
        if "four" in self.cases:
            self.tenants("four", "divvy", *(("resnet", Slice(share)) for share in FOUR))
        if "mpsgates" in self.cases:
            self.gates_over_mps()
        if "pair" in self.cases and "mps" in self.ways:
            self.tenants("pair", "divvy_mps", ("resnet", Slice("0.3", mode="mps")),
                         ("resnet", Slice("0.7", mode="mps")))

    def gates_over_mps(self):
        """Tenants of one MPS server that the arbiter has to hold: requests beside training, and a
        latency tenant that would take everything."""
        def over_mps(gpu, **more):
            return Slice(gpu, mode="mps", **more)

        if "alone" not in self.results["latency"]:
            with self.step("latency", "alone") as go:
                if go:
                    self.results["latency"]["alone"] = self.serve(self.native("graph"))
        self.tenants("mpsgates", "latency",
                     ("graph", over_mps("0.4", tenant_class="latency")),
                     ("resnet", over_mps("0.6")))
        self.tenants("mpsgates", "greedy",
                     ("resnet", over_mps("0.4", tenant_class="latency")),
                     ("resnet", over_mps("0.6")))

    def tenants(self, case, mode, *wanted):
        with self.step(case, mode) as go:
            if not go:
                return
            workers = self.fleet.start_ready(*wanted)
            try:
                measure = self.serve if "latency" in (case, mode) else self.measure
                self.results[case][mode] = measure(*workers)
                self.note_ps(f"{case} {mode}")
            finally:
                self.fleet.stop(workers)

    def one_tenant(self, workload, caps):
        worker = None
        if "shim" in self.cases:
            with self.step("shim", workload) as go:
                if go:
                    worker = self.fleet.start_ready((workload, Slice("1")))[0]
                    self.against_native(workload, worker)
        if "caps" in self.cases:
            for cap in caps:
                with self.step("caps", f"{workload} {cap}") as go:
                    if go:
                        worker = self.capped(workload, worker, cap)
                        self.results["caps"].setdefault(workload, {})[cap] = self.measure(
                            worker, settle=4.0)[0]  # a cap follows the power within seconds
                        self.note_ps(f"caps {workload} {cap}")
        if worker:
            self.fleet.stop([worker])

    def capped(self, workload, worker, cap):
        """The same process with another cap, or, where that is refused, a new one."""
        if worker and worker.alive:
            try:
                self.fleet.divvy_command("set", worker.name, "--gpu", cap, "--cap")
                return worker
            except (WorkerFailed, subprocess.SubprocessError) as error:
                self.results["failures"].append({
                    "case": "caps", "mode": f"{workload} {cap}", "error": f"live change: {error}",
                    "stderr": getattr(error, "stderr_tail", "")})
            self.fleet.stop([worker])
        return self.fleet.start_ready((workload, Slice(cap, cap=True)))[0]

    def against_native(self, workload, worker, rounds=3):
        """Native and in a slice by turns, so that a drift of the clocks meets both."""
        pairs = []
        for _ in range(rounds):
            native = self.alone(workload, seconds=self.window / 2)
            divvy = self.measure(worker, seconds=self.window / 2)[0]
            pairs.append({"native": native["iterations_per_second"],
                          "divvy": divvy["iterations_per_second"]})
        self.results["shim"][workload] = pairs

    def gpt2_tenants(self):
        workers = []
        with self.step("shim", "gpt2") as go:
            if go:
                workers = self.fleet.start_ready(("gpt2", Slice("0.5")))
                if "shim" in self.cases:
                    self.against_native("gpt2", workers[0])
        with self.step("launchbound", "divvy") as go:
            if go and workers:
                workers += self.fleet.start_ready(("gpt2", Slice("0.5")))
                self.results["launchbound"]["divvy"] = [self.measure(*workers)]
                self.native_gpt2_pair()
                self.results["launchbound"]["divvy"].append(self.measure(*workers))
                self.note_ps("launchbound divvy")
        self.fleet.stop(workers)

    def note_ps(self, when):
        """What `divvy ps` said, for whoever wonders about a number. Never a reason to fail."""
        try:
            self.results["ps"][when] = json.loads(self.fleet.divvy_command("ps", "-o", "json"))
        except (WorkerFailed, subprocess.SubprocessError, ValueError) as error:
            self.results["ps"][when] = {"error": str(error)}

    def run(self):
        if self.cases & set(CLASSIC):
            self.run_native()
            self.run_mps()
            self.run_divvy()
        self.light.run()
        self.torch.run()


def describe(worker, report):
    if "latency_ms" in report:
        latency = report["latency_ms"]
        return f"{worker.name} p50 {latency['p50']:.2f} p99 {latency['p99']:.2f} ms"
    if "iterations_per_second" in report:
        return f"{worker.name} {report['iterations_per_second']:.2f}/s"
    return worker.name
