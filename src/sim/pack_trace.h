// What `divvy sim pack` replays: a cluster of nodes, the pods that may come, and the orders in
// which they come. The files are those of the openb traces:
//
//   nodes     sn (or name), cpu_milli, memory_mib, gpu, model
//   pods      name, cpu_milli, memory_mib, num_gpu, gpu_milli and, if there is one, gpu_spec
//   sequence  a line for each arrival: the name of a pod, or the number that its name ends with
//             ("17" is openb-pod-0017)
//
// Other columns are left alone. Nothing is trusted: what is wrong is refused with the file, the
// line and the reason. Plain values; the functions may be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "place/node_spec.h"
#include "sim/csv.h"
#include "sim/text_file.h"

namespace divvy::sim {

struct PackPod {
  std::string name;
  std::uint64_t cpu_milli = 0;
  Bytes ram;
  std::uint32_t gpus = 0;
  std::uint32_t gpu_milli = 0;      // of each; 1000 where there are several, 0 where there is none
  std::vector<std::string> models;  // allowed ones; empty: all
  friend bool operator==(const PackPod&, const PackPod&) = default;

  // All that it asks of GPUs, in thousandths.
  [[nodiscard]] std::uint32_t share() const { return gpus * gpu_milli; }
};

// The order in which pods arrive: indices into the list of pods. One may come several times.
struct PackSequence {
  std::string name;  // the path, as it was given
  std::vector<std::uint32_t> arrivals;
};

// Nodes without GPU are left out, because the protocol has none.
[[nodiscard]] Result<std::vector<place::NodeSpec>> read_nodes(const CsvTable& table);
[[nodiscard]] Result<std::vector<PackPod>> read_pods(const CsvTable& table);

// Finds pods by what stands in a sequence. The pods outlive it.
class PodIndex {
 public:
  explicit PodIndex(const std::vector<PackPod>& pods);

  // "openb-pod-0017" or "17". The error is the reason alone: it knows no file.
  [[nodiscard]] Result<std::uint32_t> find(std::string_view text) const;

 private:
  static constexpr std::uint32_t kAmbiguous = ~0U;

  std::unordered_map<std::string_view, std::uint32_t> by_name_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_number_;
};

// Plain text, or compressed with gzip. Empty lines are passed over; a file without any arrival is
// refused.
[[nodiscard]] Result<PackSequence> read_sequence(const std::string& path, const PodIndex& pods,
                                                 const TextLimits& limits = {});
[[nodiscard]] Result<PackSequence> parse_sequence(std::string_view text, std::string name,
                                                  const PodIndex& pods,
                                                  const TextLimits& limits = {});

}  // namespace divvy::sim
