"""Statistics, judgement and pictures: the parts of the bench that need no GPU and no process."""
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import plot
import programs
import report
import stats

GIB = 1 << 30


def rate(per_second, worst=1.0):
    times = [10.0] * 9 + [10.0 * worst]
    return {"iterations_per_second": per_second, "iteration_ms": stats.summary(times),
            "times_ms": times}


def served(*milliseconds):
    return {"latency_ms": stats.summary(milliseconds), "latencies_ms": list(milliseconds)}


def good_results():
    """Everything measured, every demand met; alone is 100 iterations a second."""
    return {
        "environment": {"date": "2026-01-01", "gpu": "Test GPU", "commit": "abc"},
        "alone": {name: [rate(100)] for name in ("resnet", "gemm", "graph", "gpt2")},
        "caps": {"resnet": {"0.25": rate(25.5), "0.5": rate(49.2), "0.75": rate(75)},
                 "gemm": {"0.25": rate(25), "0.5": rate(50), "0.75": rate(75)},
                 "graph": {"0.5": rate(50.9)}},
        "pair": {"native": [rate(45), rate(45)], "mps": [rate(40), rate(77)],
                 "divvy": [rate(30, 1.2), rate(69)], "divvy_mps": [rate(40), rate(78)]},
        "four": {"divvy": [rate(10), rate(20), rate(30), rate(39)]},
        "latency": {"alone": [served(1, 2, 5)], "native": [served(1, 9, 40), rate(60)],
                    "mps_priority": [served(1, 9, 20), rate(80)],
                    "divvy": [served(1, 2, 5.5), rate(63)]},
        "launchbound": {"native": [[rate(84), rate(84)]],
                        "divvy": [[rate(88), rate(86)], [rate(87), rate(85)]]},
        "memory": {"reserved_bytes": 9 * GIB, "limit_bytes": 10 * GIB, "error": "out of memory",
                   "nvml_peak_bytes": 10 * GIB},
        "families": [{"family": "plain", "bytes": 3 * GIB, "limit_bytes": 4 * GIB, "status": 0,
                      "stopped": "refused", "nvml_peak_bytes": 4 * GIB}],
        "shim": {"resnet": [{"native": 100, "divvy": 99.8}]},
        "nanoseconds": [{"native": [{"call": "launch plain", "added_ns": 0.2},
                                    {"call": "alloc and free of 4 KiB", "added_ns": 0}],
                         "divvy": [{"call": "launch plain", "added_ns": 15},
                                   {"call": "alloc and free of 4 KiB", "added_ns": 90}]}],
        "failures": [],
    }


def pictured_results():
    """A little of each case that has a picture of its own."""
    window = {"from": 0.0, "p50": 1.0, "p99": 2.0, "max": 3.0, "shares": [50.0], "speeds": [50.0]}
    return {
        "arrive": {"alone": {"native": {"windows": [window]}},
                   "process starts": {way: {"windows": [window, {"from": 1.0, "count": 0}],
                                            "arrived_s": [0.4]} for way in ("native", "divvy")}},
        "returns": {"after contention": {"divvy": {"share_by_100_ms": [[50.0, 40.0], [50.0, 60.0]]}}},
        "density": {"1 spread": {"native": {"p50": 1.0, "p99": 2.0}},
                    "4 spread, latency class": {"divvy": {"p50": 1.0, "p99": 2.0}}},
        "kinds": {"plain 0.3": {"divvy": {"windows": [window]}}},
    }


class Statistics(unittest.TestCase):
    def test_a_percentile_is_one_of_the_values(self):
        self.assertEqual(stats.percentile([3, 1, 2], 0.5), 2)
        self.assertEqual(stats.percentile(range(1, 101), 0.99), 99)
        self.assertEqual(stats.percentile([7], 0.99), 7)
        self.assertEqual(stats.percentile([1, 2], 0.0), 1)
        with self.assertRaises(ValueError):
            stats.percentile([], 0.5)

    def test_the_iteration_under_way_counts_in_part(self):
        ends = [1.0, 2.0, 4.0]
        self.assertEqual(stats.completed_by(0.5, 0.0, ends), 0.5)
        self.assertEqual(stats.completed_by(3.0, 0.0, ends), 2.5)
        self.assertEqual(stats.completed_by(9.0, 0.0, ends), 3.0)
        self.assertEqual(stats.completed_between(0.5, 3.0, 0.0, ends), 2.0)

    def test_before_the_first_iteration_began_nothing_is_done(self):
        self.assertEqual(stats.completed_by(0.5, 1.0, [2.0]), 0.0)
        self.assertEqual(stats.completed_by(5.0, 1.0, []), 0.0)

    def test_times_are_those_of_iterations_wholly_inside_the_window(self):
        self.assertEqual(stats.times_between(1.0, 4.0, 0.0, [0.5, 1.5, 2.0, 4.0, 5.0]), [0.5, 2.0])

    def test_the_same_seed_gives_the_same_arrivals_at_the_asked_rate(self):
        arrivals = stats.poisson_arrivals(200, 50, 7)
        self.assertEqual(arrivals, stats.poisson_arrivals(200, 50, 7))
        self.assertNotEqual(arrivals, stats.poisson_arrivals(200, 50, 8))
        self.assertAlmostEqual(len(arrivals) / 50, 200, delta=10)
        self.assertEqual(arrivals, sorted(arrivals))


