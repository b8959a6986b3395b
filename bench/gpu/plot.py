"""Plots of the results as PNG files, with nothing but the standard library: a machine with a GPU
need not have a plotting library, and the pictures look the same everywhere."""
import math
import struct
import zlib

import report
import stats
from glyphs import GLYPHS

WHITE, BLACK, GREY, PALE = (255, 255, 255), (40, 40, 40), (150, 150, 150), (225, 225, 225)
COLOURS = ((60, 110, 180), (225, 130, 50), (85, 160, 90), (160, 95, 165), (190, 70, 70))
MODES = (("native", "native"), ("mps", "MPS"), ("mps_priority", "MPS priority"),
         ("mps_threads", "MPS 30 % threads"), ("divvy", "Divvy"), ("divvy_mps", "Divvy over MPS"))


class Canvas:
    """Pixels from the top left. What lies outside is cut off."""

    def __init__(self, width, height):
        self.width, self.height = width, height
        self.pixels = bytearray(WHITE) * (width * height)

    def rectangle(self, left, top, right, bottom, colour):
        left, right = max(0, round(left)), min(self.width, round(right))
        if right <= left:
            return
        row = bytes(colour) * (right - left)
        for y in range(max(0, round(top)), min(self.height, round(bottom))):
            start = 3 * (y * self.width + left)
            self.pixels[start:start + len(row)] = row

    def line(self, x0, y0, x1, y1, colour, thick=2):
        steps = max(1, math.ceil(max(abs(x1 - x0), abs(y1 - y0))))
        for i in range(steps + 1):
            x, y = x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps
            self.rectangle(x - thick / 2, y - thick / 2, x + thick / 2, y + thick / 2, colour)

    def text(self, x, y, words, colour=BLACK, size=2):
        """Returns where the text ends."""
        for letter in words.upper():
            for row, marks in enumerate(GLYPHS.get(letter, ())):
                for column, mark in enumerate(marks):
                    if mark:
                        self.rectangle(x + column * size, y + row * size, x + (column + 1) * size,
                                       y + (row + 1) * size, colour)
            x += 6 * size
        return x

    def png(self):
        def chunk(kind, data):
            return (struct.pack(">I", len(data)) + kind + data +
                    struct.pack(">I", zlib.crc32(kind + data)))

        stride = 3 * self.width
        raw = b"".join(b"\0" + bytes(self.pixels[y * stride:(y + 1) * stride])
                       for y in range(self.height))
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
                chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


def share_bars(results):
    """(label, parts in per cent, guarantees) for each case and way of sharing that was measured."""
    bars = []
    for case, workload, guarantees in (("pair", "resnet", (30, 70)),
                                       ("four", "resnet", (10, 20, 30, 40)),
                                       ("launchbound", "gpt2", (50, 50))):
        for mode, label in MODES:
            found = results.get(case, {}).get(mode)
            if not found:
                continue
            parts = (report.averaged_pair(results, found) if case == "launchbound" else
                     report.percents(results, workload, found))
            bars.append((f"{len(guarantees)} {workload}, {label}", parts, guarantees))
    return bars


def draw_shares(results):
    bars = share_bars(results)
    if not bars:
        return None
    left, top, step, wide = 330, 70, 34, 1100
    canvas = Canvas(wide, top + step * len(bars) + 60)
    canvas.text(20, 20, "Throughput of each tenant, % of running alone", size=3)
    widest = max(120.0, max(sum(parts) for _, parts, _ in bars))
    scale = (wide - left - 40) / widest
    bottom = top + step * len(bars)
    for mark in range(0, int(widest) + 1, 20):
        x = left + mark * scale
        canvas.line(x, top - 6, x, bottom, BLACK if mark == 100 else PALE, 1)
        canvas.text(x - 10, bottom + 10, str(mark))
    for index, (label, parts, guarantees) in enumerate(bars):
        y = top + index * step
        canvas.text(20, y + 6, label)
        x = left
        for part, (value, guarantee) in enumerate(zip(parts, guarantees)):
            canvas.rectangle(x, y, x + value * scale, y + step - 10, COLOURS[part])
            # The pale line inside a part is its guarantee; it is missing where that was not kept.
            if value >= guarantee:
                mark = x + guarantee * scale
                canvas.line(mark, y + 2, mark, y + step - 12, WHITE, 2)
            canvas.text(x + 6, y + 6, f"{value:.1f}", WHITE)
            x += value * scale
    return canvas


