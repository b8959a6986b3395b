// Contexts: primary and created, the stack of each thread, flags and limits.

#include <thread>

#include "gpu.h"

namespace divvy::conformance {
namespace {

int primary_active(Check& t) {
  unsigned flags = 0;
  int active = -1;
  t.ok("cuDevicePrimaryCtxGetState", cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
  return active;
}

}  // namespace

CASE(contexts, primary_lives_while_retained) {
  OK(cu.cuInit(0));
  EQUAL(uint64_t{0}, static_cast<uint64_t>(primary_active(t)));
  CUcontext first = nullptr;
  CUcontext second = nullptr;
  OK(cu.cuDevicePrimaryCtxRetain(&first, 0));
  EQUAL(uint64_t{1}, static_cast<uint64_t>(primary_active(t)));
  OK(cu.cuDevicePrimaryCtxRetain(&second, 0));
  TRUE_(first == second);
  OK(cu.cuDevicePrimaryCtxRelease_v2(0));
  EQUAL(uint64_t{1}, static_cast<uint64_t>(primary_active(t)));
  OK(cu.cuDevicePrimaryCtxRelease_v2(0));
  EQUAL(uint64_t{0}, static_cast<uint64_t>(primary_active(t)));
  CODE(CUDA_ERROR_INVALID_CONTEXT, cu.cuDevicePrimaryCtxRelease_v2(0));
}

CASE(contexts, retaining_primary_does_not_make_it_current) {
  OK(cu.cuInit(0));
  CUcontext primary = nullptr;
  CUcontext current = nullptr;
  OK(cu.cuDevicePrimaryCtxRetain(&primary, 0));
  OK(cu.cuCtxGetCurrent(&current));
  TRUE_(current == nullptr);
}

CASE(contexts, reset_of_primary_frees_everything) {
  if (!start_gpu(t)) return;
  CUdeviceptr pointer = 0;
  OK(cu.cuMemAlloc_v2(&pointer, 64 * kMiB));
  OK(cu.cuDevicePrimaryCtxReset_v2(device));
  EQUAL(uint64_t{0}, static_cast<uint64_t>(primary_active(t)));
  t.recorded("allocate_after_reset", cu.cuMemAlloc_v2(&pointer, 4096));
}

CASE(contexts, primary_flags_are_kept) {
  OK(cu.cuInit(0));
  OK(cu.cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_BLOCKING_SYNC));
  unsigned flags = 0;
  int active = 0;
  OK(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
  EQUAL(uint64_t{CU_CTX_SCHED_BLOCKING_SYNC}, uint64_t{flags & CU_CTX_SCHED_MASK});
  CUcontext primary = nullptr;
  OK(cu.cuDevicePrimaryCtxRetain(&primary, 0));
  OK(cu.cuCtxSetCurrent(primary));
  OK(cu.cuCtxGetFlags(&flags));
  EQUAL(uint64_t{CU_CTX_SCHED_BLOCKING_SYNC}, uint64_t{flags & CU_CTX_SCHED_MASK});
  t.recorded("flags", uint64_t{flags});
  t.recorded("set_while_active", cu.cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_SPIN));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuDevicePrimaryCtxSetFlags_v2(0, 0xffff0000U));
}

CASE(contexts, created_one_is_current_until_destroyed) {
  OK(cu.cuInit(0));
  CUcontext made = nullptr;
  CUcontext current = nullptr;
  OK(cu.cuCtxCreate_v2(&made, CU_CTX_SCHED_YIELD, 0));
  OK(cu.cuCtxGetCurrent(&current));
  TRUE_(current == made);
  unsigned flags = 0;
  OK(cu.cuCtxGetFlags(&flags));
  EQUAL(uint64_t{CU_CTX_SCHED_YIELD}, uint64_t{flags & CU_CTX_SCHED_MASK});
  CUdevice on = -1;
  OK(cu.cuCtxGetDevice(&on));
  EQUAL(uint64_t{0}, static_cast<uint64_t>(on));
  OK(cu.cuCtxDestroy_v2(made));
  OK(cu.cuCtxGetCurrent(&current));
  TRUE_(current == nullptr);
}

CASE(contexts, every_create_call_works) {
  OK(cu.cuInit(0));
  CUcontext made = nullptr;
  OK(cu.cuCtxCreate_v3(&made, nullptr, 0, 0, 0));
  OK(cu.cuCtxDestroy_v2(made));
  CUctxCreateParams parameters{};
  OK(cu.cuCtxCreate_v4(&made, &parameters, 0, 0));
  OK(cu.cuCtxDestroy_v2(made));
  OK(cu.cuCtxCreate_v4(&made, nullptr, 0, 0));
  OK(cu.cuCtxDestroy_v2(made));
}

CASE(contexts, wrong_flags_are_refused) {
  OK(cu.cuInit(0));
  CUcontext made = nullptr;
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuCtxCreate_v2(&made, 0xff00U, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuCtxCreate_v2(nullptr, 0, 0));
}

