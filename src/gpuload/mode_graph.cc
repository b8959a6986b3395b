// Graphs, captured and built by hand: launched, updated, and their results read back after each
// step.

#include <algorithm>
#include <array>

#include "gpuload/modes.h"
#include "gpuload/stop.h"

namespace divvy::gpuload {
namespace {

constexpr uint64_t kWords = 4096;

class GraphCheck {
 public:
  explicit GraphCheck(const Session& session)
      : session_(session),
        cu_(session.cu),
        stream_(session),
        first_(session, kWords * 4),
        second_(session, kWords * 4) {}

  // first = value; second = first; first = value + 1.
  CUgraph capture(uint32_t value) {
    KernelLaunch before(session_, LaunchKind::kPlain, session_.fill32, {8, 256},
                        {first_.get(), kWords, value});
    KernelLaunch after(session_, LaunchKind::kPlain, session_.fill32, {8, 256},
                       {first_.get(), kWords, value + 1});
    CUgraph graph = nullptr;
    CU_CALL(cu_, cuStreamBeginCapture_v2, stream_.get(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    before.launch(stream_.get());
    CU_CALL(cu_, cuMemcpyDtoDAsync_v2, second_.get(), first_.get(), kWords * 4, stream_.get());
    after.launch(stream_.get());
    CU_CALL(cu_, cuStreamEndCapture, stream_.get(), &graph);
    return graph;
  }

  // The same three steps as nodes; `fill` becomes the last of them.
  CUgraph build(uint32_t value, CUgraphNode* fill) {
    CUgraph graph = nullptr;
    CU_CALL(cu_, cuGraphCreate, &graph, 0U);
    CUgraphNode set = nullptr;
    CUDA_MEMSET_NODE_PARAMS memset{};
    memset.dst = first_.get();
    memset.value = value;
    memset.elementSize = 4;
    memset.width = kWords;
    memset.height = 1;
    CU_CALL(cu_, cuGraphAddMemsetNode, &set, graph, nullptr, size_t{0}, &memset, session_.context);
    CUgraphNode copy = nullptr;
    CUDA_MEMCPY3D memcpy{};
    memcpy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    memcpy.srcDevice = first_.get();
    memcpy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    memcpy.dstDevice = second_.get();
    memcpy.WidthInBytes = kWords * 4;
    memcpy.Height = memcpy.Depth = 1;
    CU_CALL(cu_, cuGraphAddMemcpyNode, &copy, graph, &set, size_t{1}, &memcpy, session_.context);
    FillParameters parameters(*this, value + 1);
    CU_CALL(cu_, cuGraphAddKernelNode_v2, fill, graph, &copy, size_t{1}, &parameters.node);
    return graph;
  }

  void set_fill(CUgraphExec exec, CUgraphNode fill, uint32_t value) {
    FillParameters parameters(*this, value);
    CU_CALL(cu_, cuGraphExecKernelNodeSetParams_v2, exec, fill, &parameters.node);
  }

  // Microseconds of GPU time and nanoseconds of CPU time per launch, over `count` launches.
  void launch(CUgraphExec exec, uint64_t count, Report& report) {
    const Event start(session_);
    const Event end(session_);
    std::vector<double> cpu_ns;
    uint64_t launched = 0;
    start.record(stream_.get());
    for (; launched < count && !(launched > 0 && stop_requested()); ++launched) {
      const uint64_t before = monotonic_ns();
      CU_CALL(cu_, cuGraphLaunch, exec, stream_.get());
      cpu_ns.push_back(static_cast<double>(monotonic_ns() - before));
      if (launched % 256 == 255) stream_.synchronize();
    }
    end.record(stream_.get());
    end.synchronize();
    report.set("launches", launched);
    report.set("gpu_us_per_launch",
               end.us_since(start) / static_cast<double>(std::max<uint64_t>(launched, 1)));
    report.set("launch_cpu_ns", summarize(std::move(cpu_ns)));
  }

  void launch_once(CUgraphExec exec) {
    CU_CALL(cu_, cuGraphLaunch, exec, stream_.get());
    stream_.synchronize();
  }

  bool holds(uint32_t first, uint32_t second) {
    return all_words(first_.get(), first) && all_words(second_.get(), second);
  }

  CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec = nullptr;
    CU_CALL(cu_, cuGraphInstantiateWithFlags, &exec, graph, 0ULL);
    return exec;
  }

 private:
  struct FillParameters {
    FillParameters(GraphCheck& check, uint32_t fill_value)
        : to(check.first_.get()), value(fill_value), pointers{&to, &count, &value} {
      node.func = check.session_.fill32;
      node.gridDimX = 8;
      node.gridDimY = node.gridDimZ = 1;
      node.blockDimX = 256;
      node.blockDimY = node.blockDimZ = 1;
      node.kernelParams = pointers.data();
    }
    uint64_t to;
    uint64_t count = kWords;
    uint32_t value;
    std::array<void*, 3> pointers;
    CUDA_KERNEL_NODE_PARAMS_v2 node{};
  };

  bool all_words(CUdeviceptr from, uint32_t expected) {
    std::vector<uint32_t> words(kWords);
    CU_CALL(cu_, cuMemcpyDtoH_v2, words.data(), from, kWords * 4);
    return std::all_of(words.begin(), words.end(), [&](uint32_t word) { return word == expected; });
  }

  const Session& session_;
  const DriverApi& cu_;
  Stream stream_;
  DeviceBuffer first_;
  DeviceBuffer second_;
};

}  // namespace

void run_graph(const Session& session, const GraphOptions& options, Report& report) {
  const DriverApi& cu = session.cu;
  GraphCheck check(session);

  Report& captured = report.object("captured");
  CUgraph graph = check.capture(10);
  size_t nodes = 0;
  CU_CALL(cu, cuGraphGetNodes, graph, nullptr, &nodes);
  captured.set("nodes", uint64_t{nodes});
  CUgraphExec exec = check.instantiate(graph);
  check.launch(exec, options.count, captured);
  captured.set("correct", check.holds(11, 10));

  CUgraph other = check.capture(20);
  CUgraphExecUpdateResultInfo result{};
  CU_CALL(cu, cuGraphExecUpdate_v2, exec, other, &result);
  check.launch_once(exec);
  captured.set("correct_after_update", check.holds(21, 20));
  cu.cuGraphExecDestroy(exec);
  cu.cuGraphDestroy(other);
  cu.cuGraphDestroy(graph);

  Report& built = report.object("built");
  CUgraphNode fill = nullptr;
  graph = check.build(30, &fill);
  CU_CALL(cu, cuGraphGetNodes, graph, nullptr, &nodes);
  built.set("nodes", uint64_t{nodes});
  exec = check.instantiate(graph);
  check.launch(exec, options.count, built);
  built.set("correct", check.holds(31, 30));
  check.set_fill(exec, fill, 99);
  check.launch_once(exec);
  built.set("correct_after_update", check.holds(99, 30));
  cu.cuGraphExecDestroy(exec);
  cu.cuGraphDestroy(graph);
  report.set("interrupted", stop_requested());
}

}  // namespace divvy::gpuload
