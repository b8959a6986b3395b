#include "gpuload/alloc_families.h"

#include <unistd.h>

#include <algorithm>

namespace divvy::gpuload {
namespace {

class Plain : public AllocFamily {
 public:
  explicit Plain(const Session& session) : AllocFamily(session) {}
  CUresult take(uint64_t chunk, uint64_t& obtained) override {
    CUdeviceptr pointer = 0;
    const CUresult code = cu_.cuMemAlloc_v2(&pointer, chunk);
    if (code != CUDA_SUCCESS) return code;
    held_.push_back(pointer);
    obtained = chunk;
    return code;
  }
  void give_back() override {
    for (const CUdeviceptr pointer : held_) CU_CALL(cu_, cuMemFree_v2, pointer);
    held_.clear();
  }

 protected:
  std::vector<CUdeviceptr> held_;
};

class Pitch final : public Plain {
 public:
  using Plain::Plain;
  CUresult take(uint64_t chunk, uint64_t& obtained) override {
    constexpr size_t kWidth = 64UL << 10U;
    const size_t rows = std::max<size_t>(chunk / kWidth, 1);
    CUdeviceptr pointer = 0;
    size_t pitch = 0;
    const CUresult code = cu_.cuMemAllocPitch_v2(&pointer, &pitch, kWidth, rows, 16);
    if (code != CUDA_SUCCESS) return code;
    held_.push_back(pointer);
    obtained = pitch * rows;
    return code;
  }
};

class Managed final : public Plain {
 public:
  explicit Managed(const Session& session) : Plain(session), limit_(session.free_bytes() / 2) {}
  CUresult take(uint64_t chunk, uint64_t& obtained) override {
    CUdeviceptr pointer = 0;
    const CUresult code = cu_.cuMemAllocManaged(&pointer, chunk, CU_MEM_ATTACH_GLOBAL);
    if (code != CUDA_SUCCESS) return code;
    held_.push_back(pointer);
    obtained = chunk;
    return code;
  }
  // Managed memory is not refused when the GPU is full, and far too much of it can hang a real GPU.
  [[nodiscard]] uint64_t safe_limit() const override { return limit_; }

