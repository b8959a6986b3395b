#include "gpuload/kernel_launch.h"

#include <utility>

#include "gpuload/kernels.h"

namespace divvy::gpuload {

std::string_view to_string(LaunchKind kind) {
  switch (kind) {
    case LaunchKind::kPlain:
      return "plain";
    case LaunchKind::kEx:
      return "ex";
    case LaunchKind::kCooperative:
      return "cooperative";
    case LaunchKind::kGraph:
      return "graph";
    case LaunchKind::kPerThread:
      return "per-thread";
  }
  return "unknown";
}

KernelLaunch::KernelLaunch(const Session& session, LaunchKind kind, CUfunction function,
                           Geometry geometry, std::vector<uint64_t> arguments, unsigned nodes)
    : session_(session),
      api_(&session.cu),
      kind_(kind),
      function_(function),
      geometry_(geometry),
      arguments_(std::move(arguments)) {
  for (uint64_t& argument : arguments_) parameters_.push_back(&argument);
  config_.gridDimX = geometry.blocks;
  config_.gridDimY = config_.gridDimZ = 1;
  config_.blockDimX = geometry.threads;
  config_.blockDimY = config_.blockDimZ = 1;
  if (kind == LaunchKind::kGraph) build_graph(nodes);
}

KernelLaunch::~KernelLaunch() {
  if (exec_ != nullptr) session_.cu.cuGraphExecDestroy(exec_);
  if (graph_ != nullptr) session_.cu.cuGraphDestroy(graph_);
}

void KernelLaunch::build_graph(unsigned nodes) {
  const DriverApi& cu = session_.cu;
  CU_CALL(cu, cuGraphCreate, &graph_, 0U);
  CUDA_KERNEL_NODE_PARAMS_v2 node{};
  node.func = function_;
  node.gridDimX = geometry_.blocks;
  node.gridDimY = node.gridDimZ = 1;
  node.blockDimX = geometry_.threads;
  node.blockDimY = node.blockDimZ = 1;
  node.kernelParams = parameters_.data();
  CUgraphNode last = nullptr;
  for (unsigned i = 0; i < nodes; ++i) {
    CUgraphNode added = nullptr;
    CU_CALL(cu, cuGraphAddKernelNode_v2, &added, graph_, i == 0 ? nullptr : &last, i == 0 ? 0U : 1U,
            &node);
    last = added;
  }
  CU_CALL(cu, cuGraphInstantiateWithFlags, &exec_, graph_, 0ULL);
}

CUresult KernelLaunch::try_launch(CUstream stream) {
  const DriverApi& cu = *api_;
  switch (kind_) {
    case LaunchKind::kPlain:
      return cu.cuLaunchKernel(function_, geometry_.blocks, 1, 1, geometry_.threads, 1, 1, 0,
                               stream, parameters_.data(), nullptr);
    case LaunchKind::kPerThread:
      return cu.cuLaunchKernel_ptsz(function_, geometry_.blocks, 1, 1, geometry_.threads, 1, 1, 0,
                                    stream, parameters_.data(), nullptr);
    case LaunchKind::kEx:
      config_.hStream = stream;
      return cu.cuLaunchKernelEx(&config_, function_, parameters_.data(), nullptr);
    case LaunchKind::kCooperative:
      return cu.cuLaunchCooperativeKernel(function_, geometry_.blocks, 1, 1, geometry_.threads, 1,
                                          1, 0, stream, parameters_.data());
    case LaunchKind::kGraph:
      return cu.cuGraphLaunch(exec_, stream);
  }
  return CUDA_ERROR_INVALID_VALUE;
}

void KernelLaunch::launch(CUstream stream) {
  const CUresult code = try_launch(stream);
  if (code == CUDA_SUCCESS) return;
  const char* symbol = kind_ == LaunchKind::kPlain         ? "cuLaunchKernel"
                       : kind_ == LaunchKind::kPerThread   ? "cuLaunchKernel_ptsz"
                       : kind_ == LaunchKind::kEx          ? "cuLaunchKernelEx"
                       : kind_ == LaunchKind::kCooperative ? "cuLaunchCooperativeKernel"
                                                           : "cuGraphLaunch";
  raise_failure(session_.cu, symbol, code);
}

Geometry spin_geometry(const Session& session, bool narrow) {
  return narrow ? Geometry{1, 32} : Geometry{session.spin_blocks, kSpinThreads};
}

}  // namespace divvy::gpuload
