// Anything at all as nodes, pods or sequence: it is read or refused, and what is read can be used.
// The first byte says which of the three the rest is.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "sim/pack_trace.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  using namespace divvy::sim;
  if (data[0] == 's') {
    std::vector<PackPod> pods(20);
    for (std::size_t i = 0; i < pods.size(); ++i) pods[i].name = "pod-" + std::to_string(i);
    const auto sequence = parse_sequence(text, "order.txt", PodIndex(pods));
    if (!sequence) return 0;
    for (const std::uint32_t pod : sequence->arrivals)
      DIVVY_CHECK(pod < pods.size(), "pod {}", pod);
    return 0;
  }
  const auto table = CsvTable::parse(text, "trace.csv");
  if (!table) return 0;
  if (data[0] == 'n') {
    const auto nodes = read_nodes(*table);
    if (!nodes) return 0;
    for (const auto& node : *nodes) DIVVY_CHECK(divvy::place::check(node).has_value(), "a node");
  } else if (const auto pods = read_pods(*table)) {
    for (const PackPod& pod : *pods) {
      DIVVY_CHECK(pod.gpu_milli <= 1000 && (pod.gpus <= 1 || pod.gpu_milli == 1000), "a pod");
    }
  }
  return 0;
}
