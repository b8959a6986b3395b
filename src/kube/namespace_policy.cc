#include "kube/namespace_policy.h"

#include <algorithm>

#include "base/text.h"
#include "kube/json_view.h"
#include "kube/whole_number.h"

namespace divvy::kube {
namespace {

constexpr std::string_view kNvidiaGpusLabel = "divvy.dev/nvidia-gpus";
constexpr std::string_view kReplicasLabel = "divvy.dev/replicas-per-gpu";
constexpr std::string_view kLeftAloneAnnotation = "divvy.dev/left-alone";
// A share is in thousandths.
constexpr std::uint32_t kMostReplicas = 1000;

Error at(const boost::json::object& name_space, std::string_view part, std::string_view field,
         std::string_view message) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("namespace {}, metadata.{}[\"{}\"]: {}",
                      text_at(name_space, {"metadata", "name"}), part, field, message)};
}

}  // namespace

Result<std::vector<std::string>> parse_dialects(std::string_view text) {
  const std::vector<std::string_view> known = dialect_names();
  std::vector<std::string> names;
  for (const std::string_view piece : split(text, ',')) {
    const std::string name(trim(piece));
    if (name.empty()) continue;
    if (std::ranges::find(known, name) == known.end()) {
      return err(ErrorCode::kInvalidArgument, "there is no dialect \"{}\"; there are {}",
                 escape_for_terminal(name.substr(0, 60)), fmt::join(known, ", "));
    }
    names.push_back(name);
  }
  return names;
}

Result<DialectPolicy> namespace_policy(const boost::json::object& name_space, DialectPolicy usual) {
  const std::string_view meaning = text_at(name_space, {"metadata", "labels", kNvidiaGpusLabel});
  if (!meaning.empty()) {
    const auto parsed = parse_nvidia_gpus(meaning);
    if (!parsed) return err(at(name_space, "labels", kNvidiaGpusLabel, parsed.error().message));
    usual.nvidia_gpus = *parsed;
  }
  const std::string_view replicas = text_at(name_space, {"metadata", "labels", kReplicasLabel});
  if (!replicas.empty()) {
    const auto number = parse_whole_number<std::uint32_t>(replicas);
    if (!number || *number == 0 || *number > kMostReplicas) {
      return err(at(name_space, "labels", kReplicasLabel,
                    "it is how many replicas a GPU counts for; write 1 to 1000"));
    }
    usual.replicas_per_gpu = *number;
  }
  if (usual.nvidia_gpus == NvidiaGpus::kReplicas && usual.replicas_per_gpu == 0) {
    return err(at(name_space, "labels", kNvidiaGpusLabel,
                  fmt::format("replicas of how many? write it in \"{}\"", kReplicasLabel)));
  }
  const std::string_view alone =
      text_at(name_space, {"metadata", "annotations", kLeftAloneAnnotation});
  if (!alone.empty()) {
    auto parsed = parse_dialects(alone);
    if (!parsed) {
      return err(at(name_space, "annotations", kLeftAloneAnnotation, parsed.error().message));
    }
    usual.left_alone = *std::move(parsed);
  }
  return usual;
}

}  // namespace divvy::kube
