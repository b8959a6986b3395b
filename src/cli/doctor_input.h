// This machine as `divvy doctor` looks at it. Runs on the main thread.
#pragma once

#include "cli/app.h"
#include "cli/doctor.h"

namespace divvy::cli {

[[nodiscard]] DoctorInput this_machine(const Services& services);

}  // namespace divvy::cli
