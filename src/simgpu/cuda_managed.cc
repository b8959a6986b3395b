// Managed memory: allocation, advice, prefetching and its attributes.
//
// The simulation does not see which processor touches a page. A page is charged to a GPU when it is
// prefetched there, and not when a kernel touches it first.
#include "simgpu/managed.h"

#include <algorithm>

#include "simgpu/memory.h"

namespace divvy::simgpu {

constexpr uint64_t kManagedPage = uint64_t{64} << 10;

void ManagedRanges::split(uint64_t at) {
  auto it = pieces.upper_bound(at);
  if (it == pieces.begin()) return;
  --it;
  const uint64_t offset = at - it->first;
  if (offset == 0 || offset >= it->second.size) return;
  ManagedPiece tail = it->second;
  tail.size = it->second.size - offset;
  tail.charged = 0;
  it->second.size = offset;
  // The charge is divided as the pages are; a page on the edge counts for the first half.
  if (it->second.charged > 0) {
    const uint64_t head = std::min(round_up(offset, kManagedPage), it->second.charged);
    tail.charged = it->second.charged - head;
    it->second.charged = head;
  }
  pieces.emplace(at, tail);
}

void ManagedRanges::remove(Driver& driver, uint64_t start, uint64_t size) {
  for (auto it = pieces.lower_bound(start); it != pieces.end() && it->first < start + size;) {
    move_piece(driver, it->second, -1);
    it = pieces.erase(it);
  }
}

void move_piece(Driver& driver, ManagedPiece& piece, int device) {
  if (piece.resident == device) return;
  if (piece.resident >= 0) driver.refund(piece.resident, piece.charged);
  piece.resident = -1;
  piece.charged = 0;
  const uint64_t bytes = round_up(piece.size, kManagedPage);
  if (device >= 0 && charge_hard(driver, device, bytes)) {
    piece.resident = device;
    piece.charged = bytes;
  }
}

namespace {

// The pieces of a managed range that a program names, or nothing when it is not all managed.
struct Chosen {
  ManagedRanges::Pieces::iterator begin;
  ManagedRanges::Pieces::iterator end;
  Allocation* allocation = nullptr;
};

Chosen choose(Driver& driver, CUdeviceptr address, size_t count) {
  Chosen chosen;
  if (count == 0) return chosen;
  Allocation* found = driver.map().find_range(address, count);
  if (found == nullptr || found->kind != MemoryKind::kManaged) return chosen;
  ManagedRanges& managed = *driver.memory().managed;
  // Pages are what can be told apart, so the range grows to whole ones.
  const uint64_t page = 4096;
  const uint64_t begin = std::max<uint64_t>(found->base, address / page * page);
  const uint64_t end = std::min(found->base + found->size, round_up(address + count, page));
  managed.split(begin);
  managed.split(end);
  chosen.begin = managed.pieces.lower_bound(begin);
  chosen.end = managed.pieces.lower_bound(end);
  chosen.allocation = found;
  return chosen;
}

bool is_host(const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_HOST ||
         location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
         location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

CUmemLocation location_of(CUdevice device) {
  if (device == CU_DEVICE_CPU) return {CU_MEM_LOCATION_TYPE_HOST, 0};
  return {CU_MEM_LOCATION_TYPE_DEVICE, device};
}

// The first version of these functions names a place by one number.
int number_of(const CUmemLocation& location) {
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) return location.id;
  return is_host(location) ? CU_DEVICE_CPU : CU_DEVICE_INVALID;
}

CUresult advise(CUdeviceptr address, size_t count, CUmem_advise advice, CUmemLocation location) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  const bool needs_place = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                           advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                           advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
  if (needs_place && !is_host(location) &&
      (location.type != CU_MEM_LOCATION_TYPE_DEVICE || !call.driver.valid_device(location.id))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Chosen chosen = choose(call.driver, address, count);
  if (chosen.allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (auto it = chosen.begin; it != chosen.end; ++it) {
    ManagedPiece& piece = it->second;
    switch (advice) {
      case CU_MEM_ADVISE_SET_READ_MOSTLY:
        piece.read_mostly = true;
        break;
      case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        piece.read_mostly = false;
        break;
      case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        piece.preferred = location;
        break;
      case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        piece.preferred = ManagedPiece().preferred;
        break;
      case CU_MEM_ADVISE_SET_ACCESSED_BY:
        piece.accessed_by.insert(number_of(location));
        break;
      case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        piece.accessed_by.erase(number_of(location));
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

CUresult prefetch(CUdeviceptr address, size_t count, CUmemLocation location, unsigned flags,
                  CUstream stream_handle) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Driver& driver = call.driver;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    if (!driver.valid_device(location.id)) return CUDA_ERROR_INVALID_DEVICE;
  } else if (!is_host(location)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Stream* stream = nullptr;
  if (CUresult bad = driver.resolve_stream(stream_handle, call.context, &stream)) return bad;
  if (stream->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->is_legacy) {
    if (CUresult refused = refuse_legacy_while_capturing(driver, *stream->context)) return refused;
  }
  const Chosen chosen = choose(driver, address, count);
  if (chosen.allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int device = location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : -1;
  uint64_t moved = 0;
  for (auto it = chosen.begin; it != chosen.end; ++it) {
    if (it->second.resident != device) moved += it->second.size;
    move_piece(driver, it->second, device);
    it->second.last_prefetch = location;
  }
  const uint64_t rate = std::max<uint64_t>(driver.spec(stream->context->device).pcie_bytes_s, 1);
  Op op;
  op.kind = OpKind::kTransfer;
  op.cost_ns = static_cast<uint64_t>(static_cast<double>(moved) * 1e9 / static_cast<double>(rate));
  driver.enqueue(call.lock, *stream, std::move(op));
  return CUDA_SUCCESS;
}

// One answer for the whole range: what all its pieces agree on, and else "none".
CUresult range_attribute(Driver& driver, void* data, size_t size, CUmem_range_attribute attribute,
                         CUdeviceptr address, size_t count) {
  if (data == nullptr || size == 0 || size % sizeof(int) != 0) return CUDA_ERROR_INVALID_VALUE;
  auto* answer = static_cast<int*>(data);
  const bool list = attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
  if (!list && size != sizeof(int)) return CUDA_ERROR_INVALID_VALUE;
  const Chosen chosen = choose(driver, address, count);
  if (chosen.allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (list) {
    std::set<int> common = chosen.begin->second.accessed_by;
    for (auto it = chosen.begin; it != chosen.end; ++it) {
      std::erase_if(common, [&](int place) { return !it->second.accessed_by.contains(place); });
    }
    std::fill_n(answer, size / sizeof(int), CU_DEVICE_INVALID);
    size_t i = 0;
    for (const int place : common) {
      if (i < size / sizeof(int)) answer[i++] = place;
    }
    return CUDA_SUCCESS;
  }
  const auto read = [&](const ManagedPiece& piece, int* out) {
    switch (attribute) {
      case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        *out = piece.read_mostly ? 1 : 0;
        break;
      case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        *out = number_of(piece.preferred);
        break;
      case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
        *out = static_cast<int>(piece.preferred.type);
        break;
      case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
        *out = piece.preferred.id;
        break;
      case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        *out = number_of(piece.last_prefetch);
        break;
      case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        *out = static_cast<int>(piece.last_prefetch.type);
        break;
      case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
        *out = piece.last_prefetch.id;
        break;
      default:
        return false;
    }
    return true;
  };
  const ManagedPiece nothing;
  for (auto it = chosen.begin; it != chosen.end; ++it) {
    int mine = 0;
    if (!read(it->second, &mine)) return CUDA_ERROR_INVALID_VALUE;
    if (it == chosen.begin) {
      *answer = mine;
    } else if (*answer != mine) {
      read(nothing, answer);
      break;
    }
  }
  return CUDA_SUCCESS;
}

CUresult attach(CUstream stream_handle, CUdeviceptr address, size_t length, unsigned flags) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Driver& driver = call.driver;
  Stream* stream = nullptr;
  if (CUresult bad = driver.resolve_stream(stream_handle, call.context, &stream)) return bad;
  if (stream->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
      flags != CU_MEM_ATTACH_SINGLE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Memory can be tied to a stream of the program's, not to one that everybody shares.
  if (flags == CU_MEM_ATTACH_SINGLE && stream->is_legacy) return CUDA_ERROR_INVALID_VALUE;
  Allocation* found = driver.map().find(address);
  if (found == nullptr || found->kind != MemoryKind::kManaged || found->base != address ||
      (length != 0 && length != found->size)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  found->flags = flags;
  driver.enqueue(call.lock, *stream, Op());
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_EXPORT CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int flags) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (CUresult refused = refuse_while_capturing(call.driver)) return refused;
  if (out == nullptr || bytes == 0 ||
      (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int device = call.context->device;
  const uint64_t address = device_memory(call.driver, device).arena.reserve(bytes);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  call.driver.memory().managed->add(address, bytes);
  Allocation allocation;
  allocation.base = address;
  allocation.size = bytes;
  allocation.kind = MemoryKind::kManaged;
  allocation.device = device;
  allocation.context = call.context;
  allocation.flags = flags;
  call.driver.map().insert(allocation);
  *out = address;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemAdvise(CUdeviceptr address, size_t count, CUmem_advise advice,
                                   CUdevice device) {
  return advise(address, count, advice, location_of(device));
}
SIMGPU_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr address, size_t count, CUmem_advise advice,
                                      CUmemLocation location) {
  return advise(address, count, advice, location);
}

SIMGPU_EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t count, CUdevice device,
                                          CUstream stream) {
  return prefetch(address, count, location_of(device), 0, stream);
}
SIMGPU_EXPORT CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr address, size_t count, CUdevice device,
                                               CUstream stream) {
  return prefetch(address, count, location_of(device), 0, per_thread(stream));
}
SIMGPU_EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t count,
                                             CUmemLocation location, unsigned int flags,
                                             CUstream stream) {
  return prefetch(address, count, location, flags, stream);
}
SIMGPU_EXPORT CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr address, size_t count,
                                                  CUmemLocation location, unsigned int flags,
                                                  CUstream stream) {
  return prefetch(address, count, location, flags, per_thread(stream));
}

SIMGPU_EXPORT CUresult cuMemRangeGetAttribute(void* data, size_t size,
                                              CUmem_range_attribute attribute, CUdeviceptr address,
                                              size_t count) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  return range_attribute(call.driver, data, size, attribute, address, count);
}

SIMGPU_EXPORT CUresult cuMemRangeGetAttributes(void** data, size_t* sizes,
                                               CUmem_range_attribute* attributes, size_t number,
                                               CUdeviceptr address, size_t count) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (data == nullptr || sizes == nullptr || attributes == nullptr || number == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < number; ++i) {
    if (CUresult bad =
            range_attribute(call.driver, data[i], sizes[i], attributes[i], address, count)) {
      return bad;
    }
  }
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuStreamAttachMemAsync(CUstream stream, CUdeviceptr address, size_t length,
                                              unsigned int flags) {
  return attach(stream, address, length, flags);
}
SIMGPU_EXPORT CUresult cuStreamAttachMemAsync_ptsz(CUstream stream, CUdeviceptr address,
                                                   size_t length, unsigned int flags) {
  return attach(per_thread(stream), address, length, flags);
}

}  // namespace divvy::simgpu
