// Streams: creation, queries, the two default streams, host functions and their order.

#include <atomic>
#include <string>
#include <thread>

#include "gpu.h"

namespace divvy::conformance {

CASE(streams, idle_one_is_ready) {
  if (!start_gpu(t)) return;
  CUstream stream = nullptr;
  OK(cu.cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  OK(cu.cuStreamQuery(stream));
  OK(cu.cuStreamSynchronize(stream));
  OK(cu.cuStreamDestroy_v2(stream));
}

CASE(streams, held_one_is_not_ready) {
  if (!start_gpu(t)) return;
  CUstream stream = nullptr;
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Gate gate(t, stream);
  if (!gate.works()) return;
  CODE(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
  CODE(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
  gate.open();
  OK(cu.cuStreamSynchronize(stream));
  OK(cu.cuStreamQuery(stream));
}

CASE(streams, flags_are_kept_and_checked) {
  if (!start_gpu(t)) return;
  CUstream stream = nullptr;
  unsigned flags = 99;
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.cuStreamGetFlags(stream, &flags));
  EQUAL(uint64_t{CU_STREAM_NON_BLOCKING}, uint64_t{flags});
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuStreamCreate(&stream, 0x10));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuStreamCreate(nullptr, 0));
  OK(cu.cuStreamGetFlags(nullptr, &flags));
  t.recorded("flags_of_null_stream", uint64_t{flags});
}

CASE(streams, priorities_are_clamped_to_the_range) {
  if (!start_gpu(t)) return;
  int least = 0;
  int greatest = 0;
  OK(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
  TRUE_(greatest < least);
  t.recorded("least", std::to_string(least));
  t.recorded("greatest", std::to_string(greatest));
  CUstream stream = nullptr;
  int priority = 77;
  OK(cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest));
  OK(cu.cuStreamGetPriority(stream, &priority));
  TRUE_(priority == greatest);
  OK(cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest - 100));
  OK(cu.cuStreamGetPriority(stream, &priority));
  TRUE_(priority == greatest);
  OK(cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, least + 100));
  OK(cu.cuStreamGetPriority(stream, &priority));
  TRUE_(priority == least);
  OK(cu.cuStreamCreate(&stream, 0));
  OK(cu.cuStreamGetPriority(stream, &priority));
  EQUAL(uint64_t{0}, static_cast<uint64_t>(priority));
}

CASE(streams, default_handles_are_streams) {
  if (!start_gpu(t)) return;
  OK(cu.cuStreamQuery(nullptr));
  OK(cu.cuStreamQuery(CU_STREAM_LEGACY));
  OK(cu.cuStreamQuery(CU_STREAM_PER_THREAD));
  OK(cu.cuStreamSynchronize(CU_STREAM_PER_THREAD));
  OK(cu.cuStreamQuery_ptsz(nullptr));
  OK(cu.cuStreamSynchronize_ptsz(nullptr));
  t.recorded("destroy_null", cu.cuStreamDestroy_v2(nullptr));
  t.recorded("destroy_legacy", cu.cuStreamDestroy_v2(CU_STREAM_LEGACY));
}

CASE(streams, null_stream_waits_for_ordinary_streams) {
  if (!start_gpu(t)) return;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  Gate gate(t, stream);
  if (!gate.works()) return;
  OK(cu.cuMemsetD32Async(memory, 1, 16, nullptr));
  CODE(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(nullptr));
  gate.open();
  OK(cu.cuStreamSynchronize(nullptr));
  OK(cu.cuStreamQuery(stream));
}

