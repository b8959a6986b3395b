"""The cases in which a real training is the point: a PyTorch process arrives beside a server, ResNet
beside GPT-2, caps of power-limited products and of attention. Fills the results as light.py does:
results[case][variant][way].
"""
import time

import stats
import windows
from crew import WAYS, WayMissing, Ways, how
from fleet import Native
from loads import Member

CASES = ("arrivetorch", "unliketorch", "kindstorch")
KINDS = ("power", "attention")
CAPS = ("0.1", "0.3", "0.6")
MIXES = (("resnet + gpt2 50/50", ("0.5", "0.5")), ("resnet + gpt2 30/70", ("0.3", "0.7")))


def torch_member(workload, share, tenant_class="", cap=False):
    """The load's name is of no matter here: only how it gets at the GPU is asked."""
    return Member(workload, "plain", share, ((0.0, 1.0),), tenant_class, cap, memory="24GiB")


class TorchCases:
    def __init__(self, suite, ways=WAYS, only=""):
        self.suite = suite
        self.fleet = suite.fleet
        self.results = suite.results
        self.ways = ways
        self.only = only
        self.entering = Ways(suite.fleet)
        self.unit = suite.window / 5
        self.results.setdefault("torch_alone", {})
        for case in CASES:
            self.results.setdefault(case, {})

    def run(self):
        for case in CASES:
            if case in self.suite.cases:
                getattr(self, case)()

    def in_each_way(self, case, variant, measure, ways=None, only=None):
        """measure(way) inside of each way; keeps its answer."""
        if (self.only if only is None else only) not in f"{case} {variant}":
            return
        for way in self.ways if ways is None else ways:
            with self.suite.step(case, f"{variant} {way}") as go:
                if not go:
                    continue
                try:
                    with self.entering.entered(way):
                        self.results[case].setdefault(variant, {})[way] = measure(way)
                except WayMissing as why:
                    self.results.setdefault("notes", []).append(f"{case} {variant} {way}: {why}")

    def loop(self, workers, seconds):
        start = time.monotonic() + self.suite.lead
        for worker in workers:
            worker.ask(do="loop", start=start, ramp=0.0, seconds=seconds, tail=0.0)
        return [worker.answer(seconds + 60) for worker in workers]

    def alone(self, workload):
        """Iterations a second and what one costs, with the GPU to itself; measured once."""
        known = self.results["torch_alone"]
        if workload not in known:
            workers = self.fleet.start_ready((workload, Native()))
            try:
                seconds = 3 * self.unit
                report = self.loop(workers, seconds)[0]
            finally:
                self.fleet.stop(workers)
            begin = seconds / 3
            rate = stats.completed_between(
                begin, seconds, 0.0, [e / 1e3 for e in report["ends_ms"]]) / (seconds - begin)
            if rate == 0:
                raise ValueError(f"no iteration of {workload} ended in {seconds - begin:.2f} s: "
                                 "give a longer --window")
            known[workload] = {"iterations_per_second": rate, "work_ms": report.get("work_ms")}
        return known[workload]

    # --- A training process arrives beside a server ---

    def arrivetorch(self):
        total = 22 * self.unit

        def measure(way, with_training=True):
            server = self.fleet.start_ready(
                ("graph", how(way, torch_member("graph", "0.4", "latency"), True)))[0]
            workers = [server]
            try:
                start = time.monotonic() + self.suite.lead
                server.ask(do="serve", start=start, ramp=0.0, seconds=total, rate=200, seed=7)
                training, ready = None, None
                if with_training:
                    time.sleep(max(0.0, start + 4 * self.unit - time.monotonic()))
                    worker = self.fleet.start("resnet", how(way, torch_member("resnet", "0.6"), True))
                    workers.append(worker)
                    worker.wait_ready()
                    ready = time.monotonic() - start
                    left = max(0.5 * self.unit, total - ready)
                    worker.ask(do="loop", start=start + ready, ramp=0.0, seconds=left, tail=0.0)
                    training = worker.answer(left + 60)
                    phases = {name: round(moment - start, 3)
                              for name, moment in worker.phases.items()}
                served = server.answer(total + 60)
            finally:
                self.fleet.stop(workers)
            found = {
                "windows": windows.latency_windows(
                    served["due_ms"], served["latencies_ms"], 0.0, total, self.unit),
                "all": served["latency_ms"],
                "max_ms_by_100_ms": [row.get("max") for row in windows.latency_windows(
                    served["due_ms"], served["latencies_ms"], 0.0, total, 0.1)]}
            if training:
                found.update(arrived_s=[ready], phases=phases,
                             training_ends_s=[round(ready + e / 1e3, 4)
                                              for e in training["ends_ms"]])
            return found

        if self.only in "arrivetorch process starts":
            known = self.results["arrivetorch"].get("alone", {})
            if "native" not in known:
                self.in_each_way("arrivetorch", "alone", lambda way: measure(way, False),
                                 ("native",), only="")
            self.in_each_way("arrivetorch", "process starts", measure)

    # --- Unlike programs ---

    def unliketorch(self):
        seconds = 5.2 * self.unit
        names = ("resnet", "gpt2")
        with self.suite.step("unliketorch", "alone") as go:
            if go:
                for name in names:
                    self.alone(name)
        native = None
        for variant, shares in MIXES:
            def measure(way, shares=shares):
                workers = self.fleet.start_ready(*(
                    (name, how(way, torch_member(name, share)))
                    for name, share in zip(names, shares)))
                try:
                    reports = self.loop(workers, seconds)
                finally:
                    self.fleet.stop(workers)
                return {"windows": [self.speeds(names, reports, 0.2 * self.unit, seconds)]}

            ways = [way for way in self.ways if way != "short"]
            found = self.results["unliketorch"].setdefault(variant, {})
            if "native" in ways and native:  # natively there are no shares
                found["native"] = native
                ways.remove("native")
            self.in_each_way("unliketorch", variant, measure, ways)
            native = found.get("native", native)

    def speeds(self, names, reports, begin, end):
        parts = []
        for name, report in zip(names, reports):
            rate = stats.completed_between(
                begin, end, 0.0, [e / 1e3 for e in report["ends_ms"]]) / (end - begin)
            parts.append(100 * rate / self.alone(name)["iterations_per_second"])
        return {"from": round(begin, 3), "speeds": parts}

    # --- Caps ---

    def kindstorch(self):
        """GPU time is the number of pieces of work times the 20th percentile of the time between the
        events around one, in the same window: a piece that no gate held up, at the clock of that
        moment. A power-limited GPU runs faster when it works only part of the time."""
        if "divvy" not in self.ways:
            return
        seconds = 5.2 * self.unit
        for kind in KINDS:
            if self.only and not any(self.only in f"kindstorch {kind} {cap}" for cap in CAPS):
                continue
            with self.suite.step("kindstorch", f"{kind} alone") as go:
                if go:
                    self.alone(kind)
            for cap in CAPS:
                def measure(way, kind=kind, cap=cap):
                    workers = self.fleet.start_ready(
                        (kind, how(way, torch_member(kind, cap, cap=True))))
                    try:
                        report = self.loop(workers, seconds)[0]
                    finally:
                        self.fleet.stop(workers)
                    row = self.speeds((kind,), [report], 0.2 * self.unit, seconds)
                    done = row["speeds"][0] / 100 * self.alone(kind)["iterations_per_second"]
                    if report.get("work_ms"):
                        row["shares"] = [done * report["work_ms"] / 10]
                    return {"windows": [row]}

                self.in_each_way("kindstorch", f"{kind} {cap}", measure, ("divvy",))
