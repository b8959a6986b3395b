// Services as JSON: what the store keeps, and what the bodies of requests about them have. Pure,
// callable from any thread; any bytes are safe to pass.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "serve/service.h"

namespace divvy::serve {

// All of it, for the store.
[[nodiscard]] std::string write_service(const Service& service);
// kDataLoss where it is not what write_service() gives.
[[nodiscard]] Result<Service> read_service(std::string_view json);

// --- Bodies of requests; what is missing stays as it is in `settings` ---

// {"name": ..., "job": {...}, and the fields of Settings}
struct NewService {
  std::string name;
  Settings settings;
  model::JobSpec job;
};
[[nodiscard]] Result<NewService> read_new_service(std::string_view json);
// {"replicas": {"least": ...}, "drain": ...}
[[nodiscard]] Result<Settings> read_settings_change(Settings settings, std::string_view json);
// {"job": {...}, "weight": 10}
struct NewVersion {
  model::JobSpec job;
  std::uint32_t weight = 100;
};
[[nodiscard]] Result<NewVersion> read_new_version(std::string_view json);
// {"weight": 50}, or nothing
[[nodiscard]] Result<std::uint32_t> read_promotion(std::string_view json);
// {"to": 3}, or nothing
[[nodiscard]] Result<std::optional<VersionNumber>> read_roll_back(std::string_view json);

}  // namespace divvy::serve
