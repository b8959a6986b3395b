// A gang as a job of the queue: what it asks for, how near to each other its members are, and where
// those go that join it later.
#include <algorithm>

#include "base/log.h"
#include "kube/cluster_queue.h"
#include "kube/node_affinity.h"
#include "model/name.h"

namespace divvy::kube {
namespace {

std::string words(const model::Request& request) {
  std::string text;
  if (request.share() != Share(0)) text = fmt::format("{} GPU", request.share());
  if (request.memory()) {
    text += fmt::format("{}{} of GPU memory", text.empty() ? "" : " with ", *request.memory());
  }
  return text;
}

Result<model::Request> for_members(const model::Request& one, std::size_t members) {
  return model::Request::create({
      .share = one.share(),
      .memory = one.memory(),
      .kind = one.kind(),
      .allowed_models = one.allowed_models(),
      .denied_models = one.denied_models(),
      .topology = one.topology(),
      .gang_size = static_cast<std::uint32_t>(members),
  });
}

}  // namespace

// Members of one job ask for the same.
Status ClusterQueue::check_alike(const Gang& gang, const std::vector<Work*>& works) const {
  const PodFacts& first = works.front()->pod;
  constexpr std::string_view kRemedy =
      "annotate them with divvy.dev/gang: none to have each started by itself";
  for (const Work* const work : works) {
    const PodFacts& pod = work->pod;
    if (!pod.request) return err(pod.request.error());
    if (!pod.by_slots && pod.claim.empty()) {
      return err(ErrorCode::kInvalidArgument,
                 "{} names no resource claim of Divvy's; create it again, through Divvy's webhook",
                 pod.object.name);
    }
    if (pod.gated_by_others) {
      return err(ErrorCode::kInvalidArgument,
                 "{} has other scheduling gates besides Divvy's, which go first", pod.object.name);
    }
    if (pod.request->containers.size() != 1) {
      return err(ErrorCode::kInvalidArgument,
                 "{}: {} containers of {} ask for GPUs; in a gang one container of each pod does: "
                 "ask in one, or {}",
                 gang.reference.describe(), pod.request->containers.size(), pod.object.name,
                 kRemedy);
    }
    const bool alike = pod.request->spec.request == first.request->spec.request &&
                       pod.request->spec.devices == first.request->spec.devices &&
                       pod.request->spec.mode == first.request->spec.mode;
    if (!alike) {
      return err(ErrorCode::kInvalidArgument,
                 "{}: {} asks for {} and {} for {}; the pods of a gang ask for the same: let them, "
                 "or {}",
                 gang.reference.describe(), first.object.name, words(first.request->spec.request),
                 pod.object.name, words(pod.request->spec.request), kRemedy);
    }
    if (pod.node_selector != first.node_selector) {
      return err(ErrorCode::kInvalidArgument,
                 "{}: {} and {} have another nodeSelector; the pods of a gang have the same: let "
                 "them, or {}",
                 gang.reference.describe(), first.object.name, pod.object.name, kRemedy);
    }
  }
  return {};
}

// As its pods say, or else as its object does.
model::Near ClusterQueue::nearness(const Gang& gang, const Work& first) const {
  const model::Near said = first.pod.request->spec.where.members_near;
  if (said.closeness != model::Closeness::kAnywhere || !gang.size) return said;
  const std::string& label = gang.size->topology;
  if (label == options_.topology.zone) return {model::Closeness::kZone, true};
  if (label == options_.topology.rack) return {model::Closeness::kRack, true};
  if (label == "kubernetes.io/hostname") return {model::Closeness::kNode, true};
  return said;
}

Result<model::JobSpec> ClusterQueue::gang_spec(const Gang& gang, const std::vector<Work*>& works,
                                               WallTime /*now*/) {
  const PodFacts& first = works.front()->pod;
  model::JobSpec spec = first.request->spec;
  DIVVY_TRY(request, for_members(spec.request, works.size()));
  spec.request = std::move(request);
  const std::string& name = gang.reference.name;
  spec.name = model::check_name("job", name) ? name : std::string();
  spec.queue = queue_of(gang.space, spec.queue);
  spec.holder = model::Holder::kPods;
  spec.hold_for_capacity = true;
  spec.preemptible = std::ranges::all_of(works, [this](const Work* w) { return may_make_way(*w); });
  spec.minimum_run = jobs::Seconds(1);
  for (const Work* const work : works) spec.grace = std::max(spec.grace, work->pod.grace);
  const std::size_t least = std::min(gang.least(), works.size());
  spec.least_members = least == works.size() ? 0 : static_cast<std::uint32_t>(least);
  spec.where.members_near = nearness(gang, *works.front());
  for (const auto& [label, value] : first.node_selector) spec.where.node_labels[label] = value;
  spec.where.tolerations = tolerated_by(first);
  for (const Work* const work : works) {
    const std::vector<std::string> theirs = tolerated_by(work->pod);
    std::erase_if(spec.where.tolerations, [&theirs](const std::string& taint) {
      return std::ranges::find(theirs, taint) == theirs.end();
    });
  }
  for (const auto& [node, until] : gang.avoided) spec.where.nodes_denied.push_back(node);
  for (const auto& [node, facts] : nodes_) {
    const bool admitted = std::ranges::all_of(works, [&facts](const Work* work) {
      return !work->pod.by_slots || admits(work->pod.affinity, facts);
    });
    if (!admitted && !gang.avoided.contains(node)) spec.where.nodes_denied.push_back(node);
  }
  return queue_->with_defaults(std::move(spec));
}

void ClusterQueue::submit_gang(Gang& gang, const std::vector<Work*>& works, WallTime now) {
  const std::string owner = gang.space.empty() ? "kubernetes" : gang.space;
  Status fine = check_alike(gang, works);
  std::optional<model::JobSpec> spec;
  if (fine) {
    auto made = gang_spec(gang, works, now);
    fine = made ? queue_->check(*made, owner) : Status(err(made.error()));
    if (made) spec = *std::move(made);
  }
  if (!fine) {
    keep_waiting(works, fine.error().message, now);
    return;
  }
  WallTime since = gang.size->created == WallTime() ? now : gang.size->created;
  for (const Work* const work : works) since = std::min(since, work->pod.object.created);
  gang.job = std::exchange(next_job_, next_job_.next());
  gang.queued = works.size();
  model::Job job(gang.job, owner, *std::move(spec), since);
  job.not_before = std::exchange(gang.not_before, std::nullopt);
  queue_->submit(std::move(job), now);
  std::vector<std::string>& pods = jobs_[gang.job];
  for (Work* const work : works) {
    work->stage = Stage::kQueued;
    work->job = gang.job;
    work->ranks = {static_cast<std::uint32_t>(pods.size())};
    work->bound_when_queued = work->pod.node;
    const bool was_missing = std::exchange(work->gang_is_missing, false);
    const std::string before = std::exchange(work->refusal, {});
    if (was_missing || !before.empty() || !work->told_queued) tell_soon(*work, now);
    pods.push_back(work->uid());
  }
  pass_due_ = true;
}

// The zone or rack of a node, or the node itself.
std::string ClusterQueue::place_in(const std::string& node, model::Closeness closeness) const {
  if (closeness == model::Closeness::kNode) return node;
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return {};
  const std::string& name =
      closeness == model::Closeness::kZone ? options_.topology.zone : options_.topology.rack;
  const auto label = found->second.labels.find(name);
  return label == found->second.labels.end() ? std::string() : label->second;
}

// Where a gang has to be together, whoever joins it goes where it is.
void ClusterQueue::stay_near(const Gang& gang, const Work& joining, model::JobSpec& spec) const {
  const model::Near near = nearness(gang, joining);
  if (!gang.runs || near.closeness == model::Closeness::kAnywhere || !near.required) return;
  for (const std::string& uid : gang.pods) {
    const auto other = works_.find(uid);
    if (other == works_.end() || uid == joining.uid() || !other->second.place) continue;
    const std::string place = place_in(other->second.place->node, near.closeness);
    for (const auto& [node, facts] : nodes_) {
      if (place_in(node, near.closeness) == place) continue;
      if (std::ranges::find(spec.where.nodes_denied, node) == spec.where.nodes_denied.end()) {
        spec.where.nodes_denied.push_back(node);
      }
      std::erase(spec.where.nodes, node);
    }
    return;
  }
}

}  // namespace divvy::kube
