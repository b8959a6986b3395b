#include "model/job_spec.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/text.h"
#include "model/name.h"
#include "model/seconds.h"

namespace divvy::model {
namespace {

constexpr std::array<std::string_view, 2> kClassNames{"batch", "latency"};
constexpr std::array<std::string_view, 4> kHolderNames{"members", "process", "slice", "pods"};
constexpr std::array<std::string_view, 3> kDependencyNames{"succeeded", "failed", "ended"};
constexpr std::array<std::string_view, 16> kUlimitNames{
    "as",   "core",   "cpu",   "data", "fsize",  "locks",  "memlock",    "msgqueue",
    "nice", "nofile", "nproc", "rss",  "rtprio", "rttime", "sigpending", "stack"};

constexpr std::uint32_t kMostRetries = 1000;
constexpr std::size_t kMostDependencies = 1000;
constexpr std::size_t kMostLabels = 64;
constexpr std::size_t kLongestLabel = 256;
constexpr std::size_t kLongestVariable = 256;
constexpr std::size_t kDeepestQueue = 8;
// The kernel takes no longer argument or variable (MAX_ARG_STRLEN), and in all no more than a
// quarter of the stack's limit, which is 2 MiB where nobody changed it.
constexpr std::size_t kLongestText = 128 * 1024 - 1;
constexpr std::size_t kLongestTexts = 1024 * 1024;
constexpr std::size_t kLongestPath = 4095;

tl::unexpected<Error> wrong(std::string_view field, std::string_view what) {
  return err(ErrorCode::kInvalidArgument, "{}: {}", field, what);
}

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 60;
  return text.size() <= kMost ? escape_for_terminal(text)
                              : escape_for_terminal(text.substr(0, kMost)) + "...";
}

bool has_control(std::string_view text) {
  return std::ranges::any_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

Status check_time(std::string_view field, Seconds time, Seconds shortest) {
  if (time < shortest) {
    return wrong(field, fmt::format("{} s is too short; take at least {} s", time.count(),
                                    shortest.count()));
  }
  if (time > kLongestTime) {
    return wrong(field, fmt::format("{} s is longer than {} days", time.count(),
                                    std::chrono::floor<std::chrono::days>(kLongestTime).count()));
  }
  return {};
}

Status check_path(std::string_view field, std::string_view path) {
  if (!path.starts_with('/')) {
    return wrong(field, fmt::format("\"{}\" is no absolute path; begin it with /", shown(path)));
  }
  if (path.size() > kLongestPath) {
    return wrong(field, fmt::format("the path is longer than {} characters", kLongestPath));
  }
  if (has_control(path)) {
    return wrong(field, fmt::format("\"{}\" has a control character in it", shown(path)));
  }
  return {};
}

// Counts what the kernel has to carry over into the new program.
Status check_text(const std::string& field, std::string_view text, std::size_t& in_all) {
  if (text.find('\0') != std::string_view::npos) {
    return wrong(field, "a zero byte is in it, which no program can be given");
  }
  if (text.size() > kLongestText) {
    return wrong(field,
                 fmt::format("it has {} characters and at most {} can be passed to a program",
                             text.size(), kLongestText));
  }
  in_all += text.size() + 1;
  if (in_all > kLongestTexts) {
    return wrong(field,
                 fmt::format("command and environment together are longer than {} characters",
                             kLongestTexts));
  }
  return {};
}

// What Divvy itself sets for a member, or what would change its slices.
bool is_ours(std::string_view variable) {
  constexpr std::string_view kOurs[] = {"LD_PRELOAD", "CUDA_VISIBLE_DEVICES"};
  return variable.starts_with("DIVVY_") || variable.starts_with("CUDA_MPS_") ||
         std::ranges::find(kOurs, variable) != std::end(kOurs);
}

bool is_variable(std::string_view name) {
  const auto is_inner = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && !(name.front() >= '0' && name.front() <= '9') &&
         std::ranges::all_of(name, is_inner);
}

Status check_secrets(const JobSpec& spec) {
  if (spec.secrets.size() > JobSpec::kMostSecrets) {
    return wrong("secrets", fmt::format("there are more than {}", JobSpec::kMostSecrets));
  }
  for (const auto& [variable, name] : spec.secrets) {
    const std::string field = fmt::format("secrets.{}", shown(variable));
    if (!is_variable(variable) || variable.size() > kLongestVariable) {
      return wrong(field, "this is not the name of a variable, like HF_TOKEN");
    }
    if (is_ours(variable)) return wrong(field, "this variable is Divvy's to set");
    if (spec.environment.contains(variable)) {
      return wrong(field, "environment has this variable, too; leave it out of one of them");
    }
    DIVVY_RETURN_IF_ERROR(with_context(check_name("secret", name), field));
  }
  if (!spec.secrets.empty() && spec.holder != Holder::kMembers) {
    return wrong("secrets", "they are given to what Divvy starts, and this it does not start");
  }
  return {};
}

Status check_program(const JobSpec& spec) {
  std::size_t in_all = 0;
  if (spec.command.empty() && !spec.container && spec.holder == Holder::kMembers) {
    return wrong("command", "nothing to run; write the command after --");
  }
  for (std::size_t i = 0; i < spec.command.size(); ++i) {
    DIVVY_RETURN_IF_ERROR(check_text(fmt::format("command[{}]", i), spec.command[i], in_all));
  }
  if (!spec.command.empty() && spec.command.front().empty()) {
    return wrong("command[0]", "the name of the program is empty");
  }
  for (const auto& [name, value] : spec.environment) {
    if (name.empty()) return wrong("environment", "a variable has no name");
    const std::string field = fmt::format("environment.{}", shown(name));
    if (name.find('=') != std::string::npos) {
      return wrong(field, "the name of a variable cannot have = in it");
    }
    DIVVY_RETURN_IF_ERROR(check_text(field, name, in_all));
    DIVVY_RETURN_IF_ERROR(check_text(field, value, in_all));
  }
  DIVVY_RETURN_IF_ERROR(check_secrets(spec));
  if (spec.working_directory.empty()) return {};
  return check_path("working_directory", spec.working_directory);
}

Status check_mounts(const std::vector<Mount>& mounts) {
  std::set<std::string_view> targets;
  for (std::size_t i = 0; i < mounts.size(); ++i) {
    const std::string field = fmt::format("container.mounts[{}]", i);
    DIVVY_RETURN_IF_ERROR(check_path(field + ".source", mounts[i].source));
    DIVVY_RETURN_IF_ERROR(check_path(field + ".target", mounts[i].target));
    if (!targets.insert(mounts[i].target).second) {
      return wrong(field + ".target",
                   fmt::format("\"{}\" is the target of two mounts", shown(mounts[i].target)));
    }
  }
  return {};
}

Status check_ports(const std::vector<PublishedPort>& ports) {
  std::set<std::uint16_t> hosts;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const std::string field = fmt::format("container.ports[{}]", i);
    if (ports[i].host == 0) return wrong(field + ".host", "a port is a number from 1 to 65535");
    if (ports[i].container == 0) {
      return wrong(field + ".container", "a port is a number from 1 to 65535");
    }
    if (!hosts.insert(ports[i].host).second) {
      return wrong(field + ".host", fmt::format("port {} is published twice", ports[i].host));
    }
  }
  return {};
}

Status check_container(const ContainerSpec& container) {
  const std::string& image = container.image;
  if (image.empty()) return wrong("container.image", "no image is named");
  // A leading dash would be read as an option by the program that starts the container.
  if (image.size() > 512 || has_control(image) || image.find(' ') != std::string::npos ||
      image.front() == '-') {
    return wrong("container.image", fmt::format("\"{}\" is no name of an image; write it like "
                                                "docker.io/library/debian:12",
                                                shown(image)));
  }
  DIVVY_RETURN_IF_ERROR(check_mounts(container.mounts));
  DIVVY_RETURN_IF_ERROR(check_ports(container.ports));
  std::size_t in_all = 0;
  for (const std::string& word : container.entry_point.value_or(std::vector<std::string>{})) {
    DIVVY_RETURN_IF_ERROR(check_text("container.entry_point", word, in_all));
  }
  return {};
}

Status check_limits(const MemberLimits& limits, bool container) {
  if (limits.cpu_milli == 0u) return wrong("limits.cpu_milli", "no program runs without CPU");
  if (limits.cpu_milli && *limits.cpu_milli > 1'000'000'000) {
    return wrong("limits.cpu_milli", "no machine has that many CPUs");
  }
  if (limits.ram && *limits.ram < mib(1)) {
    return wrong("limits.ram", fmt::format("no program runs in {}", *limits.ram));
  }
  if (limits.pids == 0u) return wrong("limits.pids", "no program runs without a process");
  if (limits.shm && !container) {
    return wrong("limits.shm", "only a container has a /dev/shm of its own; name an image");
  }
  if (limits.shm == Bytes(0)) return wrong("limits.shm", "0 bytes is too little");
  for (const auto& [name, limit] : limits.ulimits) {
    const std::string field = fmt::format("limits.ulimits.{}", shown(name));
    if (std::ranges::find(kUlimitNames, name) == kUlimitNames.end()) {
      const auto meant = did_you_mean(name, std::span<const std::string_view>(kUlimitNames));
      return wrong(field, meant ? fmt::format("there is no such limit; did you mean {}?", *meant)
                                : fmt::format("there is no such limit; there are {}",
                                              fmt::join(kUlimitNames, ", ")));
    }
    if (limit.soft > limit.hard) {
      return wrong(field, fmt::format("the soft limit {} is above the hard limit {}", limit.soft,
                                      limit.hard));
    }
  }
  return {};
}

Status check_place(const JobSpec& spec) {
  if (spec.least_members > spec.members()) {
    return wrong("least_members", fmt::format("at least {} of {} members is impossible",
                                              spec.least_members, spec.members()));
  }
  for (std::size_t i = 0; i < spec.devices.size(); ++i) {
    const std::string& device = spec.devices[i];
    if (trim(device).empty() || device.size() > 128 || has_control(device)) {
      return wrong(fmt::format("devices[{}]", i),
                   fmt::format("\"{}\" names no GPU; write an index, a UUID or its beginning",
                               shown(device)));
    }
  }
  DIVVY_RETURN_IF_ERROR(check(spec.where));
  if (spec.where.gpus_near.closeness != Closeness::kAnywhere &&
      spec.request.topology() != TopologyPreference::kAny) {
    return wrong("where.gpus_near", "topology says how near the GPUs are, too; leave one out");
  }
  return check_priority(spec.priority);
}

Status check_times(const JobSpec& spec) {
  DIVVY_RETURN_IF_ERROR(check_time("grace", spec.grace, Seconds(0)));
  DIVVY_RETURN_IF_ERROR(check_time("minimum_run", spec.minimum_run, Seconds(0)));
  if (spec.time_limit)
    DIVVY_RETURN_IF_ERROR(check_time("time_limit", *spec.time_limit, Seconds(1)));
  if (spec.expected) DIVVY_RETURN_IF_ERROR(check_time("expected", *spec.expected, Seconds(1)));
  DIVVY_RETURN_IF_ERROR(check_time("retry.pause", spec.retry.pause, Seconds(0)));
  DIVVY_RETURN_IF_ERROR(
      check_time("retry.longest_pause", spec.retry.longest_pause, spec.retry.pause));
  if (spec.retry.most > kMostRetries) {
    return wrong("retry.most", fmt::format("{} retries are more than the {} that are allowed",
                                           spec.retry.most, kMostRetries));
  }
  return {};
}

Status check_array(const ArraySpec& array) {
  if (array.step == 0) return wrong("array.step", "a step of 0 never ends; take 1 or more");
  if (array.last < array.first) {
    return wrong("array.last", fmt::format("{} is before the first, {}", array.last, array.first));
  }
  // Divided first: tasks() would wrap round for the largest of arrays.
  if ((array.last - array.first) / array.step >= ArraySpec::kMaxTasks) {
    return wrong("array", fmt::format("it has more than {} tasks", ArraySpec::kMaxTasks));
  }
  return {};
}

Status check_relations(const JobSpec& spec) {
  if (spec.notify) DIVVY_RETURN_IF_ERROR(check(*spec.notify));
  if (spec.array) DIVVY_RETURN_IF_ERROR(check_array(*spec.array));
  if (spec.after.size() > kMostDependencies) {
    return wrong("after", fmt::format("{} jobs are more than the {} that one can wait for",
                                      spec.after.size(), kMostDependencies));
  }
  for (std::size_t i = 0; i < spec.after.size(); ++i) {
    if (spec.after[i].job == JobId(0)) {
      return wrong(fmt::format("after[{}].job", i), "jobs are numbered from 1");
    }
  }
  if (spec.labels.size() > kMostLabels) {
    return wrong("labels", fmt::format("{} labels are more than the {} that are allowed",
                                       spec.labels.size(), kMostLabels));
  }
  for (const auto& [key, value] : spec.labels) {
    DIVVY_RETURN_IF_ERROR(with_context(check_name("label", key), "labels"));
    if (value.size() > kLongestLabel || has_control(value)) {
      return wrong(fmt::format("labels.{}", key),
                   fmt::format("a value has at most {} characters and no control characters",
                               kLongestLabel));
    }
  }
  return {};
}

template <typename Enum, std::size_t kSize>
Result<Enum> parse_one_of(std::string_view text, const std::array<std::string_view, kSize>& names,
                          std::string_view of) {
  const auto* const found = std::ranges::find(names, to_lower(trim(text)));
  if (found != names.end()) return static_cast<Enum>(found - names.begin());
  return err(ErrorCode::kInvalidArgument, "\"{}\" is no {}; write {}", shown(text), of,
             fmt::join(names, " or "));
}

}  // namespace

