"""Plots of the results, by matplotlib where it is installed. A machine with a GPU need not have it:
`run --redraw` draws on another one."""
import report
import stats
from judge import STALL_MS

NAMES = {"alone": "alone", "native": "native", "short": "short time slice", "mps": "MPS",
         "mps_priority": "MPS, priority", "mps_threads": "MPS, 30 % threads", "divvy": "Divvy",
         "divvy_mps": "Divvy over MPS", "fcfs": "first come, first served"}
COLOURS = {"alone": "0.6", "native": "tab:blue", "short": "tab:cyan", "mps": "tab:green",
           "mps_priority": "tab:green", "mps_threads": "tab:olive", "divvy": "tab:red",
           "divvy_mps": "tab:purple", "fcfs": "black"}


def library():
    """matplotlib.pyplot, drawing to files; None where it is not installed."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot
    return pyplot


def grid_of(pyplot, count, columns, width=5.5, height=3.4, **options):
    """(figure, axes in order); axes that are left over are not shown."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(width * columns, height * rows),
                                   squeeze=False, layout="constrained", **options)
    found = list(axes.flat)
    for axis in found[count:]:
        axis.set_visible(False)
    return figure, found[:count]


def plain_log(axis):
    """A logarithmic scale with 1, 2, 5, 10, ... written out."""
    from matplotlib import ticker
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axis.set_minor_formatter(ticker.NullFormatter())


def in_order(found):
    return [way for way in NAMES if way in found]


# --- The classic cases ---


def share_bars(results):
    """(label, parts in per cent, guarantees) for each case and way of sharing that was measured."""
    bars = []
    for case, workload, guarantees in (("pair", "resnet", (30, 70)),
                                       ("four", "resnet", (10, 20, 30, 40)),
                                       ("launchbound", "gpt2", (50, 50))):
        for way in in_order(results.get(case, {})):
            found = results[case][way]
            parts = (report.averaged_pair(results, found) if case == "launchbound" else
                     report.percents(results, workload, found))
            if parts:
                bars.append((f"{len(guarantees)} {workload}, {NAMES[way]}", parts, guarantees))
    return bars


def draw_shares(pyplot, results):
    bars = share_bars(results)
    if not bars:
        return None
    figure, axis = pyplot.subplots(figsize=(10, 1.2 + 0.42 * len(bars)), layout="constrained")
    for index, (_, parts, guarantees) in enumerate(bars):
        left = 0.0
        for part, (value, guarantee) in enumerate(zip(parts, guarantees)):
            axis.barh(index, value, left=left, color=f"C{part}", edgecolor="white", height=0.7)
            axis.text(left + value / 2, index, f"{value:.1f}", ha="center", va="center",
                      color="white", fontsize=8)
            if value >= guarantee:  # the white line inside a part is its guarantee
                axis.plot([left + guarantee] * 2, [index - 0.3, index + 0.3], color="white", lw=1)
            left += value
    axis.set_yticks(range(len(bars)), [label for label, _, _ in bars])
    axis.invert_yaxis()
    axis.axvline(100, color="black", lw=0.8)
    axis.set_xlabel("throughput of each tenant, % of running alone (white line: its guarantee)")
    return figure


def draw_latency(pyplot, results):
    found = results.get("latency", {})
    ways = [way for way in in_order(found) if found[way][0]["latencies_ms"]]
    if not ways:
        return None
    figure, axis = pyplot.subplots(figsize=(8, 4.8), layout="constrained")
    for way in ways:
        ordered = sorted(found[way][0]["latencies_ms"])
        p99 = stats.percentile(ordered, 0.99)
        axis.plot(ordered, [1 - rank / len(ordered) for rank in range(len(ordered))],
                  color=COLOURS[way], label=f"{NAMES[way]}: p99 {p99:.1f} ms")
    axis.set(xscale="log", yscale="log", xlabel="latency in ms", ylabel="part that is slower",
             title="graph at 200 requests/s beside training")
    plain_log(axis.xaxis)
    plain_log(axis.yaxis)
    axis.grid(alpha=0.3, which="both")
    axis.legend(fontsize=8)
    return figure


def draw_jitter(pyplot, results):
    found = results.get("pair", {})
    ways = [way for way in in_order(found) if found[way][0].get("times_ms")]
    if not ways:
        return None
    figure, axis = pyplot.subplots(figsize=(8, 4.8), layout="constrained")
    for way in ways:
        times = found[way][0]["times_ms"]
        middle = stats.median(times)
        count = max(1, len(times) - 1)
        axis.plot([i / count for i in range(len(times))], [t / middle for t in times], lw=1,
                  color=COLOURS[way], label=f"{NAMES[way]}: max {max(times) / middle:.2f}")
    axis.set(xlabel="part of the window", ylabel="iteration time ÷ own median", ylim=(0, None),
             title="iterations of the 30 % tenant")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    return figure


# --- The light and torch cases ---


