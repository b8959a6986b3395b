"""Every window of the cases as tables: nothing is left out because it looks bad. Pure."""
from judge import DASH, WAYS, number

NAMES = {"native": "native", "short": "short time slice", "mps": "MPS", "divvy": "Divvy"}


def grid(title, first, ways, lines):
    """`lines`: (label, {way: text})."""
    yield from ("", f"### {title}", "", f"| {first} | " + " | ".join(NAMES[w] for w in ways) + " |",
                "|---" * (len(ways) + 1) + "|")
    for label, texts in lines:
        yield f"| {label} | " + " | ".join(texts.get(w, DASH) for w in ways) + " |"


def latency_cell(window):
    text = f"{number(window.get('p50'))} / {number(window.get('p99'))} / {number(window.get('max'))}"
    speeds = window.get("speeds")
    return text + (f"; {' + '.join(f'{s:.0f}' for s in speeds)} %" if speeds else "")


def by_window(found, field, cell):
    """(from, {way: text}) for every window of any way."""
    lines = {}
    for way, data in found.items():
        for window in data.get(field, []):
            lines.setdefault(window["from"], {})[way] = cell(window)
    return sorted(lines.items())


def share_cell(window):
    return " + ".join(f"{s:.1f}" for s in window["shares"])


def round_cell(window):
    return f"{number(window['first_ms'])} ms; {window['share']:.0f} (fair {window['fair']:.0f})"


def tables(results):
    lines = []

    def add(title, first, found, field, cell):
        ways = [way for way in WAYS if way in found]
        rows = [(f"{moment:.1f}", texts) for moment, texts in by_window(found, field, cell)]
        if ways and rows:
            lines.extend(grid(title, first, ways, rows))

    for case in ("arrive", "arrivetorch", "steady"):
        for variant, found in results.get(case, {}).items():
            add(f"{case}: {variant}: p50 / p99 / max in ms; training in % of alone", "from, s",
                found, "windows", latency_cell)
    for way, data in results.get("arrivetorch", {}).get("process starts", {}).items():
        if "phases" in data:
            lines += ["", f"arrivetorch, {NAMES.get(way, way)}: the training process "
                      + ", ".join(f"{name} at {moment:.1f} s"
                                  for name, moment in data["phases"].items()) + "."]
    for variant, found in results.get("returns", {}).items():
        add(f"returns: {variant}: shares of GPU time, %", "from, s", found, "seconds", share_cell)
        rounds = {way: {"rounds": [{"from": r["at"], **r} for r in data["rounds"]]}
                  for way, data in found.items() if "rounds" in data}
        add(f"returns: {variant}: first iteration, and share in the second after, %",
            "resumed, s", rounds, "rounds", round_cell)
    for variant, found in results.get("kills", {}).items():
        for way, data in found.items():
            lines += ["", f"kills: {variant}, {NAMES.get(way, way)}: slowest iterations "
                      + ", ".join(f"{s['ms']:.1f} ms at {s['at']:.2f} s"
                                  for s in data["slowest"]) + "."]
    return ["", "## Every window"] + lines if lines else []