std::string_view to_string(JobClass job_class) {
  return kClassNames[static_cast<std::size_t>(job_class)];
}

Result<JobClass> parse_job_class(std::string_view text) {
  return parse_one_of<JobClass>(text, kClassNames, "class of jobs");
}

std::string_view to_string(Holder holder) { return kHolderNames[static_cast<std::size_t>(holder)]; }

Result<Holder> parse_holder(std::string_view text) {
  return parse_one_of<Holder>(text, kHolderNames, "holder of a job's slices");
}

std::string_view to_string(DependencyKind kind) {
  return kDependencyNames[static_cast<std::size_t>(kind)];
}

Result<DependencyKind> parse_dependency_kind(std::string_view text) {
  return parse_one_of<DependencyKind>(text, kDependencyNames, "way to wait for a job");
}

Status check_queue_path(std::string_view path) {
  const auto names = split(path, '/');
  if (names.size() > kDeepestQueue) {
    return err(ErrorCode::kInvalidArgument, "a queue {} names deep; at most {} are allowed",
               names.size(), kDeepestQueue);
  }
  for (const std::string_view name : names) DIVVY_RETURN_IF_ERROR(check_name("queue", name));
  return {};
}

Status check_priority(std::int32_t priority) {
  constexpr std::int32_t kMost = JobSpec::kHighestPriority;
  if (priority >= -kMost && priority <= kMost) return {};
  return wrong("priority", fmt::format("{} is outside of -{} to {}", priority, kMost, kMost));
}

