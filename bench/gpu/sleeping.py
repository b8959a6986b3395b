"""Workloads that only sleep, with the interface of workloads.py: for tests of the bench itself.

Chosen with DIVVY_BENCH_WORKLOADS=sleeping; DIVVY_BENCH_BREAK=NAME makes the workload NAME fail.
"""
import os
import time


class Sleeping:
    period = 0.005

    def __init__(self, name):
        self.name = name

    def prepare(self):
        if os.environ.get("DIVVY_BENCH_BREAK") == self.name:
            raise RuntimeError(f"{self.name} was told to fail")

    def loop(self, start, stop):
        time.sleep(max(0.0, start - time.monotonic()))
        ends = []
        while time.monotonic() < stop:
            time.sleep(self.period)
            ends.append(time.monotonic())
        return ends

    def serve(self, arrivals):
        latencies = []
        for arrival in arrivals:
            time.sleep(max(0.0, arrival - time.monotonic()))
            latencies.append(time.monotonic() - arrival)
        return latencies

    def allocate(self, chunk_bytes):
        return {"allocated_bytes": 36 * chunk_bytes, "reserved_bytes": 36 * chunk_bytes,
                "free_bytes": 0, "total_bytes": 40 * chunk_bytes, "error": "out of memory"}
