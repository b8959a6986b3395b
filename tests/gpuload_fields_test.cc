// gpuload reports the same fields on the simulated GPUs as it did on a real H200: every path that
// its JSON had there (gpuload_fields.txt) and no other.
#include <gtest/gtest.h>
#include <stdio.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

namespace {

namespace json = boost::json;
using Paths = std::set<std::string>;

void collect(const json::value& value, const std::string& path, Paths& out) {
  if (const auto* object = value.if_object()) {
    for (const auto& [key, member] : *object) {
      collect(member, path.empty() ? std::string(key) : path + "." + std::string(key), out);
    }
  } else if (const auto* array = value.if_array()) {
    if (array->empty()) out.insert(path + "[]");
    for (const json::value& member : *array) collect(member, path + "[]", out);
  } else {
    out.insert(path);
  }
}

std::string run(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string output;
  char buffer[4096];
  while (const size_t got = fread(buffer, 1, sizeof(buffer), pipe)) output.append(buffer, got);
  return pclose(pipe) == 0 ? output : std::string();
}

// Mode to paths, from lines "mode path".
std::map<std::string, Paths> recorded() {
  std::map<std::string, Paths> modes;
  std::ifstream file(GPULOAD_FIELDS);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string mode;
    std::string path;
    if (words >> mode >> path && mode != "#") modes[mode].insert(path);
  }
  return modes;
}

class GpuloadFields : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(GpuloadFields, AreThoseOfARealGpu) {
  const auto& [mode, options] = GetParam();
  const std::string text = run(std::string(SIMGPU_PROGRAM) + " run --gpus 1xH200 -- " +
                               GPULOAD_PROGRAM + " " + mode + " " + options);
  boost::system::error_code error;
  const json::value report = json::parse(text, error);
  ASSERT_FALSE(error) << text;
  Paths seen;
  collect(report, "", seen);
  const auto modes = recorded();
  ASSERT_TRUE(modes.contains(mode)) << "nothing was recorded for this mode";
  EXPECT_EQ(seen, modes.at(mode));
}

INSTANTIATE_TEST_SUITE_P(
    Modes, GpuloadFields,
    ::testing::Values(std::pair("info", ""), std::pair("launch", "--count 1024"),
                      std::pair("spin", "--us 100 --count 20"),
                      std::pair("poisson", "--rate 500 --us 100 --seconds 0.1"),
                      std::pair("memory", "--mib 4 --count 2"),
                      std::pair("copy", "--mib 4 --count 2 --direction h2d"),
                      std::pair("graph", "--count 5"),
                      std::pair("alloc", "--family all --chunk 16GiB"), std::pair("fork", ""),
                      std::pair("threads", "--threads 2 --rounds 5")),
    [](const auto& test) { return std::string(test.param.first); });

}  // namespace
