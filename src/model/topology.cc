#include "model/topology.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace divvy::model {
namespace {

Status check_link(std::size_t a, std::size_t b, Link link) {
  if ((a == b) != (link.kind == LinkKind::kSelf)) {
    return err(ErrorCode::kInvalidArgument,
               "GPU {} and GPU {} cannot be connected by {}: X stands for a GPU and itself", a, b,
               to_string(link));
  }
  if ((link.kind == LinkKind::kNvlink) != (link.nvlink_count > 0)) {
    return err(ErrorCode::kInvalidArgument,
               "GPU {} and GPU {} have {} NVLinks, which does not go with {}", a, b,
               link.nvlink_count, to_string(link));
  }
  return {};
}

}  // namespace

std::string to_string(Link link) {
  switch (link.kind) {
    case LinkKind::kSelf:
      return "X";
    case LinkKind::kNvlink:
      return fmt::format("NV{}", link.nvlink_count);
    case LinkKind::kPix:
      return "PIX";
    case LinkKind::kPxb:
      return "PXB";
    case LinkKind::kPhb:
      return "PHB";
    case LinkKind::kNode:
      return "NODE";
    case LinkKind::kSys:
      return "SYS";
    case LinkKind::kUnknown:
      return "?";
  }
  return "?";
}

bool closer(Link a, Link b) {
  if (a.kind != b.kind) return a.kind < b.kind;
  return a.nvlink_count > b.nvlink_count;
}

Topology::Topology(std::size_t size) : cells_(size * size), affinities_(size) {
  for (std::size_t gpu = 0; gpu < size; ++gpu) cells_[gpu * size + gpu].kind = LinkKind::kSelf;
}

Result<Topology> Topology::create(const std::vector<std::vector<Link>>& rows,
                                  std::vector<Affinity> affinities) {
  const std::size_t size = rows.size();
  if (affinities.size() != size) {
    return err(ErrorCode::kInvalidArgument, "a topology of {} GPUs has {} processor affinities",
               size, affinities.size());
  }
  Topology topology(size);
  for (std::size_t a = 0; a < size; ++a) {
    if (rows[a].size() != size) {
      return err(ErrorCode::kInvalidArgument, "row {} of a topology of {} GPUs has {} entries", a,
                 size, rows[a].size());
    }
    for (std::size_t b = 0; b < size; ++b) {
      DIVVY_RETURN_IF_ERROR(check_link(a, b, rows[a][b]));
      // Rows above this one have the right length already, and rows below are compared in their
      // turn.
      if (b < a && rows[a][b] != rows[b][a]) {
        return err(
            ErrorCode::kInvalidArgument,
            "GPU {} says {} about GPU {}, which says {} about it; a connection is the same in "
            "both directions",
            a, to_string(rows[a][b]), b, to_string(rows[b][a]));
      }
      topology.cells_[a * size + b] = rows[a][b];
    }
  }
  topology.affinities_ = std::move(affinities);
  return topology;
}

Status Topology::set_link(std::size_t a, std::size_t b, Link link) {
  if (a >= size() || b >= size()) {
    return err(ErrorCode::kOutOfRange, "there is no connection from GPU {} to GPU {} among {} GPUs",
               a, b, size());
  }
  DIVVY_RETURN_IF_ERROR(check_link(a, b, link));
  cells_[a * size() + b] = link;
  cells_[b * size() + a] = link;
  return {};
}

Status Topology::set_affinity(std::size_t gpu, Affinity affinity) {
  if (gpu >= size()) {
    return err(ErrorCode::kOutOfRange, "there is no GPU {} among {} GPUs", gpu, size());
  }
  affinities_[gpu] = std::move(affinity);
  return {};
}

Link Topology::link(std::size_t a, std::size_t b) const {
  DIVVY_CHECK(a < size() && b < size(), "GPU {} and {} of {}", a, b, size());
  return cells_[a * size() + b];
}

const Affinity& Topology::affinity(std::size_t gpu) const {
  DIVVY_CHECK(gpu < size(), "GPU {} of {}", gpu, size());
  return affinities_[gpu];
}

std::vector<std::vector<std::size_t>> Topology::islands() const {
  std::vector<std::vector<std::size_t>> islands;
  std::vector<bool> seen(size(), false);
  for (std::size_t first = 0; first < size(); ++first) {
    if (seen[first]) continue;
    seen[first] = true;
    std::vector<std::size_t> island{first};
    // The island grows while it is walked through: every member brings its own neighbours.
    for (std::size_t next = 0; next < island.size(); ++next) {
      for (std::size_t other = 0; other < size(); ++other) {
        if (seen[other] || link(island[next], other).kind != LinkKind::kNvlink) continue;
        seen[other] = true;
        island.push_back(other);
      }
    }
    std::ranges::sort(island);
    islands.push_back(std::move(island));
  }
  return islands;
}

}  // namespace divvy::model
