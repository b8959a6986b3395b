// The command `divvy gpus`: lists the GPUs of this machine. Runs on the main thread.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "cli/output.h"
#include "cli/style.h"
#include "model/node.h"

namespace divvy::cli {

// Takes stock of the machine. kNotFound means that there is no driver, neither real nor simulated.
using Inventory = std::function<Result<model::Node>()>;

struct GpusOptions {
  OutputFormat format = OutputFormat::kTable;
  bool topology = false;
};

// What goes to standard output.
[[nodiscard]] Result<std::string> list_gpus(const Inventory& inventory, const GpusOptions& options,
                                            const Style& style);

}  // namespace divvy::cli
