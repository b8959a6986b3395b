// GPUs as documents for other programs: the schema `divvy/v1`, in which fields are added but never
// renamed or taken away. A value that is not known is null, and `problems` says why. Pure.
#pragma once

#include <string>

#include "model/node.h"

namespace divvy::cli {

// kind GpuList: one item per GPU. JSON text.
[[nodiscard]] std::string gpu_list_document(const model::Node& node);

// kind GpuTopology: the matrix of connections, row by row in the order of `items`. JSON text.
[[nodiscard]] std::string gpu_topology_document(const model::Node& node);

}  // namespace divvy::cli
