// Services that the tests of this room and of others start from. Only for tests.
#pragma once

#include "base/check.h"
#include "serve/service.h"

namespace divvy::serve {

inline WallTime at_second(std::int64_t second) { return WallTime(model::Seconds(second)); }

inline model::JobSpec test_replica(const std::string& program = "serve") {
  model::JobSpec job(model::Request::parse("0.2").value());
  job.command = {program};
  return job;
}

inline Settings test_settings(std::uint32_t least, std::uint32_t most) {
  Settings settings;
  settings.port = 8000;
  settings.ready = "/health";
  settings.ready_within = model::Seconds(60);
  settings.drain = model::Seconds(30);
  settings.scale.least = least;
  settings.scale.most = most;
  settings.scale.in_flight = 4;
  return settings;
}

inline Service test_service(std::uint32_t least, std::uint32_t most) {
  auto made =
      make_service("model", "ada", test_settings(least, most), test_replica(), at_second(0));
  DIVVY_CHECK(made.has_value(), "{}", made.error().message);
  return *std::move(made);
}

}  // namespace divvy::serve
