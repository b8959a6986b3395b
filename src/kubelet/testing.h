// A machine and a CDI folder in memory for the tests of this room, which end where a test wants:
// before a step, or after it and before anybody hears of it. Only for tests.
#pragma once

#include <algorithm>
#include <boost/json.hpp>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "kube/allocation.h"
#include "kube/fake_api.h"
#include "kube/object_names.h"
#include "kube/request_annotation.h"
#include "kubelet/claim_devices.h"
#include "model/testing.h"

namespace divvy::kubelet::testing {

inline constexpr const char* kNode = "gpu-1";
inline constexpr const char* kClaims = "/apis/resource.k8s.io/v1/namespaces/a/resourceclaims";

// What kills the process: the step with a number, once. From then on nothing it does has an effect.
class Power {
 public:
  enum class Step { kDone, kNotDone, kDoneUnheard };
  void cut_at(std::uint64_t step, bool after) {
    at_ = step;
    after_ = after;
  }
  void restore() {
    at_.reset();
    off_ = false;
  }
  void cut() { off_ = true; }
  [[nodiscard]] bool is_off() const { return off_; }
  Step step() {
    if (off_) return Step::kNotDone;
    if (!at_ || --*at_ > 0) return Step::kDone;
    off_ = true;
    return after_ ? Step::kDoneUnheard : Step::kNotDone;
  }

 private:
  std::optional<std::uint64_t> at_;
  bool after_ = false;
  bool off_ = false;
};

inline Error dead() { return {ErrorCode::kUnavailable, "the process is dead"}; }

class FakeAgent final : public agent::Agent {
 public:
  explicit FakeAgent(std::uint64_t gpus = 2) {
    state_.node = "machine";
    for (std::uint64_t i = 0; i < gpus; ++i) {
      agent::MachineGpu gpu{.uuid = model::test_uuid(i)};
      gpu.index = static_cast<std::uint32_t>(i);
      gpu.model = "H100";
      gpu.memory = gib(80);
      state_.gpus.push_back(gpu);
    }
  }

  [[nodiscard]] const std::string& node() const override { return state_.node; }
  void send(agent::Order order, Reply reply) override {
    if (before) before(order);
    reply(answer(order));
  }
  void listen(Listener listener) override {
    const std::lock_guard lock(mutex_);
    listener_ = std::move(listener);
  }
  [[nodiscard]] Result<UniqueFd> open_stream(const agent::StreamOrder& /*order*/) override {
    return err(ErrorCode::kUnsupported, "no streams here");
  }

  // What the GPUs hold, in thousandths, together with `more`.
  [[nodiscard]] bool fits(const std::vector<model::Slice>& more) const {
    std::map<model::GpuUuid, std::uint32_t> sum;
    for (const auto& [key, held] : held_) {
      for (const model::Slice& slice : held.slices) sum[slice.gpu()] += slice.share().thousandths();
    }
    for (const model::Slice& slice : more) sum[slice.gpu()] += slice.share().thousandths();
    return std::ranges::all_of(sum, [](const auto& one) { return one.second <= Share::kWhole; });
  }
  [[nodiscard]] std::vector<agent::HeldSlices> held() const {
    const std::lock_guard lock(mutex_);
    std::vector<agent::HeldSlices> all;
    for (const auto& [key, one] : held_) all.push_back(one);
    return all;
  }
  void hold(agent::HeldSlices held) { held_[held.key] = std::move(held); }
  // A process of somebody is still there.
  bool in_use = false;
  Power* power = nullptr;
  // Called with every order, from the thread that gives it.
  std::function<void(const agent::Order&)> before;

  void fail_gpu(std::size_t index, const std::string& why) {
    state_.gpus[index].lost = true;
    state_.gpus[index].resting = why;
    const std::lock_guard lock(mutex_);
    if (listener_) listener_(agent::StateChanged{state_});
  }

 private:
  Result<agent::Answer> answer(const agent::Order& order) {
    const std::lock_guard lock(mutex_);
    if (std::holds_alternative<agent::ListOrder>(order)) {
      if (power != nullptr && power->is_off()) return err(dead());
      agent::Listing listing{.state = state_};
      for (const auto& [key, one] : held_) listing.held.push_back(one);
      return agent::Answer(listing);
    }
    const Power::Step step = power == nullptr ? Power::Step::kDone : power->step();
    if (step == Power::Step::kNotDone) return err(dead());
    Result<agent::Answer> result = err(ErrorCode::kUnsupported, "not here");
    if (const auto* grant = std::get_if<agent::GrantOrder>(&order)) result = carry_out(*grant);
    if (const auto* end = std::get_if<agent::ReleaseOrder>(&order)) result = carry_out(*end);
    if (step == Power::Step::kDoneUnheard) return err(dead());
    return result;
  }
  Result<agent::Answer> carry_out(const agent::GrantOrder& order) {
    auto found = held_.find(order.key);
    if (found != held_.end() && found->second.slices != order.slices) {
      return err(ErrorCode::kAlreadyExists, "it holds other slices");
    }
    if (found == held_.end()) {
      if (!fits(order.slices)) return err(ErrorCode::kResourceExhausted, "somebody else has them");
      agent::HeldSlices held{
          .key = order.key, .holder = order.holder, .tenant = model::TenantId(next_++)};
      held.name = order.name;
      held.command = order.command;
      held.slices = order.slices;
      held.job_class = order.job_class;
      found = held_.emplace(order.key, std::move(held)).first;
    }
    agent::Granted granted;
    granted.tenant = found->second.tenant;
    granted.environment["DIVVY_SOCKET"] = fmt::format("/run/t/{}/s/sock", found->second.tenant);
    return agent::Answer(granted);
  }
  Result<agent::Answer> carry_out(const agent::ReleaseOrder& order) {
    if (in_use && held_.contains(order.key)) {
      return err(ErrorCode::kFailedPrecondition, "processes use it");
    }
    held_.erase(order.key);
    return agent::Answer(agent::Released{});
  }

