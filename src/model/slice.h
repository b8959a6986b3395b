// What a tenant holds on one GPU: a part of its memory and of its compute. A plain value that is
// always more than nothing and at most one GPU.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "model/gpu_uuid.h"

namespace divvy::model {

// What the share means when nobody else wants the GPU.
enum class ShareKind {
  kGuarantee,  // At least this much when others want it too; what is unused may be taken.
  kCap,        // The same, and never more than this much.
};
[[nodiscard]] std::string_view to_string(ShareKind kind);

class Slice {
 public:
  // Refused: no memory, no share, or a share of more than one GPU.
  [[nodiscard]] static Result<Slice> create(GpuUuid gpu, Bytes memory, Share share, ShareKind kind);

  // The slice for a request that named no memory: the same part of the memory as of the compute.
  [[nodiscard]] static Result<Slice> proportional(GpuUuid gpu, Bytes gpu_memory, Share share,
                                                  ShareKind kind);

  [[nodiscard]] const GpuUuid& gpu() const { return gpu_; }
  [[nodiscard]] Bytes memory() const { return memory_; }
  [[nodiscard]] Share share() const { return share_; }
  [[nodiscard]] ShareKind kind() const { return kind_; }
  [[nodiscard]] bool whole_gpu() const { return share_ == Share(Share::kWhole); }

  friend bool operator==(const Slice&, const Slice&) = default;

 private:
  Slice(GpuUuid gpu, Bytes memory, Share share, ShareKind kind)
      : gpu_(std::move(gpu)), memory_(memory), share_(share), kind_(kind) {}

  GpuUuid gpu_;
  Bytes memory_;
  Share share_;
  ShareKind kind_;
};

}  // namespace divvy::model
