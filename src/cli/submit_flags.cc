#include "cli/submit_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json.hpp>
#include <charconv>

#include "base/text.h"
#include "base/units.h"
#include "cli/command_tree.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

Result<std::uint64_t> number(std::string_view option, std::string_view text) {
  std::uint64_t value = 0;
  const auto read = std::from_chars(text.begin(), text.end(), value);
  if (!text.empty() && read.ec == std::errc() && read.ptr == text.end()) return value;
  return err(ErrorCode::kInvalidArgument, "{}: \"{}\" is no whole number", option,
             escape_for_terminal(text.substr(0, 40)));
}

// The object in a field, made where there is none.
json::object& object_in(json::object& document, std::string_view field) {
  json::value& value = document[field];
  if (!value.is_object()) value = json::object();
  return value.as_object();
}

template <typename T>
void put(json::object& into, std::string_view field, const std::optional<T>& value) {
  if (value) into[field] = *value;
}
void put(json::object& into, std::string_view field, const std::vector<std::string>& values) {
  if (!values.empty()) into[field] = json::value_from(values);
}

// NAME=VALUE
Status put_pairs(json::object& document, std::string_view field, std::string_view option,
                 const std::vector<std::string>& pairs) {
  for (const std::string& pair : pairs) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      return err(ErrorCode::kInvalidArgument, "{}: \"{}\" is not NAME=VALUE", option,
                 escape_for_terminal(pair.substr(0, 60)));
    }
    object_in(document, field)[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return {};
}

// VARIABLE, or VARIABLE=SECRET
void put_secrets(json::object& document, const std::vector<std::string>& typed) {
  for (const std::string& word : typed) {
    const std::size_t equals = word.find('=');
    object_in(document, "secrets")[word.substr(0, equals)] =
        equals == std::string::npos ? word : word.substr(equals + 1);
  }
}

// SOURCE:TARGET[:ro]
Result<json::value> mount_value(const std::string& text) {
  const auto parts = split(text, ':');
  const bool read_only = parts.size() == 3 && parts[2] == "ro";
  if (parts.size() != 2 && !read_only) {
    return err(ErrorCode::kInvalidArgument,
               "--mount: \"{}\" is not SOURCE:TARGET or SOURCE:TARGET:ro",
               escape_for_terminal(text.substr(0, 80)));
  }
  return json::object{{"source", parts[0]}, {"target", parts[1]}, {"read_only", read_only}};
}

Result<json::value> port_value(const std::string& text) {
  const auto parts = split(text, ':');
  if (parts.size() > 2) {
    return err(ErrorCode::kInvalidArgument,
               "--publish: \"{}\" is not PORT or HOST:CONTAINER, two numbers of ports",
               escape_for_terminal(text.substr(0, 60)));
  }
  DIVVY_TRY(host, number("--publish", parts.front()));
  DIVVY_TRY(container, number("--publish", parts.back()));
  return json::object{{"host", host}, {"container", container}};
}

// 0-9, 0-99:10, 0-9%2, 5: first-last:step%at_once
Result<json::value> array_value(const std::string& text) {
  const auto cut = [](std::string_view& rest, char mark) -> std::optional<std::string_view> {
    const std::size_t at = rest.find(mark);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view tail = rest.substr(at + 1);
    rest = rest.substr(0, at);
    return tail;
  };
  std::string_view rest = text;
  const auto at_once = cut(rest, '%');
  const auto step = cut(rest, ':');
  const auto last = cut(rest, '-');
  json::object array;
  DIVVY_TRY(first_number, number("--array", rest));
  DIVVY_TRY(last_number, number("--array", last.value_or(rest)));
  array["first"] = first_number;
  array["last"] = last_number;
  if (step) {
    DIVVY_TRY(value, number("--array", *step));
    array["step"] = value;
  }
  if (at_once) {
    DIVVY_TRY(value, number("--array", *at_once));
    array["at_once"] = value;
  }
  return array;
}

// 17, 17:ended
Result<json::value> after_value(const std::string& text) {
  const auto parts = split(text, ':');
  const auto job = number("--after", parts.front());
  if (!job) {
    return err(
        ErrorCode::kInvalidArgument,
        "--after: \"{}\" is no number of a job; write 17, 17:failed or 17:ended (`divvy list` "
        "shows the numbers)",
        escape_for_terminal(parts.front().substr(0, 40)));
  }
  json::object dependency{{"job", *job}};
  if (parts.size() > 1) dependency["kind"] = parts[1];
  return dependency;
}

