#include "gpuload/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include "base/text.h"
#include "base/units.h"
#include "gpuload/alloc_families.h"

namespace divvy::gpuload {
namespace {

// Turns "64MiB" into a number while CLI11 reads the option.
CLI::Option* add_bytes(CLI::App& app, const std::string& name, uint64_t& bytes,
                       const std::string& what) {
  const auto read = [&bytes](const std::string& text) {
    const auto parsed = parse_bytes(text);
    if (!parsed) {
      const std::string& message = parsed.error().message;
      throw CLI::ValidationError(message.substr(0, message.find('\n')));
    }
    bytes = parsed->count();
  };
  return app.add_option_function<std::string>(name, read, what)
      ->type_name("BYTES")
      ->default_str(to_string(Bytes(bytes)));
}

// One word out of a list, each standing for a value.
template <typename Value>
void add_choice(CLI::App& app, const std::string& name, Value& value,
                const std::map<std::string, Value>& choices, const std::string& what) {
  app.add_option_function<std::string>(
         name, [&value, choices](const std::string& word) { value = choices.at(word); }, what)
      ->check(CLI::IsMember(choices));
}

std::map<std::string, LaunchKind> launch_names() {
  std::map<std::string, LaunchKind> names;
  for (const LaunchKind kind : kLaunchKinds) names.emplace(to_string(kind), kind);
  return names;
}

// Options of every mode, filled while CLI11 reads; the chosen mode's are copied out at the end.
struct AllOptions {
  CommandLine common;
  uint64_t seed = 1;
  SpinOptions spin;
  LoopOptions loop;
  LaunchOptions launch;
  CostOptions cost;
  PoissonOptions poisson;
  MemoryOptions memory;
  CopyOptions copy;
  bool pinned = false;
  bool pageable = false;
  GraphOptions graph;
  AllocOptions alloc;
  std::string family = "plain";
  ThreadsOptions threads;
  MixOptions mix;
  ServeIpcOptions serve;
};

// CLI11's own checks of numbers print the largest double in full when they refuse.
CLI::Validator number_check(bool zero_allowed) {
  const auto check = [zero_allowed](const std::string& text) -> std::string {
    double value = -1;
    const bool number = CLI::detail::lexical_cast(text, value);
    if (number && std::isfinite(value) && (value > 0 || (zero_allowed && value == 0))) return {};
    return fmt::format("\"{}\" is not a number {} zero", escape_for_terminal(text),
                       zero_allowed ? "from" : "above");
  };
  return {check, ""};
}

CLI::Option* positive(CLI::Option* option) { return option->check(number_check(false)); }
CLI::Option* not_negative(CLI::Option* option) { return option->check(number_check(true)); }

void add_spin(CLI::App& app, SpinOptions& options) {
  positive(app.add_option("--us", options.us, "length of a kernel in microseconds"));
  app.add_option("--count", options.count, "launches on each stream");
  not_negative(app.add_option("--seconds", options.seconds, "how long (5 when no count is given)"));
  not_negative(app.add_option("--warmup", options.warmup_seconds, "seconds before measuring"));
  app.add_option("--streams", options.streams, "streams of each thread")->check(CLI::Range(1, 256));
  app.add_option("--threads", options.threads, "host threads")->check(CLI::Range(1, 256));
  app.add_option("--depth", options.depth, "launches in flight on each stream")
      ->check(CLI::Range(1, 1024));
  add_choice(app, "--launch", options.launch, launch_names(), "how to launch (default plain)");
  app.add_flag("--narrow", options.narrow, "one warp instead of the whole GPU");
  app.add_option("--iterations-per-us", options.iterations_per_us,
                 "speed of the GPU from an earlier report, instead of measuring it");
}

// When to work, for processes that begin together.
void add_moments(CLI::App& app, std::string& start, std::function<void(Schedule)> keep) {
  app.add_option("--start", start,
                 "start moment: nanoseconds on the monotonic clock, now, or - to read it from "
                 "standard input after saying ready")
      ->type_name("NS");
  app.add_option_function<std::string>(
         "--run",
         [keep = std::move(keep)](const std::string& text) {
           auto schedule = Schedule::parse(text);
           if (!schedule) throw CLI::ValidationError("--run: " + schedule.error().message);
           keep(std::move(*schedule));
         },
         "when to work, in seconds after the start moment: 0:5,8:20")
      ->type_name("SPANS");
}

void add_loop(CLI::App& app, LoopOptions& options) {
  IterationOptions& what = options.iteration;
  add_choice<Body>(
      app, "--body", what.body,
      {{"kernels", Body::kKernels}, {"copy", Body::kCopy}, {"chain", Body::kChain}},
      "what an iteration is: kernels, copies in device memory, or kernels that go round several "
      "streams and wait for each other (default kernels)");
  positive(app.add_option("--us", what.us, "length of a kernel in microseconds"));
  app.add_option("--kernels", what.kernels, "kernels of an iteration")
      ->check(CLI::Range(1, 10'000));
  app.add_option_function<uint64_t>(
         "--mib", [&what](const uint64_t& mib) { what.bytes = mib << 20U; }, "MiB of a copy")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--streams", what.streams, "streams of a chain")->check(CLI::Range(1, 256));
  not_negative(
      app.add_option("--cpu-us", what.cpu_us, "microseconds of CPU time after each kernel"));
  app.add_option("--sync-every", options.sync_every,
                 "wait for the GPU after so many iterations (0: never)");
  app.add_option("--depth", options.depth, "iterations in flight")->check(CLI::Range(1, 1024));
  app.add_flag("--spin-wait", options.spin_wait, "wait for the GPU with a whole CPU core");
  app.add_flag("--measure-cost", options.measure_cost,
               "measure the GPU time of an iteration first; only on an idle GPU");
  positive(app.add_option_function<double>(
      "--seconds",
      [&options](double seconds) { options.schedule = Schedule::for_seconds(seconds); },
      "how long (5), where there is no --run"));
  add_moments(app, options.start,
              [&options](Schedule schedule) { options.schedule = std::move(schedule); });
  app.add_option("--keep", options.keep, "ends of iterations in the report, at most");
  app.add_option("--iterations-per-us", options.iterations_per_us,
                 "speed of the GPU from an earlier report, instead of measuring it");
}

void add_poisson(CLI::App& app, PoissonOptions& options) {
  positive(app.add_option("--rate", options.rate, "requests per second on average"));
  positive(app.add_option("--us", options.us, "GPU time of a request in microseconds"));
  positive(app.add_option("--seconds", options.seconds, "how long"));
  app.add_flag("--graph", options.graph, "a request is one graph launch");
  app.add_option("--kernels", options.kernels, "kernels of a request")
      ->check(CLI::Range(1, 10'000));
  add_moments(app, options.start,
              [&options](Schedule schedule) { options.schedule = std::move(schedule); });
  app.add_option("--moments", options.moments, "single requests in the report, at most");
  app.add_flag("--spin-wait", options.spin_wait, "watch for the end with a whole CPU core");
  app.add_option("--iterations-per-us", options.iterations_per_us,
                 "speed of the GPU from an earlier report, instead of measuring it");
}

void add_alloc(CLI::App& app, AllOptions& all) {
  app.add_option("--family", all.family,
                 "plain, pitch, managed, ... or all, or a list with commas");
  add_bytes(app, "--chunk", all.alloc.chunk, "size of one allocation");
  add_bytes(app, "--limit", all.alloc.limit, "stop here (0: when refused)");
  app.add_flag("--exact", all.alloc.exact, "after a refusal go on with smaller chunks, to 2 MiB");
  not_negative(
      app.add_option("--hold-seconds", all.alloc.hold_seconds, "keep everything for so long"));
  app.add_option("--pairs", all.alloc.pairs,
                 "instead, time so many pairs of cuMemAlloc and cuMemFree");
}

void check_families(AllOptions& all) {
  const auto& names = alloc_family_names();
  if (all.family == "all") {
    all.alloc.families = names;
    return;
  }
  all.alloc.families.clear();
  for (const std::string_view piece : split(all.family, ',')) {
    const std::string name(trim(piece));
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw CLI::ValidationError(
          fmt::format("--family: there is no allocation family \"{}\"; there are all, {}",
                      escape_for_terminal(name), fmt::join(names, ", ")));
    }
    all.alloc.families.push_back(name);
  }
}

// The sub-commands, each with how its options get into the result.
using Finish = std::function<ModeOptions(AllOptions&)>;

std::map<std::string, Finish> add_modes(CLI::App& app, AllOptions& all) {
  std::map<std::string, Finish> finish;
  const auto mode = [&](const char* name, const char* what, Finish done) -> CLI::App& {
    finish.emplace(name, std::move(done));
    return *app.add_subcommand(name, what)->fallthrough();
  };

  mode("info", "what the driver says about the GPU", [](AllOptions&) { return InfoOptions{}; });
  add_spin(
      mode("spin", "kernels of equal length, back to back", [](AllOptions& a) { return a.spin; }),
      all.spin);
  add_loop(mode("loop", "iterations at moments of a schedule, with the end of each",
                [](AllOptions& a) { return a.loop; }),
           all.loop);
  mode("launch", "what an empty launch costs the CPU, by every way of launching",
       [](AllOptions& a) { return a.launch; })
      .add_option("--count", all.launch.count, "launches of each kind");
  mode("cost", "what a library in front of the driver adds to launches, allocations and frees",
       [](AllOptions& a) { return a.cost; })
      .add_option("--rounds", all.cost.rounds, "rounds of 128 calls each way");
  add_poisson(mode("poisson", "requests at random times, with their latencies",
                   [](AllOptions& a) {
                     a.poisson.seed = a.seed;
                     return a.poisson;
                   }),
              all.poisson);
  CLI::App& memory = mode("memory", "bandwidth of device memory under a kernel",
                          [](AllOptions& a) { return a.memory; });
  memory.add_option_function<uint64_t>(
      "--mib", [&all](const uint64_t& mib) { all.memory.bytes = mib << 20U; }, "MiB per launch");
  memory.add_option("--count", all.memory.count, "launches");
  CLI::App& copy = mode("copy", "bandwidth of the driver's copies", [](AllOptions& a) {
    a.copy.pinned = !a.pageable;
    return a.copy;
  });
  copy.add_option_function<uint64_t>(
      "--mib", [&all](const uint64_t& mib) { all.copy.bytes = mib << 20U; }, "MiB per copy");
  copy.add_option("--count", all.copy.count, "copies");
  add_choice<Direction>(copy, "--direction", all.copy.direction,
                        {{"h2d", Direction::kHostToDevice},
                         {"d2h", Direction::kDeviceToHost},
                         {"d2d", Direction::kDeviceToDevice}},
                        "which way (default h2d)");
  auto* pinned =
      copy.add_flag("--pinned", all.pinned, "host memory that the driver allocated (the default)");
  copy.add_flag("--pageable", all.pageable, "ordinary host memory")->excludes(pinned);
  mode("graph", "graphs, captured and built, with their results checked", [](AllOptions& a) {
    return a.graph;
  }).add_option("--count", all.graph.count, "launches of each graph");
  add_alloc(mode("alloc", "allocate until refused",
                 [](AllOptions& a) {
                   check_families(a);
                   return a.alloc;
                 }),
            all);
  mode("fork", "what forked children see of the driver", [](AllOptions&) { return ForkOptions{}; });
  CLI::App& threads = mode("threads", "many host threads at once, with their results checked",
                           [](AllOptions& a) { return a.threads; });
  threads.add_option("--threads", all.threads.threads, "host threads")->check(CLI::Range(1, 256));
  threads.add_option("--rounds", all.threads.rounds, "rounds of each thread");
  threads.add_flag("--per-thread-stream", all.threads.per_thread_stream,
                   "use the per-thread default stream");
  add_bytes(threads, "--bytes", all.threads.bytes, "buffer of each thread");
  CLI::App& mix = mode("mix", "launches, copies and allocations at once, until ended from outside",
                       [](AllOptions& a) {
                         a.mix.seed = a.seed;
                         return a.mix;
                       });
  not_negative(mix.add_option("--seconds", all.mix.seconds, "end after so long (0: never)"));
  mix.add_option("--threads", all.mix.threads, "host threads")->check(CLI::Range(1, 256));
  positive(mix.add_option("--us", all.mix.us, "rough length of a kernel"));
  add_bytes(mix, "--chunk", all.mix.chunk, "size of one allocation");
  CLI::App& serve = mode("serve-ipc", "", [](AllOptions& a) { return a.serve; });
  serve.group("");  // not shown: `alloc --family ipc` starts it
  add_bytes(serve, "--chunk", all.serve.chunk, "");
  return finish;
}

}  // namespace

std::variant<CommandLine, CommandLineHelp, CommandLineMistake> parse_command_line(
    int argc, const char* const* argv) {
  AllOptions all;
  CLI::App app("Puts load on a GPU through the CUDA driver and reports what it saw as JSON.",
               "gpuload");
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default();
  std::string format = "json";
  not_negative(app.add_option("--device", all.common.device, "which GPU"));
  app.add_option("--seed", all.seed, "for everything random");
  app.add_option("--out", all.common.out, "write the report to this file");
  app.add_option("-o,--output", format, "json or text")->check(CLI::IsMember({"json", "text"}));
  app.add_flag("--quiet", all.common.quiet, "write no report");
  const auto finish = add_modes(app, all);
  try {
    app.parse(argc, argv);
    CommandLine result = all.common;
    result.text = format == "text";
    result.mode = app.get_subcommands().front()->get_name();
    result.options = finish.at(result.mode)(all);
    return result;
  } catch (const CLI::CallForHelp&) {
    return CommandLineHelp{app.help()};
  } catch (const CLI::Error& error) {
    std::string sentence = error.what();
    std::replace(sentence.begin(), sentence.end(), '\n', ' ');
    return CommandLineMistake{sentence + "; gpuload --help shows what there is"};
  }
}

}  // namespace divvy::gpuload
