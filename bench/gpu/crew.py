"""Several gpuload processes that begin at one moment, and the ways in which they get at the GPU.

Used by the cases on one thread. Everything started here has ended when run() returns or raises.
"""
import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import time

import fleet
from fleet import Mps, Native, Slice, WorkerFailed

WAYS = ("native", "short", "mps", "divvy")
READY_SECONDS = 60


class WayMissing(Exception):
    """This machine does not offer this way; says why."""


def how(way, member, beside_latency=False):
    """How a member gets at the GPU. MPS has no shares of time: a share becomes a part of the threads,
    and whoever runs beside the latency class gets the lower priority."""
    if way == "mps":
        if beside_latency:
            return Mps(100, priority=0 if member.tenant_class == "latency" else 1)
        return Mps(member.mps_threads or max(1, round(100 * float(member.share))))
    if way.startswith("divvy"):
        return Slice(member.share, memory=member.memory, cap=member.cap,
                     tenant_class=member.tenant_class, mode="mps" if way == "divvy_mps" else "")
    return Native()


class Ways:
    """Makes a way of sharing available for a while: the GPU's short time slice, an MPS daemon, divvyd."""

    def __init__(self, workers):
        self.fleet = workers
        self.awake = False

    @contextlib.contextmanager
    def entered(self, way):
        if way == "short":
            set_timeslice(1)
        elif way == "mps":
            if not self.fleet.mps.program:
                raise WayMissing("nvidia-cuda-mps-control is not installed here")
            self.fleet.mps.start()
        elif not self.awake and way.startswith("divvy"):
            self.fleet.wake_daemon()
            self.awake = True
        try:
            yield
        finally:
            if way == "short":
                set_timeslice(0)
            elif way == "mps":
                self.fleet.mps.stop()


def set_timeslice(level):
    """The GPU's own time slice: 0 default, 1 short. Counts for processes that start afterwards."""
    if not shutil.which("nvidia-smi"):
        raise WayMissing("nvidia-smi is not installed here")
    done = subprocess.run(["nvidia-smi", "compute-policy", f"--set-timeslice={level}"],
                          capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        words = " ".join((done.stdout + done.stderr).split())
        raise WayMissing(f"the GPU's time slice cannot be set: {words[:200]}")


class Process:
    def __init__(self, member, command, environment, path):
        self.member = member
        self.path = path
        self.said = b""
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, env=environment,
                                        start_new_session=True)

    def failed(self, why):
        if self.process.poll() is not None:
            self.said += self.process.stderr.read()
        return WorkerFailed(f"{self.member.name}: {why}", self.said.decode(errors="replace")[-1500:])

    def tell(self, start_ns):
        try:
            self.process.stdin.write(b"%d\n" % start_ns)
            self.process.stdin.close()
        except OSError as error:
            raise self.failed(f"cannot be told the start moment: {error}") from None

    def report(self, deadline):
        try:
            status = self.process.wait(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise self.failed("has not ended in time") from None
        if self.member.killed is not None:
            return None
        if status != 0:
            raise self.failed(f"ended with {status}")
        return json.loads(self.path.read_text())

    def end(self):
        fleet.end_group(self.process.pid)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()


class Crew:
    def __init__(self, workers):
        self.fleet = workers
        self.started = 0

    def start(self, way, member, speed, start, beside_latency, extra):
        self.started += 1
        name = f"{member.name}-{self.started}"
        path = self.fleet.work / f"{name}.json"
        command = [self.fleet.gpuload, *member.words(speed), *extra, "--start", start, "--out",
                   str(path)]
        words, environment = self.fleet.launch(name, how(way, member, beside_latency), command)
        return Process(member, words, environment, path)

    def run(self, way, members, speed, during=None, extra=()):
        """One report for each member, in their order; None for one that was killed. `during` is
        called once, in the middle."""
        latency = any(m.tenant_class == "latency" for m in members)
        end = max(m.spans[-1][1] for m in members)
        processes = {}
        try:
            for member in members:
                if member.arrives is None:
                    processes[member.name] = self.start(way, member, speed, "-", latency, extra)
            wait_ready(list(processes.values()))
            start = time.monotonic() + 0.05 + 0.002 * len(members)
            for process in processes.values():
                process.tell(round(1e9 * start))
            events = [(m.arrives, "arrives", m) for m in members if m.arrives is not None]
            events += [(m.killed, "killed", m) for m in members if m.killed is not None]
            events += [(end / 2, "during", None)] if during else []
            for moment, what, member in sorted(events, key=lambda event: event[0]):
                time.sleep(max(0.0, start + moment - time.monotonic()))
                if what == "arrives":
                    processes[member.name] = self.start(way, member, speed,
                                                        str(round(1e9 * start)), latency, extra)
                elif what == "killed":
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(processes[member.name].process.pid, signal.SIGKILL)
                else:
                    during()
            deadline = start + end + 30
            return [processes[m.name].report(deadline) for m in members]
        finally:
            for process in processes.values():
                process.end()


def wait_ready(processes):
    """Returns when all of them have said so on standard error."""
    deadline = time.monotonic() + READY_SECONDS
    with selectors.DefaultSelector() as selector:
        for process in processes:
            selector.register(process.process.stderr, selectors.EVENT_READ, process)
        while selector.get_map():
            events = selector.select(timeout=max(0.0, deadline - time.monotonic()))
            if not events:
                missing = next(iter(selector.get_map().values())).data
                raise missing.failed(f"was not ready within {READY_SECONDS} s")
            for key, _ in events:
                process = key.data
                data = os.read(key.fd, 4096)
                process.said += data
                if not data:
                    process.process.wait(timeout=10)
                    raise process.failed(f"ended with {process.process.returncode} before it began")
                if b"ready\n" in process.said:
                    selector.unregister(key.fileobj)
