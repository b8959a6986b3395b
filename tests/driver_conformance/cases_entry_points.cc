// cuGetProcAddress: base names, versions, flags, and what a wrong question answers.

#include <dlfcn.h>

#include <string>

#include "gpu.h"

namespace divvy::conformance {
namespace {

constexpr cuuint64_t kDefault = CU_GET_PROC_ADDRESS_DEFAULT;
constexpr cuuint64_t kLegacyFlag = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
constexpr cuuint64_t kPerThreadFlag = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

void* ask(const char* base, int version, cuuint64_t flags) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  return cu.cuGetProcAddress_v2(base, &found, version, flags, &status) == CUDA_SUCCESS ? found
                                                                                       : nullptr;
}

void* exported(const char* symbol) { return dlsym(libcuda, symbol); }

}  // namespace

CASE(entry_points, versions_choose_the_symbol) {
  OK(cu.cuInit(0));
  TRUE_(ask("cuMemAlloc", 3020, kDefault) == exported("cuMemAlloc_v2"));
  TRUE_(ask("cuMemAlloc", 12000, kDefault) == exported("cuMemAlloc_v2"));
  TRUE_(ask("cuCtxDestroy", 4000, kDefault) == exported("cuCtxDestroy_v2"));
  TRUE_(ask("cuCtxCreate", 3020, kDefault) == exported("cuCtxCreate_v2"));
  TRUE_(ask("cuCtxCreate", 11040, kDefault) == exported("cuCtxCreate_v3"));
  TRUE_(ask("cuCtxCreate", 13000, kDefault) == exported("cuCtxCreate_v4"));
  TRUE_(ask("cuStreamBatchMemOp", 8000, kDefault) == exported("cuStreamBatchMemOp"));
  TRUE_(ask("cuStreamBatchMemOp", 11070, kDefault) == exported("cuStreamBatchMemOp_v2"));
  TRUE_(ask("cuGraphInstantiate", 12000, kDefault) == exported("cuGraphInstantiate_v2"));
  TRUE_(ask("cuGetProcAddress", 12000, kDefault) == exported("cuGetProcAddress_v2"));
  TRUE_(ask("cuInit", 2000, kDefault) == exported("cuInit"));
}

CASE(entry_points, flags_choose_the_null_stream) {
  OK(cu.cuInit(0));
  TRUE_(ask("cuLaunchKernel", 12000, kDefault) == exported("cuLaunchKernel"));
  TRUE_(ask("cuLaunchKernel", 12000, kLegacyFlag) == exported("cuLaunchKernel"));
  TRUE_(ask("cuLaunchKernel", 12000, kPerThreadFlag) == exported("cuLaunchKernel_ptsz"));
  TRUE_(ask("cuMemcpyHtoD", 12000, kLegacyFlag) == exported("cuMemcpyHtoD_v2"));
  TRUE_(ask("cuMemcpyHtoD", 12000, kPerThreadFlag) == exported("cuMemcpyHtoD_v2_ptds"));
  TRUE_(ask("cuGraphLaunch", 12000, kPerThreadFlag) == exported("cuGraphLaunch_ptsz"));
  // Functions with one form only answer with it for every flag.
  TRUE_(ask("cuMemAlloc", 12000, kPerThreadFlag) == exported("cuMemAlloc_v2"));
  TRUE_(exported("cuLaunchKernel") != exported("cuLaunchKernel_ptsz"));
}

CASE(entry_points, unknown_names_are_not_found) {
  OK(cu.cuInit(0));
  void* found = &found;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  // The second version always succeeds and says in the status that there is nothing.
  OK(cu.cuGetProcAddress_v2("cuNobody", &found, 12000, kDefault, &status));
  TRUE_(found == nullptr);
  EQUAL(uint64_t{CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND}, uint64_t{status});
  OK(cu.cuGetProcAddress_v2("cuMemAlloc_v2", &found, 12000, kDefault, &status));
  TRUE_(found == nullptr);
  t.recorded("status_of_suffixed_name", uint64_t{status});
  t.recorded("empty_name", cu.cuGetProcAddress_v2("", &found, 12000, kDefault, nullptr));
  CODE(CUDA_ERROR_NOT_FOUND, cu.cuGetProcAddress("cuNobody", &found, 12000, kDefault));
}

CASE(entry_points, too_old_versions_are_not_found) {
  OK(cu.cuInit(0));
  void* found = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  OK(cu.cuGetProcAddress_v2("cuGraphLaunch", &found, 9000, kDefault, &status));
  TRUE_(found == nullptr);
  EQUAL(uint64_t{CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT}, uint64_t{status});
  t.recorded("version_zero", cu.cuGetProcAddress_v2("cuInit", &found, 0, kDefault, &status));
  t.recorded("version_of_the_future",
             cu.cuGetProcAddress_v2("cuInit", &found, 99'000, kDefault, &status));
}

CASE(entry_points, wrong_questions_are_refused) {
  OK(cu.cuInit(0));
  void* found = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  // NULL as name or place ends a process on a real driver, so it is not asked here.
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuGetProcAddress_v2("cuInit", &found, 12000, 0x80, &status));
  OK(cu.cuGetProcAddress_v2("cuInit", &found, 12000, kDefault, nullptr));
}

CASE(entry_points, work_before_init) {
  void* found = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  OK(cu.cuGetProcAddress_v2("cuInit", &found, 12000, kDefault, &status));
  TRUE_(found == exported("cuInit"));
}

// Every line of our own list: asking for the base with its version must lead to the exported
// symbol.
CASE(entry_points, our_list_agrees_with_the_driver) {
  enum Kind { kNoStream, kLegacy, kPerThread };
  struct Line {
    const char* symbol;
    const char* base;
    int since;
    Kind kind;
  };
  static const Line lines[] = {
#define DIVVY_CU(symbol, base, since, stream_kind, arguments) {#symbol, base, since, stream_kind},
#include "abi/cuda_functions.inc"
  };
  OK(cu.cuInit(0));
  int version = 0;
  OK(cu.cuDriverGetVersion(&version));
  uint64_t compared = 0;
  for (const Line& line : lines) {
    if (line.since > version) continue;
    const cuuint64_t flags = line.kind == kNoStream ? kDefault
                             : line.kind == kLegacy ? kLegacyFlag
                                                    : kPerThreadFlag;
    void* symbol = exported(line.symbol);
    ++compared;
    if (symbol == nullptr) {
      t.is_true(std::string(line.symbol) + " is exported", false);
    } else if (ask(line.base, line.since, flags) != symbol) {
      t.recorded(std::string(line.symbol) + "_from_its_base", std::string_view("another function"));
    }
  }
  TRUE_(compared > 300);
}

}  // namespace divvy::conformance
