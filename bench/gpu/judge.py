"""Judges the cases of light.py and torch_cases.py. Pure: results in, rows out.

Every window counts: a demand is met when it is met in all of them. A figure that was not measured
gives no verdict (None).
"""
import dataclasses

DASH = "–"
WAYS = ("native", "short", "mps", "divvy")
POINT = 1.0        # of GPU time, in per cent
LATENCY = 1.15     # times alone
STALL_MS = 20.0
NOISE = 1.02       # two measurements of the same thing differ by as much


@dataclasses.dataclass
class Row:
    case: str
    native: str = DASH
    short: str = DASH
    mps: str = DASH
    divvy: str = DASH
    must: str = ""
    met: bool | None = None


def row_of(title, found, text, must, met):
    """`text` of each way that was measured; `met` is asked only when Divvy was."""
    row = Row(title, must=must)
    for way in WAYS:
        if way in found:
            setattr(row, way, text(found[way]))
    if "divvy" in found:
        row.met = met(found["divvy"])
    return row


def number(value, digits=1):
    return DASH if value is None else f"{value:.{digits}f}"


def span_text(values, digits=1):
    values = [v for v in values if v is not None]
    if not values:
        return DASH
    low, high = min(values), max(values)
    return number(low, digits) if low == high else f"{low:.{digits}f} to {high:.{digits}f}"


def sum_text(parts):
    return " + ".join(f"{p:.1f}" for p in parts) + (
        f" = {sum(parts):.1f}" if len(parts) > 1 else "")


# --- A training arrives ---


def latency_limits(native, alone):
    """By the moment a window begins: no worse than natively, or hardly worse than alone."""
    limits = {}
    for found, factor in ((native, 1.0), (alone, LATENCY)):
        for window in (found or {}).get("windows", []):
            if "p99" in window:
                limits[window["from"]] = max(limits.get(window["from"], 0.0),
                                             factor * window["p99"])
    return limits


def bad_seconds(found, native, alone):
    limits = latency_limits(native, alone)
    return [w for w in found["windows"]
            if "p99" in w and w["from"] in limits and w["p99"] > limits[w["from"]]]


def arrival_text(found):
    rows = [w for w in found["windows"] if "p99" in w]
    worst = max(rows, key=lambda w: w["p99"], default=None)
    if worst is None:
        return DASH
    return (f"worst second (at {worst['from']:.0f} s): p50 {worst['p50']:.1f}, "
            f"p99 {worst['p99']:.1f}; max {found['all']['max']:.1f} ms")


def arrival_rows(results, case):
    rows = []
    alone = results.get(case, {}).get("alone", {}).get("native")
    for variant, found in results.get(case, {}).items():
        if variant == "alone":
            continue
        native = found.get("native")

        def met(divvy, native=native):
            if not native or not alone:
                return None
            return (not bad_seconds(divvy, native, alone) and
                    divvy["all"]["max"] <= max(STALL_MS, native["all"]["max"]))

        row = row_of(f"{case}: {variant}", found, arrival_text,
                     "no second worse than natively or than 1.15 × alone; max ≤ 20 ms unless "
                     "native's is longer", met)
        if "divvy" in found and native and alone:
            row.divvy += f"; {len(bad_seconds(found['divvy'], native, alone))} seconds too slow"
        rows.append(row)
    return rows


# --- Returns and kills ---


def returns_rows(results):
    rows = []
    found = results.get("returns", {})
    if "after contention" in found:
        def text(way):
            parts = "; ".join(sum_text(w["shares"]) for w in way["windows"])
            return f"first iteration after {number(way['first_ms'])} ms; {parts}"

        rows.append(row_of(
            "returns: after contention, 50/50", found["after contention"], text,
            "each within 1 point of 50 in all windows after the first 200 ms",
            lambda divvy: all(abs(s - 50) <= POINT for w in divvy["windows"] for s in w["shares"])))
    if "random pauses" in found:
        native = found["random pauses"].get("native")

        def longest(way):
            times = [r["first_ms"] for r in way["rounds"]]
            return float("inf") if None in times else max(times)

        def text_pauses(way):
            worst = max(abs(r["share"] - r["fair"]) for r in way["rounds"])
            return (f"first iteration after at most {longest(way):.1f} ms; share in the second "
                    f"after: at most {worst:.1f} points from fair")

        rows.append(row_of(
            "returns: two with random pauses", found["random pauses"], text_pauses,
            "no first iteration later than the latest natively or 20 ms",
            lambda divvy: None if not native else longest(divvy) <= max(STALL_MS, longest(native))))
    return rows


