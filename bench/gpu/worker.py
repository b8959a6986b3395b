"""One process of the bench: holds one workload and measures when told to.

Started by fleet.py as `worker.py WORKLOAD`. Talks in lines of JSON: commands on standard input,
answers on what was standard output. Moments are those of CLOCK_MONOTONIC, which all processes of a
machine share, so that the workers of a case begin together.

  {"do": "loop", "start": T, "ramp": s, "seconds": s, "tail": s}   iterate; counted is the window
                                                    from T + ramp on; the tail keeps it contended
  {"do": "serve", "start": T, "ramp": s, "seconds": s, "rate": r, "seed": n}
  {"do": "allocate", "chunk_bytes": n}
"""
import gc
import json
import os
import sys
import time
import traceback

import stats

KEPT_TIMES = 5000  # more single times than this are not worth their place in the results
KEPT_ENDS = 100_000


def make(name):
    if os.environ.get("DIVVY_BENCH_WORKLOADS") == "sleeping":
        import sleeping
        return sleeping.Sleeping(name)
    import torch
    torch.set_num_threads(2)
    import workloads
    return workloads.WORKLOADS[name]()


def loop(workload, command):
    start = command["start"]
    begin = start + command["ramp"]
    end = begin + command["seconds"]
    ends = workload.loop(start, end + command["tail"])
    done = stats.completed_between(begin, end, start, ends)
    times = [1e3 * t for t in stats.times_between(begin, end, start, ends)]
    return {
        "iterations": done,
        "seconds": command["seconds"],
        "iterations_per_second": done / command["seconds"],
        "iteration_ms": stats.summary(times),
        "times_ms": [round(t, 4) for t in times] if len(times) <= KEPT_TIMES else [],
        # From the first millisecond on, for whoever asks how it began.
        "ends_ms": [round(1e3 * (e - start), 3) for e in ends[:KEPT_ENDS]],
        "work_ms": getattr(workload, "work_ms", None),
    }


def serve(workload, command):
    span = command["ramp"] + command["seconds"]
    arrivals = stats.poisson_arrivals(command["rate"], span, command["seed"])
    latencies = workload.serve([command["start"] + a for a in arrivals])
    counted = [1e3 * l for a, l in zip(arrivals, latencies) if a >= command["ramp"]]
    dues = [1e3 * a for a in arrivals if a >= command["ramp"]]
    return {
        "requests": len(counted),
        "rate": command["rate"],
        "seconds": command["seconds"],
        "latency_ms": stats.summary(counted),
        "due_ms": [round(d, 3) for d in dues],
        "latencies_ms": [round(l, 4) for l in counted],
    }


def main():
    # Libraries print to standard output when they like; the answers need a channel of their own.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(**fields):
        answers.write(json.dumps(fields) + "\n")

    phases = {"started": time.monotonic()}
    try:
        workload = make(sys.argv[1])
        phases["imported"] = time.monotonic()
        workload.prepare()
        phases["built"] = getattr(workload, "built_at", time.monotonic())
        phases["warm"] = time.monotonic()
    except Exception as error:
        traceback.print_exc()
        answer(event="error", message=f"{type(error).__name__}: {error}")
        return 1
    answer(event="ready", phases=phases)
    for line in sys.stdin:
        command = json.loads(line)
        gc.collect()
        gc.disable()
        try:
            if command["do"] == "loop":
                result = loop(workload, command)
            elif command["do"] == "serve":
                result = serve(workload, command)
            else:
                result = workload.allocate(command["chunk_bytes"])
            answer(event="done", result=result)
        except Exception as error:
            traceback.print_exc()
            answer(event="error", message=f"{type(error).__name__}: {error}")
        finally:
            gc.enable()
    # The process ends without the interpreter's own clean-up, which takes seconds with CUDA.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
