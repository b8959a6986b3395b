#include "kube/queue_objects.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/text.h"
#include "kube/accepted_condition.h"
#include "kube/json_view.h"
#include "kube/quantity.h"
#include "model/name.h"
#include "model/seconds.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

constexpr std::size_t kDeepest = 8;

// A number that people write as one or as a text.
std::string text_of(const json::value& value) {
  if (value.is_string()) return std::string(value.get_string());
  return json::serialize(value);
}

Status read_share(const json::object& from, const char* field, const std::string& where,
                  std::optional<Share>& into) {
  const json::value* const value = from.if_contains(field);
  if (value == nullptr || value->is_null()) return {};
  DIVVY_TRY(share, with_context(parse_share(text_of(*value)), where + field));
  into = share;
  return {};
}

Status read_quota(const json::object& from, const std::string& where, jobs::Quota& into) {
  DIVVY_RETURN_IF_ERROR(read_share(from, "gpus", where, into.share));
  if (const json::value* const memory = from.if_contains("memory")) {
    DIVVY_TRY(bytes, with_context(whole_quantity(*memory), where + "memory"));
    into.memory = Bytes(bytes);
  }
  if (const auto jobs = number_at(from, {"jobs"})) {
    into.jobs = static_cast<std::uint32_t>(std::min<std::uint64_t>(*jobs, UINT32_MAX));
  }
  return {};
}

Status read_time(const json::object& from, const char* field, std::optional<jobs::Seconds>& into) {
  const std::string_view text = text_at(from, {field});
  if (text.empty()) return {};
  DIVVY_TRY(seconds, with_context(model::parse_seconds(text), fmt::format("spec.{}", field)));
  into = seconds;
  return {};
}

Status read_spec(const json::object& spec, QueueObject& queue) {
  jobs::QueueSettings& settings = queue.settings;
  queue.parent = text_at(spec, {"parent"});
  DIVVY_RETURN_IF_ERROR(read_quota(object_at(spec, {"quota"}), "spec.quota.", settings.quota));
  DIVVY_RETURN_IF_ERROR(
      read_quota(object_at(spec, {"perNamespace"}), "spec.perNamespace.", settings.per_user));
  DIVVY_RETURN_IF_ERROR(read_share(spec, "mostGpus", "spec.", settings.most_share));
  if (const json::value* const borrow = spec.if_contains("mayBorrow"); borrow != nullptr) {
    settings.may_borrow = !borrow->is_bool() || borrow->get_bool();
  }
  if (const auto weight = number_at(spec, {"weight"})) {
    settings.weight = static_cast<std::uint32_t>(std::min<std::uint64_t>(*weight, UINT32_MAX));
  }
  if (const json::value* const highest = spec.if_contains("highestPriority")) {
    boost::system::error_code code;
    settings.highest_priority = highest->to_number<std::int32_t>(code);
    if (code) return err(ErrorCode::kInvalidArgument, "spec.highestPriority: this is no number");
  }
  DIVVY_RETURN_IF_ERROR(read_time(spec, "defaultTimeLimit", settings.time.usual));
  DIVVY_RETURN_IF_ERROR(read_time(spec, "maxTimeLimit", settings.time.most));
  return {};
}

// "research/vision", from the top down.
Result<std::string> path_of(const QueueObject& queue, const QueueObjects& objects) {
  std::string path = queue.object.name;
  const QueueObject* here = &queue;
  for (std::size_t depth = 1; !here->parent.empty(); ++depth) {
    const auto parent = objects.find(here->parent);
    if (parent == objects.end()) {
      return err(ErrorCode::kNotFound, "spec.parent: there is no queue {}",
                 escape_for_terminal(here->parent.substr(0, 60)));
    }
    if (depth == kDeepest) {
      return err(ErrorCode::kInvalidArgument,
                 "spec.parent: queues are at most {} deep, and none is above itself", kDeepest);
    }
    here = &parent->second;
    path.insert(0, here->object.name + "/");
  }
  return path;
}

// "2" and not "2.000".
std::string short_number(std::uint64_t share) {
  std::string text = fmt::format("{}.{:03}", share / Share::kWhole, share % Share::kWhole);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

}  // namespace

Result<QueueObject> read_queue(const json::object& document) {
  DIVVY_TRY(object, read_object(document));
  QueueObject queue{.object = std::move(object)};
  queue.generation = number_at(document, {"metadata", "generation"}).value_or(0);
  queue.status = object_at(document, {"status"});
  const Status read = read_spec(object_at(document, {"spec"}), queue);
  if (!read) queue.problem = read.error().message;
  return queue;
}

ComposedQueues compose_queues(const jobs::Settings& base, const QueueObjects& objects) {
  ComposedQueues composed{.settings = base, .paths = {}, .problems = {}};
  for (const auto& [name, queue] : objects) {
    jobs::QueueSettings settings = queue.settings;
    std::string problem = queue.problem;
    if (problem.empty()) {
      auto path = path_of(queue, objects);
      if (path) {
        settings.path = *std::move(path);
      } else {
        problem = path.error().message;
      }
    }
    if (problem.empty()) {
      jobs::Settings alone;
      alone.queues = {settings};
      const Status fine = jobs::check(alone);
      if (!fine) problem = fine.error().message;
    }
    if (!problem.empty()) {
      composed.problems.emplace(name, std::move(problem));
      continue;
    }
    composed.paths.emplace(name, settings.path);
    std::erase_if(composed.settings.queues, [&settings](const jobs::QueueSettings& one) {
      return one.path == settings.path;
    });
    composed.settings.queues.push_back(std::move(settings));
  }
  return composed;
}

json::object queue_status(const QueueObject& queue, const jobs::QueueReport* report,
                          const std::string& problem, WallTime now) {
  json::object status{{"observedGeneration", queue.generation}};
  if (report != nullptr) {
    status["path"] = report->path;
    status["held"] = json::object{{"gpus", short_number(report->held.share)},
                                  {"memory", humanize(Bytes(report->held.memory))},
                                  {"jobs", report->held.jobs}};
    status["borrowed"] = json::object{{"gpus", short_number(report->borrowed)}};
    status["waiting"] = report->waiting;
  }
  status["conditions"] =
      accepted_condition(queue.status, problem.empty(), problem.empty() ? "Holds" : "Refused",
                         problem.empty() ? "its settings hold" : problem, now);
  return status;
}

}  // namespace divvy::kube
