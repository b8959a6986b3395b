#include "job_machine.h"

#include <algorithm>
#include <fstream>

namespace divvy::testing {

namespace json = boost::json;

void JobMachine::TearDown() {
  if (daemon_pid() > 0) {
    const json::object all = ask("GET", "/v1/jobs?limit=1000").body;
    for (const json::value& one : all.at("items").as_array()) {
      const std::string path = "/v1/jobs/" + json::serialize(one.at("id"));
      // Processes end by themselves, and the test may be one.
      if (ask("GET", path).body.at("spec").at("holder").as_string() == "process") continue;
      ask("DELETE", path);
      EXPECT_TRUE(
          eventually([&] { return !ask("GET", path).body.at("endedUnixMilliseconds").is_null(); }));
    }
  }
  Machine::TearDown();
}

std::uint64_t JobMachine::submit(json::object job) {
  if (!job.contains("gpu")) job["gpu"] = 0.3;
  const Answer answer = ask("POST", "/v1/jobs", json::serialize(job));
  EXPECT_EQ(answer.status, 201) << json::serialize(answer.body);
  if (answer.status != 201) return 0;
  return answer.body.at("items").at(0).at("id").to_number<std::uint64_t>();
}

json::object JobMachine::job(std::uint64_t id) {
  return ask("GET", "/v1/jobs/" + std::to_string(id)).body;
}

std::string JobMachine::state(std::uint64_t id) {
  return std::string(job(id).at("state").as_string());
}

bool JobMachine::becomes(std::uint64_t id, const std::string& wanted) {
  const bool became = eventually([&] { return state(id) == wanted; });
  EXPECT_TRUE(became) << json::serialize(job(id));
  return became;
}

std::string JobMachine::history(std::uint64_t id) {
  std::string lines;
  const json::object document = job(id);
  for (const json::value& step : document.at("history").as_array()) {
    lines += std::string(step.at("state").as_string()) + ": " +
             std::string(step.at("reason").as_string()) + "\n";
  }
  return lines;
}

int JobMachine::exit_code(std::uint64_t id, std::size_t rank) {
  return job(id).at("running").at(rank).at("end").at("exitCode").to_number<int>();
}

std::size_t JobMachine::tenants() {
  return ask("GET", "/v1/tenants").body.at("items").as_array().size();
}

json::object JobMachine::waiting(const std::string& name, double gpu) const {
  const std::string file = (folder() / name).string();
  return {{"name", name},
          {"gpu", gpu},
          {"grace", "5s"},
          {"command", {"sh", "-c", "echo x >> " + file + "; exec sleep 1000"}}};
}

json::object JobMachine::gated(const std::string& name, double gpu, int code) const {
  const std::string file = (folder() / name).string();
  return {{"name", name},
          {"gpu", gpu},
          {"grace", "5s"},
          {"command",
           {"sh", "-c",
            "echo x >> " + file + "; while [ ! -e " + file + ".go ]; do sleep 0.05; done; exit " +
                std::to_string(code)}}};
}

void JobMachine::open_gate(const std::string& name) const {
  std::ofstream(folder() / (name + ".go")) << "now\n";
}

int JobMachine::starts(const std::string& name) const {
  const std::string lines = read_file(name);
  return static_cast<int>(std::ranges::count(lines, '\n'));
}

std::string JobMachine::read_file(const std::string& name) const {
  std::ifstream file(folder() / name);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool has(const std::string& text, const std::string& piece) {
  return text.find(piece) != std::string::npos;
}

}  // namespace divvy::testing
