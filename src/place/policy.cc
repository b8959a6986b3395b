#include "place/policy.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "place/policies.h"

namespace divvy::place {
namespace {

constexpr std::array<PolicyInfo, 10> kPolicies{{
    {"divvy", "the default: keeps what is left useful for what usually comes"},
    {"fgd", "least growth of fragmentation (ATC'23)"},
    {"bestfit", "the node with the least left afterwards"},
    {"packing", "GPUs in use first, idle nodes last"},
    {"clustering", "members of one kind together"},
    {"dotprod", "smallest product of what is free and what is asked"},
    {"random", "any node on which it fits"},
    {"bundle", "as few nodes in use as possible"},
    {"spread", "the node with the most left"},
    {"topology", "GPUs close together, islands kept whole"},
}};

// Several policies by weights. The first one chooses the GPUs; all of them judge that.
class Weighted : public Policy {
 public:
  struct Part {
    std::unique_ptr<Policy> policy;
    float weight = 1;
  };
  explicit Weighted(std::vector<Part> parts) : parts_(std::move(parts)) {}

  void prepare(const Cluster& cluster, const Workload& workload) override {
    for (const Part& part : parts_) part.policy->prepare(cluster, workload);
  }
  Choice choose(const NodeView& node, const Ask& ask) override {
    return parts_.front().policy->choose(node, ask);
  }
  float score(const NodeView& node, const Ask& ask, const Choice& choice) override {
    float sum = 0;
    for (const Part& part : parts_) sum += part.weight * part.policy->score(node, ask, choice);
    return sum;
  }
  [[nodiscard]] bool compares() const override {
    return std::ranges::any_of(parts_, [](const Part& part) { return part.policy->compares(); });
  }
  void compare(const Ask& ask, std::span<Candidate> candidates) override {
    std::vector<Candidate> judged(candidates.begin(), candidates.end());
    for (Candidate& candidate : candidates) candidate.score = 0;
    for (const Part& part : parts_) {
      if (part.policy->compares()) part.policy->compare(ask, judged);
      for (std::size_t i = 0; i < judged.size(); ++i) {
        candidates[i].score += part.weight * judged[i].score;
      }
    }
  }

 private:
  std::vector<Part> parts_;
};

Result<std::unique_ptr<Policy>> make_one(std::string_view name, std::uint64_t seed) {
  if (name == "divvy") return make_divvy();
  if (name == "fgd") return make_fgd();
  if (name == "bestfit") return make_bestfit();
  if (name == "packing") return make_packing();
  if (name == "clustering") return make_clustering();
  if (name == "dotprod") return make_dotprod();
  if (name == "random") return make_random(seed);
  if (name == "bundle") return make_bundle();
  if (name == "spread") return make_spread();
  if (name == "topology") return make_topology();
  std::vector<std::string_view> names;
  names.reserve(kPolicies.size());
  for (const PolicyInfo& info : kPolicies) names.push_back(info.name);
  const auto near = did_you_mean(name, names);
  return err(ErrorCode::kInvalidArgument, "there is no policy \"{}\"; {}",
             escape_for_terminal(name.substr(0, 40)),
             near ? fmt::format("did you mean {}?", *near)
                  : fmt::format("there are {}", fmt::join(names, ", ")));
}

Result<float> parse_weight(std::string_view text) {
  char* end = nullptr;
  const std::string copy(text);
  const float weight = std::strtof(copy.c_str(), &end);
  if (end == copy.c_str() || *end != 0 || !(weight > 0) || weight > 1e6F) {
    return err(ErrorCode::kInvalidArgument, "\"{}\" is no weight; write a number above 0",
               escape_for_terminal(text.substr(0, 40)));
  }
  return weight;
}

}  // namespace

void Policy::prepare(const Cluster& /*cluster*/, const Workload& /*workload*/) {}

Choice Policy::choose(const NodeView& node, const Ask& ask) { return tightest(node, ask); }

Offer Policy::offer(const NodeView& node, const Ask& ask) {
  const Choice choice = choose(node, ask);
  return {choice, score(node, ask, choice) + kNearWeight * nearness(node, choice)};
}

void Policy::offer_all(std::span<const NodeView> nodes, const Ask& ask, std::span<float> scores) {
  for (std::size_t i = 0; i < nodes.size(); ++i) scores[i] = offer(nodes[i], ask).score;
}

void Policy::compare(const Ask& /*ask*/, std::span<Candidate> /*candidates*/) {}

std::span<const PolicyInfo> policies() { return kPolicies; }

Result<std::unique_ptr<Policy>> make_policy(std::string_view text, std::uint64_t seed) {
  if (text.find_first_of(",=") == std::string_view::npos) return make_one(trim(text), seed);
  std::vector<Weighted::Part> parts;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), piece.size() + 1));
    const std::size_t equals = piece.find('=');
    Weighted::Part part;
    DIVVY_TRY(policy, make_one(trim(piece.substr(0, equals)), seed));
    part.policy = std::move(policy);
    if (equals != std::string_view::npos) {
      DIVVY_TRY(weight, parse_weight(trim(piece.substr(equals + 1))));
      part.weight = weight;
    }
    parts.push_back(std::move(part));
  }
  if (parts.empty()) return err(ErrorCode::kInvalidArgument, "no policy is named");
  return std::unique_ptr<Policy>(std::make_unique<Weighted>(std::move(parts)));
}

}  // namespace divvy::place
