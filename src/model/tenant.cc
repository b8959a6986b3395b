#include "model/tenant.h"

#include <algorithm>

#include "model/name.h"

namespace divvy::model {

Result<Tenant> Tenant::create(TenantId id, std::string name, std::vector<Slice> slices) {
  DIVVY_RETURN_IF_ERROR(check_name("tenant", name));
  if (slices.empty()) {
    return err(ErrorCode::kInvalidArgument, "tenant {} ({}) holds no slice", name, id);
  }
  std::ranges::sort(slices, {}, &Slice::gpu);
  const auto twice = std::ranges::adjacent_find(slices, {}, &Slice::gpu);
  if (twice != slices.end()) {
    return err(ErrorCode::kAlreadyExists,
               "tenant {} ({}) has two slices on {}; a tenant holds at most one slice of each GPU",
               name, id, twice->gpu());
  }
  return Tenant(id, std::move(name), std::move(slices));
}

const Slice* Tenant::slice_on(const GpuUuid& gpu) const {
  const auto found = std::ranges::lower_bound(slices_, gpu, {}, &Slice::gpu);
  return found != slices_.end() && found->gpu() == gpu ? &*found : nullptr;
}

Share Tenant::total_share() const {
  Share total;
  for (const Slice& slice : slices_) total += slice.share();
  return total;
}

}  // namespace divvy::model
