// Claims for our device class that people wrote, or that Kubernetes made from a template of theirs.
// Such a claim says itself what it is for, and pods only refer to it: they have neither gate nor
// annotation, and kube-scheduler waits for the allocation. The first pod that wants the claim
// speaks for it: that pod is the job, and is told why it waits. Any other just uses the claim when
// it is allocated. When the speaker has ended and the claim was given back, the next one speaks.
#include "kube/claim_request.h"
#include "kube/cluster_queue.h"

namespace divvy::kube {

void ClusterQueue::see_referring(PodFacts facts) {
  const std::string key = facts.object.key();
  const auto known = referring_.find(key);
  if (known != referring_.end()) {
    const ObjectFacts& before = known->second.object;
    const bool older = before.uid == facts.object.uid ? before.version >= facts.object.version
                                                      : before.version > facts.object.version;
    if (older) return;
    forget_referring(key);
  }
  for (const std::string& name : facts.refers_to) {
    referrers_[facts.object.space + "/" + name].emplace(facts.object.created, key);
  }
  const PodFacts& now = referring_.emplace(key, std::move(facts)).first->second;
  // The one that speaks is known by its new facts, but for what its claim says.
  if (Work* const work = find(now.object.uid)) {
    PodFacts changed = now;
    changed.claim = work->pod.claim;
    changed.request = work->pod.request;
    work->pod = std::move(changed);
    touch(work->uid());
  }
  for (const std::string& name : now.refers_to) find_speaker(now.object.space + "/" + name);
}

void ClusterQueue::forget_referring(const std::string& key) {
  const auto node = referring_.extract(key);
  if (node.empty()) return;
  const PodFacts& facts = node.mapped();
  for (const std::string& name : facts.refers_to) {
    const auto all = referrers_.find(facts.object.space + "/" + name);
    if (all == referrers_.end()) continue;
    all->second.erase({facts.object.created, key});
    if (all->second.empty()) referrers_.erase(all);
  }
}

void ClusterQueue::find_speaker(const std::string& claim_key) {
  const auto found = claims_.find(claim_key);
  if (found == claims_.end() || !found->second.by_hand) return;
  ClaimFacts& claim = found->second;
  if (Work* const speaker = find(claim.owner)) {
    // Until it has let go nobody else can have the claim; and what it holds is its own.
    if (speaker->lives() || speaker->stage != Stage::kIdle) return;
  }
  const auto all = referrers_.find(claim_key);
  if (all == referrers_.end()) return;
  for (const auto& [created, key] : all->second) {
    const PodFacts& pod = referring_.at(key);
    if (pod.deleting || pod.ended) continue;
    Work* work = find(pod.object.uid);
    // A pod speaks for one claim. Of another one it would be told two things.
    if (work != nullptr && work->pod.claim != claim.object.name) continue;
    PodFacts facts = pod;
    facts.claim = claim.object.name;
    // What is allocated was asked for under the policy of then.
    const DialectPolicy policy =
        claim.allocation ? DialectPolicy{} : dialects_of(claim.object.space);
    const auto asked = read_claim_request(claim.document, policy);
    if (!asked) {
      facts.request = err(asked.error());
    } else if (*asked) {
      facts.request = **asked;
    }
    if (work != nullptr) {
      work->pod = std::move(facts);
    } else {
      work = &works_.emplace(pod.object.uid, std::move(facts)).first->second;
      uids_[key] = pod.object.uid;
    }
    claim.owner = pod.object.uid;
    holdings_changed_ = true;
    touch(claim.owner);
    return;
  }
}

}  // namespace divvy::kube
