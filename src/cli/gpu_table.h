// GPUs as text for people: the table of `divvy gpus`, its wide form, and the matrix of connections.
// Pure; text from the driver comes out safe for a terminal.
#pragma once

#include <string>
#include <vector>

#include "cli/style.h"
#include "model/node.h"

namespace divvy::cli {

// When lines get too long for the terminal, the bar goes first, then the model is shortened, then
// power, temperature and utilisation go. The wide form only loses its bar: who asks for it wants
// everything.
[[nodiscard]] std::string gpu_table(const model::Node& node, const Style& style, bool wide);

// A matrix like that of `nvidia-smi topo -m`, with a legend for the words that occur.
[[nodiscard]] std::string gpu_topology_matrix(const model::Node& node, const Style& style);

// Ascending numbers, shortened: "0-3,5".
[[nodiscard]] std::string to_range_list(const std::vector<std::uint32_t>& numbers);

}  // namespace divvy::cli
