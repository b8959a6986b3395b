// What admission costs: a pod as operators make them (four containers, 60 variables, annotations),
// through the webhook's function, and over HTTPS from one client, as the API server asks.
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "kube/admission_testing.h"
#include "kube/pod_testing.h"
#include "kube/webhook_routes.h"
#include "net/tls_testing.h"

namespace {

using namespace divvy;
namespace json = boost::json;

std::string large_review() {
  json::array environment;
  for (int i = 0; i < 60; ++i) {
    environment.push_back(json::object{{"name", fmt::format("VARIABLE_{}", i)},
                                       {"value", "something/as/long/as/a/path/is"}});
  }
  json::array containers;
  for (const char* name : {"main", "log", "proxy", "metrics"}) {
    json::object document = kube::testing::container(name, {{"cpu", "2"}, {"memory", "4Gi"}});
    document["env"] = environment;
    containers.push_back(std::move(document));
  }
  containers[0].as_object()["resources"] =
      json::parse(R"({"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}})");
  return kube::testing::review_of(kube::testing::pod(
      {.annotations = {{"note", std::string(8000, 'x')}}, .containers = std::move(containers)}));
}

void Mutate(benchmark::State& state) {
  const std::string review = large_review();
  const kube::AdmissionPolicy policy;
  for (auto _ : state) {
    auto answer = kube::review_mutation(review, policy, kube::random_claim_name);
    benchmark::DoNotOptimize(answer);
  }
  state.counters["bytes"] = static_cast<double>(review.size());
}
BENCHMARK(Mutate)->Unit(benchmark::kMicrosecond);

void MutateOverTls(benchmark::State& state) {
  std::string folder = (std::filesystem::temp_directory_path() / "divvy-hook-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return state.SkipWithError("no folder");
  const kube::WebhookRoutes routes([] { return std::make_shared<const kube::AdmissionPolicy>(); });
  net::HttpServerOptions options;
  options.network = net::TcpAddress{"127.0.0.1", 0};
  options.tls = net::make_test_identity(folder, "server", "localhost");
  options.max_body = kube::WebhookRoutes::kLargestReview;
  auto server = net::HttpServer::create(
      options, [&](const net::HttpRequest& request, const net::Caller& /*caller*/) {
        return routes.handle(request);
      });
  net::HttpTarget target;
  target.network = net::TcpAddress{"127.0.0.1", (*server)->port()};
  target.tls = net::TlsTrust{std::filesystem::path(folder) / "server.pem", "localhost"};
  const net::HttpRequest request{"POST", "/mutate", {}, large_review()};
  std::vector<double> milliseconds;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    const auto answer = net::http_request(target, request, std::chrono::seconds(30));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    if (!answer || answer->status != 200) state.SkipWithError("no answer");
    milliseconds.push_back(took.count());
  }
  std::ranges::sort(milliseconds);
  if (!milliseconds.empty()) {
    state.counters["p50_ms"] = milliseconds[milliseconds.size() / 2];
    state.counters["p99_ms"] = milliseconds[milliseconds.size() * 99 / 100];
  }
  server->reset();
  std::filesystem::remove_all(folder);
}
BENCHMARK(MutateOverTls)->Unit(benchmark::kMillisecond)->Iterations(2000)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