  mutable std::mutex mutex_;
  Listener listener_;
  agent::MachineState state_;
  std::map<model::MemberKey, agent::HeldSlices> held_;
  std::uint64_t next_ = 1;
};

class FakeDevices final : public ClaimDevices {
 public:
  Status publish(const inject::ClaimedSlices& claim) override {
    return change([&] {
      std::set<std::string>& names = files[claim.uid];
      names.clear();
      for (const inject::HeldSlice& one : claim.devices) {
        names.insert(one.name);
        socket_wait_seconds = one.socket_wait_seconds;
      }
    });
  }
  Status withdraw(const std::string& uid) override {
    return change([&] { files.erase(uid); });
  }
  Status keep_only(const std::set<std::string>& uids) override {
    return change(
        [&] { std::erase_if(files, [&](const auto& one) { return !uids.contains(one.first); }); });
  }

  std::map<std::string, std::set<std::string>> files;  // the devices of each claim
  std::uint32_t socket_wait_seconds = 0;               // of the one published last
  Power* power = nullptr;

 private:
  Status change(const std::function<void()>& what) {
    const std::lock_guard lock(mutex_);
    const Power::Step step = power == nullptr ? Power::Step::kDone : power->step();
    if (step != Power::Step::kNotDone) what();
    return step == Power::Step::kDone ? Status() : Status(err(dead()));
  }
  std::mutex mutex_;
};

inline model::Slice test_slice(std::uint64_t gpu, std::uint32_t share) {
  return model::Slice::create(model::test_uuid(gpu), gib(8), Share(share),
                              model::ShareKind::kGuarantee)
      .value();
}

// A claim with these slices in namespace "a" at the API server; its uid.
inline std::string put_claim(kube::FakeApi& api, const std::string& name,
                             std::vector<kube::AllocatedSlice> slices,
                             const std::string& node = kNode, const std::string& pod = "pod-1") {
  kube::Allocation allocation{.node = node, .slices = std::move(slices), .at = {}};
  const auto made = api.put(
      kClaims, {{"apiVersion", "resource.k8s.io/v1"},
                {"kind", "ResourceClaim"},
                {"metadata", boost::json::object{{"name", name}, {"namespace", "a"}}},
                {"status", boost::json::object{
                               {"allocation", kube::write_allocation(allocation)},
                               {"reservedFor",
                                boost::json::array{boost::json::object{
                                    {"resource", "pods"}, {"name", pod}, {"uid", "pod-uid"}}}}}}});
  return std::string(made.at("metadata").at("uid").as_string());
}

inline constexpr const char* kPods = "/api/v1/namespaces/a/pods";

// A pod that goes by slots in namespace "a", bound and with these slices, each for the container
// that its request names; its uid.
inline std::string put_pod(kube::FakeApi& api, const std::string& name,
                           std::vector<kube::AllocatedSlice> slices,
                           const std::string& node = kNode) {
  model::Request::Parts parts;
  std::vector<std::string> names;
  boost::json::array containers;
  for (const kube::AllocatedSlice& one : slices) {
    if (std::ranges::find(names, one.request) != names.end()) continue;
    names.push_back(one.request);
    containers.push_back(boost::json::object{{"name", one.request}});
  }
  parts.gang_size = static_cast<std::uint32_t>(names.size());
  model::JobSpec spec(model::Request::parse("0.1", std::nullopt, parts).value());
  spec.holder = model::Holder::kSlice;
  kube::PodRequest request(std::move(spec));
  request.dialect = "divvy";
  request.containers = names;
  request.init_containers = {"warm"};
  request.way = kube::Way::kSlots;
  const kube::Allocation allocation{.node = node, .slices = std::move(slices), .at = {}};
  const auto made = api.put(
      kPods,
      {{"metadata",
        boost::json::object{
            {"name", name},
            {"namespace", "a"},
            {"annotations",
             boost::json::object{
                 {kube::kRequestAnnotation, kube::write_request_annotation(request)},
                 {kube::kAllocationAnnotation, kube::write_allocation_annotation(allocation)}}}}},
       {"spec", boost::json::object{{"nodeName", node},
                                    {"initContainers",
                                     boost::json::array{boost::json::object{{"name", "warm"}}}},
                                    {"containers", std::move(containers)}}},
       {"status", boost::json::object{{"phase", "Pending"}}}});
  return std::string(made.at("metadata").at("uid").as_string());
}
inline void set_phase(kube::FakeApi& api, const std::string& pod, const std::string& phase) {
  auto object = api.get(std::string(kPods) + "/" + pod).value();
  object["status"] = boost::json::object{{"phase", phase}};
  api.put(kPods, std::move(object));
}

}  // namespace divvy::kubelet::testing
