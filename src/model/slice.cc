#include "model/slice.h"

namespace divvy::model {

std::string_view to_string(ShareKind kind) {
  switch (kind) {
    case ShareKind::kGuarantee:
      return "guarantee";
    case ShareKind::kCap:
      return "cap";
  }
  return "unknown";
}

Result<Slice> Slice::create(GpuUuid gpu, Bytes memory, Share share, ShareKind kind) {
  if (share == Share(0) || share > Share(Share::kWhole)) {
    return err(
        ErrorCode::kOutOfRange,
        "a slice of {} with a share of {} is impossible; a slice is from 0.001 to 1 of one GPU",
        gpu, share);
  }
  if (memory == Bytes(0)) {
    return err(ErrorCode::kOutOfRange, "a slice of {} without memory is impossible", gpu);
  }
  return Slice(std::move(gpu), memory, share, kind);
}

Result<Slice> Slice::proportional(GpuUuid gpu, Bytes gpu_memory, Share share, ShareKind kind) {
  // Checked by create; here only so that the memory can be computed at all.
  const Share within_one = std::min(share, Share(Share::kWhole));
  return create(std::move(gpu), portion(gpu_memory, within_one), share, kind);
}

}  // namespace divvy::model
