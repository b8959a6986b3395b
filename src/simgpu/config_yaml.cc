// Reads the YAML form of the configuration (docs/simulated-gpus.md has the schema). The YAML
// library reports by exception; none leaves this file.
#include <stdio.h>
#include <yaml-cpp/yaml.h>

#include <array>
#include <cctype>
#include <initializer_list>
#include <set>
#include <string_view>

#include "simgpu/catalogue.h"
#include "simgpu/config.h"
#include "simgpu/machine_layout.h"
#include "simgpu/quantity.h"

// Debian's static yaml-cpp is compiled for programs, not for shared objects: it expects this
// variable of the C library, the only one it uses, in the object that it is linked into. Zero says
// that there may be other threads, which is always safe to assume.
__attribute__((visibility("hidden"))) char simgpu_single_threaded __asm__(
    "__libc_single_threaded") = 0;

namespace divvy::simgpu {
namespace {

// A mistake in the file, thrown to parse_yaml() and no further.
struct Mistake {
  YAML::Mark at;
  std::string what;
};

constexpr uint64_t kMinMemory = 16U << 20U;
constexpr uint64_t kMaxMemory = uint64_t{4} << 40U;

[[noreturn]] void fail(const YAML::Node& node, const std::string& what) {
  throw Mistake{node.Mark(), what};
}

using Keys = std::initializer_list<const char*>;

// Refuses a map with keys that nobody reads: a misspelt one would otherwise silently not count.
void check_keys(const YAML::Node& node, const char* what, Keys known) {
  if (!node.IsMap()) fail(node, std::string(what) + " must be a map of 'key: value' lines");
  std::set<std::string> seen;
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) fail(entry.first, "a key must be a word");
    const std::string& key = entry.first.Scalar();
    if (!seen.insert(key).second) fail(entry.first, "the key '" + key + "' is there twice");
    bool ok = false;
    std::string list;
    for (const char* name : known) {
      ok = ok || key == name;
      list += (list.empty() ? "" : ", ") + std::string(name);
    }
    if (ok) continue;
    const std::string near = nearest_name(key, known);
    fail(entry.first,
         "unknown key '" + key + "'; " +
             (near.empty() ? "the known keys are " + list : "did you mean '" + near + "'?"));
  }
}

const std::string& word(const YAML::Node& node, const char* key) {
  if (!node.IsScalar()) fail(node, std::string("'") + key + "' must be a single value");
  return node.Scalar();
}

int whole(const YAML::Node& node, const char* key, int lowest, int highest) {
  const std::string& text = word(node, key);
  int value = 0;
  int used = 0;
  // Leading blanks and signs that sscanf would accept are not in a plain YAML scalar, except '-'.
  if (text.size() > 9 || sscanf(text.c_str(), "%d%n", &value, &used) != 1 ||
      static_cast<size_t>(used) != text.size() || value < lowest || value > highest) {
    fail(node, std::string("'") + key + "' must be a whole number from " + std::to_string(lowest) +
                   " to " + std::to_string(highest) + ", not '" + text + "'");
  }
  return value;
}

uint64_t duration(const YAML::Node& node, const char* key, uint64_t lowest) {
  std::string why;
  const auto ns = parse_duration_ns(word(node, key), &why);
  if (!ns) fail(node, std::string("'") + key + "': " + why);
  if (*ns < lowest) {
    fail(node, std::string("'") + key + "' must be at least " + format_duration(lowest));
  }
  return *ns;
}

std::string model_of(const YAML::Node& gpu) {
  const YAML::Node node = gpu["model"];
  if (!node) fail(gpu, "a GPU needs a 'model', for example 'model: H200'");
  const std::string& name = word(node, "model");
  if (find_model(name)) return name;
  const std::string near = nearest_name(name, model_names());
  std::string list;
  for (const std::string& known : model_names()) list += (list.empty() ? "" : ", ") + known;
  fail(node, "unknown model '" + name + "'; " +
                 (near.empty() ? "the known models are " + list : "did you mean " + near + "?"));
}

// A value for each of `count` GPUs: one for all of them, or a list with one for each.
std::vector<YAML::Node> per_gpu(const YAML::Node& node, const char* key, int count) {
  if (!node.IsSequence()) return std::vector<YAML::Node>(static_cast<size_t>(count), node);
  if (node.size() != static_cast<size_t>(count)) {
    fail(node, std::string("'") + key + "' lists " + std::to_string(node.size()) + " values for " +
                   std::to_string(count) + " GPUs");
  }
  std::vector<YAML::Node> values;
  for (const auto& value : node) values.push_back(value);
  return values;
}

