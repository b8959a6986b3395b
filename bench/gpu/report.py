"""Judges results and writes them as a table. Pure: results in, text out.

A Row has what was measured natively, with the GPU's short time slice, over MPS and with Divvy, what
Divvy must reach, and whether it does: True, False, or None where it was not measured. Here are the
rows of the classic cases; judge.py has the others.
"""
import detail
import judge
import stats
from judge import DASH, Row

GIB = 1 << 30


def alone_rate(results, workload):
    """Iterations a second of the workload alone on the GPU, natively: the middle of its windows."""
    reports = results.get("alone", {}).get(workload, [])
    return stats.median([r["iterations_per_second"] for r in reports]) if reports else None


def percent(results, workload, report):
    """Throughput in per cent of running alone."""
    rate = alone_rate(results, workload)
    return 100 * report["iterations_per_second"] / rate if rate else None


def percents(results, workload, reports):
    found = [percent(results, workload, report) for report in reports or []]
    return [f for f in found if f is not None]


def sum_text(parts):
    if not parts:
        return DASH
    return " + ".join(f"{p:.1f}" for p in parts) + f" = {sum(parts):.1f}"


def cap_row(results, workload, caps):
    row = Row(f"cap {' / '.join(str(round(100 * float(c))) for c in caps)} %, {workload} alone",
              must="within 1 point of the cap")
    found = results.get("caps", {}).get(workload, {})
    measured = [percent(results, workload, found[c]) if c in found else None for c in caps]
    if any(m is not None for m in measured):
        row.divvy = " / ".join(DASH if m is None else f"{m:.1f}" for m in measured) + " %"
        row.met = all(m is not None and abs(m - 100 * float(c)) <= 1.0
                      for c, m in zip(caps, measured))
    return row


def guaranteed_row(results, case, title, guarantees, mode, least_sum, must):
    found = results.get(case, {})
    row = Row(title, must=must)
    row.native = sum_text(percents(results, "resnet", found.get("native")))
    row.mps = sum_text(percents(results, "resnet", found.get("mps")))
    parts = percents(results, "resnet", found.get(mode))
    row.divvy = sum_text(parts)
    if least_sum is None:  # no less than MPS by itself
        mps = percents(results, "resnet", found.get("mps"))
        if not mps:
            return row
        least_sum = sum(mps)
    if parts:
        row.met = (all(p >= g - 1.0 for p, g in zip(parts, guarantees)) and
                   sum(parts) >= least_sum)
    return row


def jitter(reports):
    times = reports[0]["iteration_ms"] if reports else {}
    return times["max"] / times["p50"] if times.get("count") else None


def jitter_row(results):
    found = results.get("pair", {})
    texts = {}
    for mode in ("native", "mps", "divvy"):
        value = jitter(found.get(mode))
        texts[mode] = DASH if value is None else f"{value:.2f}"
    value = jitter(found.get("divvy"))
    return Row("slowest iteration of the 30 % tenant ÷ its median", **texts, must="≤ 1.5",
               met=None if value is None else value <= 1.5)


def latency_text(results, reports, alone_p99):
    if not reports:
        return DASH
    latency = reports[0]["latency_ms"]
    text = f"p50 {latency['p50']:.1f}, p99 {latency['p99']:.1f} ms"
    if alone_p99:
        text += f" ({latency['p99'] / alone_p99:.2f} ×)"
    training = percents(results, "resnet", reports[1:])
    return text + (f", training {training[0]:.1f} %" if training else "")


def latency_row(results):
    found = results.get("latency", {})
    alone = found.get("alone")
    alone_p99 = alone[0]["latency_ms"]["p99"] if alone else None
    title = "graph at 200 req/s beside resnet training"
    if alone:
        title += f" (alone: p50 {alone[0]['latency_ms']['p50']:.1f}, p99 {alone_p99:.1f} ms)"
    row = Row(title, must="p99 ≤ 1.15 × alone and training ≥ 62 %")
    row.native = latency_text(results, found.get("native"), alone_p99)
    over_mps = [
        f"{latency_text(results, found.get(mode), alone_p99)} ({how})"
        for mode, how in (("mps_priority", "priority"), ("mps_threads", "training on 30 % threads"))
        if found.get(mode)]
    row.mps = "; or ".join(over_mps) or DASH
    row.divvy = latency_text(results, found.get("divvy"), alone_p99)
    if found.get("divvy") and alone_p99:
        training = percents(results, "resnet", found["divvy"][1:])
        row.met = (found["divvy"][0]["latency_ms"]["p99"] <= 1.15 * alone_p99 and
                   bool(training) and training[0] >= 62.0)
    return row