 private:
  uint64_t limit_;
};

class Vmm final : public AllocFamily {
 public:
  explicit Vmm(const Session& session) : AllocFamily(session) {
    prop_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop_.location = {CU_MEM_LOCATION_TYPE_DEVICE, session.device};
    CU_CALL(cu_, cuMemGetAllocationGranularity, &granularity_, &prop_,
            CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  }
  CUresult take(uint64_t chunk, uint64_t& obtained) override {
    Mapping mapping;
    mapping.bytes = (chunk + granularity_ - 1) / granularity_ * granularity_;
    CUresult code = cu_.cuMemCreate(&mapping.handle, mapping.bytes, &prop_, 0);
    if (code != CUDA_SUCCESS) return code;
    code = cu_.cuMemAddressReserve(&mapping.pointer, mapping.bytes, 0, 0, 0);
    if (code == CUDA_SUCCESS) {
      CU_CALL(cu_, cuMemMap, mapping.pointer, mapping.bytes, size_t{0}, mapping.handle, 0ULL);
      const CUmemAccessDesc access{prop_.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
      CU_CALL(cu_, cuMemSetAccess, mapping.pointer, mapping.bytes, &access, size_t{1});
      held_.push_back(mapping);
      obtained = mapping.bytes;
    } else {
      CU_CALL(cu_, cuMemRelease, mapping.handle);
    }
    return code;
  }
  void give_back() override {
    for (const Mapping& mapping : held_) {
      CU_CALL(cu_, cuMemUnmap, mapping.pointer, mapping.bytes);
      CU_CALL(cu_, cuMemAddressFree, mapping.pointer, mapping.bytes);
      CU_CALL(cu_, cuMemRelease, mapping.handle);
    }
    held_.clear();
  }

 private:
  struct Mapping {
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr pointer = 0;
    size_t bytes = 0;
  };
  CUmemAllocationProp prop_{};
  size_t granularity_ = 0;
  std::vector<Mapping> held_;
};

// Stream-ordered memory, from the device's own pool or from a pool of ours.
class Async final : public AllocFamily {
 public:
  Async(const Session& session, bool own_pool)
      : AllocFamily(session), stream_(session), own_pool_(own_pool) {
    if (own_pool) {
      CUmemPoolProps props{};
      props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
      props.location = {CU_MEM_LOCATION_TYPE_DEVICE, session.device};
      CU_CALL(cu_, cuMemPoolCreate, &pool_, &props);
    } else {
      CU_CALL(cu_, cuDeviceGetDefaultMemPool, &pool_, session.device);
    }
  }
  ~Async() override {
    if (own_pool_) cu_.cuMemPoolDestroy(pool_);
  }
  CUresult take(uint64_t chunk, uint64_t& obtained) override {
    CUdeviceptr pointer = 0;
    const CUresult code = own_pool_
                              ? cu_.cuMemAllocFromPoolAsync(&pointer, chunk, pool_, stream_.get())
                              : cu_.cuMemAllocAsync(&pointer, chunk, stream_.get());
    if (code != CUDA_SUCCESS) return code;
    stream_.synchronize();
    held_.push_back(pointer);
    obtained = chunk;
    return code;
  }
  void give_back() override {
    for (const CUdeviceptr pointer : held_) CU_CALL(cu_, cuMemFreeAsync, pointer, stream_.get());
    held_.clear();
    stream_.synchronize();
    CU_CALL(cu_, cuMemPoolTrimTo, pool_, size_t{0});
  }

 private:
  Stream stream_;
  bool own_pool_;
  CUmemoryPool pool_ = nullptr;
  std::vector<CUdeviceptr> held_;
};

constexpr size_t kArrayWidth = 8192;  // elements of 16 bytes: 128 KiB a row

CUDA_ARRAY3D_DESCRIPTOR array_of(uint64_t bytes) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = kArrayWidth;
  shape.Height = std::max<size_t>(bytes / (kArrayWidth * 16), 1);
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 4;
  return shape;
}

class Array final : public AllocFamily {
 public:
  explicit Array(const Session& session) : AllocFamily(session) {}
  CUresult take(uint64_t chunk, uint64_t& obtained) override {
    const CUDA_ARRAY3D_DESCRIPTOR shape = array_of(chunk);
    CUarray array = nullptr;
    const CUresult code = cu_.cuArray3DCreate_v2(&array, &shape);
    if (code != CUDA_SUCCESS) return code;
    held_.push_back(array);
    obtained = shape.Width * shape.Height * 16;
    return code;
  }
  void give_back() override {
    for (CUarray array : held_) CU_CALL(cu_, cuArrayDestroy, array);
    held_.clear();
  }

 private:
  std::vector<CUarray> held_;
};

class Mipmap final : public AllocFamily {
 public:
  explicit Mipmap(const Session& session) : AllocFamily(session) {}
  CUresult take(uint64_t chunk, uint64_t& obtained) override {
    // The second level has a quarter of the first: together the chunk.
    const CUDA_ARRAY3D_DESCRIPTOR shape = array_of(chunk / 5 * 4);
    CUmipmappedArray mipmap = nullptr;
    const CUresult code = cu_.cuMipmappedArrayCreate(&mipmap, &shape, 2);
    if (code != CUDA_SUCCESS) return code;
    held_.push_back(mipmap);
    obtained = shape.Width * shape.Height * 16 / 4 * 5;
    return code;
  }
  void give_back() override {
    for (CUmipmappedArray mipmap : held_) CU_CALL(cu_, cuMipmappedArrayDestroy, mipmap);
    held_.clear();
  }