// NAME=SOFT[:HARD]
Status put_ulimit(json::object& ulimits, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || std::ranges::count(text, ':') > 1) {
    return err(ErrorCode::kInvalidArgument, "--ulimit: \"{}\" is not NAME=SOFT or NAME=SOFT:HARD",
               escape_for_terminal(text.substr(0, 60)));
  }
  const std::string values = text.substr(equals + 1);
  const auto parts = split(values, ':');
  const auto limit = [](std::string_view word) -> Result<json::value> {
    if (word == "-1" || word == "unlimited") return json::value("unlimited");
    DIVVY_TRY(value, number("--ulimit", word));
    return json::value(value);
  };
  DIVVY_TRY(soft, limit(parts.front()));
  DIVVY_TRY(hard, limit(parts.back()));
  ulimits[text.substr(0, equals)] = json::object{{"soft", soft}, {"hard", hard}};
  return {};
}

// "2", "0.5", "500m" of a CPU, in thousandths.
Result<std::uint64_t> cpu_milli(const std::string& text) {
  DIVVY_TRY(share, with_context(parse_share(text), "--cpu"));
  return std::uint64_t{share.thousandths()};
}

template <typename Read>
Status put_list(json::object& into, std::string_view field, const std::vector<std::string>& texts,
                Read read) {
  if (texts.empty()) return {};
  json::array list;
  for (const std::string& text : texts) {
    DIVVY_TRY(value, read(text));
    list.push_back(std::move(value));
  }
  into[field] = std::move(list);
  return {};
}

Status apply_limits(const SubmitFlags& flags, json::object& document) {
  if (!flags.cpu && !flags.ram && !flags.pids && !flags.shm && flags.ulimits.empty()) return {};
  json::object& limits = object_in(document, "limits");
  if (flags.cpu) {
    DIVVY_TRY(cpu, cpu_milli(*flags.cpu));
    limits["cpu_milli"] = cpu;
  }
  put(limits, "ram", flags.ram);
  put(limits, "pids", flags.pids);
  put(limits, "shm", flags.shm);
  for (const std::string& text : flags.ulimits) {
    DIVVY_RETURN_IF_ERROR(put_ulimit(object_in(limits, "ulimits"), text));
  }
  return {};
}

Status apply_container(const SubmitFlags& flags, json::object& document) {
  if (!flags.image && flags.mounts.empty() && flags.ports.empty() && flags.entry_point.empty()) {
    return {};
  }
  json::object& container = object_in(document, "container");
  put(container, "image", flags.image);
  put(container, "entry_point", flags.entry_point);
  DIVVY_RETURN_IF_ERROR(put_list(container, "mounts", flags.mounts, mount_value));
  DIVVY_RETURN_IF_ERROR(put_list(container, "ports", flags.ports, port_value));
  if (container.contains("image")) return {};
  return err(ErrorCode::kInvalidArgument,
             "--mount, --publish and --entry-point are for a container; name its --image");
}

}  // namespace

Status apply(const SubmitFlags& flags, const std::vector<std::string>& command,
             json::object& document) {
  put(document, "name", flags.name);
  put(document, "queue", flags.queue);
  put(document, "gpu", flags.gpu);
  put(document, "gpu_memory", flags.gpu_memory);
  put(document, "topology", flags.topology);
  put(document, "class", flags.job_class);
  put(document, "mode", flags.mode);
  put(document, "working_directory", flags.working_directory);
  put(document, "members", flags.members);
  put(document, "least_members", flags.least_members);
  put(document, "priority", flags.priority);
  put(document, "grace", flags.grace);
  put(document, "minimum_run", flags.minimum_run);
  put(document, "time_limit", flags.time_limit);
  put(document, "expected", flags.expected);
  put(document, "devices", flags.devices);
  put(document, "models", flags.models);
  put(document, "models_denied", flags.denied_models);
  put(document, "command", command);
  if (flags.cap) document["cap"] = true;
  if (flags.keep) document["preemptible"] = false;
  if (flags.hold_for_capacity) document["hold_for_capacity"] = true;
  if (flags.input) document["stdin"] = true;
  if (flags.retries) object_in(document, "retry")["most"] = *flags.retries;
  if (flags.notify) object_in(document, "notify")["url"] = *flags.notify;
  if (flags.array) {
    DIVVY_TRY(array, array_value(*flags.array));
    document["array"] = std::move(array);
  }
  DIVVY_RETURN_IF_ERROR(put_list(document, "after", flags.after, after_value));
  DIVVY_RETURN_IF_ERROR(put_pairs(document, "environment", "--env", flags.environment));
  put_secrets(document, flags.secrets);
  DIVVY_RETURN_IF_ERROR(put_pairs(document, "labels", "--label", flags.labels));
  DIVVY_RETURN_IF_ERROR(apply_limits(flags, document));
  return apply_container(flags, document);
}