class Axes:
    """A frame with scales. `x` and `y` are (lowest, highest, logarithmic?)."""

    def __init__(self, title, x_title, y_title, x, y):
        self.canvas = Canvas(1100, 640)
        self.x, self.y = x, y
        self.left, self.right, self.top, self.bottom = 110, 1060, 90, 560
        self.canvas.text(20, 20, title, size=3)
        self.canvas.text(self.left + 300, 606, x_title)
        self.canvas.text(20, 54, y_title)

    @staticmethod
    def _part(value, low, high, logarithmic):
        value = min(max(value, low), high)
        if logarithmic:
            return math.log(value / low) / math.log(high / low)
        return (value - low) / (high - low)

    def place(self, x, y):
        return (self.left + (self.right - self.left) * self._part(x, *self.x),
                self.bottom - (self.bottom - self.top) * self._part(y, *self.y))

    def grid(self, x_marks, y_marks):
        for mark in x_marks:
            x, _ = self.place(mark, self.y[0])
            self.canvas.line(x, self.top, x, self.bottom, PALE, 1)
            self.canvas.text(x - 8, self.bottom + 12, f"{mark:g}")
        for mark, label in y_marks:
            _, y = self.place(self.x[0], mark)
            self.canvas.line(self.left, y, self.right, y, PALE, 1)
            self.canvas.text(20, y - 7, label)

    def curve(self, points, colour):
        placed = [self.place(x, y) for x, y in points]
        for (x0, y0), (x1, y1) in zip(placed, placed[1:]):
            self.canvas.line(x0, y0, x1, y1, colour)

    def legend(self, names):
        for index, (name, colour) in enumerate(names):
            y = self.top + 10 + 24 * index
            self.canvas.rectangle(self.right - 300, y, self.right - 280, y + 14, colour)
            self.canvas.text(self.right - 270, y, name)


def draw_latency(results):
    found = results.get("latency", {})
    ways = [(name, found[mode][0]["latencies_ms"])
            for mode, name in (("alone", "alone"),) + MODES if found.get(mode)]
    ways = [(name, values) for name, values in ways if values]
    if not ways:
        return None
    axes = Axes("graph at 200 requests/s beside training", "latency in ms", "part that is slower",
                (1.0, 200.0, True), (0.001, 1.0, True))
    axes.grid((1, 2, 5, 10, 20, 50, 100, 200),
              ((1, "100 %"), (0.1, "10 %"), (0.01, "1 %"), (0.001, "0.1 %")))
    colours = (GREY,) + COLOURS
    for index, (_, values) in enumerate(ways):
        ordered = sorted(values)
        axes.curve([(value, 1 - rank / len(ordered)) for rank, value in enumerate(ordered)],
                   colours[index % len(colours)])
    axes.legend([(f"{name}: p99 {stats.percentile(values, 0.99):.1f}",
                  colours[index % len(colours)]) for index, (name, values) in enumerate(ways)])
    return axes.canvas


def draw_jitter(results):
    found = results.get("pair", {})
    ways = [(name, found[mode][0]["times_ms"]) for mode, name in MODES if found.get(mode)]
    ways = [(name, times) for name, times in ways if times]
    if not ways:
        return None
    highest = max(max(times) / stats.median(times) for _, times in ways)
    axes = Axes("iterations of the 30 % tenant", "part of the window", "time, own median = 1",
                (0.0, 1.0, False), (0.0, max(2.0, 1.1 * highest), False))
    ladder = 0.5 if highest < 4 else math.ceil(highest / 8)
    marks = [ladder * i for i in range(int(axes.y[1] / ladder) + 1)]
    axes.grid((0, 0.25, 0.5, 0.75, 1), [(m, f"{m:g}") for m in marks])
    for index, (_, times) in enumerate(ways):
        middle = stats.median(times)
        count = max(1, len(times) - 1)
        axes.curve([(i / count, t / middle) for i, t in enumerate(times)], COLOURS[index])
    axes.legend([(f"{name}: {max(times) / stats.median(times):.2f}", COLOURS[index])
                 for index, (name, times) in enumerate(ways)])
    return axes.canvas


def write(results, folder):
    """The pictures for which there is something to show. Returns their names."""
    written = []
    for name, draw in (("shares.png", draw_shares), ("latency.png", draw_latency),
                       ("jitter.png", draw_jitter)):
        canvas = draw(results)
        if canvas:
            (folder / name).write_bytes(canvas.png())
            written.append(name)
    return written