def averaged_pair(results, rounds):
    """Two gpt2 were measured several times by turns: the mean of each."""
    rounds = [percents(results, "gpt2", reports) for reports in rounds or []]
    rounds = [r for r in rounds if len(r) == 2]
    return [sum(r[i] for r in rounds) / len(rounds) for i in range(2)] if rounds else []


def launchbound_row(results):
    found = results.get("launchbound", {})
    native = averaged_pair(results, found.get("native"))
    divvy = averaged_pair(results, found.get("divvy"))
    row = Row("two gpt2 (launch-bound), 50/50", sum_text(native),
              mps=sum_text(averaged_pair(results, found.get("mps"))), divvy=sum_text(divvy),
              must="sum ≥ native's, each ≥ 50")
    if native and divvy:
        row.met = sum(divvy) >= sum(native) and min(divvy) >= 50.0
    return row


def memory_row(results):
    row = Row("10 GiB limit, PyTorch allocates till it fails",
              must="stops inside the limit; NVML never shows more")
    found = results.get("memory")
    if found:
        peak = found.get("nvml_peak_bytes")
        seen = "unknown" if peak is None else f"{peak / GIB:.2f} GiB"
        row.divvy = f"stops at {found['reserved_bytes'] / GIB:.2f} GiB; NVML at most {seen}"
        if found.get("error") and peak is not None:
            row.met = found["reserved_bytes"] <= found["limit_bytes"] and (
                peak <= found["limit_bytes"])
        else:
            row.met = False
    return row


def family_holds(found):
    """Refused (or stopped by gpuload's own care, for managed memory) inside the limit."""
    inside = found.get("bytes", 2 * found["limit_bytes"]) <= found["limit_bytes"]
    peak = found.get("nvml_peak_bytes")
    return (found.get("status") == 0 and inside and found.get("stopped") in ("refused", "limit") and
            (peak is None or peak <= found["limit_bytes"]))


def families_row(results):
    row = Row("4 GiB limit, every family of allocation", must="none gets past the limit")
    found = results.get("families")
    if found:
        failing = [f["family"] for f in found if not family_holds(f)]
        row.divvy = f"{len(found) - len(failing)} of {len(found)} hold"
        if failing:
            row.divvy += f" (not: {', '.join(failing)})"
        row.met = not failing
    return row


def shim_cost(pairs):
    """Throughput lost in per cent: the middle of the rounds."""
    return stats.median([100 * (1 - p["divvy"] / p["native"]) for p in pairs if p["native"] > 0])


def shim_row(results):
    row = Row("alone, no cap: cost of the shim", "0", mps="0", must="≤ 0.5 % throughput")
    costs = {w: shim_cost(pairs) for w, pairs in results.get("shim", {}).items() if pairs}
    if costs:
        row.divvy = ", ".join(f"{w} {c:+.2f} %" for w, c in costs.items())
        row.met = all(c <= 0.5 for c in costs.values())
    return row


def call_costs(rounds, mode):
    """Nanoseconds that were added to each call: the middle of the runs."""
    calls = [cost["call"] for cost in rounds[0][mode]]
    return {call: stats.median([cost["added_ns"] for run in rounds for cost in run[mode]
                                if cost["call"] == call]) for call in calls}


def nanoseconds_row(results):
    row = Row("alone, no cap: cost of one call", "0", mps="0",
              must="≤ 20 ns a launch, ≤ 100 ns an alloc + free pair")
    rounds = results.get("nanoseconds")
    if rounds:
        def text(costs):
            return ", ".join(f"{call} {ns:+.0f} ns" for call, ns in costs.items())

        added = call_costs(rounds, "divvy")
        row.native = text(call_costs(rounds, "native"))
        row.divvy = text(added)
        row.met = all(ns <= (20 if call.startswith("launch") else 100)
                      for call, ns in added.items())
    return row


