"""Windows, first come first served, schedules and the judgement of the cases of every window."""
import dataclasses
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import crew
import judge
import loads
import report
import windows
from fleet import Mps, Native, Slice


class Windows(unittest.TestCase):
    def test_every_second_has_a_row_also_an_empty_one(self):
        rows = windows.latency_windows([100, 900, 2500], [1.0, 3.0, 9.0], 0.0, 3.0)
        self.assertEqual(rows[0], {"from": 0.0, "count": 2, "p50": 1.0, "p99": 3.0, "max": 3.0})
        self.assertEqual(rows[1], {"from": 1.0, "count": 0})
        self.assertEqual(windows.worst(rows), 9.0)
        self.assertEqual(windows.worst([rows[1]]), None)

    def test_a_request_counts_in_the_second_in_which_it_was_due(self):
        rows = windows.latency_windows([999.9, 1000.0, 5000.0], [700.0, 1.0, 1.0], 0.0, 2.0)
        self.assertEqual([row["max"] for row in rows], [700.0, 1.0])

    def test_a_bin_that_lies_half_inside_counts_by_half(self):
        bins = [10.0, 20.0]
        self.assertAlmostEqual(windows.done_between(bins, 0.05, 0.15), 15)
        self.assertAlmostEqual(windows.done_between(bins, 0.0, 9.0), 30)
        self.assertEqual(windows.done_between([], 0.0, 1.0), 0)

    def test_a_share_is_work_times_its_cost(self):
        bins = [50.0] * 10
        self.assertAlmostEqual(windows.share(bins, 1000.0, 0.0, 1.0), 50)
        self.assertEqual(windows.share_series(bins, 1000.0, 0.8, 1.2), [50, 50, 0, 0])

    def test_windows_are_whole(self):
        self.assertEqual(windows.spans_between(0.2, 10.3, 5), [(0.2, 5.2), (5.2, 10.2)])
        self.assertEqual(windows.spans_between(0.0, 1.0, 5), [(0.0, 1.0)])

    def test_first_come_first_served_makes_the_later_one_wait(self):
        self.assertEqual(windows.first_come_first_served([[0.0, 10.0], [1.0]], 2.0),
                         [[2.0, 2.0], [3.0]])

    def test_requests_of_one_instant_are_served_one_after_the_other(self):
        latencies = windows.first_come_first_served([[5.0]] * 30, 1.6)
        self.assertAlmostEqual(max(own[0] for own in latencies), 48.0)
        self.assertAlmostEqual(min(own[0] for own in latencies), 1.6)

    def test_random_spans_are_the_same_for_the_same_seed(self):
        spans = windows.random_spans(1, 12, (0.5, 1.3), (0.2, 0.9))
        self.assertEqual(spans, windows.random_spans(1, 12, (0.5, 1.3), (0.2, 0.9)))
        self.assertNotEqual(spans, windows.random_spans(2, 12, (0.5, 1.3), (0.2, 0.9)))
        for (_, end), (begin, _) in zip(spans, spans[1:]):
            self.assertLess(end, begin)

    def test_after_resuming_the_fair_share_depends_on_who_else_works(self):
        row = windows.after_resuming([(1.0, 3.0)], [(1.5, 9.0)], [900.0, 1012.0], [0.0] * 10 +
                                     [75.0] * 10, 1000.0)[0]
        self.assertEqual(row, {"at": 1.0, "first_ms": 12.0, "share": 75.0, "fair": 75.0})

    def test_who_never_finishes_has_no_first_iteration(self):
        row = windows.after_resuming([(1.0, 2.0)], [], [900.0], [], 1000.0)[0]
        self.assertEqual((row["first_ms"], row["share"]), (None, 0))


