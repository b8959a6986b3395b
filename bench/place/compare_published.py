#!/usr/bin/env python3
"""Replays the FGD packing benchmark with `divvy sim pack` and compares with what was published.

    bench/place/compare_published.py --divvy build/release/bin/divvy DATA

DATA is a folder with nodes.csv, pods-TRACE.csv, sequences/TRACE.SEED.txt.gz and published.csv
(columns trace, arrived_pct and one for each policy). Prints, for each trace and policy, the mean
allocation over the sequences at the chosen levels and how far it is from the published one. Exits
with 1 if a published policy is further away than --tolerance.

Which of equally good nodes comes first is drawn by lot, here and in the original, where the lots
cannot be drawn again: the means of five sequences move by up to 0.2 points from seed to seed.
"""
import argparse
import csv
import json
import pathlib
import subprocess
import sys

# Our name and the column of published.csv.
PUBLISHED = {"random": "Random", "dotprod": "DotProd", "clustering": "GpuClustering",
             "packing": "GpuPacking", "bestfit": "BestFit", "fgd": "FGD"}


def read_published(path):
    """{(trace, level): {column: percent}}"""
    with open(path, newline="", encoding="utf-8") as file:
        return {(row["trace"], int(row["arrived_pct"])): {name: float(row[name])
                                                          for name in PUBLISHED.values()}
                for row in csv.DictReader(file)}


def replay(divvy, data, trace, policies, seed):
    """{policy: {level: percent}}, the means over all sequences of the trace."""
    sequences = sorted((data / "sequences").glob(f"{trace}.*.txt*"))
    if not sequences:
        sys.exit(f"{data / 'sequences'}: there is no sequence of {trace}")
    command = [divvy, "sim", "pack", "--nodes", data / "nodes.csv",
               "--pods", data / f"pods-{trace}.csv", "-o", "json"]
    for sequence in sequences:
        command += ["--sequence", sequence]
    for policy in policies:
        command += ["--policy", policy]
    if seed is not None:
        command += ["--seed", str(seed)]
    finished = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if finished.returncode != 0:
        sys.exit(f"divvy sim pack ended with {finished.returncode} on {trace}")
    document = json.loads(finished.stdout)
    reports = document.get("policies", [document])
    return {report["policy"]: {int(level): percent
                               for level, percent in report["mean"]["alloc"].items()}
            for report in reports}


def differences(found, published, trace, levels):
    """A (policy, level, ours, theirs) for each; other policies are compared with FGD."""
    for policy, allocated in found.items():
        column = PUBLISHED.get(policy, "FGD")
        for level in levels:
            if (trace, level) in published and level in allocated:
                yield policy, level, allocated[level], published[trace, level][column]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=pathlib.Path, help="folder of the benchmark")
    parser.add_argument("--divvy", default="divvy", help="the program (default: from the PATH)")
    parser.add_argument("--traces", help="only these, separated by commas (default: all)")
    parser.add_argument("--policies", default=",".join(PUBLISHED) + ",divvy",
                        help="separated by commas (default: %(default)s)")
    parser.add_argument("--levels", default="95,100,130", help="default: %(default)s")
    parser.add_argument("--seed", type=int, help="as for divvy sim pack")
    parser.add_argument("--tolerance", type=float, default=0.5,
                        help="points that a published policy may be away at 100 and above "
                        "(default: %(default)s)")
    options = parser.parse_args()

    published = read_published(options.data / "published.csv")
    traces = (options.traces.split(",") if options.traces else
              list(dict.fromkeys(trace for trace, _ in published)))
    policies = options.policies.split(",")
    levels = [int(level) for level in options.levels.split(",")]
    print(f"{'trace':<12}{'policy':<12}" +
          "".join(f"{'at ' + str(level):>10}{'diff':>8}" for level in levels), flush=True)
    misses, distances = [], []
    for trace in traces:
        found = replay(options.divvy, options.data, trace, policies, options.seed)
        for policy in policies:
            cells = ""
            for name, level, ours, theirs in differences({policy: found[policy]}, published, trace,
                                                         levels):
                cells += f"{ours:>10.3f}{ours - theirs:>+8.3f}"
                if name in PUBLISHED and level >= 100:
                    distances.append(abs(ours - theirs))
                    if distances[-1] > options.tolerance:
                        misses.append(f"{trace} {name} at {level}: {ours - theirs:+.3f}")
            print(f"{trace:<12}{policy:<12}{cells}", flush=True)
    if distances:
        print(f"\n{len(distances)} published means at 100 and above: mean distance "
              f"{sum(distances) / len(distances):.3f}, largest {max(distances):.3f} points. "
              f"What is not published is compared with FGD.")
    for miss in misses:
        print("too far away:", miss)
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
