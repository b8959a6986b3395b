// The commands under `divvy slice`: slices that are held by a name, for containers. JSON from the
// daemon becomes text for people. Runs on the main thread.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/daemon.h"
#include "cli/style.h"

namespace CLI {
class App;
}

namespace divvy::cli {

struct SliceArguments {
  std::string name;
  std::optional<std::string> gpu;  // Nothing: as much as the memory is, or else one
  std::optional<std::string> memory;
  bool cap = false;
  std::string tenant_class = "batch";
  std::string mode;  // Empty: as the machine is set up
  std::vector<std::string> devices;
  std::vector<std::string> models;
  std::string queue;  // Empty: the default one
  std::string format = "table";
};

// Adds `slice` with everything below it to the command line. `arguments` outlives it.
CLI::App* add_slice(CLI::App& app, SliceArguments& arguments);

struct SliceScreen {
  std::ostream& out;
  std::ostream& err;
  const Style& style;
};

// Runs the command below `slice` that was given. A wrong option is an error for the usage message;
// everything else has been said on `err` and is an exit status.
[[nodiscard]] Result<int> run_slice(const CLI::App& slice, const SliceArguments& arguments,
                                    const Daemon& daemon, const SliceScreen& screen);

// The answer of GET /v1/slices as a table.
[[nodiscard]] Result<std::string> slice_table(const std::string& document, const Style& style);

}  // namespace divvy::cli
