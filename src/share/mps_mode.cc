#include "share/mps_mode.h"

namespace divvy::share {

Status enter_mps(Mps& mps, const ledger::TenantRecord& record) {
  if (record.slices.size() != 1) {
    return err(ErrorCode::kUnsupported,
               "mode mps takes one GPU and {} were asked for; leave --mode mps out, or start one "
               "program for each GPU",
               record.slices.size());
  }
  return mps.acquire(record.slices.front().gpu());
}

void leave_mps(Mps& mps, const ledger::TenantRecord& record) {
  for (const model::Slice& slice : record.slices) mps.release(slice.gpu());
}

std::map<std::string, std::string> mps_environment(const Mps& mps,
                                                   const ledger::TenantRecord& record) {
  const model::Slice& slice = record.slices.front();
  const std::uint32_t threads = mps_thread_percentage(slice.share(), record.tenant_class);
  return {{"CUDA_MPS_PIPE_DIRECTORY", mps.pipe_folder(slice.gpu()).string()},
          {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", std::to_string(threads)}};
}

}  // namespace divvy::share
