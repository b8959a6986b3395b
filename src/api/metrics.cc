#include "api/metrics.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"

namespace divvy::api {
namespace {

using net::HttpResponse;

constexpr std::string_view kText = "text/plain; charset=utf-8";

HttpResponse text(int status, std::string body) {
  return {status, std::string(kText), std::move(body) + "\n"};
}

std::vector<health::GpuHealth> health_found(const model::Node& node) {
  std::vector<health::GpuHealth> result;
  for (const model::Gpu& gpu : node.gpus()) {
    if (!gpu.uuid) continue;
    result.push_back({.uuid = *gpu.uuid,
                      .state = gpu.health.state,
                      .reason = gpu.health.reason,
                      .since = {},
                      .cordoned = false,
                      .draining = false,
                      .cordon_reason = {}});
  }
  return result;
}

}  // namespace

Result<std::optional<net::TcpAddress>> parse_metrics_address(std::string_view text) {
  if (text == "off") return std::nullopt;
  auto address = net::TcpAddress::parse(text);
  if (!address) {
    return err(with_context(std::move(address).error(), "the address of the metrics"));
  }
  return *std::move(address);
}

Labels gpu_labels(model::GpuIndex index, const model::GpuUuid& uuid) {
  Labels labels;
  labels.add("gpu", fmt::to_string(index.value())).add("UUID", uuid.str());
  return labels;
}

Duration age_of(const health::GpuSample& sample, WallTime now) {
  return std::max(Duration::zero(), now - sample.taken);
}

std::string write_metrics(const MetricsSnapshot& snapshot, const MetricsOptions& options) {
  // A GPU has some forty lines, a slice some thirty.
  Exposition out(snapshot.samples.size() * 12'000 + snapshot.tenants.size() * 5'000);
  write_gpu_metrics(snapshot, options, out);
  write_node_metrics(snapshot, out);
  write_tenant_metrics(snapshot, out);
  write_queue_metrics(snapshot, out);
  write_service_metrics(snapshot, out);
  write_process_metrics(out);
  return std::move(out).take();
}

MetricsSnapshot MetricsRoutes::snapshot() const {
  const agent::Tenants& tenants = sources_.tenants;
  MetricsSnapshot result{.now = sources_.clock.wall_now(),
                         .version = sources_.version,
                         .node = tenants.node(),
                         .samples = sources_.samples.all(),
                         .books = tenants.slices(),
                         .tenants = tenants.list(),
                         .waiting = sources_.waiting ? sources_.waiting() : 0,
                         .turns = sources_.arbiter.turns(),
                         .health = {},
                         .ledger_writes = {},
                         .ledger_writable = true,
                         .queue = {},
                         .passes = {}};
  result.health = sources_.health ? sources_.health() : health_found(tenants.node());
  if (sources_.ledger_writes) result.ledger_writes = sources_.ledger_writes();
  if (sources_.ledger_writable) result.ledger_writable = sources_.ledger_writable().has_value();
  if (sources_.queue) result.queue = sources_.queue();
  if (sources_.passes) result.passes = sources_.passes();
  if (sources_.services) result.services = sources_.services();
  if (sources_.pods) result.pods = sources_.pods();
  return result;
}

HttpResponse MetricsRoutes::metrics() const {
  return {200, std::string(kExpositionType), write_metrics(snapshot(), options_)};
}

HttpResponse MetricsRoutes::ready() const {
  if (sources_.ledger_writable) {
    if (const Status writable = sources_.ledger_writable(); !writable) {
      return text(503, "not ready: the ledger cannot be written: " + writable.error().message);
    }
  }
  const auto samples = sources_.samples.all();
  const WallTime now = sources_.clock.wall_now();
  const bool seen = std::ranges::any_of(samples, [&](const health::GpuSample& sample) {
    return age_of(sample, now) <= options_.oldest_sample;
  });
  if (!seen) {
    return text(
        503, fmt::format("not ready: the driver has not answered about any GPU for {} s",
                         std::chrono::ceil<std::chrono::seconds>(options_.oldest_sample).count()));
  }
  return text(200, "ready");
}

HttpResponse MetricsRoutes::handle(const net::HttpRequest& request) const {
  if (request.method != "GET") return text(405, "only GET is understood here");
  if (request.path == "/metrics") return metrics();
  if (request.path == "/healthz" || request.path == "/health") return text(200, "ok");
  if (request.path == "/readyz") return ready();
  if (request.path == "/") return text(200, "divvyd: /metrics, /healthz, /readyz");
  return text(404, fmt::format("there is no {} here; ask for /metrics, /healthz or /readyz",
                               escape_for_terminal(request.path.substr(0, 100))));
}

std::unique_ptr<net::HttpServer> serve_metrics(const MetricsRoutes& routes,
                                               const MetricsOptions& options) {
  if (!options.listen) return nullptr;
  net::HttpServerOptions server;
  server.network = options.listen;
  server.max_body = 1024;
  auto made = net::HttpServer::create(
      server, [&routes](const auto& request, const auto&) { return routes.handle(request); });
  if (!made) {
    log_warning("metrics are not served", {{"reason", made.error().message}});
    return nullptr;
  }
  net::TcpAddress where = *options.listen;
  where.port = (*made)->port();
  log_info("metrics are served", {{"address", net::to_string(where)}});
  return *std::move(made);
}

}  // namespace divvy::api
