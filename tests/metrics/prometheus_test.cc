// A real Prometheus and its tools on a real divvyd with simulated GPUs: what it scrapes, what it
// says about the format, and whether everything that is named in docs, dashboards and rules exists.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <fstream>
#include <regex>
#include <sstream>

#include "api/exposition_testing.h"
#include "divvyd_machine.h"
#include "net/http.h"
#include "net/listener.h"

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

const fs::path kSource = DIVVY_SOURCE;

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_FALSE(text.str().empty()) << path << " is empty or not there";
  return text.str();
}

std::string url_encoded(std::string_view text) {
  std::string result;
  for (const char c : text) result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return result;
}

// Every query of a dashboard, with Grafana's variables filled in.
std::vector<std::string> queries_of(const fs::path& dashboard) {
  std::vector<std::string> result;
  const json::value document = json::parse(read(dashboard));
  for (const json::value& panel : document.at("panels").as_array()) {
    const json::value* targets = panel.as_object().if_contains("targets");
    if (targets == nullptr) continue;
    for (const json::value& target : targets->as_array()) {
      std::string text(target.at("expr").as_string());
      text = std::regex_replace(text, std::regex("\\$__(rate_interval|range)"), "5m");
      result.push_back(std::regex_replace(text, std::regex("\\$[a-z]+"), ".*"));
    }
  }
  EXPECT_GT(result.size(), 15U) << dashboard;
  return result;
}

class Prometheus : public Machine {
 protected:
  void SetUp() override {
    Machine::SetUp();
    start_daemon({"--metrics", "127.0.0.1:0"});
    const std::regex pattern("metrics are served address=\\S+:([0-9]+)");
    const std::string log = read(folder() / "divvyd-1.err");
    std::smatch match;
    ASSERT_TRUE(std::regex_search(log, match, pattern)) << log;
    metrics_.port = static_cast<std::uint16_t>(std::stoi(match[1]));
  }

  static std::string get(const net::TcpAddress& server, const std::string& path,
                         const std::string& query = {}) {
    const auto answer =
        net::http_request(server, {.method = "GET", .path = path, .query = query, .body = {}},
                          std::chrono::seconds(30));
    return answer && answer->status == 200 ? answer->body : "";
  }

  [[nodiscard]] std::string scrape() const { return get(metrics_, "/metrics"); }

  // A scrape after the daemon has had every reason to say everything that it can say here: a
  // tenant with a cap, a queue with limits, a job, and samples of which the second compares with
  // the first.
  std::string full_scrape() {
    grant(R"({"gpu":"0.25","cap":true,"name":"capped"})");
    add_queue_and_job();
    std::string text;
    EXPECT_TRUE(eventually([&] {
      text = scrape();
      return text.find("DCGM_FI_PROF_GR_ENGINE_ACTIVE{") != std::string::npos;
    }));
    return text;
  }

  // A job that ran, in a queue that has every limit there is.
  void add_queue_and_job() {
    ASSERT_EQ(ask("PUT", "/v1/queues/research",
                  R"({"gpu":"0.5","memory":"10GiB","jobs":5,"most_gpu":"1"})")
                  .status,
              200);
    ASSERT_EQ(
        ask("POST", "/v1/jobs", R"({"command":["true"],"queue":"research","gpu":"0.5"})").status,
        201);
    ASSERT_TRUE(eventually([&] {
      return scrape().find(
                 "divvy_queue_jobs_ended_total{queue=\"research\",result=\"succeeded\"} 1") !=
             std::string::npos;
    }));
  }

  net::TcpAddress metrics_{"127.0.0.1", 0};
};

