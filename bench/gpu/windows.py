"""Windows out of series: latencies second by second, shares out of bins, first come first served, and
random pauses. Pure; no I/O, no torch.

A series of bins holds finished iterations for each 100 ms from the start moment on; what is not in
the list is zero. Moments are seconds after the start moment, latencies milliseconds.
"""
import random

import stats

BIN_SECONDS = 0.1


def latency_windows(due_ms, latencies_ms, begin, end, seconds=1.0):
    """One row for each window, also for one in which nobody asked: {from, count, p50, p99, max}."""
    count = max(1, round((end - begin) / seconds))
    found = [[] for _ in range(count)]
    for due, latency in zip(due_ms, latencies_ms):
        index = int((due / 1e3 - begin) / seconds)
        if due / 1e3 >= begin and index < count:
            found[index].append(latency)
    rows = []
    for index, values in enumerate(found):
        row = {"from": round(begin + index * seconds, 3), "count": len(values)}
        if values:
            row.update(p50=stats.percentile(values, 0.5), p99=stats.percentile(values, 0.99),
                       max=max(values))
        rows.append(row)
    return rows


def worst(rows, field="p99"):
    """The worst window's figure; None when nothing was asked in any."""
    return max((row[field] for row in rows if field in row), default=None)


def done_between(bins, begin, end):
    """Iterations finished between two moments; a bin that lies half inside counts by half."""
    total = 0.0
    for index in range(max(0, int(begin / BIN_SECONDS)), len(bins)):
        low = max(begin, index * BIN_SECONDS)
        high = min(end, (index + 1) * BIN_SECONDS)
        if low >= end:
            break
        total += bins[index] * max(0.0, high - low) / BIN_SECONDS
    return total


def share(bins, cost_us, begin, end):
    """GPU time in per cent of the window: known work times what it costs alone."""
    return 100 * done_between(bins, begin, end) * cost_us / (1e6 * (end - begin))


def share_series(bins, cost_us, begin, end):
    """The share in every 100 ms."""
    count = round((end - begin) / BIN_SECONDS)
    return [round(share(bins, cost_us, begin + i * BIN_SECONDS, begin + (i + 1) * BIN_SECONDS), 2)
            for i in range(count)]


def spans_between(begin, end, seconds):
    """Whole windows that lie between two moments; one shorter window where none fits."""
    count = int((end - begin) / seconds + 1e-6)
    if count == 0:
        return [(begin, end)]
    return [(begin + i * seconds, begin + (i + 1) * seconds) for i in range(count)]


def first_come_first_served(dues_ms, service_ms):
    """Latencies of one server that takes requests in the order they come, in that order: what a GPU
    without any cost of sharing could do. `dues_ms` has a list for each asker; so has the answer."""
    order = sorted((due, who, index) for who, dues in enumerate(dues_ms)
                   for index, due in enumerate(dues))
    latencies = [[0.0] * len(dues) for dues in dues_ms]
    free = 0.0
    for due, who, index in order:
        free = max(due, free) + service_ms
        latencies[who][index] = free - due
    return latencies


def random_spans(seed, rounds, work, pause):
    """`rounds` spans of work with pauses before each, their lengths drawn from (least, most)."""
    dice = random.Random(seed)
    spans, at = [], 0.0
    for _ in range(rounds):
        at += dice.uniform(*pause)
        end = at + dice.uniform(*work)
        spans.append((round(at, 3), round(end, 3)))
        at = end
    return spans


def overlap(span, others):
    """The part of `span` (0..1) in which one of `others`, which do not overlap, holds."""
    begin, end = span
    common = sum(max(0.0, min(end, o[1]) - max(begin, o[0])) for o in others)
    return common / (end - begin)


def after_resuming(spans, others, ends_ms, bins, cost_us, seconds=1.0):
    """For each span: how long until the first iteration ended, and the share in the second after.
    `fair`: half of the GPU while one of `others` worked too, all of it otherwise."""
    rows = []
    for begin, end in spans:
        window = (begin, min(end, begin + seconds))
        first = next((e for e in ends_ms if e / 1e3 >= begin), None)
        rows.append({
            "at": begin,
            "first_ms": None if first is None else round(first - 1e3 * begin, 3),
            "share": share(bins, cost_us, *window),
            "fair": 100 * (1 - overlap(window, others) / 2)})
    return rows


def iteration_times(ends_ms):
    return [later - earlier for earlier, later in zip(ends_ms, ends_ms[1:])]