 private:
  std::vector<CUmipmappedArray> held_;
};

// Memory that a graph allocates when it runs and leaves behind.
class GraphMemory final : public AllocFamily {
 public:
  explicit GraphMemory(const Session& session) : AllocFamily(session), stream_(session) {}
  CUresult take(uint64_t chunk, uint64_t& obtained) override {
    Held held;
    CU_CALL(cu_, cuGraphCreate, &held.graph, 0U);
    CUDA_MEM_ALLOC_NODE_PARAMS parameters{};
    parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    parameters.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, session_.device};
    parameters.bytesize = chunk;
    CUgraphNode node = nullptr;
    CUresult code = cu_.cuGraphAddMemAllocNode(&node, held.graph, nullptr, 0, &parameters);
    if (code == CUDA_SUCCESS) code = cu_.cuGraphInstantiateWithFlags(&held.exec, held.graph, 0);
    if (code == CUDA_SUCCESS) code = cu_.cuGraphLaunch(held.exec, stream_.get());
    if (code == CUDA_SUCCESS) code = cu_.cuStreamSynchronize(stream_.get());
    if (code != CUDA_SUCCESS) {
      destroy(held);
      return code;
    }
    held.pointer = parameters.dptr;
    held_.push_back(held);
    obtained = chunk;
    return code;
  }
  void give_back() override {
    for (const Held& held : held_) CU_CALL(cu_, cuMemFreeAsync, held.pointer, stream_.get());
    stream_.synchronize();
    for (const Held& held : held_) destroy(held);
    held_.clear();
    CU_CALL(cu_, cuDeviceGraphMemTrim, session_.device);
  }

 private:
  struct Held {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    CUdeviceptr pointer = 0;
  };
  void destroy(const Held& held) {
    if (held.exec != nullptr) cu_.cuGraphExecDestroy(held.exec);
    cu_.cuGraphDestroy(held.graph);
  }
  Stream stream_;
  std::vector<Held> held_;
};

class Host final : public AllocFamily {
 public:
  explicit Host(const Session& session) : AllocFamily(session) {}
  CUresult take(uint64_t chunk, uint64_t& obtained) override {
    void* pointer = nullptr;
    const CUresult code = cu_.cuMemHostAlloc(&pointer, chunk, CU_MEMHOSTALLOC_DEVICEMAP);
    if (code != CUDA_SUCCESS) return code;
    held_.push_back(pointer);
    obtained = chunk;
    return code;
  }
  void give_back() override {
    for (void* pointer : held_) CU_CALL(cu_, cuMemFreeHost, pointer);
    held_.clear();
  }
  // Pinned pages cannot be swapped out: an eighth of what is free leaves the machine usable.
  [[nodiscard]] uint64_t safe_limit() const override {
    const auto pages = static_cast<uint64_t>(std::max(sysconf(_SC_AVPHYS_PAGES), 0L));
    const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return std::min<uint64_t>(pages * page_bytes / 8, 8ULL << 30U);
  }

 private:
  std::vector<void*> held_;
};

}  // namespace

const std::vector<std::string>& alloc_family_names() {
  static const std::vector<std::string> names = {"plain", "pitch", "managed", "vmm",
                                                 "async", "pool",  "array",   "mipmap",
                                                 "graph", "host",  "ipc"};
  return names;
}

std::unique_ptr<AllocFamily> make_alloc_family(std::string_view name, const Session& session) {
  if (name == "plain") return std::make_unique<Plain>(session);
  if (name == "pitch") return std::make_unique<Pitch>(session);
  if (name == "managed") return std::make_unique<Managed>(session);
  if (name == "vmm") return std::make_unique<Vmm>(session);
  if (name == "async") return std::make_unique<Async>(session, false);
  if (name == "pool") return std::make_unique<Async>(session, true);
  if (name == "array") return std::make_unique<Array>(session);
  if (name == "mipmap") return std::make_unique<Mipmap>(session);
  if (name == "graph") return std::make_unique<GraphMemory>(session);
  if (name == "host") return std::make_unique<Host>(session);
  if (name == "ipc") return make_ipc_family(session);
  return nullptr;
}

}  // namespace divvy::gpuload
