"""What the numbers were measured on, and what NVML says from outside a slice."""
import ctypes
import datetime
import os
import pathlib
import platform
import subprocess
import threading
import time


def output_of(*words, seconds=30):
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def describe(python, commit):
    fields = "name,driver_version,memory.total,compute_mode,persistence_mode,power.limit,uuid"
    gpu = output_of("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader").splitlines()
    gpu = [part.strip() for part in gpu[0].split(",")] if gpu else []
    names = ["gpu", "driver", "memory", "compute_mode", "persistence_mode", "power_limit", "uuid"]
    found = dict(zip(names, gpu))
    torch = output_of(python, "-c", "import torch; print(torch.__version__, torch.version.cuda, "
                      "torch.backends.cudnn.version())", seconds=120).split()
    found.update(zip(("torch", "cuda", "cudnn"), torch))
    found["date"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    found["cpus"] = os.cpu_count()
    found["kernel"] = platform.release()
    found["glibc"] = platform.libc_ver()[1]
    found["python"] = platform.python_version()
    found["commit"] = commit or output_of(
        "git", "-C", str(pathlib.Path(__file__).parent), "rev-parse", "HEAD") or "unknown"
    return found


class ProcessInfo(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong),
                ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]


class MemoryInfo(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


class Nvml:
    """GPU 0 as the driver sees it, with no slice in between. Raises OSError where it cannot."""

    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self._call("nvmlInit_v2")
        self.device = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(0), ctypes.byref(self.device))

    def _call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise OSError(f"{name} answered {code}")

    def used_by(self):
        """Bytes by process id. The driver writes all ones where it does not know."""
        count = ctypes.c_uint(256)
        entries = (ProcessInfo * 256)()
        self._call("nvmlDeviceGetComputeRunningProcesses_v3", self.device, ctypes.byref(count),
                   entries)
        known = [entries[i] for i in range(count.value)]
        return {e.pid: e.used for e in known if e.used != 2**64 - 1}

    def used(self):
        info = MemoryInfo()
        self._call("nvmlDeviceGetMemoryInfo", self.device, ctypes.byref(info))
        return info.used


class MemoryWatch:
    """The most that each process was ever seen to hold, asked again and again while in use."""

    def __init__(self, interval=0.005):
        self.peaks = {}
        self.samples = 0
        self.problem = None
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(timeout=5)

    def _watch(self):
        try:
            nvml = Nvml()
            while not self._stop.is_set():
                for pid, used in nvml.used_by().items():
                    self.peaks[pid] = max(self.peaks.get(pid, 0), used)
                self.samples += 1
                time.sleep(self._interval)
        except (OSError, AttributeError) as error:
            self.problem = str(error)

    def peak(self, pid):
        return self.peaks.get(pid)


def clock_and_power():
    """What the GPU's clock and power are at this moment: a GPU that is power-limited at full load
    runs faster when it works only part of the time."""
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, timeout=5, check=True).stdout.split("\n")[0]
        clock, power = (float(word) for word in answer.split(","))
        return {"sm_clock_mhz": clock, "power_w": power}
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
