"""What the bench lets a GPU do, in plain PyTorch: the workloads and the memory eater.

Made and used by worker.py, one per process. A workload has

  prepare()                 build, warm up, leave the GPU idle
  loop(start, stop)         iterate from `start` to `stop` (time.monotonic) and return the moments
                            at which iterations ended, on the same clock
  serve(arrivals)           only `graph`: answer requests at these moments, return latencies
  allocate(chunk_bytes)     only `memory`: take memory until it is refused

The end of an iteration is an event in the stream, so that the CPU runs ahead as in any training
loop and the measuring itself never waits for the GPU.
"""
import collections
import time

import torch
import torch.nn.functional as functional
from torch import nn

import stats


def wait_until(moment):
    """Sleeps, and spins for the last bit: a sleep ends tens of microseconds late."""
    while True:
        left = moment - time.monotonic()
        if left <= 0:
            return
        if left > 0.0005:
            time.sleep(left - 0.0004)


# --- ResNet-50 ---


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = width * 4
        self.reduce = nn.Conv2d(inputs, width, 1, bias=False)
        self.reduce_norm = nn.BatchNorm2d(width)
        self.spatial = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.spatial_norm = nn.BatchNorm2d(width)
        self.expand = nn.Conv2d(width, outputs, 1, bias=False)
        self.expand_norm = nn.BatchNorm2d(outputs)
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        same = x if self.shortcut is None else self.shortcut(x)
        x = functional.relu(self.reduce_norm(self.reduce(x)), inplace=True)
        x = functional.relu(self.spatial_norm(self.spatial(x)), inplace=True)
        x = self.expand_norm(self.expand(x))
        return functional.relu(x + same, inplace=True)


def resnet50(classes=1000):
    layers = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1)
    ]
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if block == 0 else 1))
            inputs = width * 4
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes)]
    return nn.Sequential(*layers)


# --- GPT-2, 124M parameters ---


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.before_feed = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.query_key_value(self.before_attention(x))
        parts = parts.view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        fed = functional.gelu(self.widen(self.before_feed(x)), approximate="tanh")
        return x + self.narrow(fed)


class Gpt2(nn.Module):
    def __init__(self, words=50257, context=1024, width=768, layers=12, heads=12):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.last_norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        nn.init.normal_(self.words.weight, std=0.02)
        self.head.weight = self.words.weight

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + self.places(places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.last_norm(x))


# --- The workloads ---


class Looping:
    """A workload that repeats step(). `loss_every`: reads a value back every so many iterations,
    as training loops do. `ahead`: lets the CPU be at most so many iterations in front."""

    loss_every = 0
    ahead = 0
    warm_up = 15
    timed = False  # measures the GPU time of an iteration that nothing held up: work_ms
    work_ms = None

    def __init__(self):
        self.device = torch.device("cuda", 0)
        # The fastest convolution is searched for by measuring, and on a busy GPU every process
        # would find another one.
        torch.backends.cudnn.benchmark = False
        torch.manual_seed(0)

    def build(self):
        raise NotImplementedError

    def step(self):
        raise NotImplementedError

    def read_back(self):
        raise NotImplementedError

    def prepare(self):
        self.build()
        torch.cuda.synchronize()
        self.built_at = time.monotonic()
        for _ in range(self.warm_up):
            self.step()
        torch.cuda.synchronize()

    def loop(self, start, stop):
        anchor = torch.cuda.Event(enable_timing=True)
        anchor.record()
        anchor.synchronize()
        anchored = time.monotonic()
        wait_until(start)
        events, begins = [], []
        while time.monotonic() < stop:
            if self.timed:
                begins.append(torch.cuda.Event(enable_timing=True))
                begins[-1].record()
            self.step()
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            events.append(event)
            if self.loss_every and len(events) % self.loss_every == 0:
                self.read_back()
            if self.ahead and len(events) > self.ahead:
                events[-1 - self.ahead].synchronize()
        torch.cuda.synchronize()
        if begins:
            self.work_ms = stats.percentile(
                [begin.elapsed_time(end) for begin, end in zip(begins, events)], 0.2)
        return [anchored + anchor.elapsed_time(event) / 1e3 for event in events]


class Training(Looping):
    loss_every = 10

    def read_back(self):
        self.loss.item()


class Resnet(Training):
    """ResNet-50 training, batch 64, bf16, SGD; in PyTorch's default memory format, so that the GPU
    and not the CPU's launches bound it."""

    def build(self):
        self.model = resnet50().to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.images = torch.randn(64, 3, 224, 224, device=self.device)
        self.labels = torch.randint(0, 1000, (64,), device=self.device)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            self.loss = functional.cross_entropy(self.model(self.images), self.labels)
        self.loss.backward()
        self.optimizer.step()


