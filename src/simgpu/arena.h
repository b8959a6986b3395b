// The memory of one simulated GPU as this process sees it: addresses, backed by one memfd that
// costs nothing until it is written, and the GPU memory charged for them.
//
// The charge follows the hardware driver: allocations below 2 MiB share slabs of 2 MiB, best fit
// first, and a slab is given back with its last allocation; larger ones are rounded up to 2 MiB.
// The memfd is what other processes map when they open an allocation of this one (cuda_ipc.cc).
//
// Guarded by the driver's mutex.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "simgpu/free_ranges.h"

namespace divvy::simgpu {

constexpr uint64_t kSlabBytes = uint64_t{2} << 20;
constexpr uint64_t kSmallUnit = 512;

constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// A stretch of a file, for mapping it a second time.
struct Backing {
  int fd = -1;
  uint64_t offset = 0;
};

class Arena {
 public:
  // Asks the GPU for memory; false when it is full. Refund gives it back.
  using Charge = std::function<bool(uint64_t bytes)>;
  using Refund = std::function<void(uint64_t bytes)>;

  // Linear memory and tiled arrays never share a slab.
  enum class Family { kLinear, kTiled };

  // `name` is the memfd's, by which other processes know what they opened.
  Arena(const char* name, Charge charge, Refund refund);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Memory that is charged. Zero when the GPU is full, and then nothing has changed.
  uint64_t allocate(uint64_t bytes, Family family = Family::kLinear,
                    uint64_t alignment = kSmallUnit);
  // `bytes` and `family` as they were given to allocate().
  void free(uint64_t address, uint64_t bytes, Family family = Family::kLinear);

  // Addresses with memory behind them that are not charged, in multiples of 2 MiB: for those who
  // charge by rules of their own. Zero when the process has no address space left.
  uint64_t reserve(uint64_t bytes, uint64_t alignment = kSlabBytes);
  void unreserve(uint64_t address, uint64_t bytes);
  // Gives the host the memory behind whole pages back; they read as zero afterwards.
  void discard(uint64_t address, uint64_t bytes);

  int descriptor() const { return fd_; }
  // Where in the memfd an address of this arena lies.
  std::optional<Backing> backing(uint64_t address) const;

 private:
  struct Segment {
    uint64_t base;
    uint64_t size;
    uint64_t offset;  // in the memfd
  };

  bool grow(uint64_t bytes);
  bool add_slab(FreeRanges& ranges);
  void drop_slab(FreeRanges& ranges, uint64_t slab);
  FreeRanges& small(Family family) { return small_[static_cast<int>(family)]; }

  Charge charge_;
  Refund refund_;
  int fd_ = -1;
  uint64_t file_bytes_ = 0;
  std::vector<Segment> segments_;
  FreeRanges large_;         // whole slabs that nobody has
  FreeRanges small_[2];      // room inside slabs, by family
  uint64_t spare_slab_ = 0;  // the last empty slab, kept so that a lone small allocation is cheap
};

// Maps `bytes` at a multiple of `alignment`: a file if `fd` is one, else inaccessible addresses.
// Null when the process has no room.
void* map_aligned(uint64_t bytes, uint64_t alignment, int fd, uint64_t offset);

}  // namespace divvy::simgpu