def kills_rows(results):
    rows = []
    for variant, found in results.get("kills", {}).items():
        def text(way):
            return f"longest {way['longest_ms']:.1f}, median {way['median_ms']:.1f} ms"

        rows.append(row_of(f"kills: {variant}, the survivor's iterations", found, text,
                           "longest ≤ 2 × median + 20 ms",
                           lambda d: d["longest_ms"] <= 2 * d["median_ms"] + STALL_MS))
    return rows


# --- A server beside training ---


def ratios(found, alone):
    """p99 of each window against the same requests alone; None where one is missing."""
    base = {w["from"]: w.get("p99") for w in (alone or {}).get("windows", [])}
    return [w["p99"] / base[w["from"]] if w.get("p99") and base.get(w["from"]) else None
            for w in found["windows"]]


def steady_rows(results):
    rows = []
    cases = results.get("steady", {})
    for variant, least in (("server + training", (62.0,)), ("three tenants", (19.0, 49.0))):
        found = cases.get(variant)
        alone = cases.get(f"{variant}, alone", {}).get("native")
        if not found:
            continue

        def text(way, alone=alone):
            trainings = zip(*(w["speeds"] for w in way["windows"]))
            return (f"p99 {span_text([w.get('p99') for w in way['windows']])} ms "
                    f"({span_text(ratios(way, alone), 2)} ×), training "
                    + " and ".join(span_text(t) for t in trainings) + " %")

        def met(divvy, alone=alone, least=least):
            found = ratios(divvy, alone)
            if None in found:
                return None
            return all(r <= LATENCY for r in found) and all(
                s >= low for w in divvy["windows"] for s, low in zip(w["speeds"], least))

        count = len(found["divvy"]["windows"]) if "divvy" in found else "all"
        wanted = " and ".join(f"≥ {low:.0f}" for low in least)
        rows.append(row_of(f"steady: {variant}", found, text,
                           f"p99 ≤ 1.15 × alone and training {wanted} % in {count} of {count} "
                           "windows", met))
    return rows


# --- Unlike programs, caps by kind ---


def guarantees(variant):
    return [float(part) for part in variant.split()[-1].split("/")]


def unlike_rows(results, case):
    rows = []
    for variant, found in results.get(case, {}).items():
        shares = guarantees(variant)
        native = found.get("native")

        def text(way):
            return "; ".join(sum_text(w["speeds"]) for w in way["windows"])

        def within(divvy, shares=shares):
            return all(abs(s - g) <= POINT for w in divvy["windows"]
                       for s, g in zip(w["shares"], shares)) and all(
                           sum(w["speeds"]) >= 98 for w in divvy["windows"])

        def least(divvy, shares=shares, native=native):
            # Nobody gets more of a guarantee than it can use: what it has natively, where that is less.
            usable = [min(g, *(w["speeds"][i] for w in native["windows"])) if native else g
                      for i, g in enumerate(shares)]
            return all(s >= g - POINT for w in divvy["windows"]
                       for s, g in zip(w["speeds"], usable))

        def as_native(divvy, native=native):
            if not native:
                return None
            return all(NOISE * d >= n for dw, nw in zip(divvy["windows"], native["windows"])
                       for d, n in zip(dw["speeds"], nw["speeds"]))

        if "plain + plain" in variant or variant.startswith("four"):
            must, met = "each within 1 point of its share of GPU time, sum ≥ 98", within
        elif "long" in variant:
            must, met = "each ≥ native's (− 2 % noise)", as_native
        else:
            must, met = "each ≥ its guarantee (or what it has natively, if less) − 1 point", least
        rows.append(row_of(f"{case}: {variant}", found, text, must, met))
        if "divvy_mps" in found:
            rows.append(over_mps_row(f"{case}: {variant}, `--mode mps`", found, text))
    return rows


