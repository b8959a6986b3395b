// How much work of the `spin` kernel a GPU does in a microsecond. Called once at the start by the
// main thread, with the context current.
#pragma once

#include "gpuload/session.h"

namespace divvy::gpuload {

// Measured with events on runs far shorter than a time slice, of which the fastest counts, so that
// a busy neighbour does not make the GPU look slow. Two lengths are measured and subtracted, so
// that the cost of a launch drops out.
double calibrate_iterations_per_us(const Session& session, bool narrow);

}  // namespace divvy::gpuload
