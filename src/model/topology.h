// How the GPUs of one node are connected with each other and with the processors. A plain value
// whose matrix is always square and symmetric. GPUs are numbered by their place in the node's list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace divvy::model {

// From closest to farthest, with the words that nvidia-smi uses in its matrix.
enum class LinkKind {
  kSelf,     // X: the same GPU
  kNvlink,   // NV#: direct, over # links
  kPix,      // PIX: at most one PCIe bridge
  kPxb,      // PXB: several PCIe bridges, but not the host bridge
  kPhb,      // PHB: a PCIe host bridge (usually the processor)
  kNode,     // NODE: several host bridges of one NUMA node
  kSys,      // SYS: from one NUMA node to another
  kUnknown,  // ?: the driver did not answer
};

struct Link {
  LinkKind kind = LinkKind::kUnknown;
  std::uint32_t nvlink_count = 0;  // Above zero for kNvlink and zero for everything else.
  friend bool operator==(const Link&, const Link&) = default;
};

[[nodiscard]] inline Link nvlink(std::uint32_t count) { return Link{LinkKind::kNvlink, count}; }

// "X", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS" or "?"
[[nodiscard]] std::string to_string(Link link);

// Is `a` a closer connection than `b`? More NVLinks are closer than fewer; unknown is farthest.
[[nodiscard]] bool closer(Link a, Link b);

struct Affinity {
  std::string cpus;  // A list as Linux writes it: "0-31,64-95"; empty when unknown
  std::optional<std::uint32_t> numa_node;
  friend bool operator==(const Affinity&, const Affinity&) = default;
};

class Topology {
 public:
  // No GPU.
  Topology() = default;
  // `size` GPUs of whose connections nothing is known yet.
  explicit Topology(std::size_t size);

  // A whole matrix, row by row. Refused unless it is square and symmetric with X on the diagonal
  // and only there. `affinities` has one entry per GPU.
  [[nodiscard]] static Result<Topology> create(const std::vector<std::vector<Link>>& rows,
                                               std::vector<Affinity> affinities);

  [[nodiscard]] std::size_t size() const { return affinities_.size(); }

  // Sets both directions.
  [[nodiscard]] Status set_link(std::size_t a, std::size_t b, Link link);
  [[nodiscard]] Status set_affinity(std::size_t gpu, Affinity affinity);

  // The arguments are below size().
  [[nodiscard]] Link link(std::size_t a, std::size_t b) const;
  [[nodiscard]] const Affinity& affinity(std::size_t gpu) const;

  // Groups of GPUs that reach each other over NVLink, directly or through one another. Every GPU is
  // in exactly one; the groups and the GPUs inside them are in ascending order.
  [[nodiscard]] std::vector<std::vector<std::size_t>> islands() const;

  friend bool operator==(const Topology&, const Topology&) = default;

 private:
  std::vector<Link> cells_;  // size() * size(), row by row
  std::vector<Affinity> affinities_;
};

}  // namespace divvy::model
