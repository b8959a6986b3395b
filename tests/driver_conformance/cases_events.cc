// Events: recording, asking, elapsed time.

#include "gpu.h"

namespace divvy::conformance {

CASE(events, never_recorded_one_is_complete) {
  if (!start_gpu(t)) return;
  CUevent event = nullptr;
  OK(cu.cuEventCreate(&event, CU_EVENT_DEFAULT));
  OK(cu.cuEventQuery(event));
  OK(cu.cuEventSynchronize(event));
  CUstream stream = nullptr;
  OK(cu.cuStreamCreate(&stream, 0));
  OK(cu.cuStreamWaitEvent(stream, event, 0));
  OK(cu.cuStreamSynchronize(stream));
  OK(cu.cuEventDestroy_v2(event));
}

CASE(events, behind_a_held_stream_is_not_ready) {
  if (!start_gpu(t)) return;
  CUevent event = nullptr;
  CUstream stream = nullptr;
  OK(cu.cuEventCreate(&event, CU_EVENT_DEFAULT));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Gate gate(t, stream);
  if (!gate.works()) return;
  OK(cu.cuEventRecord(event, stream));
  CODE(CUDA_ERROR_NOT_READY, cu.cuEventQuery(event));
  gate.open();
  OK(cu.cuEventSynchronize(event));
  OK(cu.cuEventQuery(event));
}

CASE(events, elapsed_time_is_not_negative) {
  if (!load_kernels(t)) return;
  CUevent start = nullptr;
  CUevent end = nullptr;
  CUstream stream = nullptr;
  float milliseconds = -1;
  OK(cu.cuEventCreate(&start, CU_EVENT_DEFAULT));
  OK(cu.cuEventCreate(&end, CU_EVENT_BLOCKING_SYNC));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.cuEventRecord(start, stream));
  OK(cu.cuLaunchKernel(empty, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr));
  OK(cu.cuEventRecord(end, stream));
  OK(cu.cuEventSynchronize(end));
  OK(cu.cuEventElapsedTime(&milliseconds, start, end));
  TRUE_(milliseconds >= 0);
  TRUE_(milliseconds < 1000);
  OK(cu.cuEventElapsedTime_v2(&milliseconds, start, end));
  TRUE_(milliseconds >= 0);
}

CASE(events, elapsed_time_of_unfit_ones_is_refused) {
  if (!start_gpu(t)) return;
  CUevent timed = nullptr;
  CUevent never = nullptr;
  CUevent untimed = nullptr;
  float milliseconds = 0;
  OK(cu.cuEventCreate(&timed, CU_EVENT_DEFAULT));
  OK(cu.cuEventCreate(&never, CU_EVENT_DEFAULT));
  OK(cu.cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
  OK(cu.cuEventRecord(timed, nullptr));
  OK(cu.cuEventRecord(untimed, nullptr));
  OK(cu.cuCtxSynchronize());
  CODE(CUDA_ERROR_INVALID_HANDLE, cu.cuEventElapsedTime(&milliseconds, timed, never));
  CODE(CUDA_ERROR_INVALID_HANDLE, cu.cuEventElapsedTime(&milliseconds, never, timed));
  CODE(CUDA_ERROR_INVALID_HANDLE, cu.cuEventElapsedTime(&milliseconds, timed, untimed));
  t.recorded("nowhere_to_write", cu.cuEventElapsedTime(nullptr, timed, timed));
}

CASE(events, elapsed_time_of_pending_ones_is_not_ready) {
  if (!start_gpu(t)) return;
  CUevent start = nullptr;
  CUevent end = nullptr;
  CUstream stream = nullptr;
  float milliseconds = 0;
  OK(cu.cuEventCreate(&start, CU_EVENT_DEFAULT));
  OK(cu.cuEventCreate(&end, CU_EVENT_DEFAULT));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.cuEventRecord(start, stream));
  Gate gate(t, stream);
  if (!gate.works()) return;
  OK(cu.cuEventRecord(end, stream));
  CODE(CUDA_ERROR_NOT_READY, cu.cuEventElapsedTime(&milliseconds, start, end));
  gate.open();
  OK(cu.cuEventSynchronize(end));
  OK(cu.cuEventElapsedTime(&milliseconds, start, end));
}

CASE(events, flags_are_checked) {
  if (!start_gpu(t)) return;
  CUevent event = nullptr;
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuEventCreate(&event, 0x100));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuEventCreate(nullptr, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuEventCreate(&event, CU_EVENT_INTERPROCESS));
  OK(cu.cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
  CUevent plain = nullptr;
  OK(cu.cuEventCreate(&plain, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuEventRecordWithFlags(plain, nullptr, 0x40));
  OK(cu.cuEventRecordWithFlags(plain, nullptr, CU_EVENT_RECORD_DEFAULT));
  t.recorded("external_record_outside_of_capture",
             cu.cuEventRecordWithFlags(plain, nullptr, CU_EVENT_RECORD_EXTERNAL));
}

CASE(events, recording_again_moves_it) {
  if (!start_gpu(t)) return;
  CUevent event = nullptr;
  CUstream free_stream = nullptr;
  CUstream held = nullptr;
  OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cu.cuStreamCreate(&free_stream, CU_STREAM_NON_BLOCKING));
  OK(cu.cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
  OK(cu.cuEventRecord(event, free_stream));
  OK(cu.cuEventSynchronize(event));
  Gate gate(t, held);
  if (!gate.works()) return;
  OK(cu.cuEventRecord(event, held));
  CODE(CUDA_ERROR_NOT_READY, cu.cuEventQuery(event));
  gate.open();
  OK(cu.cuEventSynchronize(event));
}

CASE(events, a_wait_keeps_the_record_it_saw) {
  if (!start_gpu(t)) return;
  CUevent event = nullptr;
  CUstream first = nullptr;
  CUstream held = nullptr;
  CUstream waiter = nullptr;
  OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cu.cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
  OK(cu.cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
  OK(cu.cuStreamCreate(&waiter, CU_STREAM_NON_BLOCKING));
  OK(cu.cuEventRecord(event, first));
  OK(cu.cuStreamWaitEvent(waiter, event, 0));
  Gate gate(t, held);
  if (!gate.works()) return;
  OK(cu.cuEventRecord(event, held));
  // The waiter was told of the first record and does not care for the second.
  OK(cu.cuStreamSynchronize(waiter));
  gate.open();
  OK(cu.cuStreamSynchronize(held));
}

CASE(events, may_be_destroyed_while_pending) {
  if (!start_gpu(t)) return;
  CUevent event = nullptr;
  CUstream stream = nullptr;
  OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Gate gate(t, stream);
  if (!gate.works()) return;
  OK(cu.cuEventRecord(event, stream));
  OK(cu.cuEventDestroy_v2(event));
  gate.open();
  OK(cu.cuStreamSynchronize(stream));
  t.recorded("destroy_null", cu.cuEventDestroy_v2(nullptr));
  t.recorded("query_null", cu.cuEventQuery(nullptr));
}

}  // namespace divvy::conformance
