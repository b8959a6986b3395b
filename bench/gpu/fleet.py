"""The processes of the bench: workers, and how they get at the GPU (natively, over MPS, in a slice).

Used by suite.py on one thread. Whatever is started here is ended by stop_all(), also when the suite
is interrupted. Only processes that were started here, and daemons whose program lies in the folder
that was unpacked, are ever ended.
"""
import dataclasses
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
READY_SECONDS = 120  # a first start reads gigabytes of libraries from a cold disk


class WorkerFailed(Exception):
    """Carries what the worker last wrote to standard error."""

    def __init__(self, message, stderr_tail=""):
        super().__init__(message)
        self.stderr_tail = stderr_tail


def tail(path, characters=2000):
    try:
        return pathlib.Path(path).read_text(errors="replace")[-characters:]
    except OSError:
        return ""


def unpack(tarball, into):
    """The one folder with bin/ in it that the tarball holds."""
    with tarfile.open(tarball) as archive:
        # The Python of Debian 12 is older than this argument.
        careful = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(into, **careful)
    inside = [path for path in pathlib.Path(into).iterdir() if (path / "bin").is_dir()]
    if len(inside) != 1:
        raise SystemExit(f"{tarball} does not hold one folder with bin/ in it")
    return inside[0]


@dataclasses.dataclass(frozen=True)
class Native:
    def label(self):
        return "native"


@dataclasses.dataclass(frozen=True)
class Mps:
    threads: int = 100  # per cent of the GPU's threads
    priority: int = 0   # 0 normal, 1 below normal

    def label(self):
        return f"mps-{self.threads}" + ("-low" if self.priority else "")


@dataclasses.dataclass(frozen=True)
class Slice:
    gpu: str
    memory: str = "24GiB"
    cap: bool = False
    tenant_class: str = ""
    mode: str = ""

    def label(self):
        parts = ["divvy", self.gpu]
        parts += ["cap"] if self.cap else []
        parts += [p for p in (self.tenant_class, self.mode) if p]
        return "-".join(parts)

    def options(self):
        words = ["--gpu", self.gpu, "--gpu-mem", self.memory]
        words += ["--cap"] if self.cap else []
        words += ["--class", self.tenant_class] if self.tenant_class else []
        words += ["--mode", self.mode] if self.mode else []
        return words


