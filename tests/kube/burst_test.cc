// Pods of random sizes that come in bursts and go in every way that pods go, while the invariants
// are looked at from outside: at no moment has a GPU more to give than it has, every program sees
// the slice of its own claim, and nothing is left at the end. KUBE_PODS=500 makes it long.
#include <fmt/format.h>
#include <stdlib.h>

#include <random>
#include <set>

#include "kube_slices.h"

namespace divvy::testing {
namespace {

namespace json = boost::json;

std::size_t pods_wanted() {
  const char* const text = ::getenv("KUBE_PODS");
  return text != nullptr ? static_cast<std::size_t>(::atoi(text)) : 40;
}

class KubeBurst : public KubeSlices {
 protected:
  json::object random_pod(const std::string& name) {
    static constexpr std::array kShares{"0.1", "0.2", "0.25", "0.3", "0.5", "0.7", "1", "2"};
    PodOptions options = gpuload(kShares.at(random_() % kShares.size()), {"sh", "-c", kProgram});
    options.restart_policy = random_() % 4 == 0 ? "OnFailure" : "Never";
    if (random_() % 5 == 0) options.node = random_() % 2 == 0 ? "node-1" : "node-2";
    return pod_document(name, options);
  }

  // What each pod's program saw is what its claim said while it had one.
  void note_allocations() {
    for (const json::value& claim : get_all("resourceclaims")) {
      const std::string pod = text_at(claim, "/metadata/ownerReferences/0/name");
      const std::string uid = text_at(claim, "/metadata/ownerReferences/0/uid");
      const json::value* const parameters =
          claim.as_object().contains("status")
              ? find(claim, "/status/allocation/devices/config/0/opaque/parameters")
              : nullptr;
      if (parameters == nullptr) continue;
      allocated_[uid] = {text_at(*parameters, "/gpu"), number_at(*parameters, "/memoryBytes"),
                         number_at(*parameters, "/shareThousandths")};
    }
  }
  void check_reports() {
    for (const json::value& pod : get_all("pods")) {
      const std::string phase = text_at(pod, "/status/phase");
      const std::string uid = text_at(pod, "/metadata/uid");
      if ((phase != "Running" && phase != "Succeeded") || checked_.contains(uid)) continue;
      const std::string name = text_at(pod, "/metadata/name");
      const Outcome logs = kubectl({"logs", name});
      boost::system::error_code wrong;
      const json::value info = json::parse(logs.out, wrong);
      const auto claim = allocated_.find(uid);
      if (wrong || claim == allocated_.end()) continue;
      checked_.insert(uid);
      EXPECT_EQ(text_at(info, "/device/uuid"), claim->second.gpu) << name;
      if (claim->second.share < 1000) {
        EXPECT_EQ(number_at(info, "/memory/device_total_bytes"), claim->second.bytes) << name;
      }
    }
  }

  struct Allocated {
    std::string gpu;
    std::int64_t bytes;
    std::int64_t share;
  };
  static const json::value* find(const json::value& object, std::string_view pointer) {
    boost::system::error_code wrong;
    return object.find_pointer(pointer, wrong);
  }

  static constexpr const char* kProgram =
      "gpuload info; case $((RANDOM % 4)) in 0) exec sleep infinity;; 1) exit 0;; *) sleep 2;; "
      "esac";
  std::mt19937 random_{20261118};
  std::map<std::string, Allocated> allocated_;
  std::set<std::string> checked_;
};

TEST_F(KubeBurst, NothingIsEverGivenTwiceAndNothingIsLeft) {
  const std::size_t wanted = pods_wanted();
  std::size_t made = 0;
  while (made < wanted) {
    json::array burst;
    const std::size_t size = std::min<std::size_t>(wanted - made, 1 + random_() % 20);
    for (std::size_t i = 0; i < size; ++i) {
      burst.push_back(random_pod(fmt::format("pod-{}", made++)));
    }
    const Outcome applied = apply_all(std::move(burst));
    ASSERT_EQ(applied.status, 0) << applied.err;
    note_allocations();
    expect_nothing_overbooked();
    // Some go, in one of the ways in which pods go.
    std::vector<std::string> politely{"delete", "pods", "--wait=false", "--ignore-not-found"};
    std::vector<std::string> forced = politely;
    forced.insert(forced.end(), {"--force", "--grace-period=0"});
    for (const json::value& pod : get_all("pods")) {
      const std::string phase = text_at(pod, "/status/phase");
      const bool over = phase == "Succeeded" || phase == "Failed";
      const auto dice = random_() % 10;
      if (dice < (over ? 8U : 2U)) politely.push_back(text_at(pod, "/metadata/name"));
      if (dice == 9) forced.push_back(text_at(pod, "/metadata/name"));
    }
    if (politely.size() > 4) must(politely);
    if (forced.size() > 6) kubectl(forced);
    note_allocations();
    check_reports();
    expect_nothing_overbooked();
    // Until most of them have had their turn: the cluster has four GPUs.
    ASSERT_TRUE(eventually([&] {
      note_allocations();
      check_reports();
      expect_nothing_overbooked();
      const json::array pods = get_all("pods");
      std::vector<std::string> over{"delete", "pods", "--wait=false", "--ignore-not-found"};
      std::size_t live = 0;
      for (const json::value& pod : pods) {
        const std::string phase = text_at(pod, "/status/phase");
        const bool runs = phase == "Running" && checked_.contains(text_at(pod, "/metadata/uid"));
        if (phase == "Succeeded" || runs) over.push_back(text_at(pod, "/metadata/name"));
        if (phase == "Pending") ++live;
        EXPECT_NE(phase, "Failed") << json::serialize(pod);
      }
      if (over.size() > 4) must(over);
      return live <= 10 || HasFailure();
    }));
    if (HasFailure()) return;
  }
  RecordProperty("checked", static_cast<int>(checked_.size()));
  std::cout << checked_.size() << " of " << made << " pods ran and saw the slice of their claim\n";
  EXPECT_GT(checked_.size(), made / 3);
  must({"delete", "pods", "--all", "--timeout=300s"});
  expect_nothing_left();
}

}  // namespace
}  // namespace divvy::testing