class Members(unittest.TestCase):
    def test_spans_are_written_as_gpuload_reads_them(self):
        member = loads.Member("a", "plain", "0.5", ((0.0, 5.0), (8.0, 20.25)))
        words = member.words(1990.5)
        self.assertEqual(words[words.index("--run") + 1], "0.000:5.000,8.000:20.250")
        self.assertEqual(words[words.index("--iterations-per-us") + 1], "1990.500000")
        self.assertNotIn("--rate", words)
        self.assertIn("--rate", loads.Member("s", "server", "0.5", ((0.0, 1.0),)).words(0))

    def test_every_way_gets_at_the_gpu_as_its_users_do(self):
        server = loads.Member("s", "server", "0.4", ((0.0, 1.0),), "latency")
        batch = loads.Member("b", "plain", "0.3", ((0.0, 1.0),), cap=True)
        self.assertEqual(crew.how("native", server), Native())
        self.assertEqual(crew.how("short", batch), Native())
        self.assertEqual(crew.how("mps", batch), Mps(30))
        self.assertEqual(crew.how("mps", dataclasses.replace(batch, mps_threads=100)), Mps(100))
        self.assertEqual(crew.how("mps", batch, True), Mps(100, priority=1))
        self.assertEqual(crew.how("divvy", batch), Slice("0.3", memory="4GiB", cap=True))
        self.assertEqual(crew.how("divvy_mps", server),
                         Slice("0.4", memory="4GiB", tenant_class="latency", mode="mps"))


def served(*p99s, longest=10.0, speeds=(63.0,)):
    return {"windows": [{"from": float(i), "count": 200, "p50": 2.0, "p99": p99, "max": p99,
                         "speeds": list(speeds)} for i, p99 in enumerate(p99s)],
            "all": {"max": longest}}


def shared(*speeds, shares=None):
    return {"windows": [{"from": 0.2, "speeds": list(speeds), "shares": list(shares or speeds)}]}


def crowd(p50, p99, worst):
    return {"count": 100, "p50": p50, "p99": p99, "worst_p99": worst, "max": worst,
            "requests_per_second": 468.0, "memory_used_bytes": 2**34}


def good():
    """Every demand met."""
    return {
        "loads_alone": {"launchbound": {"busy_percent": 21.0, "iterations_per_second": 1000.0,
                                        "gpu_us_per_iteration": 210.0}},
        "arrive": {"alone": {"native": served(5, 5)},
                   "process starts": {"native": served(5, 30, longest=80), "short": served(5, 20),
                                      "divvy": served(5.7, 29, longest=79)}},
        "returns": {
            "after contention": {"divvy": {"first_ms": 3.0, "seconds": [],
                                           "windows": shared(49.5, 50.4)["windows"]}},
            "random pauses": {way: {"rounds": [{"at": 1.0, "first_ms": 15.0, "share": 50.0,
                                                "fair": 60.0}]} for way in ("native", "divvy")}},
        "kills": {"20 of 3 tenants": {"divvy": {
            "median_ms": 20.0, "longest_ms": 60.0, "slowest": [{"ms": 60.0, "at": 3.0}]}}},
        "steady": {"server + training": {"divvy": served(5.7, 5.7)},
                   "server + training, alone": {"native": served(5, 5)}},
        "unlike": {
            "plain + plain 30/70": {"divvy": shared(29.5, 69.0, shares=(29.5, 69.2))},
            "launchbound + long 50/50": {"native": shared(30, 60), "divvy": shared(31, 60)},
            "memory + plain 30/70": {"divvy": shared(29.1, 69.5)}},
        "kinds": {"plain 0.1": {"divvy": shared(10.9, shares=(10.9,))},
                  "launchbound 0.1": {"divvy": shared(47.0, shares=(10.5,))},
                  "launchbound 0.3": {"divvy": shared(97.5, shares=(20.5,))}},
        "density": {"30 spread": {"native": crowd(3, 14, 16), "fcfs": crowd(2, 10, 12)},
                    "30 spread, latency class": {"divvy": crowd(3, 13, 16)}},
    }


