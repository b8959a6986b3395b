// What the daemon tells monitoring systems, over HTTP on the network:
//
//   GET /metrics    Prometheus' text format: GPUs under dcgm-exporter's names and labels, and
//                   Divvy's own tenants, jobs, queues, GPUs and internals (docs/metrics.md has
//                   every one)
//   GET /healthz    200 while the daemon lives (also /health, as dcgm-exporter has it)
//   GET /readyz     200 while it can do its work: the driver answers and the ledger can be written
//
// Reads what others have collected: a scrape asks no driver and waits for none. Callable from many
// threads at once.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/metrics_snapshot.h"
#include "base/clock.h"
#include "base/result.h"
#include "net/http.h"

namespace divvy::api {

struct MetricsOptions {
  std::optional<net::TcpAddress> listen;  // Nothing: not served
  // What the driver said longer ago is left out.
  Duration oldest_sample = std::chrono::seconds(60);
  // Also write the label `Hostname`, as dcgm-exporter did before 2026-05.
  bool old_hostname_label = false;
};

// "off" or an address ("127.0.0.1:9400", ":9400").
[[nodiscard]] Result<std::optional<net::TcpAddress>> parse_metrics_address(std::string_view text);

// Where the numbers come from. What is referred to outlives the routes; functions are called during
// a scrape, from many threads at once, and return quickly.
struct MetricsSources {
  const agent::Tenants& tenants;
  const share::Arbiter& arbiter;
  const health::SampleBoard& samples;
  const Clock& clock;
  std::string version;
  // Empty: what the inventory found at the start.
  std::function<std::vector<health::GpuHealth>()> health;
  // How long writes to the ledger took; empty: not shown.
  std::function<DurationCounts()> ledger_writes;
  // Why the ledger cannot be written, if so; empty: taken as writable.
  std::function<Status()> ledger_writable;
  // How many jobs wait for a place; empty: none.
  std::function<std::size_t()> waiting = {};
  // How jobs and queues stand, and how long passes took; empty: there is no queue.
  std::function<jobs::Load()> queue = {};
  std::function<DurationCounts()> passes = {};
  // Services, by version; empty: there are none.
  std::function<std::vector<control::VersionLoad>()> services = {};
  // Whose slices they are in Kubernetes; empty: this is no node of one.
  std::function<std::map<model::MemberKey, PodOfTenant>()> pods = {};
};

class MetricsRoutes {
 public:
  MetricsRoutes(MetricsSources sources, MetricsOptions options)
      : sources_(std::move(sources)), options_(std::move(options)) {}

  [[nodiscard]] net::HttpResponse handle(const net::HttpRequest& request) const;

 private:
  [[nodiscard]] MetricsSnapshot snapshot() const;
  [[nodiscard]] net::HttpResponse metrics() const;
  [[nodiscard]] net::HttpResponse ready() const;

  MetricsSources sources_;
  MetricsOptions options_;
};

// Serves the routes until it is destroyed. Nothing when they are off, or when the address cannot be
// had: the log says why, and the daemon does its work without.
[[nodiscard]] std::unique_ptr<net::HttpServer> serve_metrics(const MetricsRoutes& routes,
                                                             const MetricsOptions& options);

}  // namespace divvy::api
