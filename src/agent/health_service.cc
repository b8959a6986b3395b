#include "agent/health_service.h"

#include <utility>

namespace divvy::agent {
namespace {

// The inventory calls a GPU out of order; the watch finds out whether it still is.
std::vector<health::WatchedGpu> watched_gpus(const ledger::Slices& slices) {
  std::vector<health::WatchedGpu> result;
  for (const ledger::SharedGpu& gpu : slices.gpus())
    result.push_back({gpu.index, gpu.uuid, gpu.resting});
  return result;
}

}  // namespace

HealthService::HealthService(const Parts& parts)
    : tenants_(parts.tenants),
      clock_(parts.clock),
      events_(parts.clock),
      failing_({.on_failure = parts.settings.on_failure,
                .grace_time = parts.settings.grace_time,
                .clock = parts.clock,
                .events = events_,
                .holders = [this](const auto& gpu) { return tenants_.holders(gpu); },
                .signal = [this](auto tenant, int number) { tenants_.signal(tenant, number); },
                .rest = [this](const auto& gpu, const auto& why,
                               bool failing) { tenants_.set_resting(gpu, why, failing); }}) {}

Result<std::unique_ptr<HealthService>> HealthService::create(Parts parts) {
  std::unique_ptr<HealthService> service(new HealthService(parts));
  const std::vector<health::WatchedGpu> gpus = watched_gpus(parts.tenants.slices());
  std::map<model::GpuUuid, model::GpuIndex> indices;
  for (const health::WatchedGpu& gpu : gpus) indices.emplace(gpu.uuid, gpu.index);
  DIVVY_TRY(watch,
            health::HealthWatch::create(
                {.settings = parts.settings,
                 .gpus = gpus,
                 .clock = parts.clock,
                 .events = service->events_,
                 .samples = service->samples_,
                 .cordons = std::move(parts.cordons),
                 .keep_cordon = std::move(parts.keep_cordon),
                 .changed =
                     [&failing = service->failing_, indices](const health::GpuHealth& health) {
                       failing.gpu_changed(indices.at(health.uuid), health);
                     },
                 .tick = [&failing = service->failing_] { return failing.tick(); }}));
  service->watch_ = std::move(watch);
  return service;
}

Status HealthService::cordon(const model::GpuUuid& gpu, std::string reason, bool drain,
                             std::optional<Duration> end_after) {
  const auto now = std::chrono::floor<std::chrono::seconds>(clock_.wall_now());
  DIVVY_RETURN_IF_ERROR(
      watch_->cordon(gpu, model::Cordon{std::move(reason), drain, now.time_since_epoch().count()}));
  if (drain && end_after) {
    failing_.end_at(gpu, clock_.now() + *end_after);
    watch_->wake();
  }
  return {};
}

Status HealthService::uncordon(const model::GpuUuid& gpu) {
  return watch_->cordon(gpu, std::nullopt);
}

}  // namespace divvy::agent
