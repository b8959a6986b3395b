// The commands under `divvy bench`, which measure Divvy itself on this machine. Runs on the main
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
}

namespace divvy::cli {

struct SimScreen;

struct BenchArguments {
  std::vector<std::uint64_t> gpus;  // empty: 1k, 10k and 100k
  std::string policy = "divvy";
  std::string nodes;
  std::string pods;
  std::uint64_t steady = 100'000;
  std::string format = "table";
};

// Adds `bench` with everything below it. `arguments` outlives it.
CLI::App* add_bench(CLI::App& app, BenchArguments& arguments);

// A wrong option is an error for the usage message; everything else is an exit status.
[[nodiscard]] Result<int> run_bench(const CLI::App& bench, const BenchArguments& arguments,
                                    const SimScreen& screen);

}  // namespace divvy::cli
