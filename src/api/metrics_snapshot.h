// Everything that one scrape shows, collected at one moment, and the writers that turn it into
// text. Plain values and pure functions; callable from any thread.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/tenants.h"
#include "api/exposition.h"
#include "control/services.h"
#include "health/gpu_sample.h"
#include "health/health_state.h"
#include "jobs/tally.h"
#include "ledger/slices.h"
#include "model/member_key.h"
#include "model/node.h"
#include "share/arbiter.h"

namespace divvy::api {

struct MetricsOptions;

// For whom Kubernetes holds a slice.
struct PodOfTenant {
  std::string space;  // the pod's namespace
  std::string pod;
  std::string container;
};

struct MetricsSnapshot {
  WallTime now;
  std::string version;
  const model::Node& node;  // Outlives the snapshot
  std::vector<health::GpuSample> samples;
  ledger::Slices books;
  std::vector<agent::TenantView> tenants;
  std::size_t waiting = 0;
  std::vector<share::TurnReport> turns;
  std::vector<health::GpuHealth> health;
  std::optional<DurationCounts> ledger_writes;
  bool ledger_writable = true;
  std::optional<jobs::Load> queue;  // Nothing: there is none
  DurationCounts passes;
  std::vector<control::VersionLoad> services = {};
  std::map<model::MemberKey, PodOfTenant> pods = {};  // Empty where there is no Kubernetes
};

// The whole answer to a scrape.
[[nodiscard]] std::string write_metrics(const MetricsSnapshot& snapshot,
                                        const MetricsOptions& options);

// Its parts: under dcgm-exporter's names; the machine, its GPUs and the daemon; the tenants.
void write_gpu_metrics(const MetricsSnapshot& snapshot, const MetricsOptions& options,
                       Exposition& out);
void write_node_metrics(const MetricsSnapshot& snapshot, Exposition& out);
void write_tenant_metrics(const MetricsSnapshot& snapshot, Exposition& out);
// Jobs, queues and their users.
void write_queue_metrics(const MetricsSnapshot& snapshot, Exposition& out);
// Services.
void write_service_metrics(const MetricsSnapshot& snapshot, Exposition& out);
// What this process itself takes, as the kernel says now.
void write_process_metrics(Exposition& out);

// "gpu" and "UUID": what Divvy's own metrics of a GPU are told apart by.
[[nodiscard]] Labels gpu_labels(model::GpuIndex index, const model::GpuUuid& uuid);
// How old what the driver said is; never negative.
[[nodiscard]] Duration age_of(const health::GpuSample& sample, WallTime now);

}  // namespace divvy::api