TEST_F(Prometheus, SeesJobsWaitRunAndEnd) {
  add_queue_and_job();
  const Answer submitted =
      ask("POST", "/v1/jobs",
          R"({"command":["sleep","600"],"queue":"research","gpu":"0.75","name":"long"})");
  ASSERT_EQ(submitted.status, 201);
  const std::string path =
      "/v1/jobs/" + boost::json::serialize(submitted.body.at("items").at(0).at("id"));
  ASSERT_EQ(ask("POST", "/v1/jobs",
                R"({"command":["true"],"queue":"research","gpu":"0.75","name":"next"})")
                .status,
            201);
  std::string text;
  ASSERT_TRUE(eventually([&] {
    text = scrape();
    return Scrape(text).value("divvy_jobs", {{"state", "running"}}) == 1;
  })) << text;
  const Scrape seen(text);
  const std::map<std::string, std::string> research{{"queue", "research"}};
  EXPECT_EQ(seen.value("divvy_queue_jobs", {{"queue", "research"}, {"state", "queued"}}), 1)
      << text;
  EXPECT_EQ(seen.value("divvy_queue_jobs", {{"queue", "default"}, {"state", "queued"}}), 0);
  EXPECT_EQ(seen.value("divvy_queue_held_gpus", research), 0.75);
  EXPECT_EQ(seen.value("divvy_queue_borrowed_gpus", research), 0.25);
  EXPECT_EQ(seen.value("divvy_queue_quota_gpus", research), 0.5);
  EXPECT_EQ(seen.value("divvy_queue_limit_gpus", research), 1);
  EXPECT_GT(seen.value("divvy_queue_held_memory_bytes", research), 0);
  EXPECT_EQ(seen.value("divvy_queue_wait_seconds_count", research), 2);
  EXPECT_EQ(seen.value("divvy_jobs_ended_total", {{"result", "succeeded"}}), 1);
  EXPECT_GT(seen.value("divvy_queue_pass_seconds_count"), 0);
  const std::string user = seen.families.at("divvy_user_jobs").samples[0].labels.at("user");
  EXPECT_EQ(seen.value("divvy_user_held_gpus", {{"user", user}}), 0.75);
  EXPECT_EQ(seen.value("divvy_user_jobs_ended_total", {{"user", user}, {"result", "failed"}}), 0);
  // Its members would outlive the test.
  ask("DELETE", path);
  EXPECT_TRUE(
      eventually([&] { return !ask("GET", path).body.at("endedUnixMilliseconds").is_null(); }));
}

TEST_F(Prometheus, ScrapesTheDaemonAndAnswersEveryQueryAndLoadsTheRules) {
  grant(R"({"gpu":"0.25","name":"first"})");
  const fs::path config = folder() / "prometheus.yml";
  std::ofstream(config) << fmt::format(
      "global:\n  scrape_interval: 500ms\n  scrape_timeout: 500ms\n  evaluation_interval: 500ms\n"
      "rule_files: ['{}']\n"
      "scrape_configs:\n- job_name: divvy\n  static_configs:\n  - targets: ['127.0.0.1:{}']\n",
      (kSource / "deploy/prometheus/divvy.rules.yml").string(), metrics_.port);
  net::TcpAddress server{"127.0.0.1", 0};
  server.port = net::Listener::on_network(server)->port();  // Free a moment ago
  const Program prometheus =
      start({"/usr/bin/prometheus", "--config.file=" + config.string(),
             "--storage.tsdb.path=" + (folder() / "tsdb").string(),
             "--web.listen-address=" + net::to_string(server), "--log.level=warn"},
            "prometheus");

  const auto query = [&](const std::string& text) -> std::optional<std::string> {
    const std::string body = get(server, "/api/v1/query", "query=" + url_encoded(text));
    if (body.empty()) return std::nullopt;
    const json::value answer = json::parse(body);
    const json::array& result = answer.at("data").at("result").as_array();
    if (result.size() != 1) return std::nullopt;
    return std::string(result[0].at("value").at(1).as_string());
  };
  ASSERT_TRUE(eventually([&] { return query("up{job=\"divvy\"}") == "1"; }));
  EXPECT_TRUE(eventually(
      [&] { return query("divvy_tenant_share_guaranteed_ratio{tenant=\"first\"}") == "0.25"; }));
  EXPECT_TRUE(eventually([&] { return query("count(DCGM_FI_DEV_GPU_TEMP)") == "2"; }));
  EXPECT_EQ(query("divvy_tenants"), "1");
  EXPECT_EQ(query("sum(divvy_gpus)"), "2");

  for (const char* name : {"gpus.json", "queues.json", "tenants.json"}) {
    for (const std::string& text : queries_of(kSource / "deploy/grafana" / name)) {
      EXPECT_NE(get(server, "/api/v1/query", "query=" + url_encoded(text)), "") << text;
    }
  }

  // Every rule was evaluated, and none of them failed.
  EXPECT_TRUE(eventually([&] {
    const std::string body = get(server, "/api/v1/rules");
    if (body.empty()) return false;
    const json::value answer = json::parse(body);
    const json::array& groups = answer.at("data").at("groups").as_array();
    if (groups.empty()) return false;
    const json::array& rules = groups[0].at("rules").as_array();
    return rules.size() >= 8 && std::ranges::all_of(rules, [](const json::value& rule) {
             return rule.at("health").as_string() == "ok";
           });
  }));
}

TEST_F(Prometheus, ToolFindsNothingWrongWithWhatIsOurs) {
  std::ofstream(folder() / "scrape.txt") << full_scrape();
  const Outcome checked =
      start({"/bin/sh", "-c",
             "/usr/bin/promtool check metrics < " + (folder() / "scrape.txt").string()},
            "promtool")
          .finish();
  // 3: it has read everything and dislikes some names. Those of dcgm-exporter are as they are.
  EXPECT_TRUE(checked.status == 0 || checked.status == 3) << checked.err;
  std::istringstream lines(checked.err + checked.out);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.empty() || line.starts_with("DCGM_")) << line;
  }
}

