// Everything that one scrape shows, collected at one moment, and the writers that turn it into
// text. Plain values and pure functions; callable from any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "api/exposition.h"
#include "jobs/tally.h"
#include "model/node.h"
#include "node/arbiter.h"
#include "node/gpu_sample.h"
#include "node/health_state.h"
#include "node/slices.h"
#include "node/tenants.h"

namespace divvy::api {

struct MetricsOptions;

struct MetricsSnapshot {
  WallTime now;
  std::string version;
  const model::Node& node;  // Outlives the snapshot
  std::vector<node::GpuSample> samples;
  node::Slices books;
  std::vector<node::TenantView> tenants;
  std::size_t waiting = 0;
  std::vector<node::TurnReport> turns;
  std::vector<node::GpuHealth> health;
  std::optional<node::DurationCounts> ledger_writes;
  bool ledger_writable = true;
  std::optional<jobs::Load> queue;  // Nothing: there is none
  node::DurationCounts passes;
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
// What this process itself takes, as the kernel says now.
void write_process_metrics(Exposition& out);

// "gpu" and "UUID": what Divvy's own metrics of a GPU are told apart by.
[[nodiscard]] Labels gpu_labels(model::GpuIndex index, const model::GpuUuid& uuid);
// How old what the driver said is; never negative.
[[nodiscard]] Duration age_of(const node::GpuSample& sample, WallTime now);

}  // namespace divvy::api
