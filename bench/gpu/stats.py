"""Numbers out of measurements: percentiles, counts inside a window, arrivals. No I/O, no torch."""
import bisect
import math
import random


def percentile(values, part):
    """The smallest measured value that at least `part` (0..1) of all values do not exceed."""
    if not values:
        raise ValueError("no values to take a percentile of")
    ordered = sorted(values)
    rank = max(1, math.ceil(part * len(ordered)))
    return ordered[min(rank, len(ordered)) - 1]


def median(values):
    return percentile(values, 0.5)


def summary(values):
    """The fields that gpuload's reports have for many measurements."""
    if not values:
        return {"count": 0}
    return {
        "count": len(values),
        "mean": sum(values) / len(values),
        "min": min(values),
        "p50": percentile(values, 0.5),
        "p90": percentile(values, 0.9),
        "p99": percentile(values, 0.99),
        "max": max(values),
    }


def completed_by(moment, origin, ends):
    """How many iterations were done at `moment`, the one under way counted in part.

    `ends` are the moments at which iterations ended, ascending; the first began at `origin`.
    """
    index = bisect.bisect_right(ends, moment)
    if index == len(ends):
        return float(index)
    began = ends[index - 1] if index else origin
    if moment <= began or ends[index] <= began:
        return float(index)
    return index + (moment - began) / (ends[index] - began)


def completed_between(start, stop, origin, ends):
    return completed_by(stop, origin, ends) - completed_by(start, origin, ends)


def times_between(start, stop, origin, ends):
    """How long each iteration took that ended inside the window and did not begin before it."""
    times = []
    began = origin
    for end in ends:
        if began >= start and end <= stop:
            times.append(end - began)
        began = end
    return times


def poisson_arrivals(rate, seconds, seed):
    """Moments from 0 at which requests are due. The same seed gives the same requests."""
    dice = random.Random(seed)
    arrivals = []
    moment = dice.expovariate(rate)
    while moment < seconds:
        arrivals.append(moment)
        moment += dice.expovariate(rate)
    return arrivals
