// Values that the tests of this room and of others start from. Only for tests.
#pragma once

#include <fmt/format.h>

#include <cstdint>

#include "base/check.h"
#include "model/gpu_uuid.h"

namespace divvy::model {

// A different well-formed UUID for every number.
inline GpuUuid test_uuid(std::uint64_t number) {
  auto uuid = GpuUuid::parse(fmt::format("GPU-00000000-0000-4000-8000-{:012x}", number));
  DIVVY_CHECK(uuid.has_value(), "{}", uuid.error().message);
  return *std::move(uuid);
}

}  // namespace divvy::model
