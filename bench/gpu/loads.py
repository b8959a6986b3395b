"""What the light processes of the bench do (`gpuload` in C++, which starts in a tenth of a second and
waits without using a CPU), and who runs one in which slice. Pure."""
import dataclasses

LOADS = {
    # GPU-bound: kernels of 500 us over the whole GPU, an iteration of 1 ms.
    "plain": ("loop", "--us", "500", "--kernels", "2", "--depth", "4"),
    # Like a training: iterations of 10 ms, the loss is read every ten.
    "training": ("loop", "--us", "400", "--kernels", "25", "--depth", "3", "--sync-every", "10"),
    "long": ("loop", "--us", "4500", "--depth", "3"),
    "memory": ("loop", "--body", "copy", "--mib", "256", "--kernels", "8", "--depth", "4"),
    # The GPU waits for the CPU: about a fifth of the time busy.
    "launchbound": ("loop", "--us", "9", "--kernels", "20", "--cpu-us", "42", "--sync-every", "1",
                    "--spin-wait"),
    "chain": ("loop", "--body", "chain", "--streams", "4", "--us", "100", "--kernels", "10",
              "--depth", "4"),
    # Requests of 1.6 ms, each a graph of 40 kernels.
    "server": ("poisson", "--us", "1600", "--graph", "--kernels", "40"),
}
REQUEST_MS = 1.6


@dataclasses.dataclass(frozen=True)
class Member:
    """One process of a case. `spans`: when it works, in seconds after the start moment."""
    name: str
    load: str
    share: str
    spans: tuple
    tenant_class: str = ""
    cap: bool = False
    rate: float = 200.0    # of a server: requests a second
    seed: int = 7
    memory: str = "4GiB"
    mps_threads: int = 0   # per cent of the GPU's threads over MPS; 0: as many as its share
    arrives: float | None = None  # its process is started then, not before the start moment
    killed: float | None = None   # with -9, then

    @property
    def serves(self):
        return LOADS[self.load][0] == "poisson"

    def words(self, speed):
        """What follows `gpuload`, without the start moment. `speed`: iterations per microsecond, 0
        to measure it."""
        words = list(LOADS[self.load]) + ["--run", spans_text(self.spans)]
        if self.serves:
            words += ["--rate", f"{self.rate:g}", "--seed", str(self.seed), "--moments", "50000"]
        if speed:
            words += ["--iterations-per-us", f"{speed:.6f}"]
        return words


def spans_text(spans):
    return ",".join(f"{begin:.3f}:{end:.3f}" for begin, end in spans)
