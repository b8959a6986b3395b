// One kernel with fixed geometry and arguments, launched again and again in one of the ways that
// the driver offers. Used by one thread at a time; the hot call does nothing but the driver call
// itself.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "gpuload/session.h"

namespace divvy::gpuload {

enum class LaunchKind { kPlain, kEx, kCooperative, kGraph, kPerThread };
constexpr LaunchKind kLaunchKinds[] = {LaunchKind::kPlain, LaunchKind::kEx,
                                       LaunchKind::kCooperative, LaunchKind::kGraph,
                                       LaunchKind::kPerThread};
// "plain", "ex", "cooperative", "graph", "per-thread"
std::string_view to_string(LaunchKind kind);

struct Geometry {
  unsigned blocks = 1;
  unsigned threads = 1;
};

class KernelLaunch {
 public:
  // `nodes` is how many copies of the kernel, one after the other, a graph holds; it counts for
  // kGraph alone. Arguments narrower than 64 bits take the low part of their word.
  KernelLaunch(const Session& session, LaunchKind kind, CUfunction function, Geometry geometry,
               std::vector<uint64_t> arguments, unsigned nodes = 1);
  ~KernelLaunch();
  KernelLaunch(const KernelLaunch&) = delete;
  KernelLaunch& operator=(const KernelLaunch&) = delete;

  // Launches from now on through these functions; they outlive this object. The session's are used
  // until then.
  void call_through(const DriverApi& api) { api_ = &api; }

  [[nodiscard]] CUresult try_launch(CUstream stream);
  // Throws CudaFailure.
  void launch(CUstream stream);

 private:
  void build_graph(unsigned nodes);

  const Session& session_;
  const DriverApi* api_;
  LaunchKind kind_;
  CUfunction function_;
  Geometry geometry_;
  std::vector<uint64_t> arguments_;
  std::vector<void*> parameters_;
  CUlaunchConfig config_{};
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
};

// `spin` over the whole GPU, or on one warp of one multiprocessor.
Geometry spin_geometry(const Session& session, bool narrow);

}  // namespace divvy::gpuload
