#include "sim/scenario.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>

#include "base/parse_error.h"
#include "base/text.h"
#include "model/name.h"
#include "place/policy.h"
#include "sim/scenario_expect.h"
#include "sim/scenario_line.h"
#include "sim/scenario_settings.h"
#include "sim/scenario_submit.h"
#include "sim/text_file.h"

namespace divvy::sim {
namespace {

constexpr std::size_t kMostNodes = 20'000;
constexpr std::size_t kMostSteps = 200'000;
constexpr TextLimits kLimits{.file_bytes = std::uint64_t{16} << 20,
                             .line_bytes = std::uint64_t{64} << 10};

constexpr std::size_t kMostQueues = 1'000;

constexpr std::array<std::string_view, 27> kFirstWords{
    "policy",  "reservations", "preemption", "half-life", "queue",  "user",     "node",
    "nodes",   "exclude",      "at",         "submit",    "finish", "fail",     "cancel",
    "suspend", "resume",       "lose",       "return",    "cordon", "uncordon", "unhealthy",
    "healthy", "priority",     "defrag",     "expect",    "wait",   "passing"};

// "0-3/4-7": which GPUs are together, as a group number for each.
Result<std::vector<std::optional<std::uint32_t>>> parse_groups(const ScenarioLine& line,
                                                               std::string_view text,
                                                               std::size_t gpus) {
  std::vector<std::optional<std::uint32_t>> groups(gpus);
  std::uint32_t number = 0;
  for (const std::string_view group : split(text, '/')) {
    for (const std::string_view piece : split(group, ',')) {
      const std::size_t dash = piece.find('-');
      const auto most = static_cast<std::int64_t>(gpus) - 1;
      DIVVY_TRY(first, line.whole_number(piece.substr(0, dash), 0, most));
      std::int64_t last = first;
      if (dash != std::string_view::npos) {
        DIVVY_TRY(end, line.whole_number(piece.substr(dash + 1), first, most));
        last = end;
      }
      for (auto gpu = static_cast<std::size_t>(first); gpu <= static_cast<std::size_t>(last);
           ++gpu) {
        if (groups[gpu]) return line.wrong("GPU {} is in two groups; put it into one", gpu);
        groups[gpu] = number;
      }
    }
    ++number;
  }
  return groups;
}

class Parser {
 public:
  explicit Parser(std::string file) { scenario_.file = std::move(file); }

  Status take(std::string_view text);
  Result<Scenario> finish() &&;

 private:
  Status read(ScenarioLine& line, const std::string& first);
  Status read_nodes(ScenarioLine& line, bool several);
  Status read_event(ScenarioLine& line, const std::string& first);
  Status read_submit(ScenarioLine& line);
  Status read_settings(ScenarioLine& line, const std::string& first);
  // Whether what was read last goes with the rest.
  Status check_settings(const ScenarioLine& line) const;

  Result<std::string> node_name(ScenarioLine& line);
  Result<std::string> job_name(ScenarioLine& line);
  Result<model::JobId> job_number(const ScenarioLine& line, const std::string& name) const;
  Result<std::string> queue_name(const ScenarioLine& line, const std::string& name) const;
  // The rest of the line, in quotes or not.
  static std::string reason(ScenarioLine& line, std::string_view otherwise);

  template <typename What>
  Status add(const ScenarioLine& line, What what) {
    DIVVY_RETURN_IF_ERROR(line.finish());
    if (scenario_.steps.size() == kMostSteps) {
      return line.wrong("there are more than {} events; cut the scenario into parts", kMostSteps);
    }
    scenario_.steps.push_back({line.number(), now_, std::move(what)});
    return {};
  }

