// The sentences of explain.h, one function for each kind of thing that is said. Only explain*.cc
// include it.
#pragma once

#include <string>
#include <vector>

#include "place/eligible.h"
#include "place/node_trial.h"
#include "place/shortfall.h"

namespace divvy::place {

// "8 GiB", "1.5 GiB": humanize without a zero behind the point.
[[nodiscard]] std::string size_words(std::uint64_t bytes);
// "1 node", "2 nodes"
[[nodiscard]] std::string count_words(std::uint64_t count, std::string_view thing);
// "a", "a and b", "a, b and c"
[[nodiscard]] std::string list_words(const std::vector<std::string>& items);
// "one NVLink island"
[[nodiscard]] std::string_view group_words(Closeness closeness);

// Why no member fits on the node.
[[nodiscard]] std::string refusal_words(const Cluster& cluster, const Request& request,
                                        const Ask& ask, const Eligible& eligible,
                                        const NodeTrial& node, Refusal refusal);
// One for each GPU.
[[nodiscard]] std::vector<std::string> device_words(const Cluster& cluster, const Ask& ask,
                                                    const NodeTrial& node);
// "2 GiB are freed on gpu3 of node-a"
[[nodiscard]] std::string shortfall_words(const Cluster& cluster, const Shortfall& shortfall);
// Why even the emptiest cluster has no place, where `refusal` is what stands in the way.
[[nodiscard]] std::string never_words(const Request& request, const Ask& ask, Refusal refusal);

}  // namespace divvy::place
