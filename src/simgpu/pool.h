// A memory pool: stream-ordered allocations, from chunks of GPU memory that are charged whole.
//
// A pool has addresses to spare and backs them with GPU memory in chunks of 32 MiB, as the hardware
// driver does. A chunk stays charged while an allocation touches it, and afterwards until the pool
// is trimmed. Memory freed in a stream may be used again in the same stream at once, and elsewhere
// when the stream has got to the free.
//
// Guarded by the driver's mutex.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "simgpu/driver.h"
#include "simgpu/free_ranges.h"

namespace divvy::simgpu {

constexpr uint64_t kPoolChunkBytes = uint64_t{32} << 20;

struct Pool {
  Pool(Driver& driver, int on_device) : driver_(driver), device(on_device) {}
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Work in one stream that another has to wait for; none when `stream` is null.
  struct Follow {
    Stream* stream = nullptr;
    uint64_t submitted = 0;
  };
  // Takes memory for work that comes later in `stream`, which must first wait for `follow`.
  // OUT_OF_MEMORY leaves nothing changed.
  CUresult allocate(uint64_t bytes, Stream& stream, uint64_t* out, Follow* follow);
  // Frees at once: the caller has waited for whoever used it.
  void free_now(uint64_t address, uint64_t bytes);
  // The memory is free for `stream` now and for everybody once the last operation queued in it has
  // called finish_free() with this number.
  uint64_t next_free() { return ++last_pending_; }
  void free_later(uint64_t number, uint64_t address, uint64_t bytes, Stream& stream);
  void finish_free(uint64_t number);
  // Frees that a context's streams will never come to.
  void finish_frees_of(const Context& context);

  // Gives idle chunks back while at least `keep` bytes stay reserved.
  void trim(uint64_t keep);
  void trim_to_threshold() {
    if (idle_chunks_ > 0 && reserved > threshold) trim(threshold);
  }
  bool empty() const { return live_ == 0 && pending_.empty() && imported_pointers == 0; }

 private:
  Driver& driver_;

 public:
  const int device;
  CUmemPoolProps props{};
  bool is_default = false;
  bool destroyed = false;  // gone for the program; freed with its last allocation
  bool host = false;       // lives in the machine's memory, and no GPU is charged
  int imported_fd = -1;    // another process's pool: pointers can be imported, nothing allocated
  uint64_t imported_pointers = 0;
  uint64_t max_bytes = 0;  // 0: as much as the GPU has
  uint64_t threshold = 0;
  int reuse[3] = {1, 1, 1};  // follow events, opportunistic, internal dependencies
  uint64_t reserved = 0;
  uint64_t reserved_high = 0;
  uint64_t used = 0;
  uint64_t used_high = 0;
  std::map<int, CUmemAccess_flags> access;  // of other devices

 private:
  struct Chunk {
    bool backed = false;
    uint32_t users = 0;
  };
  struct Region {
    uint64_t base;
    uint64_t size;
    std::vector<Chunk> chunks;
  };
  struct Pending {
    Stream* stream;
    uint64_t start;
    uint64_t size;
    uint64_t submitted;  // how far the stream must get
  };

  enum class Whose { kOwn, kOthers };
  bool take_pending(uint64_t size, const Stream& stream, Whose whose, uint64_t* out,
                    Follow* follow);
  bool take_free(uint64_t size, uint64_t* out);
  bool add_region(uint64_t size);
  bool back(uint64_t start, uint64_t size);
  void unuse(uint64_t start, uint64_t size);
  void release(uint64_t start, uint64_t size);
  template <typename Visit>
  void for_chunks(uint64_t start, uint64_t size, Visit visit);

  FreeRanges free_;
  std::vector<Region> regions_;
  std::map<uint64_t, Pending> pending_;  // by number
  uint64_t last_pending_ = 0;
  uint64_t idle_chunks_ = 0;
  uint64_t live_ = 0;
};

// The pool behind a handle; null for anything else.
Pool* resolve_pool(Driver& driver, CUmemoryPool handle);
inline CUmemoryPool handle_of(Pool* pool) { return reinterpret_cast<CUmemoryPool>(pool); }
// The pool that a device always has, and the one that cuDeviceSetMemPool chose instead.
Pool& default_pool(Driver& driver, int device);
Pool& current_pool(Driver& driver, int device);
// Frees a destroyed pool that nobody uses any more.
void drop_if_unused(Driver& driver, Pool& pool);

}  // namespace divvy::simgpu
