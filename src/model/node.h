// One machine with GPUs: what the inventory found. A plain value; its parts are known to fit
// together.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/gpu.h"
#include "model/topology.h"

namespace divvy::model {

// The newest CUDA that the driver supports.
struct CudaVersion {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;

  // The driver counts 13000 for 13.0 and 12040 for 12.4.
  [[nodiscard]] static CudaVersion from_driver_number(std::uint32_t number);

  friend auto operator<=>(const CudaVersion&, const CudaVersion&) = default;
};
// "13.0"
[[nodiscard]] std::string to_string(CudaVersion version);

class Node {
 public:
  struct Parts {
    std::string hostname;
    std::optional<std::string> driver_version;
    std::optional<CudaVersion> cuda_version;
    std::vector<Gpu> gpus;
    Topology topology;  // In the order of `gpus`
    bool simulated = false;
    friend bool operator==(const Parts&, const Parts&) = default;
  };

  // Refused: no host name, two GPUs with one index, UUID or PCI address, or a topology of another
  // size.
  [[nodiscard]] static Result<Node> create(Parts parts);

  [[nodiscard]] const std::string& hostname() const { return parts_.hostname; }
  [[nodiscard]] const std::optional<std::string>& driver_version() const {
    return parts_.driver_version;
  }
  [[nodiscard]] const std::optional<CudaVersion>& cuda_version() const {
    return parts_.cuda_version;
  }
  [[nodiscard]] const std::vector<Gpu>& gpus() const { return parts_.gpus; }
  [[nodiscard]] const Topology& topology() const { return parts_.topology; }
  // Are these GPUs made up by the simulated driver?
  [[nodiscard]] bool simulated() const { return parts_.simulated; }

  // The place in gpus(), or nothing.
  [[nodiscard]] std::optional<std::size_t> find(const GpuUuid& uuid) const;

  friend bool operator==(const Node&, const Node&) = default;

 private:
  explicit Node(Parts parts) : parts_(std::move(parts)) {}

  Parts parts_;
};

}  // namespace divvy::model
