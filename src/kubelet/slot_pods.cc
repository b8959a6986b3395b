#include "kubelet/slot_pods.h"

#include <algorithm>
#include <set>

#include "base/log.h"
#include "kube/action.h"
#include "kube/json_view.h"

namespace divvy::kubelet {

SlotPods::~SlotPods() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Result<std::vector<std::string>> SlotPods::allocate(const std::vector<std::string>& slots) {
  std::vector<std::string> devices;
  for (const std::string& slot : slots) {
    auto device = claims_.name_slot(slot);
    if (!device && device.error().code == ErrorCode::kFailedPrecondition) {
      // Its pod may have ended since anybody looked.
      for (const ClaimRecord& record : claims_.slot_pods()) {
        if (record.slots.contains(slot)) static_cast<void>(release_if_over(record));
      }
      device = claims_.name_slot(slot);
    }
    if (!device) return err(std::move(device).error());
    devices.push_back(*std::move(device));
  }
  return devices;
}

std::vector<std::string> SlotPods::prefer(std::vector<std::string> available,
                                          const std::vector<std::string>& must,
                                          std::size_t count) const {
  std::vector<std::string> chosen = must;
  std::erase_if(available,
                [&](const std::string& one) { return std::ranges::find(must, one) != must.end(); });
  std::vector<std::pair<std::uint64_t, std::string>> by_use;
  for (std::string& one : available) {
    const std::uint64_t used = claims_.last_use(one);
    by_use.emplace_back(used, std::move(one));
  }
  std::ranges::sort(by_use);
  for (auto& [used, slot] : by_use) {
    if (chosen.size() >= count) break;
    chosen.push_back(std::move(slot));
  }
  return chosen;
}

Status SlotPods::start_container(const std::vector<std::string>& slots) {
  DIVVY_TRY(all, resources_.held_slots());
  std::set<SlotHolder> holders;
  for (const HeldSlots& held : all) {
    const bool has = std::ranges::any_of(
        slots, [&held](const std::string& slot) { return held.slots.contains(slot); });
    if (has) holders.insert(held.holder);
  }
  if (holders.empty()) {
    return err(ErrorCode::kNotFound, "the kubelet knows no container that holds {}",
               fmt::join(slots, ", "));
  }
  if (holders.size() > 1) {
    std::string names;
    for (const SlotHolder& one : holders) {
      names += fmt::format("{}{}/{}", names.empty() ? "" : ", ", one.space, one.pod);
    }
    return err(
        ErrorCode::kFailedPrecondition,
        "the kubelet gave {} to several containers at once, and nobody can tell which of them "
        "starts; delete one of the pods {}",
        fmt::join(slots, ", "), names);
  }
  return claims_.prepare_container(*holders.begin(), slots);
}

bool SlotPods::release_if_over(const ClaimRecord& record) {
  const auto pod = api_.get(kube::pod_path(record.space, record.name));
  if (!pod && pod.error().code != ErrorCode::kNotFound) return false;
  if (pod && kube::text_at(*pod, {"metadata", "uid"}) == record.uid) {
    const std::string_view phase = kube::text_at(*pod, {"status", "phase"});
    if (phase != "Succeeded" && phase != "Failed") return false;
  }
  const Status released = claims_.unprepare({record.space, record.name, record.uid});
  if (!released) {
    // A process of it is still there, most often.
    log_debug("slices of a pod that ended are not released yet",
              {{"pod", record.space + "/" + record.name}, {"reason", released.error().message}});
    return false;
  }
  log_info("slices of a pod that ended are released",
           {{"pod", record.space + "/" + record.name}, {"uid", record.uid}});
  return true;
}

// The kubelet is asked first: it is near, and most pods have not ended.
std::size_t SlotPods::sweep() {
  const std::vector<ClaimRecord> records = claims_.slot_pods();
  if (records.empty()) return 0;
  const auto all = resources_.held_slots();
  if (!all) {
    log_warning("nobody knows which pods with slots have ended", {{"reason", all.error().message}});
    return 0;
  }
  std::set<std::pair<std::string, std::string>> living;  // pods, and slots that they have
  for (const HeldSlots& held : *all) {
    for (const std::string& slot : held.slots) {
      living.emplace(held.holder.space + "/" + held.holder.pod, slot);
    }
  }
  std::size_t released = 0;
  std::size_t asked = 0;
  for (std::size_t i = 0; i < records.size() && asked < options_.most_questions; ++i) {
    const ClaimRecord& record = records[(first_ + i) % records.size()];
    const bool lives = std::ranges::any_of(record.slots, [&](const auto& one) {
      return living.contains({record.space + "/" + record.name, one.first});
    });
    if (lives) continue;
    ++asked;
    if (release_if_over(record)) ++released;
  }
  first_ = asked < options_.most_questions ? 0 : first_ + asked;
  return released;
}

void SlotPods::start() {
  thread_ = std::thread([this] { run(); });
}

void SlotPods::run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, options_.interval, [this] { return stopped_; })) {
    lock.unlock();
    sweep();
    lock.lock();
  }
}

}  // namespace divvy::kubelet
