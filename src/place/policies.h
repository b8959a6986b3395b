// Who makes each policy. Only the register (policy.cc) and tests need this; everybody else asks
// make_policy() by name.
#pragma once

#include <cstdint>
#include <memory>

#include "place/policy.h"

namespace divvy::place {

// The six that were published with the FGD packing benchmark.
[[nodiscard]] std::unique_ptr<Policy> make_random(std::uint64_t seed);
[[nodiscard]] std::unique_ptr<Policy> make_dotprod();
[[nodiscard]] std::unique_ptr<Policy> make_clustering();
[[nodiscard]] std::unique_ptr<Policy> make_packing();
[[nodiscard]] std::unique_ptr<Policy> make_bestfit();
[[nodiscard]] std::unique_ptr<Policy> make_fgd();

[[nodiscard]] std::unique_ptr<Policy> make_bundle();
[[nodiscard]] std::unique_ptr<Policy> make_spread();
[[nodiscard]] std::unique_ptr<Policy> make_topology();

// Divvy's own, the default.
[[nodiscard]] std::unique_ptr<Policy> make_divvy();

}  // namespace divvy::place
