#include "simgpu/pool.h"

#include <unistd.h>

#include <algorithm>

#include "simgpu/memory.h"

namespace divvy::simgpu {
namespace {

// Addresses cost nothing, so a pool takes plenty: an allocation can then grow into the chunk next
// to the ones that are backed.
constexpr uint64_t kRegionBytes = uint64_t{4} << 30;

}  // namespace

Pool::~Pool() {
  trim(0);
  for (const Region& region : regions_) {
    device_memory(driver_, device).arena.unreserve(region.base, region.size + kPoolChunkBytes);
  }
  if (imported_fd >= 0) close(imported_fd);
}

template <typename Visit>
void Pool::for_chunks(uint64_t start, uint64_t size, Visit visit) {
  for (Region& region : regions_) {
    if (start - region.base >= region.size) continue;
    const uint64_t first = (start - region.base) / kPoolChunkBytes;
    const uint64_t last = (start + size - 1 - region.base) / kPoolChunkBytes;
    for (uint64_t i = first; i <= last; ++i) visit(region.chunks[i]);
    return;
  }
}

bool Pool::add_region(uint64_t size) {
  const uint64_t bytes = round_up(std::max(size, kRegionBytes), kPoolChunkBytes);
  // The chunk behind a region is never used, so that two regions are never taken for one.
  const uint64_t base =
      device_memory(driver_, device).arena.reserve(bytes + kPoolChunkBytes, kPoolChunkBytes);
  if (base == 0) return false;
  regions_.push_back({base, bytes, std::vector<Chunk>(bytes / kPoolChunkBytes)});
  free_.give(base, bytes);
  return true;
}

// Makes sure that there is GPU memory behind a range and marks it as in use.
bool Pool::back(uint64_t start, uint64_t size) {
  uint64_t missing = 0;
  for_chunks(start, size, [&](const Chunk& chunk) { missing += chunk.backed ? 0 : 1; });
  const uint64_t bytes = missing * kPoolChunkBytes;
  if (max_bytes != 0 && reserved + bytes > round_up(max_bytes, kPoolChunkBytes)) return false;
  // In use before charging: making room may trim this very pool.
  for_chunks(start, size, [&](Chunk& chunk) {
    if (chunk.backed && chunk.users == 0) --idle_chunks_;
    ++chunk.users;
  });
  if (bytes > 0 && !host && !charge_hard(driver_, device, bytes)) {
    unuse(start, size);
    return false;
  }
  for_chunks(start, size, [](Chunk& chunk) { chunk.backed = true; });
  reserved += bytes;
  reserved_high = std::max(reserved_high, reserved);
  return true;
}

void Pool::unuse(uint64_t start, uint64_t size) {
  for_chunks(start, size, [&](Chunk& chunk) {
    --chunk.users;
    if (chunk.backed && chunk.users == 0) ++idle_chunks_;
  });
}

void Pool::release(uint64_t start, uint64_t size) {
  unuse(start, size);
  free_.give(start, size);
}

bool Pool::take_free(uint64_t size, uint64_t* out) {
  auto start = free_.take(size, kSmallUnit);
  if (!start) {
    if (!add_region(size)) return false;
    start = free_.take(size, kSmallUnit);
  }
  if (!start) return false;
  if (!back(*start, size)) {
    free_.give(*start, size);
    return false;
  }
  *out = *start;
  return true;
}

// The smallest block that was freed in this stream (or in any other) and not yet got to.
bool Pool::take_pending(uint64_t size, const Stream& stream, Whose whose, uint64_t* out,
                        Follow* follow) {
  auto best = pending_.end();
  for (auto it = pending_.begin(); it != pending_.end(); ++it) {
    if ((it->second.stream == &stream) != (whose == Whose::kOwn)) continue;
    if (it->second.size < size) continue;
    if (best == pending_.end() || it->second.size < best->second.size) best = it;
  }
  if (best == pending_.end()) return false;
  Pending& block = best->second;
  *out = block.start;
  if (whose == Whose::kOthers) *follow = {block.stream, block.submitted};
  if (block.size == size) {
    pending_.erase(best);
    return true;
  }
  // Both halves count as users of the chunks they touch; the whole did once.
  const auto use = [&](uint64_t start, uint64_t bytes) {
    for_chunks(start, bytes, [](Chunk& chunk) { ++chunk.users; });
  };
  use(block.start, size);
  use(block.start + size, block.size - size);
  unuse(block.start, block.size);
  block.start += size;
  block.size -= size;
  return true;
}

CUresult Pool::allocate(uint64_t bytes, Stream& stream, uint64_t* out, Follow* follow) {
  if (bytes > (uint64_t{1} << 46)) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t size = round_up(bytes, kSmallUnit);
  const bool may_follow = reuse[2] != 0;
  if (!take_pending(size, stream, Whose::kOwn, out, follow) && !take_free(size, out) &&
      !(may_follow && take_pending(size, stream, Whose::kOthers, out, follow))) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ++live_;
  used += bytes;
  used_high = std::max(used_high, used);
  return CUDA_SUCCESS;
}

void Pool::free_now(uint64_t address, uint64_t bytes) {
  release(address, round_up(bytes, kSmallUnit));
  used -= bytes;
  --live_;
}

void Pool::free_later(uint64_t number, uint64_t address, uint64_t bytes, Stream& stream) {
  used -= bytes;
  --live_;
  pending_[number] = {&stream, address, round_up(bytes, kSmallUnit), stream.submitted};
}

void Pool::finish_free(uint64_t number) {
  const auto it = pending_.find(number);
  if (it == pending_.end()) return;  // the stream has used the memory again
  release(it->second.start, it->second.size);
  pending_.erase(it);
}

void Pool::finish_frees_of(const Context& context) {
  for (auto it = pending_.begin(); it != pending_.end();) {
    if (it->second.stream->context != &context) {
      ++it;
      continue;
    }
    release(it->second.start, it->second.size);
    it = pending_.erase(it);
  }
}

void Pool::trim(uint64_t keep) {
  Arena& arena = device_memory(driver_, device).arena;
  for (auto region = regions_.rbegin(); region != regions_.rend() && idle_chunks_ > 0; ++region) {
    for (size_t i = region->chunks.size(); i-- > 0 && idle_chunks_ > 0;) {
      Chunk& chunk = region->chunks[i];
      if (!chunk.backed || chunk.users > 0) continue;
      if (reserved < keep + kPoolChunkBytes) return;
      chunk.backed = false;
      --idle_chunks_;
      reserved -= kPoolChunkBytes;
      arena.discard(region->base + i * kPoolChunkBytes, kPoolChunkBytes);
      if (!host) driver_.refund(device, kPoolChunkBytes);
    }
  }
}

Pool* resolve_pool(Driver& driver, CUmemoryPool handle) {
  auto* pool = reinterpret_cast<Pool*>(handle);
  Memory& memory = driver.memory();
  if (const auto it = memory.pools.find(pool); it != memory.pools.end()) {
    return pool->destroyed ? nullptr : pool;
  }
  for (const auto& device : memory.devices) {
    if (device != nullptr && device->default_pool.get() == pool) return pool;
  }
  return nullptr;
}

void drop_if_unused(Driver& driver, Pool& pool) {
  if (pool.destroyed && pool.empty()) driver.memory().pools.erase(&pool);
}

}  // namespace divvy::simgpu