void add_submit_flags(CLI::App& command, SubmitFlags& flags) {
  const auto option = [&](const char* name, auto& value, const char* text, const char* type) {
    return command.add_option(name, value, text)->type_name(type);
  };
  option("--name", flags.name, "Name of the job (default: from the command)", "NAME");
  option("--queue", flags.queue, "The queue, like research/vision", "QUEUE");
  option("--gpu", flags.gpu, "How much of a GPU, or how many: 0.3, 300m, 1, 2.5, 0 (default 1)",
         "SHARE");
  option("--gpu-mem", flags.gpu_memory,
         "Memory on each GPU: 10GiB; without --gpu also says how much of the GPU", "SIZE");
  command.add_flag("--cap", flags.cap, "Never more than the share, even of an idle GPU");
  option("--class", flags.job_class, "latency goes before batch (default batch)", "CLASS");
  option(
      "--mode", flags.mode,
      "timeslice: take turns on the GPU; mps: run side by side (default: sharing.mode of divvyd)",
      "MODE");
  option("--members", flags.members, "So many members, each with these GPUs, all or none",
         "NUMBER");
  option("--least", flags.least_members, "Begin with so many members rather than wait for all",
         "NUMBER");
  add_list(command, "--device", flags.devices, "Only this GPU: index, UUID or beginning of one",
           "GPU")
      ->delimiter(',');
  add_list(command, "--model", flags.models, "Only GPUs of this model", "MODEL");
  add_list(command, "--not-model", flags.denied_models, "No GPUs of this model", "MODEL");
  option("--topology", flags.topology,
         "How near its GPUs have to be to each other: any, numa or nvlink", "WORD");
  add_list(command, "-e,--env", flags.environment, "A variable of its environment", "NAME=VALUE");
  add_list(command, "--secret", flags.secrets,
           "A variable that holds a secret of yours (divvy secret), by its name if that is another",
           "VARIABLE[=SECRET]");
  option("--cwd", flags.working_directory, "Where it runs (default: here)", "FOLDER");
  option("--image", flags.image, "Run it in a container of this image", "IMAGE");
  add_list(command, "--mount", flags.mounts, "SOURCE:TARGET or SOURCE:TARGET:ro in the container",
           "MOUNT");
  add_list(command, "--publish", flags.ports, "HOST:CONTAINER, a port of the container", "PORTS");
  add_list(command, "--entry-point", flags.entry_point, "A word instead of the image's own",
           "WORD");
  option("--cpu", flags.cpu, "CPUs of each member: 4, 0.5, 500m", "NUMBER");
  option("--ram", flags.ram, "Memory of each member: 16GiB", "SIZE");
  option("--pids", flags.pids, "Processes and threads of each member", "NUMBER");
  option("--shm-size", flags.shm, "Size of /dev/shm in the container", "SIZE");
  add_list(command, "--ulimit", flags.ulimits, "NAME=SOFT or NAME=SOFT:HARD; -1 is unlimited",
           "LIMIT");
  option("--priority", flags.priority, "-1000 to 1000; higher goes first", "NUMBER");
  command.add_flag("--keep", flags.keep, "Do not preempt it");
  command.add_flag("-i,--stdin", flags.input, "It reads what is typed in `divvy attach`");
  option("--grace", flags.grace, "Between being told to end and being killed (30s)", "TIME");
  option("--min-run", flags.minimum_run, "Before it may be preempted", "TIME");
  option("--time-limit", flags.time_limit, "Ended after so long", "TIME");
  option("--expected", flags.expected, "How long it will take, as you guess", "TIME");
  option("--array", flags.array, "Several at once: 0-9, 0-99:10, 0-9%2 (two at a time)", "RANGE");
  add_list(command, "--after", flags.after, "Start after JOB, or JOB:failed, or JOB:ended", "JOB");
  option("--retries", flags.retries, "Try again so often when it fails", "NUMBER");
  option("--notify", flags.notify, "Send a message to this webhook when it has ended", "URL");
  command.add_flag("--hold-for-capacity", flags.hold_for_capacity,
                   "Take it though no machine can run it now, and wait for one that can");
  add_list(command, "--label", flags.labels, "A label for your own use", "NAME=VALUE");
}

}  // namespace divvy::cli
