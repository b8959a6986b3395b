// GPU performance monitoring (GPM, Hopper and later): which parts of a GPU were busy between two
// looks at its counters. Keeps the last look at each GPU. Used by the Library that asks a loaded
// NVML; callable from any thread.
#pragma once

#include <map>
#include <mutex>

#include "base/result.h"
#include "nvml/functions.h"
#include "nvml/library.h"

namespace divvy::nvml {

class Gpm {
 public:
  // The functions outlive it.
  explicit Gpm(const Functions& functions) : nvml_(functions) {}
  Gpm(const Gpm&) = delete;
  Gpm& operator=(const Gpm&) = delete;

  // Since the last call for this GPU. kUnavailable the first time, kUnsupported where the GPU or
  // the driver has none of it.
  [[nodiscard]] Result<Activity> activity(nvmlDevice_t device);
  // Gives the driver its samples back; before the library is shut down.
  void forget_all();

 private:
  [[nodiscard]] Status check_support(nvmlDevice_t device) const;
  [[nodiscard]] Result<Activity> compare(nvmlGpmSample_t before, nvmlGpmSample_t after) const;

  const Functions& nvml_;
  std::mutex mutex_;
  std::map<nvmlDevice_t, nvmlGpmSample_t> last_;
};

}  // namespace divvy::nvml
