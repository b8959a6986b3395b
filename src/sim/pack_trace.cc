#include "sim/pack_trace.h"

#include <charconv>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/parse_error.h"
#include "base/text.h"

namespace divvy::sim {
namespace {

constexpr std::uint64_t kMostCpuMilli = 1'000'000'000;  // a million cores
constexpr std::uint64_t kMostMib = 1'000'000'000;       // about a petabyte
constexpr std::uint32_t kMostMembers = 1001;            // of one node, as the protocol says
// The traces do not tell how much memory the GPUs have, and the protocol does not look at it. Every
// thousandth of this is a whole number of bytes, so that a part takes the same part of the memory.
constexpr Bytes kGpuMemory(16'000'000'000);

Result<std::string> name_of(const CsvRow& row, std::size_t column,
                            std::unordered_set<std::string_view>& seen, std::string_view what) {
  const std::string_view name = row.text(column);
  if (name.empty()) return row.wrong("the {} has no name; give it one", what);
  if (!seen.insert(name).second) {
    return row.wrong("there is a {} {} already; give every {} a name of its own", what,
                     quote_typed(name), what);
  }
  return std::string(name);
}

// The digits at the end of a name, as a number.
std::optional<std::uint64_t> number_at_end(std::string_view name) {
  const std::size_t digits = name.size() - (name.find_last_not_of("0123456789") + 1);
  std::uint64_t number = 0;
  const char* end = name.data() + name.size();
  const auto [read, error] = std::from_chars(end - digits, end, number);
  if (digits == 0 || error != std::errc() || read != end) return std::nullopt;
  return number;
}

// Puts lines together from pieces and finds the pods of a sequence.
class SequenceReader {
 public:
  SequenceReader(std::string name, const PodIndex& pods, const TextLimits& limits)
      : pods_(pods), limits_(limits) {
    sequence_.name = std::move(name);
  }

  Status take(std::string_view piece) {
    while (!piece.empty()) {
      const std::size_t end = piece.find('\n');
      pending_ += piece.substr(0, end);
      if (pending_.size() > limits_.line_bytes) {
        return wrong(fmt::format("the line is longer than {}; write one pod on each line",
                                 describe_bytes(limits_.line_bytes)));
      }
      if (end == std::string_view::npos) return {};
      DIVVY_RETURN_IF_ERROR(end_line());
      piece.remove_prefix(end + 1);
    }
    return {};
  }

  Result<PackSequence> finish() {
    DIVVY_RETURN_IF_ERROR(end_line());
    if (sequence_.arrivals.empty()) {
      return err(ErrorCode::kInvalidArgument, "{}: no pod arrives; write one on each line",
                 escape_for_terminal(sequence_.name));
    }
    return std::move(sequence_);
  }

 private:
  Status end_line() {
    const std::string_view text = trim(pending_);
    if (!text.empty()) {
      const auto found = pods_.find(text);
      if (!found) return wrong(found.error().message);
      sequence_.arrivals.push_back(*found);
    }
    pending_.clear();
    ++line_;
    return {};
  }

  tl::unexpected<Error> wrong(std::string_view reason) const {
    return err(ErrorCode::kInvalidArgument, "{}:{}: {}", escape_for_terminal(sequence_.name), line_,
               reason);
  }

  const PodIndex& pods_;
  const TextLimits limits_;
  PackSequence sequence_;
  std::string pending_;
  std::size_t line_ = 1;
};

}  // namespace

Result<std::vector<place::NodeSpec>> read_nodes(const CsvTable& table) {
  // The traces call it "sn"; everybody else would say "name".
  const auto name = table.find_column("sn") ? table.find_column("sn") : table.find_column("name");
  if (!name) return err(table.column("sn").error());
  DIVVY_TRY(cpu, table.column("cpu_milli"));
  DIVVY_TRY(memory, table.column("memory_mib"));
  DIVVY_TRY(gpu, table.column("gpu"));
  DIVVY_TRY(model, table.column("model"));

  std::vector<place::NodeSpec> nodes;
  std::unordered_set<std::string_view> names;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const CsvRow row = table.row(i);
    place::NodeSpec node;
    DIVVY_TRY(node_name, name_of(row, *name, names, "node"));
    node.name = std::move(node_name);
    DIVVY_TRY(cpu_milli, row.count(cpu, 0, kMostCpuMilli));
    node.cpu_milli = cpu_milli;
    DIVVY_TRY(memory_mib, row.count(memory, 0, kMostMib));
    node.ram = mib(memory_mib);
    DIVVY_TRY(gpus, row.count(gpu, 0, place::kMaxDevices));
    if (gpus == 0) continue;
    if (row.text(model).empty()) {
      return row.wrong("the node has {} GPUs and no model; write one", gpus);
    }
    place::DeviceSpec device;
    device.model = row.text(model);
    device.memory = kGpuMemory;
    node.devices.assign(gpus, device);
    node.max_members = kMostMembers;
    if (const Status good = place::check(node); !good) return row.wrong("{}", good.error().message);
    nodes.push_back(std::move(node));
  }
  if (nodes.empty()) {
    return err(ErrorCode::kInvalidArgument, "{}: no node has a GPU; there is nothing to place on",
               escape_for_terminal(table.name()));
  }
  return nodes;
}

Result<std::vector<PackPod>> read_pods(const CsvTable& table) {
  DIVVY_TRY(name, table.column("name"));
  DIVVY_TRY(cpu, table.column("cpu_milli"));
  DIVVY_TRY(memory, table.column("memory_mib"));
  DIVVY_TRY(num_gpu, table.column("num_gpu"));
  DIVVY_TRY(gpu_milli, table.column("gpu_milli"));
  const auto spec = table.find_column("gpu_spec");

  std::vector<PackPod> pods;
  std::unordered_set<std::string_view> names;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const CsvRow row = table.row(i);
    PackPod pod;
    DIVVY_TRY(pod_name, name_of(row, name, names, "pod"));
    pod.name = std::move(pod_name);
    DIVVY_TRY(cpu_count, row.count(cpu, 0, kMostCpuMilli));
    pod.cpu_milli = cpu_count;
    DIVVY_TRY(memory_mib, row.count(memory, 0, kMostMib));
    pod.ram = mib(memory_mib);
    DIVVY_TRY(gpus, row.count(num_gpu, 0, place::kMaxDevices));
    pod.gpus = static_cast<std::uint32_t>(gpus);
    DIVVY_TRY(milli, row.count(gpu_milli, 0, Share::kWhole));
    if (gpus > 0) pod.gpu_milli = static_cast<std::uint32_t>(milli);
    if (gpus == 1 && milli == 0) {
      return row.wrong("the pod asks for a GPU and for 0 of it; write 1 to 1000 as gpu_milli");
    }
    if (gpus > 1 && milli != Share::kWhole) {
      return row.wrong("the pod asks for {} of each of {} GPUs; of several GPUs write 1000", milli,
                       gpus);
    }
    if (spec && gpus > 0 && !row.text(*spec).empty()) {
      for (const std::string_view model : split(row.text(*spec), '|')) {
        if (!trim(model).empty()) pod.models.emplace_back(trim(model));
      }
    }
    pods.push_back(std::move(pod));
  }
  if (pods.empty()) {
    return err(ErrorCode::kInvalidArgument, "{}: there is no pod; there is nothing to place",
               escape_for_terminal(table.name()));
  }
  return pods;
}