class Gpt2Training(Training):
    """GPT-2 124M training, batch 8 of 256 tokens, bf16, AdamW: bound by its launches."""

    def build(self):
        self.model = Gpt2().to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.tokens = torch.randint(0, 50257, (8, 257), device=self.device)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            logits = self.model(self.tokens[:, :-1])
            self.loss = functional.cross_entropy(
                logits.reshape(-1, logits.shape[-1]), self.tokens[:, 1:].reshape(-1))
        self.loss.backward()
        self.optimizer.step()


class Gemm(Looping):
    """Products of 4096 x 4096 bf16 matrices, ten to an iteration, back to back."""

    ahead = 10

    def build(self):
        self.left = torch.randn(4096, 4096, device=self.device, dtype=torch.bfloat16)
        self.right = torch.randn(4096, 4096, device=self.device, dtype=torch.bfloat16)
        self.product = torch.empty_like(self.left)

    def step(self):
        for _ in range(10):
            torch.matmul(self.left, self.right, out=self.product)


class Power(Looping):
    """Products of 8192 x 8192 bf16 matrices: what the GPU's power limit slows down."""

    ahead = 4
    timed = True

    def build(self):
        self.left = torch.randn(8192, 8192, device=self.device, dtype=torch.bfloat16)
        self.right = torch.randn(8192, 8192, device=self.device, dtype=torch.bfloat16)
        self.product = torch.empty_like(self.left)

    def step(self):
        torch.matmul(self.left, self.right, out=self.product)


class Attention(Looping):
    """Attention over 4096 tokens, 16 heads of 128, batch 8, bf16."""

    ahead = 4
    timed = True

    def build(self):
        shape = (8, 16, 4096, 128)
        self.parts = [torch.randn(shape, device=self.device, dtype=torch.bfloat16)
                      for _ in range(3)]

    def step(self):
        self.mixed = functional.scaled_dot_product_attention(*self.parts)


class Graph(Looping):
    """ResNet-50 inference, batch 8, bf16, as one CUDA graph; back to back, or as a server."""

    ahead = 20

    def build(self):
        model = resnet50().to(self.device, torch.bfloat16).eval()
        self.images = torch.randn(8, 3, 224, 224, device=self.device, dtype=torch.bfloat16)
        with torch.no_grad():
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    model(self.images)
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.answers = model(self.images)

    def step(self):
        self.graph.replay()

    def serve(self, arrivals):
        """One request after the other in the order they come in; nobody is turned away. Returns for
        each request the time from the moment it was due to the moment its answer was seen."""
        pending = collections.deque()
        latencies = []
        given_up = arrivals[-1] + 60
        submitted = 0
        while submitted < len(arrivals) or pending:
            now = time.monotonic()
            while submitted < len(arrivals) and arrivals[submitted] <= now:
                self.graph.replay()
                event = torch.cuda.Event()
                event.record()
                pending.append((arrivals[submitted], event))
                submitted += 1
            if pending:
                if pending[0][1].query():
                    latencies.append(time.monotonic() - pending.popleft()[0])
                elif now > given_up:
                    raise TimeoutError(f"{len(pending)} requests had no answer after 60 s")
            elif submitted < len(arrivals):
                wait_until(arrivals[submitted])
        return latencies


class Memory(Looping):
    """Takes memory by PyTorch's own allocator until it is refused, and keeps it."""

    def prepare(self):
        self.kept = [torch.zeros(1, device=self.device)]
        torch.cuda.synchronize()

    def allocate(self, chunk_bytes):
        error = None
        while chunk_bytes >= 2 << 20:
            try:
                self.kept.append(
                    torch.empty(chunk_bytes, dtype=torch.uint8, device=self.device).fill_(1))
            except torch.cuda.OutOfMemoryError as refused:
                error = str(refused).splitlines()[0]
                chunk_bytes //= 4
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        return {
            "allocated_bytes": torch.cuda.memory_allocated(),
            "reserved_bytes": torch.cuda.memory_reserved(),
            "free_bytes": free,
            "total_bytes": total,
            "error": error,
        }


WORKLOADS = {
    "resnet": Resnet,
    "gpt2": Gpt2Training,
    "gemm": Gemm,
    "graph": Graph,
    "memory": Memory,
    "power": Power,
    "attention": Attention,
}
