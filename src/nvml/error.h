// NVML's return codes as Divvy's errors. Pure, callable from any thread.
#pragma once

#include <string>
#include <string_view>

#include "abi/nvml.h"
#include "base/result.h"

namespace divvy::nvml {

// `words` is what the library's nvmlErrorString says about the code; empty for our own words.
// `code` is not NVML_SUCCESS.
[[nodiscard]] Error to_error(nvmlReturn_t code, std::string_view words = {});

// NVML's own short words for a code ("Not Supported"), for libraries that cannot be asked.
[[nodiscard]] std::string_view words_for(nvmlReturn_t code);

// The two answers of a device query that mean that the GPU itself is out of order. to_error gives
// their error codes to no other answer of a device query.
[[nodiscard]] bool says_gpu_is_lost(const Error& error);
[[nodiscard]] bool says_reset_is_required(const Error& error);

}  // namespace divvy::nvml
