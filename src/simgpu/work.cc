#include "simgpu/work.h"

#include <string.h>

#include <algorithm>

#include "simgpu/array.h"
#include "simgpu/memory.h"
#include "simgpu/wide.h"

namespace divvy::simgpu {
namespace {

// One side of a copy, as an address with pitches, whatever kind of memory it is.
struct Side {
  uint8_t* base = nullptr;
  size_t pitch = 0;
  size_t plane = 0;  // bytes between two slices
  int device = -1;   // -1: host
};

template <typename Pointer>
CUresult resolve_side(Driver& driver, CUmemorytype type, Pointer host, CUdeviceptr device,
                      CUarray array_handle, size_t x, size_t y, size_t z, size_t pitch,
                      size_t height, const CUDA_MEMCPY3D& copy, Side* side) {
  side->pitch = pitch == 0 ? x + copy.WidthInBytes : pitch;
  side->plane = side->pitch * std::max(height, y + copy.Height);
  uint64_t start = 0;
  if (type == CU_MEMORYTYPE_ARRAY) {
    const Array* array = resolve_array(array_handle);
    if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    side->pitch = array->pitch;
    side->plane = array->pitch * std::max<size_t>(array->height, 1);
    side->device = array->device;
    start = array->address;
    if (x + copy.WidthInBytes > array->pitch ||
        y + copy.Height > std::max<size_t>(array->height, 1) ||
        z + copy.Depth > std::max<size_t>(array->depth, 1)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  } else {
    if (pitch != 0 && x + copy.WidthInBytes > pitch && copy.Height > 1) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    start = type == CU_MEMORYTYPE_HOST ? reinterpret_cast<uint64_t>(host) : device;
    if (start == 0) return CUDA_ERROR_INVALID_VALUE;
    const size_t first = z * side->plane + y * side->pitch + x;
    const size_t extent =
        (copy.Depth - 1) * side->plane + (copy.Height - 1) * side->pitch + copy.WidthInBytes;
    const Allocation* known = driver.map().find_range(start + first, extent);
    if (type == CU_MEMORYTYPE_DEVICE || (type == CU_MEMORYTYPE_UNIFIED && known != nullptr)) {
      if (known == nullptr || known->kind == MemoryKind::kReserved) return CUDA_ERROR_INVALID_VALUE;
      side->device = known->device;
    }
    // Unified addressing: what the driver does not know is the program's pageable memory, unless
    // it begins in an allocation and runs out of it.
    if (type == CU_MEMORYTYPE_UNIFIED && known == nullptr &&
        driver.map().find(start + first) != nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  side->base = reinterpret_cast<uint8_t*>(start) + z * side->plane + y * side->pitch + x;
  return CUDA_SUCCESS;
}

CUDA_MEMCPY3D normalised(CUDA_MEMCPY3D copy) {
  copy.Height = std::max<size_t>(copy.Height, 1);
  copy.Depth = std::max<size_t>(copy.Depth, 1);
  return copy;
}

CUresult resolve_copy(Driver& driver, const CUDA_MEMCPY3D& copy, Side* from, Side* to) {
  if (CUresult bad = resolve_side(driver, copy.srcMemoryType, copy.srcHost, copy.srcDevice,
                                  copy.srcArray, copy.srcXInBytes, copy.srcY, copy.srcZ,
                                  copy.srcPitch, copy.srcHeight, copy, from)) {
    return bad;
  }
  return resolve_side(driver, copy.dstMemoryType, copy.dstHost, copy.dstDevice, copy.dstArray,
                      copy.dstXInBytes, copy.dstY, copy.dstZ, copy.dstPitch, copy.dstHeight, copy,
                      to);
}

void run_copy(const CUDA_MEMCPY3D& copy, const Side& from, const Side& to) {
  for (size_t z = 0; z < copy.Depth; ++z) {
    for (size_t y = 0; y < copy.Height; ++y) {
      memmove(to.base + z * to.plane + y * to.pitch, from.base + z * from.plane + y * from.pitch,
              copy.WidthInBytes);
    }
  }
}

void run_memset(const CUDA_MEMSET_NODE_PARAMS& memset_params) {
  for (size_t y = 0; y < std::max<size_t>(memset_params.height, 1); ++y) {
    auto* row = reinterpret_cast<uint8_t*>(memset_params.dst) + y * memset_params.pitch;
    if (memset_params.elementSize == 1) {
      memset(row, static_cast<int>(memset_params.value), memset_params.width);
    } else if (memset_params.elementSize == 2) {
      std::fill_n(reinterpret_cast<uint16_t*>(row), memset_params.width,
                  static_cast<uint16_t>(memset_params.value));
    } else {
      std::fill_n(reinterpret_cast<uint32_t*>(row), memset_params.width, memset_params.value);
    }
  }
}

struct Check {
  Driver& driver;
  CUresult operator()(const EmptyWork&) const { return CUDA_SUCCESS; }
  CUresult operator()(const KernelWork& work) const {
    return work.function == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }
  CUresult operator()(const CopyWork& work) const {
    if (work.copy.WidthInBytes == 0) return CUDA_SUCCESS;
    Side from;
    Side to;
    return resolve_copy(driver, normalised(work.copy), &from, &to);
  }
  CUresult operator()(const MemsetWork& work) const {
    const auto& m = work.memset;
    if (m.elementSize != 1 && m.elementSize != 2 && m.elementSize != 4) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (m.dst % m.elementSize != 0) return CUDA_ERROR_INVALID_VALUE;
    const size_t rows = std::max<size_t>(m.height, 1);
    const size_t row = m.width * m.elementSize;
    if (row == 0) return CUDA_SUCCESS;
    if (rows > 1 && m.pitch < row) return CUDA_ERROR_INVALID_VALUE;
    const Allocation* known = driver.map().find_range(m.dst, (rows - 1) * m.pitch + row);
    if (known == nullptr || known->kind == MemoryKind::kReserved) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
  }
  CUresult operator()(const HostWork& work) const {
    return work.function == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  }
  CUresult operator()(const MemOpWork& work) const {
    for (const auto& operation : work.operations) {
      const bool wide = operation.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                        operation.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
      switch (operation.operation) {
        case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        case CU_STREAM_MEM_OP_WRITE_VALUE_64: {
          const uint64_t size = wide ? 8 : 4;
          const uint64_t address = operation.waitValue.address;
          if (address % size != 0) return CUDA_ERROR_INVALID_VALUE;
          const bool writes = operation.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
                              operation.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
          // A Hopper driver takes no flags on writes, not even the documented one.
          if (writes && operation.writeValue.flags != 0) return CUDA_ERROR_INVALID_VALUE;
          if (!writes && (operation.waitValue.flags & CU_STREAM_WAIT_VALUE_FLUSH) != 0) {
            return CUDA_ERROR_NOT_SUPPORTED;
          }
          if (!writes && operation.waitValue.flags > 3) return CUDA_ERROR_INVALID_VALUE;
          const Allocation* known = driver.map().find_range(address, size);
          if (known == nullptr || known->kind == MemoryKind::kReserved) {
            return CUDA_ERROR_INVALID_VALUE;
          }
          break;
        }
        case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
          return CUDA_ERROR_NOT_SUPPORTED;
        case CU_STREAM_MEM_OP_BARRIER:
          break;
        default:
          return CUDA_ERROR_INVALID_VALUE;
      }
    }
    return CUDA_SUCCESS;
  }
  CUresult operator()(const RecordWork& work) const { return event_ok(work.event); }
  CUresult operator()(const WaitWork& work) const { return event_ok(work.event); }
  CUresult operator()(const AllocWork&) const { return CUDA_SUCCESS; }
  CUresult operator()(const FreeWork&) const { return CUDA_SUCCESS; }

  static CUresult event_ok(const Event* event) {
    return event == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  }
};

struct Lower {
  Driver& driver;
  Context& context;
  OpList& ops;

  void operator()(const EmptyWork&) const { ops.emplace_back(); }

  Gpu& gpu_of(const Side& side) const { return driver.state().gpu(driver.gpu_of(side.device)); }

  void operator()(const KernelWork& work) const {
    ops.push_back(kernel_op(work, driver.spec(context.device), driver.shared().default_kernel_ns));
  }

  void operator()(const CopyWork& work) const {
    const CUDA_MEMCPY3D copy = normalised(work.copy);
    Side from;
    Side to;
    Op op;
    op.kind = OpKind::kTransfer;
    if (copy.WidthInBytes > 0 && resolve_copy(driver, copy, &from, &to) == CUDA_SUCCESS) {
      const GpuSpec& spec = driver.spec(context.device);
      const uint64_t bytes = copy.WidthInBytes * copy.Height * copy.Depth;
      const bool inside = from.device >= 0 && to.device == from.device;
      // Inside a GPU every byte is read and written.
      op.cost_ns = inside ? 1'000 + transfer_ns(bytes * 2, spec.bandwidth_bytes_s)
                          : 1'500 + transfer_ns(bytes, spec.pcie_bytes_s);
      std::atomic<uint64_t>* sent = nullptr;
      std::atomic<uint64_t>* received = nullptr;
      if (!inside) {
        if (from.device >= 0) sent = &gpu_of(from).pcie_sent_bytes;
        if (to.device >= 0) received = &gpu_of(to).pcie_received_bytes;
      }
      op.action = std::make_shared<Action>([copy, from, to, bytes, sent, received] {
        run_copy(copy, from, to);
        if (sent != nullptr) sent->fetch_add(bytes, std::memory_order_relaxed);
        if (received != nullptr) received->fetch_add(bytes, std::memory_order_relaxed);
      });
    }
    ops.push_back(std::move(op));
  }

  void operator()(const MemsetWork& work) const {
    Op op;
    op.kind = OpKind::kKernel;  // the driver runs memsets as small kernels
    const GpuSpec& spec = driver.spec(context.device);
    const uint64_t bytes =
        work.memset.width * work.memset.elementSize * std::max<size_t>(work.memset.height, 1);
    op.cost_ns = 1'000 + transfer_ns(bytes, spec.bandwidth_bytes_s);
    op.width = bytes >= (1u << 20) ? 1000 : 100;
    op.action = std::make_shared<Action>([params = work.memset] { run_memset(params); });
    ops.push_back(std::move(op));
  }

  void operator()(const HostWork& work) const {
    Op op;
    op.kind = OpKind::kHost;
    op.action = std::make_shared<Action>([work] { work.function(work.data); });
    ops.push_back(std::move(op));
  }

  void operator()(const MemOpWork& work) const {
    for (const auto& operation : work.operations) {
      if (operation.operation == CU_STREAM_MEM_OP_BARRIER) continue;
      Op op;
      const bool waits = operation.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
                         operation.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
      op.kind = waits ? OpKind::kWaitValue : OpKind::kWriteValue;
      op.wide = operation.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                operation.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
      op.flags = operation.waitValue.flags;
      op.address = operation.waitValue.address;
      op.number = op.wide ? operation.waitValue.value64 : operation.waitValue.value;
      const Allocation* known = driver.map().find(op.address);
      if (!waits && known != nullptr && known->read_only) {
        // The GPU may not write there. As on hardware the context is lost when it tries.
        op.kind = OpKind::kAction;
        op.action = std::make_shared<Action>(
            [&context = context] { context.sticky = CUDA_ERROR_LAUNCH_FAILED; });
      }
      ops.push_back(std::move(op));
    }
  }

  void operator()(const RecordWork& work) const {
    Event* event = work.event;
    Op op;
    op.kind = OpKind::kAction;
    Engine& engine = driver.engine();
    op.action = std::make_shared<Action>([event, &engine] {
      event->completed = ++event->recorded;
      event->completed_at_ns = engine.now();
    });
    ops.push_back(std::move(op));
  }

  // An event wait node waits for what was last recorded when the node runs.
  void operator()(const WaitWork& work) const {
    Op op;
    op.kind = OpKind::kWaitEvent;
    op.event = work.event;
    op.number = work.event->recorded;
    ops.push_back(std::move(op));
  }

  void operator()(const AllocWork& work) const {
    Op op;
    op.action =
        std::make_shared<Action>([&d = driver, work] { commit_graph_memory(d, work.address); });
    ops.push_back(std::move(op));
  }
  void operator()(const FreeWork& work) const {
    Op op;
    op.action =
        std::make_shared<Action>([&d = driver, work] { release_graph_memory(d, work.address); });
    ops.push_back(std::move(op));
  }
};

}  // namespace

CUresult check_work(Driver& driver, const Work& work) { return std::visit(Check{driver}, work); }

void lower_work(Driver& driver, Context& context, const Work& work, OpList& ops) {
  std::visit(Lower{driver, context, ops}, work);
}

CUresult submit_work(Call& call, Stream& stream, Work&& work) {
  // A capture checks for itself: its graph knows addresses that do not exist yet.
  if (stream.capture != nullptr) return capture_work(call, stream, std::move(work));
  if (CUresult bad = check_work(call.driver, work)) return bad;
  if (stream.is_legacy) {
    if (CUresult refused = refuse_legacy_while_capturing(call.driver, *stream.context)) {
      return refused;
    }
  }
  OpList ops;
  lower_work(call.driver, *stream.context, work, ops);
  for (Op& op : ops) call.driver.enqueue(call.lock, stream, std::move(op));
  return CUDA_SUCCESS;
}

}  // namespace divvy::simgpu
