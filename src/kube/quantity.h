// Quantities as Kubernetes writes them in resources: "3", "2k", "10Gi", "1e3". Pure, callable from
// any thread; any text is safe to pass.
#pragma once

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace divvy::kube {

// What is no whole number ("0.5", "300m") is refused: extended resources have none either.
[[nodiscard]] Result<std::uint64_t> parse_whole_quantity(std::string_view text);

// From a document, where a quantity is text or a number.
[[nodiscard]] Result<std::uint64_t> whole_quantity(const boost::json::value& value);

}  // namespace divvy::kube
