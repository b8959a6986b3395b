#include "jobs/spec_change.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "model/seconds.h"

namespace divvy::jobs {
namespace {

using model::JobSpec;

// "priority 7 instead of 0, queue b instead of a"
class Differences {
 public:
  void add(std::string_view what, const std::string& now, const std::string& before) {
    if (now == before) return;
    text_ += fmt::format("{}{} {} instead of {}", text_.empty() ? "" : ", ", what, now, before);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string time_text(const std::optional<model::Seconds>& time) {
  return time ? model::seconds_text(*time) : "none";
}

std::string gpu_text(const JobSpec& spec) {
  return spec.request.by_memory() ? "by memory" : to_string(spec.request.share());
}

std::string memory_text(const JobSpec& spec) {
  return spec.request.memory() ? to_string(*spec.request.memory()) : "as of the GPU";
}

}  // namespace

std::string other_place(const JobSpec& now, const JobSpec& before) {
  Differences place;
  place.add("queue", now.queue, before.queue);
  place.add("gpu", gpu_text(now), gpu_text(before));
  place.add("gpu_memory", memory_text(now), memory_text(before));
  place.add("members", std::to_string(now.members()), std::to_string(before.members()));
  return place.text();
}

std::string other_rules(const JobSpec& now, const JobSpec& before) {
  Differences rules;
  rules.add("priority", std::to_string(now.priority), std::to_string(before.priority));
  rules.add("time_limit", time_text(now.time_limit), time_text(before.time_limit));
  rules.add("expected", time_text(now.expected), time_text(before.expected));
  return rules.text();
}

}  // namespace divvy::jobs