template <size_t Size>
void copy_text(char (&to)[Size], const YAML::Node& node, const char* key, size_t length) {
  const std::string& text = word(node, key);
  if (text.size() != length) {
    fail(node, std::string("'") + key + "' must have " + std::to_string(length) +
                   " characters, not " + std::to_string(text.size()));
  }
  snprintf(to, Size, "%s", text.c_str());
}

// Compares with a pattern in which 'h' stands for any hexadecimal digit.
bool matches(const char* text, std::string_view pattern) {
  for (const char expected : pattern) {
    const auto c = static_cast<unsigned char>(*text++);
    if (expected == 'h' ? std::isxdigit(c) == 0 : c != static_cast<unsigned char>(expected)) {
      return false;
    }
  }
  return *text == 0;
}

void set_uuid(GpuSpec& spec, const YAML::Node& node) {
  copy_text(spec.uuid, node, "uuid", 40);
  if (!matches(spec.uuid, "GPU-hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh")) {
    fail(node, "'uuid' must look like GPU-01234567-89ab-cdef-0123-456789abcdef");
  }
}

void set_pci(GpuSpec& spec, const YAML::Node& node) {
  copy_text(spec.pci, node, "pci", 16);
  if (!matches(spec.pci, "hhhhhhhh:hh:hh.0")) fail(node, "'pci' must look like 00000000:18:00.0");
  for (char& c : spec.pci) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
}

void set_memory(GpuSpec& spec, const YAML::Node& node) {
  std::string why;
  const auto bytes = parse_size(word(node, "memory"), &why);
  if (!bytes) fail(node, "'memory': " + why);
  if (*bytes < kMinMemory || *bytes > kMaxMemory) {
    fail(node, "'memory' must be from 16 MiB to 4 TiB, not " + format_size(*bytes));
  }
  spec.memory_bytes = *bytes;
  // On a GPU made small for a test, the driver's own share shrinks with it.
  spec.reserved_bytes = std::min(spec.reserved_bytes, *bytes / 16);
  spec.context_bytes = std::min(spec.context_bytes, *bytes / 8);
}

void add_gpus(const YAML::Node& node, std::vector<PlannedGpu>& gpus) {
  check_keys(node, "a GPU", {"model", "count", "memory", "numa", "uuid", "pci", "power", "sms"});
  const std::string model = model_of(node);
  const int room = kMaxGpus - static_cast<int>(gpus.size());
  if (room == 0) fail(node, "at most " + std::to_string(kMaxGpus) + " GPUs are simulated");
  const int count = node["count"] ? whole(node["count"], "count", 1, room) : 1;

  PlannedGpu plan{.spec = *find_model(model), .fabric = fabric_of(model)};
  plan.spec.numa_node = kNumaOpen;
  if (node["memory"]) set_memory(plan.spec, node["memory"]);
  if (node["power"]) {
    const auto watts = static_cast<uint32_t>(whole(node["power"], "power", 1, 5000));
    plan.spec.power_limit_mw = watts * 1000;
    plan.spec.idle_power_mw = std::min(plan.spec.idle_power_mw, plan.spec.power_limit_mw / 2);
  }
  if (node["sms"]) plan.spec.sm_count = static_cast<uint32_t>(whole(node["sms"], "sms", 1, 1024));
  const size_t first = gpus.size();
  gpus.insert(gpus.end(), static_cast<size_t>(count), plan);

  if (node["numa"]) {
    const auto values = per_gpu(node["numa"], "numa", count);
    for (size_t i = 0; i < values.size(); ++i) {
      gpus[first + i].spec.numa_node = whole(values[i], "numa", -1, 63);
    }
  }
  if (node["uuid"]) {
    const auto values = per_gpu(node["uuid"], "uuid", count);
    for (size_t i = 0; i < values.size(); ++i) set_uuid(gpus[first + i].spec, values[i]);
  }
  if (node["pci"]) {
    const auto values = per_gpu(node["pci"], "pci", count);
    for (size_t i = 0; i < values.size(); ++i) set_pci(gpus[first + i].spec, values[i]);
  }
}

void refuse_doubles(const YAML::Node& node, const std::vector<PlannedGpu>& gpus) {
  std::set<std::string> seen;
  for (const PlannedGpu& gpu : gpus) {
    for (const char* identity : {gpu.spec.uuid, gpu.spec.pci}) {
      if (!seen.insert(identity).second) {
        fail(node, std::string("two GPUs would both be ") + identity);
      }
    }
  }
}

