// Policies that are objects of the cluster: how templates of pods are read, and what is told in
// their status. What they say of pods themselves is the webhook's business.
#include <boost/json.hpp>

#include "base/log.h"
#include "kube/cluster_queue.h"
#include "kube/namespace_policy.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

constexpr Duration kPolicyRest = 2s;
constexpr Duration kPolicyPauseAfterError = 10s;

json::object namespace_document(const NamespaceFacts& space) {
  return {{"metadata", space.metadata}};
}

}  // namespace

Status ClusterQueue::see_policy(const json::object& object) {
  DIVVY_TRY(policy, read_policy(object));
  const std::string name = policy.object.name;
  const auto known = policies_.find(name);
  if (known != policies_.end() && known->second.object.uid == policy.object.uid &&
      known->second.object.version >= policy.object.version) {
    return {};
  }
  policies_.insert_or_assign(name, std::move(policy));
  policies_told_ = false;
  return {};
}

void ClusterQueue::policy_gone(const ObjectFacts& object) {
  const auto known = policies_.find(object.name);
  if (known == policies_.end() || known->second.object.uid != object.uid) return;
  policies_.erase(known);
  policies_told_ = false;
}

DialectPolicy ClusterQueue::dialects_of(const std::string& space) const {
  const auto known = namespaces_.find(space);
  if (known == namespaces_.end()) return options_.dialects;
  const json::object document = namespace_document(known->second);
  const PolicyObject* const policy = find_policy(policies_, document);
  const DialectPolicy usual =
      policy == nullptr ? options_.dialects : policy->over(options_.dialects);
  return namespace_policy(document, usual).value_or(usual);
}

bool ClusterQueue::is_movable_in(const std::string& space) const {
  const auto known = namespaces_.find(space);
  if (known == namespaces_.end()) return false;
  const PolicyObject* const policy = find_policy(policies_, namespace_document(known->second));
  return policy != nullptr && policy->movable.value_or(false);
}

void ClusterQueue::tell_policies(WallTime now) {
  if (policies_told_ || policies_.empty() || now < telling_policies_rests_) return;
  policies_told_ = true;
  telling_policies_rests_ = now + kPolicyRest;
  std::map<std::string, std::size_t> holds_for;
  std::map<std::string, std::vector<std::string>> shadowed;
  for (const auto& [name, space] : namespaces_) {
    const json::object document = namespace_document(space);
    const PolicyObject* const holds = find_policy(policies_, document);
    for (const auto& [key, policy] : policies_) {
      if (policy.weight_for(document) == 0) continue;
      if (&policy == holds) {
        ++holds_for[key];
      } else {
        shadowed[key].push_back(name);
      }
    }
  }
  for (auto& [name, policy] : policies_) {
    const json::object status = policy_status(policy, holds_for[name], shadowed[name], now);
    if (status == policy.status || policies_busy_.contains(name)) continue;
    policies_busy_.insert(name);
    emit(ActionKind::kWritePolicy, name, fmt::format("/apis/divvy.dev/v1/policies/{}/status", name),
         json::array{
             json::object{{"op", "test"}, {"path", "/metadata/uid"}, {"value", policy.object.uid}},
             json::object{{"op", "add"}, {"path", "/status"}, {"value", status}}});
  }
}

void ClusterQueue::policy_done(const std::string& name, const Result<json::object>& result,
                               WallTime now) {
  policies_busy_.erase(name);
  policies_told_ = false;
  if (result) {
    if (const Status seen = see_policy(*result); !seen) {
      log_warning("policy not understood", {{"policy", name}, {"reason", seen.error().message}});
    }
    return;
  }
  telling_policies_rests_ = now + kPolicyPauseAfterError;
  log_debug("status of a policy not written",
            {{"policy", name}, {"reason", result.error().message}});
}

}  // namespace divvy::kube
