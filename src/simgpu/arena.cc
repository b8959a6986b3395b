#include "simgpu/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace divvy::simgpu {
namespace {

// Address space is taken in steps of this size, so that a process which uses little maps little.
constexpr uint64_t kSegmentBytes = uint64_t{8} << 30;

}  // namespace

void* map_aligned(uint64_t bytes, uint64_t alignment, int fd, uint64_t offset) {
  if (bytes > (uint64_t{1} << 46)) return nullptr;
  const uint64_t room = bytes + alignment;
  void* raw = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uint64_t>(raw);
  const uint64_t start = round_up(begin, alignment);
  if (start > begin) munmap(raw, start - begin);
  munmap(reinterpret_cast<void*>(start + bytes), begin + room - start - bytes);
  auto* at = reinterpret_cast<void*>(start);
  if (fd >= 0 && mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd,
                      static_cast<off_t>(offset)) == MAP_FAILED) {
    munmap(at, bytes);
    return nullptr;
  }
  // A core file must not contain hundreds of gigabytes of simulated memory.
  madvise(at, bytes, MADV_DONTDUMP);
  return at;
}

Arena::Arena(const char* name, Charge charge, Refund refund)
    : charge_(std::move(charge)),
      refund_(std::move(refund)),
      fd_(memfd_create(name, MFD_CLOEXEC)),
      small_{FreeRanges(kSlabBytes), FreeRanges(kSlabBytes)} {}

Arena::~Arena() {
  for (const Segment& segment : segments_) {
    munmap(reinterpret_cast<void*>(segment.base), segment.size);
  }
  if (fd_ >= 0) close(fd_);
}

bool Arena::grow(uint64_t bytes) {
  if (fd_ < 0) return false;
  const uint64_t size = round_up(std::max(bytes, kSegmentBytes), kSlabBytes);
  if (ftruncate(fd_, static_cast<off_t>(file_bytes_ + size)) != 0) return false;
  void* at = map_aligned(size, kSlabBytes, fd_, file_bytes_);
  if (at == nullptr) return false;
  const Segment segment{reinterpret_cast<uint64_t>(at), size, file_bytes_};
  file_bytes_ += size;
  segments_.push_back(segment);
  // Two segments that happen to lie side by side are not neighbours in the file unless they were
  // also mapped in that order; an unused slab between keeps every range inside one segment.
  large_.give(segment.base, size - kSlabBytes);
  return true;
}

uint64_t Arena::reserve(uint64_t bytes, uint64_t alignment) {
  if (bytes > (uint64_t{1} << 46)) return 0;
  bytes = round_up(std::max<uint64_t>(bytes, 1), kSlabBytes);
  alignment = std::max(alignment, kSlabBytes);
  auto start = large_.take(bytes, alignment);
  if (!start && grow(bytes + alignment + kSlabBytes)) start = large_.take(bytes, alignment);
  return start.value_or(0);
}

void Arena::unreserve(uint64_t address, uint64_t bytes) {
  bytes = round_up(std::max<uint64_t>(bytes, 1), kSlabBytes);
  discard(address, bytes);
  large_.give(address, bytes);
}

void Arena::discard(uint64_t address, uint64_t bytes) {
  const auto where = backing(address);
  if (!where) return;
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(where->offset),
            static_cast<off_t>(bytes));
}

std::optional<Backing> Arena::backing(uint64_t address) const {
  for (const Segment& segment : segments_) {
    if (address - segment.base < segment.size) {
      return Backing{fd_, segment.offset + (address - segment.base)};
    }
  }
  return std::nullopt;
}

bool Arena::add_slab(FreeRanges& ranges) {
  if (!charge_(kSlabBytes)) return false;
  const uint64_t slab = spare_slab_ != 0 ? std::exchange(spare_slab_, 0) : reserve(kSlabBytes);
  if (slab == 0) {
    refund_(kSlabBytes);
    return false;
  }
  ranges.give(slab, kSlabBytes);
  return true;
}

void Arena::drop_slab(FreeRanges& ranges, uint64_t slab) {
  ranges.take_at(slab, kSlabBytes);
  refund_(kSlabBytes);
  if (spare_slab_ == 0) {
    spare_slab_ = slab;
  } else {
    unreserve(slab, kSlabBytes);
  }
}

uint64_t Arena::allocate(uint64_t bytes, Family family, uint64_t alignment) {
  if (bytes == 0 || bytes > (uint64_t{1} << 46)) return 0;
  if (bytes < kSlabBytes) {
    FreeRanges& ranges = small(family);
    const uint64_t size = round_up(bytes, kSmallUnit);
    const uint64_t aligned = std::clamp(alignment, kSmallUnit, kSlabBytes);
    auto start = ranges.take(size, aligned);
    if (!start && add_slab(ranges)) start = ranges.take(size, aligned);
    return start.value_or(0);
  }
  const uint64_t size = round_up(bytes, kSlabBytes);
  if (!charge_(size)) return 0;
  const uint64_t start = reserve(size, alignment);
  if (start == 0) refund_(size);
  return start;
}

void Arena::free(uint64_t address, uint64_t bytes, Family family) {
  FreeRanges& ranges = small(family);
  if (bytes >= kSlabBytes) {
    const uint64_t size = round_up(bytes, kSlabBytes);
    unreserve(address, size);
    refund_(size);
    return;
  }
  const auto merged = ranges.give(address, round_up(bytes, kSmallUnit));
  if (merged.size == kSlabBytes) drop_slab(ranges, merged.start);
}

}  // namespace divvy::simgpu