void link(const YAML::Node& node, std::vector<PlannedGpu>& gpus) {
  if (node.IsScalar() && node.Scalar() == "all") return link_all(gpus);
  if (node.IsScalar() && node.Scalar() == "none") return link_none(gpus);
  if (!node.IsSequence()) {
    fail(node, "'nvlink' must be all, none or a list of [gpu, gpu, links], like [[0, 1, 4]]");
  }
  link_none(gpus);
  for (const auto& pair : node) {
    if (!pair.IsSequence() || pair.size() < 2 || pair.size() > 3) {
      fail(pair, "a link is written as [gpu, gpu, number of links], like [0, 1, 4]");
    }
    const int a = whole(pair[0], "nvlink", 0, kMaxGpus - 1);
    const int b = whole(pair[1], "nvlink", 0, kMaxGpus - 1);
    const int count = pair.size() == 3 ? whole(pair[2], "nvlink", 1, kMaxLinks) : 1;
    std::string why;
    if (!link_pair(gpus, a, b, count, &why)) fail(pair, why);
  }
}

uint32_t cuda_version(const YAML::Node& node) {
  const std::string& text = word(node, "cuda");
  unsigned major = 0;
  unsigned minor = 0;
  int used = 0;
  if (text.size() > 5 || sscanf(text.c_str(), "%u.%u%n", &major, &minor, &used) != 2 ||
      static_cast<size_t>(used) != text.size() || major < 11 || major > 99 || minor > 9) {
    fail(node, "'cuda' must be a version like \"13.0\", not '" + text + "'");
  }
  return major * 1000 + minor * 10;
}

std::string driver_version(const YAML::Node& node) {
  const std::string& text = word(node, "driver");
  const bool digits_and_dots = text.find_first_not_of("0123456789.") == std::string::npos;
  if (text.empty() || text.size() > 20 || !digits_and_dots || text[0] == '.') {
    fail(node, "'driver' must be a version like \"580.159.04\", not '" + text + "'");
  }
  return text;
}

SimConfig read(const YAML::Node& root) {
  check_keys(root, "the file",
             {"driver", "cuda", "clock", "slice", "kernel", "launch", "gpus", "nvlink"});
  SimConfig config;
  if (root["driver"]) config.driver_version = driver_version(root["driver"]);
  if (root["cuda"]) config.cuda_version = cuda_version(root["cuda"]);
  if (const YAML::Node clock = root["clock"]) {
    const std::string& mode = word(clock, "clock");
    if (mode != "real" && mode != "manual") {
      fail(clock, "'clock' must be real or manual, not '" + mode + "'");
    }
    config.clock = mode == "manual" ? ClockMode::kManual : ClockMode::kReal;
  }
  if (root["slice"]) config.slice_ns = duration(root["slice"], "slice", 1'000);
  if (root["kernel"]) config.default_kernel_ns = duration(root["kernel"], "kernel", 0);
  if (root["launch"]) config.launch_ns = duration(root["launch"], "launch", 0);

  const YAML::Node list = root["gpus"];
  if (!list) fail(root, "'gpus' is missing: a list like 'gpus: [{model: H200, count: 4}]'");
  if (!list.IsSequence()) fail(list, "'gpus' must be a list, each entry beginning with '- '");
  std::vector<PlannedGpu> gpus;
  for (const auto& entry : list) add_gpus(entry, gpus);
  settle_identities(gpus);
  refuse_doubles(list, gpus);
  link_as_usual(gpus);
  if (root["nvlink"]) link(root["nvlink"], gpus);
  for (const PlannedGpu& gpu : gpus) config.gpus.push_back(gpu.spec);
  return config;
}

std::string with_place(const std::string& file, const YAML::Mark& mark, const std::string& what) {
  if (mark.is_null()) return file + ": " + what;
  return file + ":" + std::to_string(mark.line + 1) + ":" + std::to_string(mark.column + 1) + ": " +
         what;
}

}  // namespace

std::optional<SimConfig> parse_yaml(const std::string& text, const std::string& file_name,
                                    std::string* error) {
  try {
    const YAML::Node root = YAML::Load(text);
    if (!root || root.IsNull()) {
      *error = file_name + ": the file is empty; it needs at least 'gpus: [{model: H200}]'";
      return std::nullopt;
    }
    return read(root);
  } catch (const Mistake& mistake) {
    *error = with_place(file_name, mistake.at, mistake.what);
  } catch (const YAML::Exception& broken) {
    *error = with_place(file_name, broken.mark, "this is not YAML: " + broken.msg);
  } catch (const std::exception& other) {
    *error = file_name + ": cannot be read: " + other.what();
  }
  return std::nullopt;
}

}  // namespace divvy::simgpu