def over_mps_row(title, found, text):
    row = Row(title, divvy=text(found["divvy_mps"]), must="sum ≥ that of MPS in every window")
    if "mps" in found:
        row.mps = text(found["mps"])
        row.met = all(sum(d["speeds"]) >= sum(m["speeds"]) for d, m in
                      zip(found["divvy_mps"]["windows"], found["mps"]["windows"]))
    return row


def cap_holds(window, cap, busy):
    """A load that wants more than the cap gets the cap; one that wants less is not slowed down."""
    if busy >= cap + POINT:
        return abs(window["shares"][0] - cap) <= POINT
    return window["speeds"][0] >= 97.0


def kinds_rows(results):
    rows = {}
    for case, alone in (("kinds", results.get("loads_alone", {})), ("kindstorch", {})):
        for variant, found in results.get(case, {}).items():
            if "divvy" not in found:
                continue
            kind, cap = variant.rsplit(" ", 1)
            busy = alone.get(kind, {}).get("busy_percent", 100.0)
            title = f"{case}: {kind}, {min(busy, 100):.0f} % busy alone, capped"
            row = rows.setdefault(title, Row(
                title, divvy="", met=True,
                must="GPU time within 1 point of the cap; speed ≥ 97 % where it wants less"))
            for window in found["divvy"]["windows"]:
                shares = window.get("shares")
                row.divvy += (f"{'; ' if row.divvy else ''}{100 * float(cap):.0f}: "
                              f"{number(shares[0] if shares else None)} % of GPU time, "
                              f"speed {window['speeds'][0]:.1f} %")
                if not shares:
                    row.met = None
                elif row.met is not None:
                    row.met = row.met and cap_holds(window, 100 * float(cap), busy)
    return list(rows.values())


# --- Many servers ---


def crowd_text(found):
    if not found.get("count"):
        return DASH
    memory = found.get("memory_used_bytes")
    return (f"p50 {found['p50']:.1f}, p99 {found['p99']:.1f}, worst server's p99 "
            f"{found['worst_p99']:.1f}, max {found['max']:.1f} ms; "
            f"{found['requests_per_second']:.0f}/s"
            + (f"; {memory / 2**30:.1f} GiB" if memory else ""))


def density_rows(results):
    rows = []
    cases = results.get("density", {})
    for variant, found in cases.items():
        if "," not in variant:
            continue
        base = cases.get(variant.split(",")[0], {})
        native, fcfs = base.get("native"), base.get("fcfs")

        def met(divvy, native=native, fcfs=fcfs):
            if not native or not fcfs or not divvy.get("count"):
                return None
            return (all(divvy[field] <= NOISE * native[field]
                        for field in ("p50", "p99", "worst_p99")) and
                    divvy["p99"] <= 1.3 * fcfs["p99"])

        title = f"density: {variant}"
        if fcfs:
            title += f" (first come, first served: p50 {fcfs['p50']:.1f}, p99 {fcfs['p99']:.1f})"
        rows.append(row_of(title, {**base, **found}, crowd_text,
                           "p50, p99 and worst server's p99 ≤ native's (+ 2 % noise), "
                           "p99 ≤ 1.3 × first come, first served", met))
    return rows


def rows(results):
    return [*arrival_rows(results, "arrive"), *arrival_rows(results, "arrivetorch"),
            *returns_rows(results), *kills_rows(results), *steady_rows(results),
            *unlike_rows(results, "unlike"), *unlike_rows(results, "unliketorch"),
            *kinds_rows(results), *density_rows(results)]
