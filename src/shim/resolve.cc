#include "shim/resolve.h"

#include "shim/nvml_real.h"
#include "shim/real.h"
#include "shim/same_text.h"

namespace divvy::shim {
namespace {

struct Hook {
  const char* name;
  void* wrapper;
  void* const* real;  // the member of g_cuda or g_nvml, filled when the library is loaded
};

const Hook kCudaHooks[] = {
#define DIVVY_HOOK(symbol) \
  {#symbol, reinterpret_cast<void*>(&::symbol), reinterpret_cast<void* const*>(&g_cuda.symbol)},
#include "shim/hooks.inc"
};

const Hook kNvmlHooks[] = {
#define DIVVY_NVML_HOOK(symbol) \
  {#symbol, reinterpret_cast<void*>(&::symbol), reinterpret_cast<void* const*>(&g_nvml.symbol)},
#include "shim/hooks.inc"
};

template <size_t kCount>
const Hook* by_name(const Hook (&hooks)[kCount], const char* name) {
  for (const Hook& hook : hooks) {
    if (same_text(hook.name, name)) return &hook;
  }
  return nullptr;
}

const Hook* hook_named(const char* name) {
  if (begins_with(name, "cu")) return by_name(kCudaHooks, name);
  if (begins_with(name, "nvml")) return by_name(kNvmlHooks, name);
  return nullptr;
}

// What abi/cuda_functions.inc knows, for pointers that are not the exported functions' addresses.
enum StreamKind : uint8_t { kNoStream, kLegacy, kPerThread };
struct EntryPoint {
  const char* symbol;
  const char* base;
  int since;
  StreamKind kind;
};
const EntryPoint kEntryPoints[] = {
#define DIVVY_CU(symbol, base, since, kind, arguments) {#symbol, base, since, kind},
#include "abi/cuda_functions.inc"
};

// The symbol that answers to a question by the list's rule, or null.
const EntryPoint* listed(const char* base, int version, cuuint64_t flags) {
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const EntryPoint* best = nullptr;
  for (const EntryPoint& entry : kEntryPoints) {
    if (entry.since > version || !same_text(entry.base, base)) continue;
    if (entry.kind == kPerThread && !per_thread) continue;
    if (best != nullptr) {
      const bool twin = per_thread && entry.kind == kPerThread;
      const bool best_twin = per_thread && best->kind == kPerThread;
      if (twin != best_twin ? best_twin : entry.since < best->since) continue;
    }
    best = &entry;
  }
  return best;
}

// Asks the driver what it would answer to a program of the newest version that the list knows.
// When that is something else, the driver has a newer function than we do, and what we know of
// the older one must not be used on it.
bool newer_than_listed(const char* base, int version, cuuint64_t flags, void* real) {
  if (version <= CUDA_VERSION) return false;
  void* older = nullptr;
  if (g_cuda.cuGetProcAddress_v2 != nullptr) {
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    g_cuda.cuGetProcAddress_v2(base, &older, CUDA_VERSION, flags, &status);
  } else if (g_cuda.cuGetProcAddress != nullptr) {
    g_cuda.cuGetProcAddress(base, &older, CUDA_VERSION, flags);
  }
  return older != real;
}

}  // namespace

void* wrapper_of(const char* name) {
  const Hook* hook = hook_named(name);
  return hook != nullptr ? hook->wrapper : nullptr;
}

void* swap_symbol(const char* name, void* real) {
  const Hook* hook = hook_named(name);
  if (hook == nullptr || real == nullptr) return real;
  const bool loaded = name[0] == 'c' ? load_real_cuda() : load_real_nvml();
  return loaded && *hook->real == real ? hook->wrapper : real;
}

void* swap_entry_point(const char* base, int version, cuuint64_t flags, void* real) {
  if (base == nullptr || real == nullptr) return real;
  const EntryPoint* entry = listed(base, version, flags);
  const Hook* expected = entry != nullptr ? by_name(kCudaHooks, entry->symbol) : nullptr;
  // Several symbols may share one body in the driver, so the one that was asked for goes first.
  if (expected != nullptr && *expected->real == real) return expected->wrapper;
  for (const Hook& hook : kCudaHooks) {
    if (*hook.real == real || hook.wrapper == real) return hook.wrapper;
  }
  if (expected == nullptr || newer_than_listed(base, version, flags, real)) return real;
  // An exported function that we do not hook is no body of one that we do.
  for (const EntryPoint& other : kEntryPoints) {
    if (other.symbol != entry->symbol && same_text(other.base, base) &&
        other.since > entry->since && other.since <= version) {
      return real;
    }
  }
  return expected->wrapper;
}

}  // namespace divvy::shim