  Scenario scenario_;
  std::size_t number_ = 0;
  place::Instant now_ = 0;
  std::unordered_map<std::string, std::size_t> gpus_of_;  // by node
  std::map<std::string, model::JobId, std::less<>> jobs_;
  std::set<std::string, std::less<>> queues_{std::string(jobs::Settings::kDefaultQueue)};
};

Status Parser::take(std::string_view text) {
  ++number_;
  if (text.ends_with('\r')) text.remove_suffix(1);
  DIVVY_TRY(line, ScenarioLine::cut(text, escape_for_terminal(scenario_.file), number_));
  if (line.empty()) return {};
  if (line.skip("at")) {
    DIVVY_TRY(typed, line.word("the time"));
    DIVVY_TRY(time, line.time(typed));
    if (time < now_) {
      return line.wrong(
          "the time {} lies before {}, where the line before is; put the lines in "
          "the order of time",
          quote_typed(typed), now_);
    }
    now_ = time;
    if (!line.more()) return add(line, Wait{});
  }
  DIVVY_TRY(first, line.word("the first word"));
  return read(line, first);
}

Status Parser::read(ScenarioLine& line, const std::string& first) {
  if (first == "policy" || first == "reservations" || first == "preemption" ||
      first == "half-life" || first == "passing" || first == "queue" || first == "user") {
    return read_settings(line, first);
  }
  if (first == "node" || first == "nodes") return read_nodes(line, first == "nodes");
  if (first == "exclude") {
    DIVVY_TRY(user, line.word("the name of the user"));
    DIVVY_TRY(node, node_name(line));
    scenario_.exclusions.emplace_back(user, node);
    return line.finish();
  }
  return read_event(line, first);
}

Status Parser::check_settings(const ScenarioLine& line) const {
  DIVVY_RETURN_IF_ERROR(line.finish());
  const auto checked = jobs::check(scenario_.settings);
  if (!checked) return line.wrong(checked.error());
  return {};
}

Status Parser::read_settings(ScenarioLine& line, const std::string& first) {
  jobs::Settings& settings = scenario_.settings;
  if (!scenario_.steps.empty()) {
    return line.wrong("{} comes after the first event; put it before", first);
  }
  if (first == "policy") {
    DIVVY_TRY(name, line.word("the name of the policy"));
    if (const auto policy = place::make_policy(name); !policy) return line.wrong(policy.error());
    settings.policy = name;
  } else if (first == "reservations") {
    DIVVY_TRY(typed, line.word("the number of reservations"));
    DIVVY_TRY(count, line.whole_number(typed, 0, 1'000));
    settings.reservations = static_cast<std::uint32_t>(count);
  } else if (first == "preemption") {
    DIVVY_TRY(typed, line.word("on or off"));
    if (typed != "on" && typed != "off") {
      return line.wrong("preemption is {}; write on or off", quote_typed(typed));
    }
    settings.preemption = typed == "on";
  } else if (first == "half-life") {
    DIVVY_TRY(typed, line.word("the time"));
    DIVVY_TRY(time, line.time(typed));
    settings.half_life = jobs::Seconds(time);
  } else if (first == "passing") {
    DIVVY_TRY(typed, line.word("the time"));
    DIVVY_TRY(time, line.time(typed));
    settings.passing = jobs::Seconds(time);
  } else if (settings.queues.size() + settings.users.size() == kMostQueues) {
    return line.wrong("there are more than {} queues and users; take fewer", kMostQueues);
  } else if (first == "queue") {
    DIVVY_TRY(queue, read_queue(line));
    // Those above it are there, too.
    for (std::size_t end = 0; end != std::string::npos;) {
      end = queue.path.find('/', end + 1);
      queues_.insert(queue.path.substr(0, end));
    }
    settings.queues.push_back(std::move(queue));
  } else {
    DIVVY_TRY(user, read_user(line));
    settings.users.push_back(std::move(user));
  }
  return check_settings(line);
}

Status Parser::read_nodes(ScenarioLine& line, bool several) {
  if (!scenario_.steps.empty()) {
    return line.wrong("a node comes after the first event; put all nodes before");
  }
  DIVVY_TRY(name, line.word("the name of the node"));
  if (const auto named = model::check_name("node", name); !named) return line.wrong(named.error());
  place::NodeSpec spec;
  std::int64_t count = 1;
  if (several) {
    DIVVY_TRY(typed, line.number_option("count", 1, static_cast<std::int64_t>(kMostNodes)));
    if (!typed) return line.wrong("it is not said how many nodes there are; add count=4");
    count = *typed;
  }
  DIVVY_TRY(gpus, line.number_option("gpus", 0, place::kMaxDevices));
  DIVVY_TRY(memory, line.bytes_option("memory"));
  const auto model = line.option("model");
  DIVVY_TRY(cpus, line.cpu_option("cpus"));
  DIVVY_TRY(ram, line.bytes_option("ram"));
  spec.cpu_milli = cpus.value_or(64'000);
  spec.ram = ram.value_or(gib(512));
  spec.rack = line.option("rack").value_or("");
  spec.zone = line.option("zone").value_or("");
  DIVVY_TRY(labels, line.label_option("labels"));
  spec.labels = std::move(labels);
  spec.taints = line.list_option("taints");
  DIVVY_TRY(most, line.number_option("max-members", 1, 1'000'000));
  if (most) spec.max_members = static_cast<std::uint32_t>(*most);
  place::DeviceSpec device;
  device.model = model.value_or("NVIDIA H100");
  device.memory = memory.value_or(gib(80));
  spec.devices.assign(static_cast<std::size_t>(gpus.value_or(8)), device);
  using Group = std::optional<std::uint32_t> place::DeviceSpec::*;
  const std::array<std::pair<std::string_view, Group>, 3> groups{
      {{"nvlink", &place::DeviceSpec::nvlink_island},
       {"pcie", &place::DeviceSpec::pcie_switch},
       {"numa", &place::DeviceSpec::numa_node}}};
  for (const auto& [option, member] : groups) {
    const auto text = line.option(option);
    if (!text) continue;
    DIVVY_TRY(numbers, parse_groups(line, *text, spec.devices.size()));
    for (std::size_t i = 0; i < numbers.size(); ++i) spec.devices[i].*member = numbers[i];
  }
  DIVVY_RETURN_IF_ERROR(line.finish());
  for (std::int64_t i = 0; i < count; ++i) {
    spec.name = several ? fmt::format("{}-{}", name, i) : name;
    if (const auto checked = place::check(spec); !checked) return line.wrong(checked.error());
    if (!gpus_of_.emplace(spec.name, spec.devices.size()).second) {
      return line.wrong("there is a node {} already; give it another name", spec.name);
    }
    if (scenario_.nodes.size() == kMostNodes) {
      return line.wrong("there are more than {} nodes; use a smaller cluster", kMostNodes);
    }
    scenario_.nodes.push_back(spec);
  }
  return {};
}

Result<std::string> Parser::node_name(ScenarioLine& line) {
  DIVVY_TRY(name, line.word("the name of a node"));
  if (gpus_of_.contains(name)) return name;
  std::vector<std::string> known;
  known.reserve(scenario_.nodes.size());
  for (const place::NodeSpec& spec : scenario_.nodes) known.push_back(spec.name);
  const auto meant = did_you_mean(name, known);
  return line.wrong(
      "there is no node {}{}", quote_typed(name),
      meant ? fmt::format("; did you mean {}?", *meant) : "; add a line that begins with node");
}

Result<std::string> Parser::job_name(ScenarioLine& line) {
  DIVVY_TRY(name, line.word("the name of a job"));
  DIVVY_RETURN_IF_ERROR(job_number(line, name));
  return name;
}

Result<std::string> Parser::queue_name(const ScenarioLine& line, const std::string& name) const {
  if (queues_.contains(name)) return name;
  const std::vector<std::string> known(queues_.begin(), queues_.end());
  const auto meant = did_you_mean(name, known);
  return line.wrong(
      "there is no queue {}{}", quote_typed(name),
      meant ? fmt::format("; did you mean {}?", *meant) : "; add a line that begins with queue");
}

Result<model::JobId> Parser::job_number(const ScenarioLine& line, const std::string& name) const {
  if (const auto known = jobs_.find(name); known != jobs_.end()) return known->second;
  std::vector<std::string> known;
  known.reserve(jobs_.size());
  for (const auto& [job, number] : jobs_) known.push_back(job);
  const auto meant = did_you_mean(name, known);
  return line.wrong("no job {} was submitted before{}", quote_typed(name),
                    meant ? fmt::format("; did you mean {}?", *meant) : "; submit it first");
}

std::string Parser::reason(ScenarioLine& line, std::string_view otherwise) {
  std::string text;
  while (line.more()) {
    if (!text.empty()) text += ' ';
    text += *line.word("");
  }
  return text.empty() ? std::string(otherwise) : text;
}

Status Parser::read_event(ScenarioLine& line, const std::string& first) {
  if (first == "wait") return add(line, Wait{});
  if (first == "submit") return read_submit(line);
  if (first == "expect") {
    ScenarioNames names;
    names.node = [this](ScenarioLine& l) { return node_name(l); };
    names.job = [this](ScenarioLine& l) { return job_name(l); };
    names.queue = [this](ScenarioLine& l) -> Result<std::string> {
      DIVVY_TRY(name, l.word("the name of a queue"));
      return queue_name(l, name);
    };
    names.is_job = [this](std::string_view name) { return jobs_.contains(name); };
    DIVVY_TRY(expected, read_expect(line, names));
    return add(line, std::move(expected));
  }
  if (first == "finish" || first == "fail" || first == "cancel" || first == "suspend" ||
      first == "resume") {
    DIVVY_TRY(job, job_name(line));
    if (first == "cancel") return add(line, Cancel{job});
    if (first == "suspend") return add(line, Suspend{job});
    if (first == "resume") return add(line, Resume{job});
    return add(line, Finish{job, first == "finish"});
  }
  if (first == "priority") {
    DIVVY_TRY(job, job_name(line));
    DIVVY_TRY(typed, line.word("the new priority"));
    constexpr std::int64_t kMost = model::JobSpec::kHighestPriority;
    DIVVY_TRY(priority, line.whole_number(typed, -kMost, kMost));
    return add(line, SetPriority{job, static_cast<std::int32_t>(priority)});
  }
  if (first == "defrag") {
    DIVVY_TRY(job, job_name(line));
    DIVVY_TRY(moves, line.number_option("moves", 1, 64));
    return add(line, DefragFor{job, static_cast<std::size_t>(moves.value_or(8))});
  }
  if (first == "lose" || first == "return" || first == "cordon" || first == "uncordon") {
    DIVVY_TRY(node, node_name(line));
    if (first == "lose") return add(line, LoseNode{node, reason(line, "does not answer")});
    if (first == "cordon") return add(line, Cordon{node, reason(line, "by an administrator")});
    return first == "return" ? add(line, ReturnNode{node}) : add(line, Cordon{node, {}});
  }
  if (first == "unhealthy" || first == "healthy") {
    DIVVY_TRY(node, node_name(line));
    if (!line.skip("gpu")) return line.wrong("write: {} {} gpu 3", first, node);
    DIVVY_TRY(typed, line.word("the number of the GPU"));
    const auto gpus = static_cast<std::int64_t>(gpus_of_.at(node));
    if (gpus == 0) return line.wrong("node {} has no GPUs", node);
    DIVVY_TRY(gpu, line.whole_number(typed, 0, gpus - 1));
    const bool healthy = first == "healthy";
    return add(line, GpuHealth{node, static_cast<std::size_t>(gpu),
                               healthy ? "" : reason(line, "unhealthy")});
  }
  const auto meant = did_you_mean(first, kFirstWords);
  return line.wrong("no line begins with {}{}", quote_typed(first),
                    meant ? fmt::format("; did you mean {}?", *meant)
                          : fmt::format("; it can be {}", fmt::join(kFirstWords, ", ")));
}

Status Parser::read_submit(ScenarioLine& line) {
  DIVVY_TRY(name, line.word("the name of the job"));
  if (const auto named = model::check_name("job", name); !named) return line.wrong(named.error());
  if (jobs_.contains(name)) {
    return line.wrong("a job {} was submitted already; give it another name", name);
  }
  SubmitNames names;
  names.queue = [this](const ScenarioLine& l, const std::string& n) { return queue_name(l, n); };
  names.job = [this](const ScenarioLine& l, const std::string& n) { return job_number(l, n); };
  DIVVY_TRY(submit, sim::read_submit(line, name, names));
  jobs_.emplace(name, model::JobId(jobs_.size() + 1));
  return add(line, std::move(submit));
}

Result<Scenario> Parser::finish() && {
  if (scenario_.nodes.empty()) {
    return err(ErrorCode::kInvalidArgument,
               "{}:{}: the scenario has no nodes; add a line like: node a gpus=8",
               escape_for_terminal(scenario_.file), std::max<std::size_t>(number_, 1));
  }
  return std::move(scenario_);
}

}  // namespace

Result<Scenario> parse_scenario(std::string_view text, std::string file) {
  Parser parser(std::move(file));
  for (const std::string_view line : split(text, '\n')) DIVVY_RETURN_IF_ERROR(parser.take(line));
  return std::move(parser).finish();
}

Result<Scenario> read_scenario(const std::string& path) {
  std::string text;
  DIVVY_RETURN_IF_ERROR(read_text(path, kLimits, [&](std::string_view piece) -> Status {
    text += piece;
    return {};
  }));
  return parse_scenario(text, path);
}

}  // namespace divvy::sim
