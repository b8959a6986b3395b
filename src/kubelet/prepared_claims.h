// The claims whose slices this machine holds: grants what was allocated to a claim before its pod
// starts, makes the devices for its containers, and releases all of it after the pod has ended. A
// pod that goes by slots is prepared in the same way, but for where its allocation stands (in the
// pod itself), who says that a container starts (slot_pods.h), and how its devices are called.
//
// Preparing is a record (claim_record.h), a grant for each request, and the CDI file, in this
// order; unpreparing is the opposite order. Each step can be done again, so whichever steps a crash
// fell between, the kubelet's next call finishes what was begun.
//
// All methods may be called from any thread. Calls for one claim follow each other; those for
// different claims hold up each other only while the record is written.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "base/result.h"
#include "kube/api_server.h"
#include "kubelet/claim_devices.h"
#include "kubelet/claim_record.h"
#include "kubelet/node_view.h"
#include "kubelet/pod_resources.h"
#include "sys/disk.h"

namespace divvy::kubelet {

// As the kubelet names one.
struct ClaimName {
  std::string space;
  std::string name;
  std::string uid;
};

// What the kubelet is told of one slice.
struct PreparedDevice {
  std::string request;
  std::string pool;
  std::string device;
  std::string cdi;  // "divvy.dev/claim=UID-REQUEST"
  friend bool operator==(const PreparedDevice&, const PreparedDevice&) = default;
};

class PreparedClaims {
 public:
  struct Parts {
    kube::ApiServer& api;
    agent::Agent& agent;
    ClaimDevices& devices;
    sys::Disk& disk;
    NodeView& view;  // is told what is held
  };
  // Compares the record with what the machine's ledger holds and with the CDI folder, and makes the
  // three agree. Releases nothing that the ledger holds: its pod may run. What is referred to in
  // `parts` outlives it.
  [[nodiscard]] static Result<std::unique_ptr<PreparedClaims>> create(Parts parts);
  PreparedClaims(const PreparedClaims&) = delete;
  PreparedClaims& operator=(const PreparedClaims&) = delete;

  // In the order of the allocation. Of a claim that is prepared already: the same again. Any error
  // is worth another try, and the kubelet makes it.
  [[nodiscard]] Result<std::vector<PreparedDevice>> prepare(const ClaimName& claim);
  // A container of a pod that goes by slots is about to start with these. The slices of all of its
  // containers are granted with the first. Done again it changes nothing.
  [[nodiscard]] Status prepare_container(const SlotHolder& holder,
                                         const std::vector<std::string>& slots);
  // A CDI device for a container that is given this slot, and whose file is there when it starts: a
  // name that nobody has had. kFailedPrecondition: a pod whose slices are not released yet has it.
  [[nodiscard]] Result<std::string> name_slot(const std::string& slot);
  // Pods that go by slots.
  [[nodiscard]] std::vector<ClaimRecord> slot_pods() const;
  // How lately it was named: 0 where it has been given back since; the highest while it is held.
  [[nodiscard]] std::uint64_t last_use(const std::string& slot) const;

  // Its containers have ended. The claim may be gone from the API server. Of one that was never
  // prepared: success.
  [[nodiscard]] Status unprepare(const ClaimName& claim);

 private:
  explicit PreparedClaims(Parts parts, ClaimRecords records)
      : parts_(parts), records_(std::move(records)) {}
  // No other call for the claim at the same time.
  class OneAtATime;

  void recover(const agent::Listing& listing);
  void adopt(const std::vector<agent::HeldSlices>& held);
  [[nodiscard]] Result<ClaimRecord> read_claim(const ClaimName& claim) const;
  [[nodiscard]] Result<ClaimRecord> read_pod(const SlotHolder& holder,
                                             const std::vector<std::string>& slots) const;
  [[nodiscard]] Result<ClaimRecord> prepare_record(ClaimRecord wanted);
  [[nodiscard]] std::vector<std::string> devices_of(const ClaimRecord& record,
                                                    const std::string& request) const;
  [[nodiscard]] Result<ClaimRecord> remember(ClaimRecord wanted, bool& is_new);
  [[nodiscard]] Result<inject::ClaimedSlices> grant(const ClaimRecord& record);
  [[nodiscard]] Status release(const ClaimRecord& record);
  [[nodiscard]] Status forget(const std::string& uid);
  [[nodiscard]] std::optional<ClaimRecord> find(const std::string& uid) const;
  void show();

  const Parts parts_;
  mutable std::mutex records_mutex_;
  ClaimRecords records_;
  std::mutex busy_mutex_;
  std::condition_variable busy_changed_;
  std::set<std::string> busy_;  // uids
};

}  // namespace divvy::kubelet
