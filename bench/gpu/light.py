"""The cases made of gpuload processes: arrivals, returns, kills, steady sharing, unlike programs,
caps by kind of load, and many servers. Fills the results with every window from the first
millisecond on; judge.py judges them.

A result is results[case][variant][way]. All lengths scale with the window (5 s unless told).
"""
import dataclasses
import json
import random
import subprocess
import time

import machine
import stats
import windows
from crew import WAYS, Crew, WayMissing, Ways
from fleet import WorkerFailed
from loads import REQUEST_MS, Member

CASES = ("arrive", "returns", "kills", "steady", "unlike", "kinds", "density")
# In which ways a case says something.
CASE_WAYS = {"arrive": WAYS, "returns": ("native", "divvy"), "kills": ("native", "divvy"),
             "steady": WAYS, "unlike": ("native", "mps", "divvy"), "kinds": ("divvy",),
             "density": ("native", "mps", "divvy")}
KINDS = ("plain", "memory", "long", "launchbound", "chain")
CAPS = ("0.1", "0.3", "0.6")
CROWDS = (1, 4, 12, 30)
CROWD_LOAD = 0.75  # of the GPU, of the largest crowd together
# Name, loads, shares.
MIXES = (
    ("plain + plain 30/70", ("plain", "plain"), ("0.3", "0.7")),
    ("four plain 10/20/30/40", ("plain",) * 4, ("0.1", "0.2", "0.3", "0.4")),
    ("launchbound + long 50/50", ("launchbound", "long"), ("0.5", "0.5")),
    ("launchbound + long 30/70", ("launchbound", "long"), ("0.3", "0.7")),
    ("launchbound + plain 50/50", ("launchbound", "plain"), ("0.5", "0.5")),
    ("memory + plain 50/50", ("memory", "plain"), ("0.5", "0.5")),
    ("memory + plain 30/70", ("memory", "plain"), ("0.3", "0.7")),
    ("chain + plain 50/50", ("chain", "plain"), ("0.5", "0.5")),
    ("chain + plain 30/70", ("chain", "plain"), ("0.3", "0.7")),
)
# What proves the promises in one run, the most important first: case, what has this in its name, ways.
PROOF = (
    ("density", "1 spread", ("native",)),
    ("density", "30 ", ("native", "divvy")),
    ("unlike", "launchbound + long", ("native", "divvy")),
    ("kinds", "launchbound", ("divvy",)),
    ("kinds", "chain", ("divvy",)),
    ("steady", "server + training", ("divvy",)),
    ("arrive", "process starts", ("native", "divvy")),
    ("kinds", "plain", ("divvy",)),
    ("kinds", "memory", ("divvy",)),
    ("kinds", "long", ("divvy",)),
    ("density", "12 ", ("native", "divvy")),
    ("kills", "", ("divvy",)),
    ("returns", "after contention", ("divvy",)),
    ("steady", "three tenants", ("divvy",)),
    ("unlike", "plain 30/70", ("divvy",)),
    ("unlike", "four plain", ("divvy",)),
    ("unlike", "plain 50/50", ("divvy",)),
    ("returns", "random pauses", ("divvy",)),
    ("arrive", "idle one starts", ("native", "divvy")),
)