CASE(streams, ordinary_streams_wait_for_the_null_stream) {
  if (!start_gpu(t)) return;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  Gate gate(t, nullptr);
  if (!gate.works()) return;
  OK(cu.cuMemsetD32Async(memory, 1, 16, stream));
  CODE(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
  gate.open();
  OK(cu.cuStreamSynchronize(stream));
}

CASE(streams, null_stream_ignores_non_blocking_streams) {
  if (!start_gpu(t)) return;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Gate gate(t, stream);
  if (!gate.works()) return;
  OK(cu.cuMemsetD32Async(memory, 1, 16, nullptr));
  OK(cu.cuStreamSynchronize(nullptr));
  CODE(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
  gate.open();
  OK(cu.cuStreamSynchronize(stream));
}

CASE(streams, per_thread_stream_is_another_than_the_null_stream) {
  if (!start_gpu(t)) return;
  CUdeviceptr memory = 0;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  Gate gate(t, CU_STREAM_PER_THREAD);
  if (!gate.works()) return;
  CODE(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(CU_STREAM_PER_THREAD));
  CODE(CUDA_ERROR_NOT_READY, cu.cuStreamQuery_ptsz(nullptr));
  // The null stream does wait for it, as for any ordinary stream.
  OK(cu.cuMemsetD32Async(memory, 1, 16, nullptr));
  CODE(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(nullptr));
  // Another thread has another one.
  CUresult other = CUDA_ERROR_UNKNOWN;
  std::thread([&] {
    cu.cuCtxSetCurrent(context);
    other = cu.cuStreamQuery(CU_STREAM_PER_THREAD);
  }).join();
  t.code("per-thread stream of another thread", other, CUDA_SUCCESS);
  gate.open();
  OK(cu.cuCtxSynchronize());
}

CASE(streams, know_their_context_device_and_id) {
  if (!start_gpu(t)) return;
  CUstream first = nullptr;
  CUstream second = nullptr;
  CUcontext of = nullptr;
  CUdevice on = -1;
  unsigned long long first_id = 0;
  unsigned long long second_id = 0;
  OK(cu.cuStreamCreate(&first, 0));
  OK(cu.cuStreamCreate(&second, 0));
  OK(cu.cuStreamGetCtx(first, &of));
  TRUE_(of == context);
  CUgreenCtx green = nullptr;
  OK(cu.cuStreamGetCtx_v2(first, &of, &green));
  TRUE_(of == context && green == nullptr);
  OK(cu.cuStreamGetDevice(first, &on));
  TRUE_(on == device);
  OK(cu.cuStreamGetId(first, &first_id));
  OK(cu.cuStreamGetId(second, &second_id));
  TRUE_(first_id != second_id);
}

CASE(streams, wait_event_orders_two_streams) {
  if (!load_kernels(t)) return;
  CUstream first = nullptr;
  CUstream second = nullptr;
  CUevent event = nullptr;
  CUdeviceptr memory = 0;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
  OK(cu.cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  Gate gate(t, first);
  if (!gate.works()) return;
  OK(launch_fill(memory, 16, 1, first));
  OK(cu.cuEventRecord(event, first));
  OK(cu.cuStreamWaitEvent(second, event, 0));
  OK(launch_fill(memory, 16, 2, second));
  CODE(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(second));
  gate.open();
  OK(cu.cuStreamSynchronize(second));
  EQUAL(uint64_t{2}, uint64_t{word_at(memory)});
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuStreamWaitEvent(second, event, 0x80));
}

CASE(streams, destroyed_one_finishes_its_work) {
  if (!load_kernels(t)) return;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuMemsetD32_v2(memory, 0, 16));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Gate gate(t, stream);
  if (!gate.works()) return;
  OK(launch_fill(memory, 16, 77, stream));
  OK(cu.cuStreamDestroy_v2(stream));
  gate.open();
  OK(cu.cuCtxSynchronize());
  EQUAL(uint64_t{77}, uint64_t{word_at(memory)});
}

CASE(streams, attributes_can_be_set) {
  if (!start_gpu(t)) return;
  CUstream stream = nullptr;
  OK(cu.cuStreamCreate(&stream, 0));
  CUstreamAttrValue value{};
  value.syncPolicy = CU_SYNC_POLICY_BLOCKING_SYNC;
  OK(cu.cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  value = {};
  OK(cu.cuStreamGetAttribute(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
  EQUAL(uint64_t{CU_SYNC_POLICY_BLOCKING_SYNC}, uint64_t{value.syncPolicy});
}

CASE(streams, of_another_context_is_refused) {
  if (!load_kernels(t)) return;
  CUcontext made = nullptr;
  CUstream stream = nullptr;
  OK(cu.cuCtxCreate_v2(&made, 0, device));
  OK(cu.cuStreamCreate(&stream, 0));
  OK(cu.cuCtxSetCurrent(context));
  t.recorded("launch", cu.cuLaunchKernel(empty, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
  CUevent event = nullptr;
  OK(cu.cuEventCreate(&event, 0));
  CODE(CUDA_ERROR_INVALID_HANDLE, cu.cuEventRecord(event, stream));
}

namespace {

struct Order {
  std::atomic<int> next{0};
  int host_function = -1;
  int callback = -1;
  CUresult callback_status = CUDA_ERROR_UNKNOWN;
  CUresult driver_call = CUDA_ERROR_UNKNOWN;
  CUdeviceptr memory = 0;
};

}  // namespace

CASE(host_functions, run_in_stream_order) {
  if (!load_kernels(t)) return;
  CUstream stream = nullptr;
  Order order;
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Gate gate(t, stream);
  if (!gate.works()) return;
  OK(cu.cuLaunchHostFunc(
      stream,
      [](void* data) {
        auto* seen = static_cast<Order*>(data);
        seen->host_function = seen->next++;
      },
      &order));
  OK(cu.cuStreamAddCallback(
      stream,
      [](CUstream, CUresult status, void* data) {
        auto* seen = static_cast<Order*>(data);
        seen->callback = seen->next++;
        seen->callback_status = status;
      },
      &order, 0));
  TRUE_(order.next.load() == 0);
  gate.open();
  OK(cu.cuStreamSynchronize(stream));
  EQUAL(uint64_t{0}, static_cast<uint64_t>(order.host_function));
  EQUAL(uint64_t{1}, static_cast<uint64_t>(order.callback));
  t.code("status in the callback", order.callback_status, CUDA_SUCCESS);
}

CASE(host_functions, may_not_call_the_driver) {
  if (!start_gpu(t)) return;
  CUstream stream = nullptr;
  Order order;
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.cuLaunchHostFunc(
      stream,
      [](void* data) {
        auto* seen = static_cast<Order*>(data);
        seen->driver_call = cu.cuMemAlloc_v2(&seen->memory, 4096);
      },
      &order));
  OK(cu.cuStreamSynchronize(stream));
  t.recorded("allocation_in_a_host_function", order.driver_call);
}

CASE(host_functions, wrong_arguments_are_refused) {
  if (!start_gpu(t)) return;
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuLaunchHostFunc(nullptr, nullptr, nullptr));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuStreamAddCallback(nullptr, nullptr, nullptr, 0));
  CODE(CUDA_ERROR_INVALID_VALUE,
       cu.cuStreamAddCallback(nullptr, [](CUstream, CUresult, void*) {}, nullptr, 1));
}

CASE(host_functions, later_work_waits_for_them) {
  if (!load_kernels(t)) return;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  std::atomic<bool> release{false};
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.cuLaunchHostFunc(
      stream,
      [](void* data) {
        while (!static_cast<std::atomic<bool>*>(data)->load()) std::this_thread::yield();
      },
      &release));
  OK(launch_fill(memory, 16, 5, stream));
  CODE(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
  release = true;
  OK(cu.cuStreamSynchronize(stream));
  EQUAL(uint64_t{5}, uint64_t{word_at(memory)});
}

}  // namespace divvy::conformance