Status check(const JobSpec& spec) {
  if (!spec.name.empty()) {
    DIVVY_RETURN_IF_ERROR(with_context(check_name("job", spec.name), "name"));
  }
  DIVVY_RETURN_IF_ERROR(with_context(check_queue_path(spec.queue), "queue"));
  DIVVY_RETURN_IF_ERROR(check_program(spec));
  if (spec.container) DIVVY_RETURN_IF_ERROR(check_container(*spec.container));
  DIVVY_RETURN_IF_ERROR(check_limits(spec.limits, spec.container.has_value()));
  DIVVY_RETURN_IF_ERROR(check_place(spec));
  DIVVY_RETURN_IF_ERROR(check_times(spec));
  if (spec.mode == GpuMode::kMps && spec.request.gpus_per_member() != 1) {
    return wrong("mode", "mode mps takes one GPU; leave it out to take turns on several");
  }
  // The containers of a pod have a slice each, and nobody could take them to another node.
  const bool on_one_node =
      spec.holder == Holder::kSlice && spec.where.members_near == Near{Closeness::kNode, true};
  const bool one_place = spec.members() == 1 || on_one_node || spec.holder == Holder::kPods;
  if (spec.holder != Holder::kMembers &&
      (spec.container || spec.array || !one_place || spec.request.no_gpu())) {
    return wrong("holder",
                 "only a job of members has a container, tasks, several members or no GPU");
  }
  return check_relations(spec);
}

}  // namespace divvy::model
