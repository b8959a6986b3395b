// Services, by version: how many replicas there are, and what they do.
#include "api/metrics_snapshot.h"

namespace divvy::api {
namespace {

using control::VersionLoad;
using Type = Exposition::Type;

}  // namespace

void write_service_metrics(const MetricsSnapshot& snapshot, Exposition& out) {
  if (snapshot.services.empty()) return;
  const auto family = [&](const char* name, Type type, const char* help, auto&& read) {
    out.begin(name, type, help);
    for (const VersionLoad& load : snapshot.services) {
      out.add(Labels().add("service", load.service).add("version", std::to_string(load.version)),
              std::uint64_t{read(load)});
    }
  };
  family("divvy_service_replicas", Type::kGauge, "Replicas of the version that have not ended.",
         [](const VersionLoad& load) { return load.replicas; });
  family("divvy_service_ready_replicas", Type::kGauge, "Replicas that may be asked.",
         [](const VersionLoad& load) { return load.ready; });
  family("divvy_service_requests_in_flight", Type::kGauge, "Requests that replicas work on.",
         [](const VersionLoad& load) { return load.in_flight; });
  family("divvy_service_requests_total", Type::kCounter,
         "Requests that replicas were given since the daemon was started.",
         [](const VersionLoad& load) { return load.requests; });
  family("divvy_service_errors_total", Type::kCounter, "Of those, answered with 5xx or not at all.",
         [](const VersionLoad& load) { return load.errors; });
}

}  // namespace divvy::api
