#include "share/mps_mode.h"

namespace divvy::share {

PrepareMode prepare_mps(Mps& mps) {
  return [&mps](const ledger::TenantRecord& record) -> Result<std::map<std::string, std::string>> {
    if (record.slices.size() != 1) {
      return err(ErrorCode::kUnsupported,
                 "mode mps takes one GPU and {} were asked for; leave --mode mps out, or start one "
                 "program for each GPU",
                 record.slices.size());
    }
    const model::Slice& slice = record.slices.front();
    DIVVY_TRY(endpoint, mps.acquire(slice.gpu()));
    return mps_environment(endpoint, slice.share(), record.tenant_class);
  };
}

LeaveMode leave_mps(Mps& mps) {
  return [&mps](const ledger::TenantRecord& record) {
    for (const model::Slice& slice : record.slices) mps.release(slice.gpu());
  };
}

}  // namespace divvy::share