class Light:
    def __init__(self, suite, ways=WAYS, only="", contend=20.0):
        self.suite = suite
        self.results = suite.results
        self.ways = ways
        self.only = only
        self.crew = Crew(suite.fleet)
        self.entering = Ways(suite.fleet)
        self.unit = suite.window / 5
        self.contend = contend
        self.speed = 0.0
        self.results.setdefault("loads_alone", {})
        for case in CASES:
            self.results.setdefault(case, {})

    def run(self):
        plan = [(case, self.only, self.ways) for case in CASES if case in self.suite.cases]
        if "proof" in self.suite.cases:
            plan = PROOF
        if not plan:
            return
        with self.suite.step("start", "gpuload") as go:
            if go:
                self.speed = self.alone("plain")["iterations_per_us"]
        for case, self.only, self.ways in plan:
            getattr(self, case)()

    # --- What all cases use ---

    def alone(self, load):
        """Speed and GPU time of one load with the GPU to itself, natively; measured once."""
        known = self.results["loads_alone"]
        if load not in known:
            seconds = 1.5 * self.unit
            member = Member(load, load, "1", ((0.0, seconds),))
            found = self.crew.run("native", [member], self.speed, extra=("--measure-cost",))[0]
            begin, bins = 0.2 * seconds, found["iterations_in_bin"]
            rate = windows.done_between(bins, begin, seconds) / (seconds - begin)
            cost = found["gpu_us_per_iteration"]
            known[load] = {"iterations_per_second": rate, "gpu_us_per_iteration": cost,
                           "busy_percent": rate * cost / 1e4,
                           "iterations_per_us": found["iterations_per_us"]}
        return known[load]

    def cost_us(self, member):
        return 1e3 * REQUEST_MS if member.serves else self.alone(member.load)["gpu_us_per_iteration"]

    def measure(self, case, variant, members, summarize, ways=None, during=None):
        """`members` in each way; keeps what summarize(reports) makes of it."""
        if self.only and self.only not in f"{case} {variant}":
            return
        for way in self.ways if ways is None else ways:
            if way.removeprefix("divvy_") not in CASE_WAYS[case]:  # divvy_mps: where MPS makes sense
                continue
            with self.suite.step(case, f"{variant} {way}") as go:
                if not go:
                    continue
                for member in members:  # before the way is entered: it is measured natively
                    self.cost_us(member)
                try:
                    with self.entering.entered(way):
                        reports = self.crew.run(way, members, self.speed, during)
                        self.results[case].setdefault(variant, {})[way] = summarize(reports)
                except WayMissing as why:
                    self.note(case, variant, way, str(why))

    def note(self, case, variant, way, why):
        self.results.setdefault("notes", []).append(f"{case} {variant} {way}: {why}")
        self.suite.say(f"{case} {variant} {way}: left out: {why}")

    def training_windows(self, members, reports, begin, end, seconds):
        """Shares of GPU time and parts of the speed alone, in per cent, of all that do not serve."""
        rows = []
        for low, high in windows.spans_between(begin, end, seconds):
            row = {"from": round(low, 3), "shares": [], "speeds": []}
            for member, found in zip(members, reports):
                if member.serves:
                    continue
                bins, alone = found["iterations_in_bin"], self.alone(member.load)
                rate = windows.done_between(bins, low, high) / (high - low)
                row["shares"].append(windows.share(bins, self.cost_us(member), low, high))
                row["speeds"].append(100 * rate / alone["iterations_per_second"])
            rows.append(row)
        return rows

    # --- A training arrives beside a server ---

    def arrive(self):
        unit = self.unit
        total, quiet = 11 * unit, 6 * unit
        server = Member("server", "server", "0.4", ((0.0, total),), "latency")
        training = Member("training", "training", "0.6", ((0.0, total),), arrives=3 * unit)
        late = dataclasses.replace(training, spans=((quiet, total),), arrives=None)
        variants = (
            ("process starts", (server, training), 0.0),
            ("idle one starts", (server, late), 0.0),
            ("both start", (dataclasses.replace(server, spans=((quiet, total),)), late), quiet))
        if not self.only or any(self.only in f"arrive {v[0]}" for v in variants):
            self.measure_alone("arrive", "alone", server, 0.0, total, unit)
        for variant, members, begin in variants:
            self.measure("arrive", variant, members,
                         lambda reports, members=members, begin=begin: self.latency_rows(
                             members, reports, begin, total, unit))

    def measure_alone(self, case, variant, server, begin, end, seconds):
        """The same requests with nobody beside them."""
        found = self.results[case].setdefault(variant, {})
        if "native" in found:
            return
        with self.suite.step(case, f"{variant} native") as go:
            if go:
                found["native"] = self.latency_rows(
                    (server,), self.crew.run("native", [server], self.speed), begin, end, seconds)

    def latency_rows(self, members, reports, begin, end, seconds):
        due, latencies = reports[0]["due_ms"], reports[0]["latencies_ms"]
        rows = windows.latency_windows(due, latencies, begin, end, seconds)
        beside = self.training_windows(members, reports, begin, end, seconds)
        for row, other in zip(rows, beside):
            row.update(shares=other["shares"], speeds=other["speeds"])
        tenths = windows.latency_windows(due, latencies, begin, end, 0.1)
        return {
            "windows": rows, "all": stats.summary(latencies),
            "arrived_s": [r["ready_ms"] / 1e3 for m, r in zip(members, reports)
                          if m.arrives is not None],
            "max_ms_by_100_ms": [row.get("max") for row in tenths],
            "share_by_100_ms": [
                windows.share_series(r["iterations_in_bin"], self.cost_us(m), begin, end)
                for m, r in zip(members, reports) if not m.serves]}

    # --- Somebody comes back after a pause ---

    def returns(self):
        unit = self.unit
        contend = self.contend * unit
        back, end = contend + 2 * unit, contend + 12.2 * unit
        members = (
            Member("a", "plain", "0.5", ((0.0, contend), (back, end))),
            Member("x", "plain", "0.5", ((0.0, contend),)),
            # Its slice is free when x has ended.
            Member("b", "plain", "0.5", ((contend + unit, end),), arrives=contend + 0.3 * unit))

        def summarize(reports):
            pair = ((members[0], reports[0]), (members[2], reports[2]))
            return {
                "resumed_s": back,
                "first_ms": windows.after_resuming(
                    ((back, end),), (), reports[0]["ends_ms"], [], 0)[0]["first_ms"],
                "share_by_100_ms": [windows.share_series(
                    r["iterations_in_bin"], self.cost_us(m), back, end) for m, r in pair],
                "windows": self.training_windows(
                    [m for m, _ in pair], [r for _, r in pair], back + 0.2 * unit, end, 5 * unit),
                "seconds": self.training_windows(
                    [m for m, _ in pair], [r for _, r in pair], back, end, unit)}

        self.measure("returns", "after contention", members, summarize)
        self.pauses()

    def pauses(self):
        unit = self.unit
        spans = [windows.random_spans(seed, 12, (0.5 * unit, 1.3 * unit), (0.2 * unit, 0.9 * unit))
                 for seed in (1, 2)]
        members = [Member(name, "plain", "0.5", tuple(own)) for name, own in zip("ab", spans)]

        def summarize(reports):
            rows = []
            for index, (member, found) in enumerate(zip(members, reports)):
                rows += windows.after_resuming(
                    spans[index], spans[1 - index], found["ends_ms"], found["iterations_in_bin"],
                    self.cost_us(member), unit)
            return {"rounds": sorted(rows, key=lambda row: row["at"])}

        self.measure("returns", "random pauses", members, summarize)

    # --- Somebody is killed ---

    def kills(self):
        unit = self.unit
        dice, rounds = random.Random(3), 10
        total = 2 * rounds * unit + unit
        members = [Member("survivor", "training", "0.4", ((0.0, total),))]
        for slot in range(2):
            for index in range(rounds):
                arrives = (2 * index + slot + dice.uniform(0, 0.3)) * unit
                killed = arrives + dice.uniform(0.6, 1.5) * unit
                pause = arrives + dice.uniform(0.4, 1.0) * unit
                members.append(Member(
                    f"victim{slot}-{index}", "plain", "0.3",
                    ((0.0, pause), (pause + 0.1 * unit, total)), arrives=arrives, killed=killed))

        def summarize(reports):
            times = windows.iteration_times(reports[0]["ends_ms"])
            if not times:
                raise ValueError("the survivor finished nothing")
            slowest = sorted(zip(times, reports[0]["ends_ms"][1:]), reverse=True)[:10]
            return {"kills": 2 * rounds, "median_ms": stats.median(times), "longest_ms": max(times),
                    "slowest": [{"ms": round(t, 3), "at": round(e / 1e3, 3)} for t, e in slowest],
                    "killed_at": sorted(round(m.killed, 3) for m in members[1:]),
                    "share_by_100_ms": windows.share_series(
                        reports[0]["iterations_in_bin"], self.cost_us(members[0]), 0.0, total)}

        self.measure("kills", "20 of 3 tenants", members, summarize)

    # --- A server beside training, window by window ---

    def steady(self):
        unit = self.unit
        for variant, rate, count, shares in (("server + training", 200.0, 5, ("0.4", "0.6")),
                                             ("three tenants", 150.0, 2, ("0.3", "0.2", "0.5"))):
            if self.only and self.only not in f"steady {variant}":
                continue
            begin = 0.2 * unit
            end = begin + count * 5 * unit
            span = ((0.0, end + 0.1 * unit),)
            members = [Member("server", "server", shares[0], span, "latency", rate=rate)]
            members += [Member(f"training{i}", "training", share, span)
                        for i, share in enumerate(shares[1:])]
            self.measure_alone("steady", f"{variant}, alone", members[0], begin, end, 5 * unit)
            self.measure("steady", variant, members,
                         lambda reports, members=members, begin=begin, end=end: self.latency_rows(
                             members, reports, begin, end, 5 * unit))

    # --- Unlike programs, and caps by kind ---

    def unlike(self):
        unit = self.unit
        span = ((0.0, 5.3 * unit),)
        native = {}
        for variant, loads, shares in MIXES:
            members = [Member(f"{load}{i}", load, share, span)
                       for i, (load, share) in enumerate(zip(loads, shares))]

            def summarize(reports, members=members):
                return {"windows": self.training_windows(
                    members, reports, 0.2 * unit, 5.2 * unit, 5 * unit)}

            ways = list(self.ways)
            if "native" in ways and loads in native:
                # Natively there are no shares: what was measured of the same loads holds.
                self.results["unlike"].setdefault(variant, {})["native"] = native[loads]
                ways.remove("native")
            self.measure("unlike", variant, members, summarize, ways)
            found = self.results["unlike"].get(variant, {})
            if "native" in found:
                native[loads] = found["native"]

    def kinds(self):
        unit = self.unit
        for kind in KINDS:
            for cap in CAPS:
                members = [Member(kind, kind, cap, ((0.0, 5.3 * unit),), cap=True)]
                charged = []
                self.measure("kinds", f"{kind} {cap}", members,
                             lambda reports, members=members, charged=charged: {
                                 "charged_percent": charged[-1] if charged else None,
                                 "share_by_100_ms": [windows.share_series(
                                     r["iterations_in_bin"], self.cost_us(m), 0.0, 5.2 * unit)
                                     for m, r in zip(members, reports)],
                                 "windows": self.training_windows(
                                     members, reports, 0.2 * unit, 5.2 * unit, 5 * unit)},
                             during=lambda charged=charged: charged.append(self.charged()))

    def charged(self):
        """What the daemon charges the one tenant for two seconds from now, in per cent of the GPU: beside
        what its iterations cost alone, it tells a wrong charge from a gate that stood closed. None where
        the daemon does not say; never a reason to fail."""
        def used():
            tenants = json.loads(self.suite.fleet.divvy_command("ps", "-o", "json"))["items"]
            return time.monotonic(), sum(s["usedNanoseconds"] for t in tenants for s in t["slices"])

        try:
            begin, used_before = used()
            time.sleep(2 * self.unit)
            end, used_after = used()
        except (WorkerFailed, subprocess.SubprocessError, ValueError, KeyError):
            return None
        return 1e-7 * (used_after - used_before) / (end - begin)

    # --- Many servers ---

    def density(self):
        rate = CROWD_LOAD / (CROWDS[-1] * REQUEST_MS / 1e3)
        for count in CROWDS:
            for pattern in ("spread", "instants"):
                if count == 1 and pattern == "instants":
                    continue  # one server's requests are both
                self.crowd(count, pattern, rate)

    def crowd(self, count, pattern, rate):
        span = ((0.0, 5 * self.unit),)
        share = f"{int(1000 / count) / 1000:g}"
        latency = [Member(f"server{i}", "server", share, span, "latency", rate=rate,
                          seed=100 + (i if pattern == "spread" else 0),
                          memory="2GiB", mps_threads=100) for i in range(count)]
        batch = [dataclasses.replace(member, tenant_class="") for member in latency]
        used = []

        def during():
            try:
                used.append(machine.Nvml().used())
            except (OSError, AttributeError):
                pass

        def summarize(reports):
            found = crowd_figures([r["due_ms"] for r in reports],
                                  [r["latencies_ms"] for r in reports], span[0][1])
            return {**found, "memory_used_bytes": used[-1] if used else None}

        variant = f"{count} {pattern}"
        plain = [way for way in self.ways if way in ("native", "mps")]
        self.measure("density", variant, batch, summarize, plain, during)
        if "divvy" in self.ways:
            for name, members in (("latency class", latency), ("default class", batch)):
                self.measure("density", f"{variant}, {name}", members, summarize, ("divvy",),
                             during)
        self.queue_bound(variant, batch)

    def queue_bound(self, variant, members):
        """First come, first served, computed from the same arrivals with the time that one request
        takes alone: the middle latency of one server, natively."""
        alone = self.results["density"].get("1 spread", {}).get("native")
        mine = next((found for name, ways in self.results["density"].items()
                     for found in ways.values() if name.startswith(variant) and "due_ms" in found),
                    None)
        if not alone or not mine:
            return
        served = windows.first_come_first_served(mine["due_ms"], alone["p50"])
        found = crowd_figures(mine["due_ms"], served, members[0].spans[0][1])
        found.pop("due_ms")
        self.results["density"].setdefault(variant, {})["fcfs"] = found


def crowd_figures(dues, latencies, seconds):
    every = [latency for own in latencies for latency in own]
    worst = max((stats.percentile(own, 0.99) for own in latencies if own), default=0.0)
    return {**stats.summary(every), "worst_p99": worst, "requests_per_second": len(every) / seconds,
            "due_ms": dues}