class Judgement(unittest.TestCase):
    def met(self, results):
        return {row.case.split(" (")[0]: row.met for row in report.rows(results)}

    def test_good_results_meet_every_demand(self):
        self.assertEqual(set(self.met(good_results()).values()), {True})

    def test_nothing_measured_is_no_verdict(self):
        self.assertEqual(set(self.met({}).values()), {None})
        self.assertNotIn("two resnets", report.table({}))

    def test_each_demand_can_be_missed(self):
        def missed(case, change):
            results = good_results()
            change(results)
            verdicts = self.met(results)
            self.assertEqual([c for c, met in verdicts.items() if met is False], [case])

        missed("cap 25 / 50 / 75 %, resnet alone",
               lambda r: r["caps"]["resnet"].update({"0.5": rate(51.1)}))
        missed("cap 25 / 50 / 75 %, gemm alone", lambda r: r["caps"]["gemm"].update({"0.5": rate(100)}))
        missed("two resnets, 30/70", lambda r: r["pair"]["divvy"].__setitem__(0, rate(28.9)))
        missed("two resnets, 30/70, `--mode mps`",
               lambda r: r["pair"]["divvy_mps"].__setitem__(1, rate(76)))
        missed("slowest iteration of the 30 % tenant ÷ its median",
               lambda r: r["pair"]["divvy"].__setitem__(0, rate(30, 1.6)))
        missed("graph at 200 req/s beside resnet training",
               lambda r: r["latency"]["divvy"].__setitem__(0, served(1, 2, 6)))
        missed("graph at 200 req/s beside resnet training",
               lambda r: r["latency"]["divvy"].__setitem__(1, rate(61)))
        missed("four resnets, 10/20/30/40", lambda r: r["four"]["divvy"].__setitem__(0, rate(8)))
        missed("two gpt2",
               lambda r: r["launchbound"].update(native=[[rate(90), rate(90)]]))
        missed("10 GiB limit, PyTorch allocates till it fails",
               lambda r: r["memory"].update(nvml_peak_bytes=10 * GIB + 1))
        missed("4 GiB limit, every family of allocation",
               lambda r: r["families"][0].update(bytes=5 * GIB))
        missed("alone, no cap: cost of the shim",
               lambda r: r["shim"].update(gemm=[{"native": 100, "divvy": 99}]))
        missed("alone, no cap: cost of one call",
               lambda r: r["nanoseconds"][0]["divvy"][0].update(added_ns=30))

    def test_alone_is_the_middle_of_its_windows(self):
        results = {"alone": {"resnet": [rate(90), rate(100), rate(140)]}}
        self.assertEqual(report.percent(results, "resnet", rate(50)), 50)

    def test_the_table_says_what_failed_in_one_line(self):
        results = good_results()
        results["failures"] = [{"case": "pair", "mode": "mps", "error": "no\nanswer"}]
        self.assertIn("- pair, mps: no answer\n", report.table(results))

    def test_the_table_of_programs_has_a_line_for_each(self):
        text = programs.table({"environment": {}, "programs": [
            {"program": "A", "result": "pass", "seconds": 3.5},
            {"program": "B", "result": "not installed (jax)"}]})
        self.assertIn("| A | pass | 3.5 |", text)
        self.assertIn("| B | not installed (jax) | – |", text)


class Pictures(unittest.TestCase):
    @unittest.skipUnless(plot.library(), "matplotlib is not installed")
    def test_every_picture_is_a_png(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            results = {**good_results(), **pictured_results()}
            self.assertEqual(plot.write(results, folder), [picture for picture, _ in plot.PICTURES])
            for picture, _ in plot.PICTURES:
                self.assertTrue((folder / picture).read_bytes().startswith(b"\x89PNG\r\n\x1a\n"))

    @unittest.skipUnless(plot.library(), "matplotlib is not installed")
    def test_nothing_measured_draws_nothing(self):
        with tempfile.TemporaryDirectory() as name:
            self.assertEqual(plot.write({}, pathlib.Path(name)), [])

    def test_without_matplotlib_it_says_so(self):
        said = []
        with unittest.mock.patch.object(plot, "library", return_value=None):
            self.assertEqual(plot.write(good_results(), None, said.append), [])
        self.assertIn("matplotlib is not installed", said[0])

    def test_a_crowd_of_one_is_in_both_patterns(self):
        results = {"density": {"1 spread": {"native": {"p99": 4.0}},
                               "30 instants": {"native": {"p99": 50.0}},
                               "30 instants, default class": {"divvy": {"p99": 60.0}}}}
        lines = plot.crowd_lines(results, "instants", "p99")
        self.assertEqual(lines["native"][2], [(1, 4.0), (30, 50.0)])
        self.assertEqual(lines["Divvy, default class"][1], "--")


class Sources(unittest.TestCase):
    def test_everything_compiles(self):
        for path in pathlib.Path(__file__).resolve().parent.glob("*.py"):
            compile(path.read_text(), str(path), "exec")
        for program in programs.PROGRAMS:
            compile(program.source, program.name, "exec")


if __name__ == "__main__":
    unittest.main()
