// The ways in which a program can get memory from the driver, behind one small interface: take a
// chunk, or say why not; give everything back. Used by one thread, with the context current.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpuload/session.h"

namespace divvy::gpuload {

class AllocFamily {
 public:
  virtual ~AllocFamily() = default;
  AllocFamily(const AllocFamily&) = delete;
  AllocFamily& operator=(const AllocFamily&) = delete;

  // Takes one more chunk. On CUDA_SUCCESS `obtained` is what the chunk holds, which families with a
  // shape round down; otherwise nothing was taken.
  virtual CUresult take(uint64_t chunk, uint64_t& obtained) = 0;
  // Gives back all chunks, and what the driver keeps for later.
  virtual void give_back() = 0;
  // The most that may be taken from a real machine without harm to it; 0: no limit but the
  // driver's.
  [[nodiscard]] virtual uint64_t safe_limit() const { return 0; }

 protected:
  explicit AllocFamily(const Session& session) : session_(session), cu_(session.cu) {}
  const Session& session_;
  const DriverApi& cu_;
};

// "plain", "pitch", "managed", "vmm", "async", "pool", "array", "mipmap", "graph", "host", "ipc"
const std::vector<std::string>& alloc_family_names();
// Null for a name that is not in the list.
std::unique_ptr<AllocFamily> make_alloc_family(std::string_view name, const Session& session);
std::unique_ptr<AllocFamily> make_ipc_family(const Session& session);

}  // namespace divvy::gpuload
