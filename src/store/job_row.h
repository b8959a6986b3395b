// The parts of a job that are kept as JSON text, and back. Used by JobTable. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/job.h"

namespace divvy::store {

[[nodiscard]] std::string slices_text(const std::vector<model::Slice>& slices);
// kDataLoss for what slices_text() never wrote.
[[nodiscard]] Result<std::vector<model::Slice>> read_slices(std::string_view text);

}  // namespace divvy::store
