#include "kube/pod_treatment.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>

#include "base/text.h"
#include "kube/object_names.h"
#include "kube/whole_number.h"

namespace divvy::kube {
namespace {

constexpr std::string_view kPrefix = "divvy.dev/";
constexpr std::array<std::string_view, 16> kKnown{
    "divvy.dev/gpu",       "divvy.dev/gpu-memory",  "divvy.dev/container", "divvy.dev/class",
    "divvy.dev/cap",       "divvy.dev/model",       "divvy.dev/not-model", "divvy.dev/topology",
    "divvy.dev/queue",     "divvy.dev/priority",    "divvy.dev/gang",      "divvy.dev/gang-size",
    "divvy.dev/gang-near", "divvy.dev/preemptible", "divvy.dev/movable",   "divvy.dev/request"};
// Of divvy.dev/gang: the pod stands alone, whatever it is a part of.
constexpr std::string_view kNoGang = "none";

template <typename T>
Result<T> parsed(const PodText& text, Result<T> value) {
  if (!value) return refuse(text.field, value.error().message);
  return value;
}

Status read_models(const PodView& pod, Reading& reading) {
  if (const auto text = pod.annotation("divvy.dev/model")) {
    DIVVY_TRY(models, comma_list(*text));
    reading.models = std::move(models);
  }
  if (const auto text = pod.annotation("divvy.dev/not-model")) {
    DIVVY_TRY(models, comma_list(*text));
    reading.models_denied = std::move(models);
  }
  return {};
}

Status read_gang(const PodView& pod, Reading& reading) {
  const auto name = pod.annotation("divvy.dev/gang");
  const auto size = pod.annotation("divvy.dev/gang-size");
  if (name && name->text == kNoGang && !size) {
    reading.gang = PodGang{.name = std::string(kNoGang), .size = 1};
    return {};
  }
  if (!name) {
    if (!size) return {};
    return refuse(size->field, "it needs divvy.dev/gang beside it: the name of the gang");
  }
  if (!size) return refuse(name->field, "it needs divvy.dev/gang-size beside it: how many pods");
  DIVVY_TRY(pods, whole_number(*size, model::Request::kMaxGangSize));
  if (pods == 0) return refuse(size->field, "a gang has at least one pod");
  reading.gang = PodGang{.name = std::string(name->text), .size = static_cast<std::uint32_t>(pods)};
  return {};
}

// "rack", or "rack, preferred"
Status read_nearness(const PodView& pod, Reading& reading) {
  const auto text = pod.annotation("divvy.dev/gang-near");
  if (!text) return {};
  DIVVY_TRY(words, comma_list(*text));
  const auto closeness = model::parse_closeness(words.empty() ? "" : words.front());
  const bool known =
      closeness && *closeness >= model::Closeness::kZone && *closeness <= model::Closeness::kNode;
  const bool preferred = words.size() == 2 && words.back() == "preferred";
  if (!known || (words.size() > 1 && !preferred)) {
    return refuse(text->field,
                  "the pods of a gang are on one node, rack or zone; write one of these, and "
                  "\", preferred\" after it where others will do");
  }
  reading.members_near = {*closeness, !preferred};
  return {};
}

Result<std::int32_t> parse_priority(const PodText& text) {
  const auto number = parse_whole_number<std::int32_t>(trim(text.text));
  constexpr std::int32_t kMost = model::JobSpec::kHighestPriority;
  if (!number || *number < -kMost || *number > kMost) {
    return refuse(text.field,
                  fmt::format("\"{}\" is no whole number from -{} to {}",
                              escape_for_terminal(text.text.substr(0, 60)), kMost, kMost));
  }
  return *number;
}

}  // namespace

Status read_treatment(const PodView& pod, Reading& reading) {
  if (const auto text = pod.annotation("divvy.dev/class")) {
    DIVVY_TRY(job_class, parsed(*text, model::parse_job_class(text->text)));
    reading.job_class = job_class;
  }
  if (const auto text = pod.annotation("divvy.dev/cap")) {
    DIVVY_TRY(cap, true_or_false(*text));
    for (ContainerAsk& ask : reading.asks) ask.asked.cap = cap;
  }
  DIVVY_RETURN_IF_ERROR(read_models(pod, reading));
  if (const auto text = pod.annotation("divvy.dev/topology")) {
    DIVVY_TRY(topology, parsed(*text, model::parse_topology_preference(text->text)));
    reading.topology = topology;
    reading.gpus_near = {};
  }
  if (const auto text = pod.annotation("divvy.dev/priority")) {
    DIVVY_TRY(priority, parse_priority(*text));
    reading.priority = priority;
  } else if (!reading.priority && pod.priority()) {
    // Kubernetes knows values up to two thousand million; beyond ours all are the highest.
    constexpr std::int64_t kMost = model::JobSpec::kHighestPriority;
    reading.priority = static_cast<std::int32_t>(std::clamp(*pod.priority(), -kMost, kMost));
  }
  if (const auto text = pod.annotation("divvy.dev/queue")) reading.queue = text;
  if (const auto text = pod.annotation("divvy.dev/preemptible")) {
    DIVVY_TRY(preemptible, true_or_false(*text));
    reading.preemptible = preemptible;
  }
  if (const auto text = pod.annotation(kMovableAnnotation)) {
    // For the controller, which reads it from the pod.
    const auto movable = true_or_false(*text);
    if (!movable) return err(movable.error());
  }
  DIVVY_RETURN_IF_ERROR(read_nearness(pod, reading));
  return read_gang(pod, reading);
}

Status check_known_annotations(const PodView& pod) {
  for (const auto& entry : pod.annotations()) {
    const std::string_view name = entry.key();
    if (!name.starts_with(kPrefix) || std::ranges::find(kKnown, name) != kKnown.end()) continue;
    if (name == kAllocationAnnotation) {
      return refuse(
          pod.annotation(name)->field,
          "only Divvy's controller writes it; if the pod is a copy of one that was placed, "
          "take it out, and the node affinity by metadata.name that came with it");
    }
    const auto meant = did_you_mean(name, std::span<const std::string_view>(kKnown));
    return refuse(pod.annotation(name)->field,
                  meant ? fmt::format("there is no such annotation; did you mean {}?", *meant)
                        : fmt::format("there is no such annotation; there are {}",
                                      fmt::join(kKnown.begin(), kKnown.end() - 1, ", ")));
  }
  return {};
}

}  // namespace divvy::kube