class EveryWindow(unittest.TestCase):
    def verdicts(self, results):
        return {row.case.split(" (")[0]: row.met for row in judge.rows(results)}

    def test_good_results_meet_every_demand(self):
        self.assertEqual(set(self.verdicts(good()).values()), {True})

    def missed(self, case, change):
        results = good()
        change(results)
        self.assertEqual([c for c, met in self.verdicts(results).items() if met is False], [case])

    def test_one_bad_second_is_enough(self):
        self.missed("arrive: process starts", lambda r: r["arrive"]["process starts"].update(
            divvy=served(6.1, 6)))

    def test_a_stall_is_measured_against_20_ms_and_native(self):
        self.missed("arrive: process starts", lambda r: r["arrive"]["process starts"].update(
            divvy=served(5, 6, longest=81)))
        results = good()
        results["arrive"]["process starts"].update(native=served(5, 6), divvy=served(5, 5.7, longest=19))
        self.assertEqual(set(self.verdicts(results).values()), {True})

    def test_one_bad_window_of_a_server_is_enough(self):
        self.missed("steady: server + training", lambda r: r["steady"]["server + training"].update(
            divvy=served(5.7, 5.8)))
        self.missed("steady: server + training", lambda r: r["steady"]["server + training"].update(
            divvy=served(5.7, 5.7, speeds=(61.9,))))

    def test_each_other_demand_can_be_missed(self):
        self.missed("returns: after contention, 50/50", lambda r: r["returns"]["after contention"][
            "divvy"].update(windows=shared(48.9, 51.1)["windows"]))
        self.missed("returns: two with random pauses", lambda r: r["returns"]["random pauses"][
            "divvy"]["rounds"].append({"at": 2.0, "first_ms": 20.1, "share": 0, "fair": 50}))
        self.missed("returns: two with random pauses", lambda r: r["returns"]["random pauses"][
            "divvy"]["rounds"].append({"at": 2.0, "first_ms": None, "share": 0, "fair": 50}))
        self.missed("kills: 20 of 3 tenants, the survivor's iterations",
                    lambda r: r["kills"]["20 of 3 tenants"]["divvy"].update(longest_ms=60.1))
        self.missed("unlike: plain + plain 30/70", lambda r: r["unlike"][
            "plain + plain 30/70"].update(divvy=shared(31.1, 68.9)))
        self.missed("unlike: plain + plain 30/70", lambda r: r["unlike"][
            "plain + plain 30/70"].update(divvy=shared(29.1, 68.8, shares=(29.1, 69.1))))
        self.missed("unlike: launchbound + long 50/50", lambda r: r["unlike"][
            "launchbound + long 50/50"].update(divvy=shared(29, 65)))
        self.missed("unlike: memory + plain 30/70", lambda r: r["unlike"][
            "memory + plain 30/70"].update(divvy=shared(28.9, 75)))
        self.missed("kinds: plain, 100 % busy alone, capped",
                    lambda r: r["kinds"]["plain 0.1"].update(divvy=shared(8.9)))
        self.missed("kinds: launchbound, 21 % busy alone, capped",
                    lambda r: r["kinds"]["launchbound 0.3"].update(
                        divvy=shared(96.9, shares=(20.4,))))
        self.missed("kinds: launchbound, 21 % busy alone, capped",
                    lambda r: r["kinds"]["launchbound 0.1"].update(
                        divvy=shared(97, shares=(20.4,))))
        for figures in ((3.1, 13, 16), (3, 13.1, 16), (3, 13, 16.4)):
            self.missed("density: 30 spread, latency class",
                        lambda r, figures=figures: r["density"]["30 spread, latency class"].update(
                            divvy=crowd(*figures)))

    def test_over_mps_no_less_than_mps(self):
        results = good()
        found = results["unlike"]["memory + plain 30/70"]
        found.update(mps=shared(40, 75), divvy_mps=shared(45, 70))
        name = "unlike: memory + plain 30/70, `--mode mps`"
        self.assertTrue(self.verdicts(results)[name])
        found.update(divvy_mps=shared(45, 69.9))
        self.assertFalse(self.verdicts(results)[name])

    def test_without_native_there_is_no_verdict(self):
        results = good()
        del results["arrive"]["process starts"]["native"]
        del results["density"]["30 spread"]["native"]
        verdicts = self.verdicts(results)
        self.assertIsNone(verdicts["arrive: process starts"])
        self.assertIsNone(verdicts["density: 30 spread, latency class"])

    def test_the_table_shows_every_window(self):
        text = report.table(good())
        self.assertIn("### arrive: process starts", text)
        self.assertIn("| 1.0 | 2.0 / 30.0 / 30.0; 63 % | 2.0 / 20.0 / 20.0; 63 % | "
                      "2.0 / 29.0 / 29.0; 63 % |", text)
        self.assertIn("slowest iterations 60.0 ms at 3.00 s", text)
        self.assertIn("first come, first served: p50 2.0, p99 10.0", text)


if __name__ == "__main__":
    unittest.main()