PodIndex::PodIndex(const std::vector<PackPod>& pods) {
  for (std::uint32_t i = 0; i < pods.size(); ++i) {
    by_name_.emplace(pods[i].name, i);
    const auto number = number_at_end(pods[i].name);
    if (!number) continue;
    const auto [found, is_new] = by_number_.emplace(*number, i);
    if (!is_new) found->second = kAmbiguous;
  }
}

Result<std::uint32_t> PodIndex::find(std::string_view text) const {
  if (const auto found = by_name_.find(text); found != by_name_.end()) return found->second;
  const bool is_number = text.find_first_not_of("0123456789") == std::string_view::npos;
  const auto number = is_number ? number_at_end(text) : std::nullopt;
  const auto found = number ? by_number_.find(*number) : by_number_.end();
  if (found == by_number_.end()) {
    return err(ErrorCode::kNotFound,
               "there is no pod {}; write the name of a pod, or the number that it ends with",
               quote_typed(text));
  }
  if (found->second == kAmbiguous) {
    return err(ErrorCode::kInvalidArgument,
               "several pods end with the number {}; write the name of the pod", quote_typed(text));
  }
  return found->second;
}

Result<PackSequence> read_sequence(const std::string& path, const PodIndex& pods,
                                   const TextLimits& limits) {
  SequenceReader reader(path, pods, limits);
  DIVVY_RETURN_IF_ERROR(
      read_text(path, limits, [&](std::string_view piece) { return reader.take(piece); }));
  return reader.finish();
}

Result<PackSequence> parse_sequence(std::string_view text, std::string name, const PodIndex& pods,
                                    const TextLimits& limits) {
  SequenceReader reader(std::move(name), pods, limits);
  DIVVY_RETURN_IF_ERROR(reader.take(text));
  return reader.finish();
}

}  // namespace divvy::sim