def mps_gates_rows(results):
    """What the arbiter does over MPS. Nothing is demanded of it in figures."""
    found = results.get("mpsgates", {})
    alone = results.get("latency", {}).get("alone")
    alone_p99 = alone[0]["latency_ms"]["p99"] if alone else None
    rows = []
    if found.get("latency"):
        rows.append(Row("graph at 200 req/s beside resnet training, `--mode mps`",
                        divvy=latency_text(results, found["latency"], alone_p99)))
    if found.get("greedy"):
        rows.append(Row("resnet in the latency class (40) beside resnet (60), `--mode mps`",
                        divvy=sum_text(percents(results, "resnet", found["greedy"]))))
    return rows


def rows(results):
    return [
        cap_row(results, "resnet", ("0.25", "0.5", "0.75")),
        cap_row(results, "gemm", ("0.25", "0.5", "0.75")),
        cap_row(results, "graph", ("0.5",)),
        guaranteed_row(results, "pair", "two resnets, 30/70", (30, 70), "divvy", 98.0,
                       "each ≥ its guarantee − 1 point, sum ≥ 98"),
        guaranteed_row(results, "pair", "two resnets, 30/70, `--mode mps`", (30, 70), "divvy_mps",
                       None, "each ≥ its guarantee − 1 point, sum ≥ that of MPS"),
        jitter_row(results),
        latency_row(results),
        guaranteed_row(results, "four", "four resnets, 10/20/30/40", (10, 20, 30, 40), "divvy",
                       98.0, "each ≥ its guarantee − 1 point, sum ≥ 98"),
        launchbound_row(results),
        memory_row(results),
        families_row(results),
        shim_row(results),
        nanoseconds_row(results),
        *mps_gates_rows(results),
        *judge.rows(results),
    ]


def verdict(met):
    return {True: "yes", False: "**no**", None: DASH}[met]


def table(results):
    environment = results.get("environment", {})
    lines = [
        "# Sharing one GPU", "",
        f"{environment.get('date', '?')} · {environment.get('gpu', 'unknown GPU')} · "
        f"driver {environment.get('driver', '?')} · PyTorch {environment.get('torch', '?')} "
        f"(CUDA {environment.get('cuda', '?')}) · {environment.get('cpus', '?')} CPUs · "
        f"commit {environment.get('commit', '?')}", "",
        f"Windows of {results.get('window_seconds', '?')} s. Throughput in per cent of running "
        "alone, measured in the same run.", "",
        "| case | native | short time slice | MPS | Divvy | Divvy must | met |",
        "|---|---|---|---|---|---|---|"]
    for row in rows(results):
        if row.divvy == DASH and row.native in (DASH, "0"):
            continue  # not measured in this run
        lines.append(f"| {row.case} | {row.native} | {row.short} | {row.mps} | {row.divvy} | "
                     f"{row.must} | {verdict(row.met)} |")
    rates = {w: alone_rate(results, w) for w in results.get("alone", {})}
    if rates:
        lines += ["", "Alone: " + ", ".join(
            f"{w} {rate:.2f} iterations/s" for w, rate in sorted(rates.items())) + "."]
    loads = results.get("loads_alone", {})
    if loads:
        lines += ["", "Loads alone: " + ", ".join(
            f"{name} {load['iterations_per_second']:.1f} iterations/s of "
            f"{load['gpu_us_per_iteration']:.0f} us GPU time" for name, load in loads.items()) +
            ". GPU time of gpuload is finished work times what it costs alone, back to back."]
    lines += [""] * bool(results.get("notes")) + [
        f"- Left out: {note}" for note in results.get("notes", [])]
    lines += detail.tables(results)
    failures = results.get("failures", [])
    if failures:
        lines += ["", "## What failed", ""]
        for failure in failures:
            error = " ".join(failure["error"].split())
            lines.append(f"- {failure['case']}, {failure['mode']}: {error}")
    return "\n".join(lines) + "\n"
