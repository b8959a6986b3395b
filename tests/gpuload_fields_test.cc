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

// A short run of each mode.
const std::map<std::string, std::string>& modes() {
  static const std::map<std::string, std::string> options = {
      {"info", ""},
      {"launch", "--count 1024"},
      {"spin", "--us 100 --count 20"},
      {"poisson", "--rate 500 --us 100 --seconds 0.1"},
      {"memory", "--mib 4 --count 2"},
      {"copy", "--mib 4 --count 2 --direction h2d"},
      {"graph", "--count 5"},
      {"alloc", "--family all --chunk 16GiB"},
      {"fork", ""},
      {"threads", "--threads 2 --rounds 5"},
  };
  return options;
}

TEST(GpuloadFields, AreThoseOfARealGpu) {
  const auto real = recorded();
  for (const auto& [mode, options] : modes()) {
    SCOPED_TRACE(mode);
    const std::string text = run(std::string(SIMGPU_PROGRAM) + " run --gpus 1xH200 -- " +
                                 GPULOAD_PROGRAM + " " + mode + " " + options);
    boost::system::error_code error;
    const json::value report = json::parse(text, error);
    ASSERT_FALSE(error) << text;
    Paths seen;
    collect(report, "", seen);
    ASSERT_TRUE(real.contains(mode)) << "nothing was recorded for this mode";
    EXPECT_EQ(seen, real.at(mode));
  }
}

}  // namespace
