// A group of processes that holds slices: a container, or the process tree that `divvy run`
// started. A plain value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "model/slice.h"

namespace divvy::model {

using TenantId = StrongId<struct TenantIdTag, std::uint64_t>;

class Tenant {
 public:
  // Refused: a bad name (model/name.h), no slice, or two slices on one GPU.
  [[nodiscard]] static Result<Tenant> create(TenantId id, std::string name,
                                             std::vector<Slice> slices);

  [[nodiscard]] TenantId id() const { return id_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  // In ascending order of the GPU's UUID.
  [[nodiscard]] const std::vector<Slice>& slices() const { return slices_; }
  // The slice on this GPU, or null. Points into this tenant.
  [[nodiscard]] const Slice* slice_on(const GpuUuid& gpu) const;
  // All slices together.
  [[nodiscard]] Share total_share() const;

  friend bool operator==(const Tenant&, const Tenant&) = default;

 private:
  Tenant(TenantId id, std::string name, std::vector<Slice> slices)
      : id_(id), name_(std::move(name)), slices_(std::move(slices)) {}

  TenantId id_;
  std::string name_;
  std::vector<Slice> slices_;
};

}  // namespace divvy::model
