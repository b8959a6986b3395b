// The commands under `divvy gpu`, for operators: how the GPUs are doing as the daemon judges them,
// and taking one out of use. Runs on the main thread.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/daemon.h"
#include "cli/gpus.h"
#include "cli/style.h"

namespace CLI {
class App;
}

namespace divvy::cli {

struct GpuArguments {
  std::string gpu;
  std::string reason;
  std::optional<std::uint32_t> deadline_seconds;
  std::string format = "table";
};

// Adds `gpu` with everything below it. `arguments` outlives it.
CLI::App* add_gpu(CLI::App& app, GpuArguments& arguments);

// A wrong option is an error for the usage message; everything else is an exit status.
[[nodiscard]] Result<int> run_gpu(const CLI::App& gpu, const GpuArguments& arguments,
                                  const Daemon& daemon, const Style& style, std::ostream& out,
                                  std::ostream& err);

// `divvy gpu list`, in a format that it has.
[[nodiscard]] int show_gpu_health(const Daemon& daemon, OutputFormat format, const Style& style,
                                  std::ostream& out, std::ostream& err);

// The answer of GET /v1/gpus as a table; of a cluster with the nodes.
[[nodiscard]] Result<std::string> health_table(const std::string& document, const Style& style);

// Health as the daemon judges it, where one runs, over what a look at the driver says: the daemon
// has watched for longer.
[[nodiscard]] Inventory judged_by(const Daemon& daemon, const Inventory& inventory);
// The same with the answer of GET /v1/gpus.
[[nodiscard]] model::Node with_health(const model::Node& node, const std::string& document);

}  // namespace divvy::cli
