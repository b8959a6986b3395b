#include "api/metrics.h"

#include <gtest/gtest.h>
#include <time.h>

#include "api/exposition_testing.h"
#include "jobs/testing.h"
#include "machine_inside.h"

namespace divvy::api {
namespace {

using ::divvy::testing::MachineInside;
using ::divvy::testing::Scrape;

const std::string kFirst = "GPU-00001000-0000-4000-8000-000000000000";
const std::string kSecond = "GPU-00001001-0000-4000-8000-000000000001";

net::HttpResponse get(const MetricsRoutes& routes, const std::string& path) {
  return routes.handle({.method = "GET", .path = path, .query = {}, .body = {}});
}

TEST(Metrics, LookLikeDcgmExporters) {
  MachineInside machine(1);
  machine.library.gpu(0).power_mw = 123'456;
  machine.library.gpu(0).memory = {mib(1000), mib(100), mib(300)};
  machine.sample();
  const MetricsRoutes routes(machine.sources(), {});
  const auto answer = get(routes, "/metrics");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_NE(answer.body.find(
                "# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).\n"
                "# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n"
                "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"" +
                kFirst +
                "\",pci_bus_id=\"00000000:18:00.0\",device=\"nvidia0\",modelName=\"NVIDIA H200\","
                "hostname=\"node-a\",DCGM_FI_DRIVER_VERSION=\"580.159.04\"} 30\n"),
            std::string::npos)
      << answer.body;
  const Scrape scrape(answer.body);
  EXPECT_DOUBLE_EQ(scrape.value("DCGM_FI_DEV_POWER_USAGE"), 123.456);
  EXPECT_EQ(scrape.value("DCGM_FI_DEV_FB_FREE"), 600);
  EXPECT_EQ(scrape.value("DCGM_FI_DEV_FB_USED"), 300);
  EXPECT_EQ(scrape.value("DCGM_FI_DEV_FB_RESERVED"), 100);
  EXPECT_EQ(scrape.families.at("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION").type, "counter");
}

TEST(Metrics, WriteTheOldHostnameLabelWhereAskedTo) {
  MachineInside machine(1);
  machine.sample();
  const Scrape without(get(MetricsRoutes(machine.sources(), {}), "/metrics").body);
  EXPECT_FALSE(without.families.at("DCGM_FI_DEV_GPU_TEMP").samples[0].labels.contains("Hostname"));
  MetricsOptions options;
  options.old_hostname_label = true;
  const Scrape with(get(MetricsRoutes(machine.sources(), options), "/metrics").body);
  EXPECT_EQ(with.value("DCGM_FI_DEV_GPU_TEMP", {{"Hostname", "node-a"}, {"hostname", "node-a"}}),
            30);
}

TEST(Metrics, ParseWhateverTheDriverCallsItsGpus) {
  const std::string hostile = "H200\"} 1\ndivvy_tenants 7\n\\";
  MachineInside machine(1, [&](nvml::FakeLibrary& library) { library.gpu(0).name = hostile; });
  machine.sample();
  const Scrape scrape(get(MetricsRoutes(machine.sources(), {}), "/metrics").body);
  EXPECT_EQ(scrape.value("DCGM_FI_DEV_GPU_TEMP", {{"modelName", hostile}}), 30);
  EXPECT_EQ(scrape.value("divvy_tenants"), 0);
}

TEST(Metrics, LeaveOutWhatTheDriverDidNotSay) {
  MachineInside machine(2);
  machine.library.gpu(0).fail(nvml::Query::kTemperature, NVML_ERROR_NOT_SUPPORTED);
  machine.library.gpu(0).fail(nvml::Query::kEnergy, NVML_ERROR_NOT_SUPPORTED);
  machine.library.gpu(1).fail(nvml::Query::kEnergy, NVML_ERROR_NOT_SUPPORTED);
  machine.sample();
  const Scrape scrape(get(MetricsRoutes(machine.sources(), {}), "/metrics").body);
  EXPECT_EQ(scrape.families.at("DCGM_FI_DEV_GPU_TEMP").samples.size(), 1U);
  EXPECT_FALSE(scrape.has("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"));
  EXPECT_FALSE(scrape.has("DCGM_FI_DEV_XID_ERRORS"));
}

TEST(Metrics, LeaveOutWhatTheDriverSaidTooLongAgo) {
  MachineInside machine(1);
  machine.sample();
  const MetricsRoutes routes(machine.sources(), {});
  machine.clock.advance(std::chrono::seconds(60));
  EXPECT_TRUE(Scrape(get(routes, "/metrics").body).has("DCGM_FI_DEV_GPU_TEMP"));
  EXPECT_EQ(get(routes, "/readyz").status, 200);
  machine.clock.advance(std::chrono::seconds(1));
  const Scrape scrape(get(routes, "/metrics").body);
  EXPECT_FALSE(scrape.has("DCGM_FI_DEV_GPU_TEMP"));
  EXPECT_EQ(scrape.value("divvy_gpu_sample_age_seconds", {{"UUID", kFirst}}), 61);
  EXPECT_EQ(get(routes, "/readyz").status, 503);
}

TEST(Metrics, ShowTheBooksAndEveryTenantOnItsGpu) {
  MachineInside machine(2);
  machine.grant("first", "0.25", "0");
  machine.grant("second", "0.5", "0");
  machine.grant("third", "1", "1");
  const Scrape scrape(get(MetricsRoutes(machine.sources(), {}), "/metrics").body);
  EXPECT_EQ(scrape.value("divvy_tenants"), 3);
  EXPECT_EQ(scrape.value("divvy_gpu_free_share_ratio", {{"gpu", "0"}}), 0.25);
  EXPECT_EQ(scrape.value("divvy_gpu_free_share_ratio", {{"gpu", "1"}, {"UUID", kSecond}}), 0);
  EXPECT_EQ(scrape.value("divvy_gpu_tenants", {{"gpu", "0"}}), 2);
  EXPECT_EQ(scrape.value("divvy_gpu_usable", {{"gpu", "0"}}), 1);
  EXPECT_EQ(scrape.value("divvy_tenant_share_guaranteed_ratio", {{"tenant", "second"}}), 0.5);
  EXPECT_EQ(scrape.value("divvy_tenant_memory_limit_bytes", {{"tenant", "third"}, {"gpu", "1"}}),
            scrape.value("divvy_gpu_memory_bytes", {{"gpu", "1"}}));
  EXPECT_EQ(scrape.value("divvy_tenant_memory_refusals_total", {{"tenant_id", "1"}}), 0);
  EXPECT_EQ(scrape.value("divvy_tenant_lease_wait_seconds_count", {{"tenant", "first"}}), 0);
  EXPECT_EQ(scrape.value("divvy_tenant_info", {{"tenant", "first"}, {"class", "batch"}}), 1);
  EXPECT_FALSE(scrape.has("divvy_tenant_share_cap_ratio"));
  EXPECT_EQ(scrape.value("divvy_build_info", {{"version", "1.2.3"}}), 1);
}

TEST(Metrics, TellWhatTheDaemonItselfTakes) {
  MachineInside machine(1);
  const Scrape scrape(get(MetricsRoutes(machine.sources(), {}), "/metrics").body);
  EXPECT_GT(scrape.value("process_cpu_seconds_total"), 0);
  EXPECT_GT(scrape.value("process_resident_memory_bytes"), 1e6);
  EXPECT_GT(scrape.value("process_open_fds"), 3);
  // Born before now, and not at the beginning of time.
  const auto now = static_cast<double>(::time(nullptr));
  EXPECT_LT(scrape.value("process_start_time_seconds"), now + 1);
  EXPECT_GT(scrape.value("process_start_time_seconds"), now - 86'400);
}

TEST(Metrics, NeverShowACommand) {
  MachineInside machine(1);
  machine.grant("first", "0.25");
  EXPECT_EQ(get(MetricsRoutes(machine.sources(), {}), "/metrics").body.find("hunter2"),
            std::string::npos);
}

TEST(Metrics, ShowTheStatesOfHealthAndWhatOperatorsSaid) {
  MachineInside machine(2);
  MetricsSources sources = machine.sources();
  sources.health = [] {
    return std::vector<health::GpuHealth>{{.uuid = model::GpuUuid::parse(kFirst).value(),
                                           .state = health::HealthState::kQuarantined,
                                           .reason = "XID 79",
                                           .since = {},
                                           .cordoned = false,
                                           .draining = false,
                                           .cordon_reason = {}},
                                          {.uuid = model::GpuUuid::parse(kSecond).value(),
                                           .state = health::HealthState::kHealthy,
                                           .reason = {},
                                           .since = {},
                                           .cordoned = true,
                                           .draining = true,
                                           .cordon_reason = "new fan"}};
  };
  const Scrape scrape(get(MetricsRoutes(sources, {}), "/metrics").body);
  EXPECT_EQ(scrape.value("divvy_gpus", {{"state", "quarantined"}}), 1);
  EXPECT_EQ(scrape.value("divvy_gpus", {{"state", "healthy"}}), 1);
  EXPECT_EQ(scrape.value("divvy_gpus", {{"state", "probation"}}), 0);
  EXPECT_EQ(scrape.value("divvy_gpu_health_state", {{"gpu", "0"}, {"state", "quarantined"}}), 1);
  EXPECT_EQ(scrape.value("divvy_gpu_health_state", {{"gpu", "0"}, {"state", "healthy"}}), 0);
  EXPECT_EQ(scrape.value("divvy_gpu_cordoned", {{"gpu", "1"}}), 1);
  EXPECT_EQ(scrape.value("divvy_gpu_draining", {{"gpu", "0"}}), 0);
}

TEST(Metrics, OfTheQueueDoNotGrowWithTheJobs) {
  MachineInside machine(1);
  MetricsSources sources = machine.sources();
  jobs::testing::Desk desk;
  sources.queue = [&desk] { return desk.queue().load(desk.now()); };
  sources.passes = [] { return DurationCounts(); };
  const MetricsRoutes routes(sources, {});
  const auto submit = [&desk](int count) {
    for (int i = 0; i < count; ++i) {
      desk.submit(jobs::testing::spec(1000), "user" + std::to_string(i % 1000));
    }
  };
  submit(1000);
  const auto lines = [&] { return std::ranges::count(get(routes, "/metrics").body, '\n'); };
  const auto with_a_thousand = lines();
  submit(9000);
  EXPECT_EQ(lines(), with_a_thousand);
  const Scrape scrape(get(routes, "/metrics").body);
  EXPECT_EQ(scrape.value("divvy_jobs", {{"state", "queued"}}), 10'000);
  EXPECT_EQ(scrape.value("divvy_user_jobs", {{"user", "user7"}, {"state", "queued"}}), 10);
  EXPECT_EQ(scrape.value("divvy_user_jobs", {{"user", "(others)"}, {"state", "queued"}}), 9'000);
  EXPECT_FALSE(scrape.has("divvy_queue_quota_gpus"));
}

TEST(Metrics, AreMadeWithoutAskingTheDriver) {
  MachineInside machine(16);
  for (int i = 0; i < 32; ++i) machine.grant("t" + std::to_string(i), "0.5");
  machine.sample();
  const MetricsRoutes routes(machine.sources(), {});
  const std::uint64_t asked = machine.library.asked();
  EXPECT_GT(asked, 0U);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(get(routes, "/metrics").status, 200);
    EXPECT_EQ(get(routes, "/readyz").status, 200);
  }
  EXPECT_EQ(machine.library.asked(), asked);
}

TEST(Metrics, SayWhetherTheDaemonCanWork) {
  MachineInside machine(1);
  MetricsSources sources = machine.sources();
  Status ledger;
  sources.ledger_writable = [&ledger] { return ledger; };
  const MetricsRoutes routes(sources, {});
  EXPECT_EQ(get(routes, "/healthz").status, 200);
  EXPECT_EQ(get(routes, "/health").status, 200);
  const auto silent = get(routes, "/readyz");
  EXPECT_EQ(silent.status, 503);
  EXPECT_NE(silent.body.find("driver"), std::string::npos);
  machine.sample();
  EXPECT_EQ(get(routes, "/readyz").status, 200);
  EXPECT_EQ(Scrape(get(routes, "/metrics").body).value("divvy_ledger_writable"), 1);
  ledger = err(ErrorCode::kResourceExhausted, "no space left on the disk");
  const auto full = get(routes, "/readyz");
  EXPECT_EQ(full.status, 503);
  EXPECT_NE(full.body.find("no space left"), std::string::npos);
  EXPECT_EQ(get(routes, "/healthz").status, 200);
  EXPECT_EQ(Scrape(get(routes, "/metrics").body).value("divvy_ledger_writable"), 0);
}

TEST(Metrics, AnswerWhatIsNotThere) {
  MachineInside machine(1);
  const MetricsRoutes routes(machine.sources(), {});
  EXPECT_EQ(get(routes, "/v1/tenants").status, 404);
  EXPECT_EQ(routes.handle({.method = "POST", .path = "/metrics", .query = {}, .body = {}}).status,
            405);
}

TEST(Metrics, AreServedWhereTheyAreAskedToAndTheDaemonGoesOnWhereTheyCannotBe) {
  MachineInside machine(1);
  const MetricsRoutes routes(machine.sources(), {});
  EXPECT_EQ(serve_metrics(routes, {}), nullptr);
  MetricsOptions options;
  options.listen = net::TcpAddress{"127.0.0.1", 0};
  const auto server = serve_metrics(routes, options);
  ASSERT_NE(server, nullptr);
  options.listen->port = server->port();
  const auto answer = net::http_request(
      *options.listen, {.method = "GET", .path = "/healthz", .query = {}, .body = {}},
      std::chrono::seconds(30));
  ASSERT_TRUE(answer.has_value()) << answer.error().message;
  EXPECT_EQ(answer->body, "ok\n");
  EXPECT_EQ(serve_metrics(routes, options), nullptr);  // Taken
}

TEST(MetricsAddress, IsAnAddressOrOff) {
  EXPECT_EQ(parse_metrics_address("off").value(), std::nullopt);
  EXPECT_EQ(parse_metrics_address(":9400").value(), (net::TcpAddress{"", 9400}));
  EXPECT_FALSE(parse_metrics_address("yes").has_value());
}

}  // namespace
}  // namespace divvy::api