def draw_arrivals(pyplot, results):
    """p99 of each second; a mark above it is the slowest request of the second."""
    cases = [(case, variant, found) for case in ("arrive", "arrivetorch")
             for variant, found in results.get(case, {}).items() if variant != "alone" and found]
    if not cases:
        return None
    figure, axes = grid_of(pyplot, len(cases), 2, sharey=True)
    for axis, (case, variant, found) in zip(axes, cases):
        alone = results[case].get("alone", {}).get("native")
        for way, data in ([("alone", alone)] if alone else []) + [
                (way, found[way]) for way in in_order(found)]:
            rows = [row for row in data["windows"] if "p99" in row]
            moments = [row["from"] for row in rows]
            axis.plot(moments, [row["p99"] for row in rows], color=COLOURS[way], marker=".",
                      label=NAMES[way])
            if way != "alone":
                axis.scatter(moments, [row["max"] for row in rows], color=COLOURS[way], marker="_",
                             s=30, alpha=0.7)
        arrived = found.get("divvy", found.get("native", {})).get("arrived_s")
        if arrived:
            axis.axvline(arrived[0], color="0.5", ls=":", lw=1)
        axis.axhline(STALL_MS, color="0.5", ls="--", lw=0.8)
        axis.set(yscale="log", xlabel="window from, s", ylabel="request latency, ms",
                 title=f"{case}: {variant}")
        plain_log(axis.yaxis)
        axis.grid(alpha=0.3)
    low, high = axes[0].get_ylim()
    axes[0].set_ylim(low, high * (high / low) ** 0.35)  # room for the legend
    axes[0].legend(fontsize=8, title="line: p99, dash: max", title_fontsize=8, ncols=3,
                   loc="upper center")
    return figure


def draw_returns(pyplot, results):
    found = results.get("returns", {}).get("after contention", {})
    ways = in_order(found)
    if not ways:
        return None
    figure, axes = grid_of(pyplot, len(ways), 1, width=9, height=2.8, sharex=True, sharey=True)
    for axis, way in zip(axes, ways):
        for name, series in zip(("A, which resumes", "B, which is new"),
                                found[way]["share_by_100_ms"]):
            axis.step([0.1 * i for i in range(len(series))], series, where="post", label=name)
        axis.axhline(50, color="0.5", ls="--", lw=0.8)
        axis.set(ylabel="GPU time, %", title=NAMES[way], ylim=(0, 105))
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8, loc="upper right")
    axes[-1].set_xlabel("seconds after A resumed, in bins of 100 ms")
    return figure


def crowd_lines(results, pattern, field):
    """{label: (colour, line style, [(servers, value)])}"""
    lines = {}
    for variant, found in results.get("density", {}).items():
        name, _, tenant_class = variant.partition(", ")
        count, kind = name.split()
        if kind != pattern and int(count) != 1:
            continue
        for way in in_order(found):
            if found[way].get(field) is None:
                continue
            label = NAMES[way] + (f", {tenant_class}" if tenant_class else "")
            style = "--" if tenant_class == "default class" else "-"
            line = lines.setdefault(label, (COLOURS[way], style, []))
            line[2].append((int(count), found[way][field]))
    return lines


def draw_density(pyplot, results):
    panels = [(pattern, field, crowd_lines(results, pattern, field))
              for pattern in ("spread", "instants") for field in ("p50", "p99")]
    if not any(lines for _, _, lines in panels):
        return None
    figure, axes = grid_of(pyplot, len(panels), 2)
    titles = {"spread": "requests spread", "instants": "requests at the same instants"}
    for axis, (pattern, field, lines) in zip(axes, panels):
        for label, (colour, style, points) in lines.items():
            points = sorted(points)
            axis.plot([p[0] for p in points], [p[1] for p in points], color=colour, ls=style,
                      marker="o", ms=4, label=label)
        counts = sorted({p[0] for line in lines.values() for p in line[2]})
        axis.set(xlabel="servers", ylabel=f"{field}, ms", title=f"{titles[pattern]}: {field}",
                 xticks=counts, ylim=(0, None))
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    return figure


def draw_caps(pyplot, results):
    found = {}
    for case in ("kinds", "kindstorch"):
        for variant, ways in results.get(case, {}).items():
            kind, cap = variant.rsplit(" ", 1)
            for window in ways.get("divvy", {}).get("windows", []):
                if window.get("shares"):
                    found.setdefault(kind, []).append((100 * float(cap), window["shares"][0]))
    if not found:
        return None
    caps = sorted({cap for points in found.values() for cap, _ in points})
    figure, axis = pyplot.subplots(figsize=(2 + 1.4 * len(found), 4.6), layout="constrained")
    width = 0.8 / len(caps)
    for index, cap in enumerate(caps):
        axis.axhline(cap, color=f"C{index}", ls="--", lw=0.8)
        for place, points in enumerate(found.values()):
            for value in (v for c, v in points if c == cap):
                x = place + (index - (len(caps) - 1) / 2) * width
                axis.bar(x, value, width=0.9 * width, color=f"C{index}",
                         label=f"capped at {cap:.0f} %" if place == 0 else None)
                axis.text(x, value + 0.8, f"{value:.1f}", ha="center", fontsize=7,
                          bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})
    axis.set_xticks(range(len(found)), list(found))
    axis.set(ylabel="GPU time, %", title="each kind of load alone under a cap",
             ylim=(0, max(caps) * 1.25))
    axis.legend(fontsize=8, ncols=len(caps), loc="upper right")
    return figure


PICTURES = (("shares.png", draw_shares), ("latency.png", draw_latency), ("jitter.png", draw_jitter),
            ("arrivals.png", draw_arrivals), ("returns.png", draw_returns),
            ("density.png", draw_density), ("caps.png", draw_caps))


def write(results, folder, say=print):
    """The pictures for which there is something to show. Returns their names."""
    pyplot = library()
    if pyplot is None:
        say("matplotlib is not installed here: no plots (run --redraw draws them elsewhere)")
        return []
    written = []
    for name, draw in PICTURES:
        figure = draw(pyplot, results)
        if figure:
            figure.savefig(folder / name, dpi=110)
            pyplot.close(figure)
            written.append(name)
    return written