class Worker:
    """One worker.py. Commands are sent with ask(), answers fetched with answer()."""

    def __init__(self, name, workload, command, environment, log_path):
        self.name = name
        self.workload = workload
        self.log_path = log_path
        self.is_ready = False
        self.phases = {}  # of its start: name to moment
        with open(log_path, "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                env=environment, text=True, bufsize=1, start_new_session=True)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    @property
    def alive(self):
        return self.process.poll() is None

    def _fail(self, message):
        return WorkerFailed(f"{self.name}: {message}", tail(self.log_path))

    def _next(self, seconds):
        try:
            line = self.lines.get(timeout=max(0.1, seconds))
        except queue.Empty:
            raise self._fail(f"no answer within {seconds:.0f} s") from None
        if line is None:
            try:
                status = self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                status = "unknown"
            raise self._fail(f"ended by itself with status {status}")
        try:
            message = json.loads(line)
        except ValueError:
            raise self._fail(f"answered {line[:200]!r}") from None
        if message["event"] == "error":
            raise self._fail(message["message"])
        return message

    def wait_ready(self, seconds=READY_SECONDS):
        if not self.is_ready:
            self.phases = self._next(seconds).get("phases", {})
            self.is_ready = True

    def ask(self, **command):
        try:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
        except OSError as error:
            raise self._fail(f"cannot be told anything: {error}") from None

    def answer(self, seconds):
        return self._next(seconds)["result"]

    def stop(self, seconds=8):
        """Asks it to end by closing its input; a worker that does not is killed with its family."""
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            pass
        end_group(self.process.pid)
        self.process.wait()


def end_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


class MpsDaemon:
    """A control daemon with directories of its own, so that nobody else's is touched."""

    def __init__(self, directory):
        self.program = shutil.which("nvidia-cuda-mps-control")
        self.directory = pathlib.Path(directory)
        self.running = False

    def environment(self):
        return {
            "CUDA_MPS_PIPE_DIRECTORY": str(self.directory / "pipe"),
            "CUDA_MPS_LOG_DIRECTORY": str(self.directory / "log"),
        }

    def start(self):
        if self.running:
            return
        if not self.program:
            raise WorkerFailed("nvidia-cuda-mps-control is not installed here")
        for name in ("pipe", "log"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        done = subprocess.run([self.program, "-d"], env={**os.environ, **self.environment()},
                              capture_output=True, text=True, timeout=30, check=False)
        if done.returncode != 0:
            raise WorkerFailed(f"nvidia-cuda-mps-control -d ended with {done.returncode}",
                               done.stdout + done.stderr + self.log())
        self.running = True

    def log(self):
        return "\n".join(tail(p, 800) for p in sorted((self.directory / "log").glob("*.log")))

    def stop(self):
        if not self.running:
            return
        self.running = False
        try:
            subprocess.run([self.program], input="quit -t 5\n", text=True, timeout=30, check=False,
                           env={**os.environ, **self.environment()}, capture_output=True)
        except subprocess.TimeoutExpired:
            pass


class Fleet:
    """Starts and remembers workers. `prefix` is the unpacked tarball, `work` a scratch folder."""

    def __init__(self, prefix, work):
        self.prefix = pathlib.Path(prefix)
        self.work = pathlib.Path(work)
        self.divvy = str(self.prefix / "bin" / "divvy")
        self.gpuload = str(self.prefix / "bin" / "gpuload")
        self.mps = MpsDaemon(self.work / "mps")
        self.workers = []
        self.started = 0
        self.run_dir = self.work / "run"
        self.run_dir.mkdir(parents=True, exist_ok=True)
        self.run_dir.chmod(0o700)

    def environment(self):
        variables = dict(os.environ)
        variables["PYTHONPATH"] = str(HERE)
        variables["PYTHONUNBUFFERED"] = "1"
        variables["OMP_NUM_THREADS"] = "2"
        variables["DIVVY_RUN_DIR"] = str(self.run_dir)
        variables["DIVVY_STATE_DIR"] = str(self.work / "state")
        return variables

    def launch(self, name, how, command):
        """The words and the environment that start `command` in this way."""
        environment = self.environment()
        if isinstance(how, Mps):
            environment.update(self.mps.environment())
            environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(how.threads)
            environment["CUDA_MPS_CLIENT_PRIORITY"] = str(how.priority)
        elif isinstance(how, Slice):
            # The slices of the case before may take a moment to come back.
            command = [self.divvy, "run", *how.options(), "--wait", "--timeout", "20", "--name",
                       name, "--", *command]
        return command, environment

    def start(self, workload, how, name=None):
        self.started += 1
        name = name or f"{workload}-{how.label()}-{self.started}".replace(".", "")
        command, environment = self.launch(
            name, how, [sys.executable, str(HERE / "worker.py"), workload])
        worker = Worker(name, workload, command, environment, self.work / f"{name}.log")
        self.workers.append(worker)
        return worker

    def start_ready(self, *wanted):
        """Several (workload, how) at once; returns when all of them are warm. All or none."""
        workers = [self.start(workload, how) for workload, how in wanted]
        try:
            deadline = time.monotonic() + READY_SECONDS
            for worker in workers:
                worker.wait_ready(deadline - time.monotonic())
        except WorkerFailed:
            self.stop(workers)
            raise
        return workers

    def run(self, name, how, command, seconds):
        """A program that is no worker. Returns its CompletedProcess; its output is text."""
        words, environment = self.launch(name, how, command)
        return subprocess.run(words, env=environment, capture_output=True, text=True,
                              timeout=seconds, check=False, stdin=subprocess.DEVNULL)

    def divvy_command(self, *words, seconds=20):
        done = subprocess.run([self.divvy, *words], env=self.environment(), capture_output=True,
                              text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise WorkerFailed(f"divvy {' '.join(words)} ended with {done.returncode}",
                               done.stderr[-2000:])
        return done.stdout

    def wake_daemon(self):
        """The first `divvy run` starts the daemon. Its output goes to a file: a daemon that kept a
        pipe of ours open would keep whoever reads it waiting."""
        words, environment = self.launch("wake", Slice("0.1", memory="1GiB"), ["true"])
        path = self.work / "wake.log"
        with open(path, "ab") as log:
            done = subprocess.run(words, env=environment, stdout=log, stderr=log, timeout=60,
                                  stdin=subprocess.DEVNULL, check=False, start_new_session=True)
        if done.returncode != 0:
            raise WorkerFailed(f"divvy run -- true ended with {done.returncode}", tail(path))

    def stop(self, workers):
        for worker in workers:
            try:
                worker.process.stdin.close()
            except OSError:
                pass
        for worker in workers:
            worker.stop()
            if worker in self.workers:
                self.workers.remove(worker)

    def daemons(self):
        """Processes whose program lies in the unpacked folder: divvyd and what it started."""
        found = []
        inside = str(self.prefix.resolve()) + os.sep
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                program = os.readlink(entry / "exe")
            except OSError:
                continue
            if program.startswith(inside):
                found.append(int(entry.name))
        return found

    def stop_daemons(self):
        for how, patience in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 2.0)):
            deadline = time.monotonic() + patience
            pids = self.daemons()
            for pid in pids:
                try:
                    os.kill(pid, how)
                except ProcessLookupError:
                    pass
            while self.daemons() and time.monotonic() < deadline:
                time.sleep(0.1)
            if not self.daemons():
                return

    def daemon_log(self):
        logs = sorted(self.run_dir.rglob("*.log")) + sorted((self.work / "state").rglob("*.log"))
        return "\n".join(f"--- {path.name}\n{tail(path, 6000)}" for path in logs)

    def stop_all(self):
        self.stop(list(self.workers))
        self.mps.stop()
        self.stop_daemons()
