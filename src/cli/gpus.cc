#include "cli/gpus.h"

#include <utility>

#include "cli/gpu_document.h"
#include "cli/gpu_table.h"

namespace divvy::cli {
namespace {

// A GPU whose UUID the driver does not tell has no name to print.
std::string uuids(const model::Node& node) {
  std::string text;
  for (const model::Gpu& gpu : node.gpus()) {
    if (gpu.uuid) text += gpu.uuid->str() + "\n";
  }
  return text;
}

Error with_advice(Error error) {
  if (error.code != ErrorCode::kNotFound) return error;
  error.message =
      "there is no GPU driver on this machine.\n  " + error.message +
      "\nInstall the NVIDIA driver (nvidia-smi then works too), or look at simulated GPUs:\n"
      "  DIVVY_SIM_GPUS=4 divvy gpus";
  return error;
}

}  // namespace

Result<std::string> list_gpus(const Inventory& inventory, const GpusOptions& options,
                              const Style& style) {
  Result<model::Node> node = inventory();
  if (!node) return err(with_advice(std::move(node).error()));
  switch (options.format) {
    case OutputFormat::kJson:
    case OutputFormat::kYaml:
      return write_document(
          options.topology ? gpu_topology_document(*node) : gpu_list_document(*node),
          options.format);
    case OutputFormat::kName:
      return uuids(*node);
    case OutputFormat::kCsv:
    case OutputFormat::kTable:
    case OutputFormat::kWide:
      break;
  }
  if (options.topology) return gpu_topology_matrix(*node, style);
  return gpu_table(*node, style, options.format == OutputFormat::kWide);
}

}  // namespace divvy::cli
