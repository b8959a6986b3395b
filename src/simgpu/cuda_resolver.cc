// cuGetProcAddress: which symbol answers to a base name, a version and the stream flags.
#include <string.h>

#include <string_view>
#include <vector>

#include "simgpu/driver.h"

namespace divvy::simgpu {
namespace {

enum StreamKind { kNoStream, kLegacy, kPerThread };

struct EntryPoint {
  std::string_view symbol;
  std::string_view base;
  int since;
  StreamKind kind;
  void* address;
};

// Versions beyond the driver's own are refused.
constexpr int kNewestVersion = 13'990;

const std::vector<EntryPoint>& entry_points() {
  static const auto* table = new std::vector<EntryPoint>{
#define DIVVY_CU(symbol, base, since, kind, args) \
  {#symbol, base, since, kind, reinterpret_cast<void*>(&::symbol)},
#include "abi/cuda_functions.inc"
  };
  return *table;
}

CUresult find(const char* symbol, void** out, int version, cuuint64_t flags,
              CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || out == nullptr || version > kNewestVersion) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  constexpr cuuint64_t kBoth =
      CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if ((flags & ~kBoth) != 0 || (flags & kBoth) == kBoth) return CUDA_ERROR_INVALID_VALUE;
  const bool per_thread_wanted = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  *out = nullptr;
  bool known = false;
  const EntryPoint* best = nullptr;
  for (const EntryPoint& entry : entry_points()) {
    if (entry.base != symbol) continue;
    known = true;
    if (entry.since > version) continue;
    if (entry.kind == kPerThread && !per_thread_wanted) continue;
    const auto rank = [&](const EntryPoint& e) {
      // The twin that was asked for wins over the plain one of the same or an older version.
      return std::pair(per_thread_wanted && e.kind == kPerThread, e.since);
    };
    if (best == nullptr || rank(entry) >= rank(*best)) best = &entry;
  }
  if (best != nullptr) *out = best->address;
  if (status != nullptr) {
    *status = best != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : known         ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                              : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** out, int version,
                                           cuuint64_t flags,
                                           CUdriverProcAddressQueryResult* status) {
  return find(symbol, out, version, flags, status);
}
// The first version has no status, so it says by its result that there is nothing.
SIMGPU_EXPORT CUresult cuGetProcAddress(const char* symbol, void** out, int version,
                                        cuuint64_t flags) {
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  const CUresult asked = find(symbol, out, version, flags, &status);
  if (asked != CUDA_SUCCESS) return asked;
  return status == CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// The private tables that the CUDA runtime asks for are not simulated, so programs built on the
// runtime do not run on the simulated driver; programs on the driver API do.
SIMGPU_EXPORT CUresult cuGetExportTable(const void** table, const CUuuid* id) {
  if (table == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

}  // namespace divvy::simgpu