TEST_F(Prometheus, SeesHowTenantsShareAGpu) {
  std::vector<Program> loads;
  for (const char* name : {"first", "second"}) {
    loads.push_back(start_divvy({"run", "--name", name, "--gpu", "0.5", "--device", "0", "--",
                                 GPULOAD_PROGRAM, "spin", "--us", "900", "--seconds", "600"},
                                name));
  }
  const auto both = [](const Scrape& seen, const std::string& metric, double least) {
    if (!seen.has(metric.substr(0, metric.rfind("_count")))) return false;
    return seen.value(metric, {{"tenant", "first"}}) > least &&
           seen.value(metric, {{"tenant", "second"}}) > least;
  };
  EXPECT_TRUE(eventually([&] {
    const std::string text = scrape();
    if (text.find("tenant=\"first\"") == std::string::npos ||
        text.find("tenant=\"second\"") == std::string::npos) {
      return false;
    }
    const Scrape seen(text);
    return both(seen, "divvy_tenant_gpu_seconds_total", 0.1) &&
           both(seen, "divvy_tenant_waited_seconds_total", 0.1) &&
           both(seen, "divvy_tenant_lease_wait_seconds_count", 3) &&
           both(seen, "divvy_tenant_memory_used_bytes", 0) &&
           both(seen, "divvy_tenant_processes", 0) &&
           seen.value("divvy_arbiter_turn_seconds_count", {{"gpu", "0"}}) > 3;
  }));
}

TEST_F(Prometheus, FindsEveryMetricThatDashboardsAndRulesName) {
  const Scrape seen(full_scrape());
  const std::regex name("\\b(DCGM_FI_[A-Z0-9_]+|(?:divvy|process)_[a-z0-9_]+)\\b");
  std::size_t found = 0;
  for (const char* folder : {"deploy/grafana", "deploy/prometheus"}) {
    for (const auto& entry : fs::directory_iterator(kSource / folder)) {
      const std::string text = read(entry.path());
      for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at) {
        std::string metric = (*at)[1];
        if (metric == "DCGM_FI_DRIVER_VERSION") continue;  // A label
        for (const char* part : {"_bucket", "_sum", "_count"}) {
          if (metric.ends_with(part)) metric.resize(metric.size() - std::string_view(part).size());
        }
        EXPECT_TRUE(seen.has(metric)) << metric << " in " << entry.path();
        ++found;
      }
    }
  }
  EXPECT_GT(found, 50U);
}

TEST_F(Prometheus, FindsTheMetricsThatTheDocumentationPromises) {
  const Scrape seen(full_scrape());
  // | `name` | type | labels | when | meaning |
  struct Row {
    std::string type;
    std::string labels;
    std::string when;
  };
  const std::regex pattern("^\\| `(\\w+)` \\| (\\w+) \\| ([^|]*) \\| ([^|]*) \\|");
  std::map<std::string, Row> rows;
  std::istringstream lines(read(kSource / "docs/metrics.md"));
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, pattern)) rows[match[1]] = {match[2], match[3], match[4]};
  }
  for (const auto& [name, row] : rows) {
    EXPECT_TRUE(row.when != "always" || seen.has(name)) << name << " is not in the scrape";
  }
  for (const auto& [name, family] : seen.families) {
    const auto row = rows.find(name);
    ASSERT_NE(row, rows.end()) << name << " is not in docs/metrics.md";
    EXPECT_EQ(row->second.type, family.type) << name;
    std::set<std::string> labels;
    for (const auto& [label, value] : family.samples[0].labels) {
      if (label != "le") labels.insert(label);
    }
    std::string text = fmt::format("{}", fmt::join(labels, " "));
    if (name.starts_with("DCGM_")) {
      EXPECT_EQ(text, "DCGM_FI_DRIVER_VERSION UUID device gpu hostname modelName pci_bus_id");
      text = "dcgm";
    }
    EXPECT_EQ(row->second.labels, text.empty() ? "none" : text) << name;
  }
}

TEST_F(Prometheus, GoesOnWithoutMetricsWhereThePortIsTaken) {
  stop_daemon(SIGTERM);
  const auto taken = net::Listener::on_network({"127.0.0.1", 0});
  start_daemon({"--metrics", fmt::format("127.0.0.1:{}", taken->port())});
  EXPECT_EQ(ask("GET", "/v1/node").status, 200);
  EXPECT_NE(read(folder() / "divvyd-2.err").find("metrics are not served"), std::string::npos);
}

}  // namespace
}  // namespace divvy::testing