CASE(contexts, push_and_pop_are_a_stack) {
  if (!start_gpu(t)) return;
  CUcontext made = nullptr;
  CUcontext current = nullptr;
  CUcontext popped = nullptr;
  OK(cu.cuCtxCreate_v2(&made, 0, device));
  OK(cu.cuCtxGetCurrent(&current));
  TRUE_(current == made);
  OK(cu.cuCtxPushCurrent_v2(context));
  OK(cu.cuCtxGetCurrent(&current));
  TRUE_(current == context);
  OK(cu.cuCtxPopCurrent_v2(&popped));
  TRUE_(popped == context);
  OK(cu.cuCtxPopCurrent_v2(&popped));
  TRUE_(popped == made);
  OK(cu.cuCtxPopCurrent_v2(&popped));
  TRUE_(popped == context);
  CODE(CUDA_ERROR_INVALID_CONTEXT, cu.cuCtxPopCurrent_v2(&popped));
}

CASE(contexts, setting_null_unbinds) {
  if (!start_gpu(t)) return;
  CUcontext current = nullptr;
  CUdeviceptr pointer = 0;
  OK(cu.cuCtxSetCurrent(nullptr));
  OK(cu.cuCtxGetCurrent(&current));
  TRUE_(current == nullptr);
  CODE(CUDA_ERROR_INVALID_CONTEXT, cu.cuMemAlloc_v2(&pointer, 4096));
  t.recorded("push_of_null", cu.cuCtxPushCurrent_v2(nullptr));
}

CASE(contexts, current_belongs_to_the_thread) {
  if (!start_gpu(t)) return;
  CUcontext seen = context;
  CUresult code = CUDA_SUCCESS;
  CUdeviceptr pointer = 0;
  std::thread([&] {
    cu.cuCtxGetCurrent(&seen);
    code = cu.cuMemAlloc_v2(&pointer, 4096);
  }).join();
  TRUE_(seen == nullptr);
  t.code("allocation in a thread without a context", code, CUDA_ERROR_INVALID_CONTEXT);
}

CASE(contexts, two_have_different_ids) {
  if (!start_gpu(t)) return;
  CUcontext made = nullptr;
  unsigned long long first = 0;
  unsigned long long second = 0;
  unsigned long long current = 0;
  OK(cu.cuCtxGetId(context, &first));
  OK(cu.cuCtxCreate_v2(&made, 0, device));
  OK(cu.cuCtxGetId(made, &second));
  OK(cu.cuCtxGetId(nullptr, &current));
  TRUE_(first != second);
  EQUAL(uint64_t{second}, uint64_t{current});
}

CASE(contexts, destroying_one_from_another_keeps_the_other_current) {
  if (!start_gpu(t)) return;
  CUcontext made = nullptr;
  CUcontext current = nullptr;
  OK(cu.cuCtxCreate_v2(&made, 0, device));
  OK(cu.cuCtxSetCurrent(context));
  OK(cu.cuCtxDestroy_v2(made));
  OK(cu.cuCtxGetCurrent(&current));
  TRUE_(current == context);
  t.recorded("destroy_null", cu.cuCtxDestroy_v2(nullptr));
}

CASE(contexts, destroying_one_gives_its_memory_back) {
  if (!start_gpu(t)) return;
  const uint64_t before = free_bytes();
  CUcontext made = nullptr;
  CUdeviceptr pointer = 0;
  OK(cu.cuCtxCreate_v2(&made, 0, device));
  OK(cu.cuMemAlloc_v2(&pointer, 128 * kMiB));
  const uint64_t during = free_bytes();
  TRUE_(during + 128 * kMiB <= before);
  t.note("second_context_costs", before - during - 128 * kMiB);
  OK(cu.cuCtxDestroy_v2(made));
  OK(cu.cuCtxSetCurrent(context));
  const uint64_t after = free_bytes();
  TRUE_(after + 32 * kMiB >= before);
  t.note("kept", before > after ? before - after : 0);
}

CASE(contexts, limits_can_be_read_and_set) {
  if (!start_gpu(t)) return;
  size_t value = 0;
  OK(cu.cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
  t.recorded("stack", uint64_t{value});
  OK(cu.cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
  t.recorded("heap", uint64_t{value});
  OK(cu.cuCtxGetLimit(&value, CU_LIMIT_PRINTF_FIFO_SIZE));
  t.recorded("printf", uint64_t{value});
  OK(cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 16 * kMiB));
  OK(cu.cuCtxGetLimit(&value, CU_LIMIT_MALLOC_HEAP_SIZE));
  TRUE_(value >= 16 * kMiB);
  t.recorded("unknown_limit", cu.cuCtxGetLimit(&value, static_cast<CUlimit>(77)));
  t.recorded("set_unknown_limit", cu.cuCtxSetLimit(static_cast<CUlimit>(77), 1));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuCtxGetLimit(nullptr, CU_LIMIT_STACK_SIZE));
}

CASE(contexts, api_version_and_configuration) {
  if (!start_gpu(t)) return;
  unsigned version = 0;
  OK(cu.cuCtxGetApiVersion(context, &version));
  t.recorded("api_version", uint64_t{version});
  CUfunc_cache cache = CU_FUNC_CACHE_PREFER_EQUAL;
  OK(cu.cuCtxGetCacheConfig(&cache));
  t.recorded("cache", uint64_t{cache});
  OK(cu.cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
}

CASE(contexts, synchronize_of_an_idle_one) {
  if (!start_gpu(t)) return;
  OK(cu.cuCtxSynchronize());
  OK(cu.cuCtxSynchronize_v2(context));
  OK(cu.cuCtxSynchronize_v2(nullptr));
}

}  // namespace divvy::conformance
