#include "sim/scenario_submit.h"

#include <array>
#include <limits>

#include "base/parse_error.h"
#include "base/text.h"
#include "model/name.h"
#include "place/request.h"

namespace divvy::sim {
namespace {

constexpr std::int64_t kMostMembers = std::numeric_limits<std::uint32_t>::max();
// Of jobs of which it is not said whose they are.
constexpr std::string_view kSomebody = "somebody";

Result<model::Request::Parts> read_parts(ScenarioLine& line) {
  model::Request::Parts parts;
  DIVVY_TRY(gpus, line.share_option("gpus"));
  parts.share = gpus.value_or(Share(0));
  DIVVY_TRY(memory, line.bytes_option("gpu-memory"));
  parts.memory = memory;
  DIVVY_TRY(members, line.number_option("members", 1, kMostMembers));
  parts.gang_size = static_cast<std::uint32_t>(members.value_or(1));
  parts.allowed_models = line.list_option("models");
  parts.denied_models = line.list_option("not-models");
  return parts;
}

// What is misspelt is told before what is missing because of it.
Result<model::Request> request_of(const ScenarioLine& line, model::Request::Parts parts) {
  if (parts.share == Share(0) && !parts.memory) {
    return line.wrong("the job asks for no GPU; write gpus=1, gpus=0.3 or gpu-memory=10GiB");
  }
  if (parts.memory == Bytes(0)) {
    return line.wrong("0 bytes of GPU memory cannot run anything; leave the memory out");
  }
  auto request = model::Request::create(std::move(parts));
  if (!request) return line.wrong(request.error());
  return *std::move(request);
}

Result<model::Where> read_where(ScenarioLine& line) {
  model::Where where;
  where.nodes = line.list_option("nodes");
  where.nodes_denied = line.list_option("not-nodes");
  DIVVY_TRY(labels, line.label_option("labels"));
  where.node_labels = std::move(labels);
  where.tolerations = line.list_option("tolerates");
  const std::array<std::tuple<std::string_view, model::Near*, bool>, 4> nears{
      {{"near", &where.gpus_near, true},
       {"prefer-near", &where.gpus_near, false},
       {"together", &where.members_near, true},
       {"prefer-together", &where.members_near, false}}};
  for (const auto& [option, near, required] : nears) {
    const auto text = line.option(option);
    if (!text) continue;
    if (near->closeness != model::Closeness::kAnywhere) {
      return line.wrong("a nearness is both required and preferred; leave one out");
    }
    DIVVY_TRY(level, line.closeness(*text));
    *near = {level, required};
  }
  if (const auto spread = line.option("spread")) {
    const std::size_t colon = spread->find(':');
    DIVVY_TRY(domain, line.closeness(spread->substr(0, colon)));
    where.spread = model::Spread{domain, 1};
    if (colon != std::string::npos) {
      DIVVY_TRY(most, line.whole_number(spread->substr(colon + 1), 1, kMostMembers));
      where.spread->most = static_cast<std::uint32_t>(most);
    }
  }
  return where;
}

Status read_times(ScenarioLine& line, Submit& submit) {
  model::JobSpec& spec = submit.spec;
  DIVVY_TRY(lasts, line.time_option("lasts"));
  submit.lasts = lasts;
  if (lasts) spec.expected = model::Seconds(std::max<place::Instant>(*lasts, 1));
  if (const auto expected = line.option("expected"); expected == "unknown") {
    spec.expected.reset();
  } else if (expected) {
    DIVVY_TRY(time, line.time(*expected));
    spec.expected = model::Seconds(time);
  }
  DIVVY_TRY(limit, line.time_option("time-limit"));
  if (limit) spec.time_limit = model::Seconds(*limit);
  DIVVY_TRY(run, line.time_option("min-run"));
  spec.minimum_run = model::Seconds(run.value_or(0));
  // Without it a job is gone as soon as it is told: what a scenario is about is who goes.
  DIVVY_TRY(grace, line.time_option("grace"));
  spec.grace = model::Seconds(grace.value_or(0));
  DIVVY_TRY(retries, line.number_option("retries", 0, 1'000));
  spec.retry.most = static_cast<std::uint32_t>(retries.value_or(0));
  DIVVY_TRY(pause, line.time_option("retry-pause"));
  if (pause) {
    spec.retry.pause = model::Seconds(*pause);
    spec.retry.longest_pause = std::max(spec.retry.longest_pause, spec.retry.pause);
  }
  return {};
}

Status read_relations(ScenarioLine& line, Submit& submit, const SubmitNames& names) {
  if (const auto queue = line.option("queue")) {
    DIVVY_TRY(path, names.queue(line, *queue));
    submit.spec.queue = path;
  }
  const auto user = line.option("user");
  const auto tenant = line.option("tenant");
  if (user && tenant) return line.wrong("user and tenant mean the same; leave one out");
  submit.owner = user ? *user : tenant.value_or(std::string(kSomebody));
  if (const auto named = model::check_name("user", submit.owner); !named) {
    return line.wrong(named.error());
  }
  for (const std::string& item : line.list_option("after")) {
    const std::size_t colon = item.find(':');
    DIVVY_TRY(job, names.job(line, item.substr(0, colon)));
    model::Dependency& dependency = submit.spec.after.emplace_back();
    dependency.job = job;
    if (colon == std::string::npos) continue;
    const auto kind = model::parse_dependency_kind(item.substr(colon + 1));
    if (!kind) return line.wrong(kind.error());
    dependency.kind = *kind;
  }
  return {};
}

}  // namespace

Result<Submit> read_submit(ScenarioLine& line, const std::string& name, const SubmitNames& names) {
  DIVVY_TRY(parts, read_parts(line));
  // The request is made when every option was read.
  Submit submit{model::JobSpec(model::Request::parse("1").value()), {}, {}};
  model::JobSpec& spec = submit.spec;
  spec.name = name;
  spec.command = {"scenario"};  // Every job has one; this one is never run.
  // What never fits waits and says why: that is what a scenario can look at.
  spec.hold_for_capacity = true;
  DIVVY_TRY(cpus, line.cpu_option("cpus"));
  spec.limits.cpu_milli = cpus;
  DIVVY_TRY(ram, line.bytes_option("ram"));
  spec.limits.ram = ram;
  DIVVY_TRY(least, line.number_option("least", 1, kMostMembers));
  spec.least_members = static_cast<std::uint32_t>(least.value_or(0));
  spec.devices = line.list_option("devices");
  DIVVY_TRY(where, read_where(line));
  spec.where = std::move(where);
  constexpr std::int64_t kHighest = model::JobSpec::kHighestPriority;
  DIVVY_TRY(priority, line.number_option("priority", -kHighest, kHighest));
  spec.priority = static_cast<std::int32_t>(priority.value_or(0));
  DIVVY_TRY(preemptible, line.yes_or_no("preemptible"));
  spec.preemptible = preemptible.value_or(true);
  if (const auto text = line.option("class")) {
    const auto job_class = model::parse_job_class(*text);
    if (!job_class) return line.wrong(job_class.error());
    spec.job_class = *job_class;
  }
  DIVVY_RETURN_IF_ERROR(read_times(line, submit));
  DIVVY_RETURN_IF_ERROR(read_relations(line, submit, names));
  DIVVY_RETURN_IF_ERROR(line.finish());
  DIVVY_TRY(request, request_of(line, std::move(parts)));
  spec.request = std::move(request);
  if (const auto checked = place::check(place::request_of(spec)); !checked) {
    return line.wrong(checked.error());
  }
  if (const auto checked = model::check(spec); !checked) return line.wrong(checked.error());
  return submit;
}

}  // namespace divvy::sim
