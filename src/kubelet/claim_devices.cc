#include "kubelet/claim_devices.h"

namespace divvy::kubelet {
namespace {

class CdiClaimDevices final : public ClaimDevices {
 public:
  explicit CdiClaimDevices(inject::ContainerDevices& devices) : devices_(devices) {}
  Status publish(const inject::ClaimedSlices& claim) override {
    return devices_.publish_claim(claim);
  }
  Status withdraw(const std::string& uid) override { return devices_.withdraw_claim(uid); }
  Status keep_only(const std::set<std::string>& uids) override {
    return devices_.keep_only_claims(uids);
  }

 private:
  inject::ContainerDevices& devices_;
};

}  // namespace

std::unique_ptr<ClaimDevices> cdi_claim_devices(inject::ContainerDevices& devices) {
  return std::make_unique<CdiClaimDevices>(devices);
}

}  // namespace divvy::kubelet
