// Which batch an event comes after, so that a stream that waits for the event stands at a value in
// memory while that batch stands at the gate.
//
// A stream that stands at an event burns the time slices of its context: another process gets half
// of the GPU, although nothing runs. One that stands at a value yields. An event that was recorded
// behind batch k of a lane cannot happen before the lane has `passed` k, so a wait for that value
// goes into the stream before the real wait. It is implied by the real wait, hence it orders
// nothing anew and never waits for longer; where anything is unknown it is left out.
//
// Called by the hooks while the tenant is gated, on the program's own threads. Lock-free.
#pragma once

#include <stdint.h>

#include "abi/cuda.h"

namespace divvy::shim {

// A place in a stream: behind batch `batch` of lane `lane`.
struct StreamPlace {
  int lane = -1;  // -1: not known
  uint32_t batch = 0;
};

// Where something that is put into the stream now will be. Asked before the real cuEventRecord.
StreamPlace end_of_stream(CUstream stream, bool per_thread);
// The event was recorded there, or at a place that is not known.
void event_recorded(CUevent event, const StreamPlace& place);
void forget_event(CUevent event);

// Before the real cuStreamWaitEvent, and between two batches of the stream.
void wait_for_batch_of(CUevent event, CUstream stream, bool per_thread);

void events_forget_after_fork();

}  // namespace divvy::shim
