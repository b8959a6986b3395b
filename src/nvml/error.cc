#include "nvml/error.h"

namespace divvy::nvml {
namespace {

constexpr ErrorCode kLost = ErrorCode::kUnavailable;
constexpr ErrorCode kResetRequired = ErrorCode::kFailedPrecondition;

ErrorCode code_for(nvmlReturn_t code) {
  switch (code) {
    case NVML_ERROR_GPU_IS_LOST:
      return kLost;
    case NVML_ERROR_RESET_REQUIRED:
      return kResetRequired;
    case NVML_ERROR_INVALID_ARGUMENT:
      return ErrorCode::kInvalidArgument;
    case NVML_ERROR_NOT_SUPPORTED:
    case NVML_ERROR_FUNCTION_NOT_FOUND:
    case NVML_ERROR_VGPU_ECC_NOT_SUPPORTED:
    case NVML_ERROR_FREQ_NOT_SUPPORTED:
    case NVML_ERROR_RESET_TYPE_NOT_SUPPORTED:
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
    case NVML_ERROR_DEPRECATED:
      return ErrorCode::kUnsupported;
    case NVML_ERROR_NO_PERMISSION:
      return ErrorCode::kPermissionDenied;
    case NVML_ERROR_NOT_FOUND:
    case NVML_ERROR_GPU_NOT_FOUND:
    case NVML_ERROR_NO_DATA:
    case NVML_ERROR_NOT_READY:
    case NVML_ERROR_DRIVER_NOT_LOADED:
    case NVML_ERROR_LIBRARY_NOT_FOUND:
      return ErrorCode::kNotFound;
    case NVML_ERROR_INSUFFICIENT_SIZE:
      return ErrorCode::kOutOfRange;
    case NVML_ERROR_INSUFFICIENT_POWER:
    case NVML_ERROR_IN_USE:
    case NVML_ERROR_MEMORY:
    case NVML_ERROR_INSUFFICIENT_RESOURCES:
      return ErrorCode::kResourceExhausted;
    case NVML_ERROR_TIMEOUT:
      return ErrorCode::kTimeout;
    case NVML_ERROR_CORRUPTED_INFOROM:
      return ErrorCode::kDataLoss;
    case NVML_ERROR_OPERATING_SYSTEM:
      return ErrorCode::kIo;
    default:
      return ErrorCode::kInternal;
  }
}

}  // namespace

std::string_view words_for(nvmlReturn_t code) {
  switch (code) {
    case NVML_ERROR_UNINITIALIZED:
      return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
      return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
      return "Not Supported";
    case NVML_ERROR_NO_PERMISSION:
      return "Insufficient Permissions";
    case NVML_ERROR_NOT_FOUND:
      return "Not Found";
    case NVML_ERROR_DRIVER_NOT_LOADED:
      return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT:
      return "Timeout";
    case NVML_ERROR_FUNCTION_NOT_FOUND:
      return "Function Not Found";
    case NVML_ERROR_CORRUPTED_INFOROM:
      return "Corrupted infoROM";
    case NVML_ERROR_GPU_IS_LOST:
      return "GPU is lost";
    case NVML_ERROR_RESET_REQUIRED:
      return "GPU requires reset";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
      return "Driver/library version mismatch";
    case NVML_ERROR_NO_DATA:
      return "No data";
    default:
      return "Unknown Error";
  }
}

Error to_error(nvmlReturn_t code, std::string_view words) {
  return Error{code_for(code), std::string(words.empty() ? words_for(code) : words)};
}

bool says_gpu_is_lost(const Error& error) { return error.code == kLost; }
bool says_reset_is_required(const Error& error) { return error.code == kResetRequired; }

}  // namespace divvy::nvml
