#include "cli/run_command.h"

#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <ostream>

#include "base/text.h"
#include "base/units.h"
#include "cli/exit_codes.h"

extern char** environ;

namespace divvy::cli {
namespace {

namespace json = boost::json;

json::object parse_object(const std::string& text) {
  boost::system::error_code code;
  json::value value = json::parse(text, code);
  return !code && value.is_object() ? value.as_object() : json::object{};
}

// For people: names and commands come from other users.
std::string text_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? escape_for_terminal(value->as_string()) : "";
}

std::uint64_t number_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  boost::system::error_code code;
  const auto number = value != nullptr ? value->to_number<std::uint64_t>(code) : 0;
  return code ? 0 : number;
}

Share share_of(const json::object& object, std::string_view name) {
  return Share(static_cast<std::uint32_t>(
      std::min<std::uint64_t>(number_of(object, name), Share::kMaxThousandths)));
}

void set(std::vector<std::string>& environment, const std::string& name, const std::string& value) {
  const std::string start = name + "=";
  std::erase_if(environment, [&](const std::string& entry) { return entry.starts_with(start); });
  environment.push_back(start + value);
}

std::string get(const std::vector<std::string>& environment, const std::string& name) {
  const std::string start = name + "=";
  for (const std::string& entry : environment) {
    if (entry.starts_with(start)) return entry.substr(start.size());
  }
  return {};
}

bool is_absolute_path(std::string_view text) {
  return text.starts_with('/') && text.size() < 4096 &&
         std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

// "GPU-3f2a...,GPU-..."; also of MIG devices.
bool is_device_list(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '/' || c == ',';
  });
}

bool is_per_cent(std::string_view text) {
  return !text.empty() && text.size() <= 3 &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// All that a slice needs. Whatever else an answer names could run code in the command.
bool may_be_set(std::string_view name, std::string_view value) {
  struct Variable {
    std::string_view name;
    bool (*fits)(std::string_view);
  };
  constexpr Variable kVariables[] = {{"DIVVY_SOCKET", is_absolute_path},
                                     {"CUDA_VISIBLE_DEVICES", is_device_list},
                                     {"CUDA_MPS_PIPE_DIRECTORY", is_absolute_path},
                                     {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", is_per_cent},
                                     {"DIVVY_SIM_STATE", is_absolute_path}};
  return std::ranges::any_of(kVariables, [&](const Variable& variable) {
    return variable.name == name && variable.fits(value);
  });
}

// `first` in front of a list with ':' between its parts, and nowhere else in it.
std::string in_front(const std::string& first, const std::string& list) {
  std::string result = first;
  for (const std::string_view part : split(list, ':')) {
    if (!part.empty() && part != first) result += fmt::format(":{}", part);
  }
  return result;
}

std::vector<std::string> present_environment() {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) result.emplace_back(*entry);
  return result;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

std::string request_body(const RunOptions& options, bool wait) {
  json::object body{{"cap", options.cap},
                    {"class", options.tenant_class},
                    {"command", escape_for_terminal(joined(options.command))},
                    {"wait", wait}};
  if (options.gpu || !options.memory) body["gpu"] = options.gpu.value_or("1");
  if (options.memory) body["memory"] = *options.memory;
  if (!options.mode.empty()) body["mode"] = options.mode;
  if (!options.name.empty()) body["name"] = options.name;
  if (!options.queue.empty()) body["queue"] = options.queue;
  if (!options.devices.empty()) body["devices"] = json::value_from(options.devices);
  if (!options.models.empty()) body["models"] = json::value_from(options.models);
  if (options.timeout_seconds) body["timeoutSeconds"] = *options.timeout_seconds;
  return json::serialize(body);
}

std::string granted_text(const json::object& grant) {
  std::string text = fmt::format("divvy: {} has", text_of(grant, "name"));
  const json::value* slices = grant.if_contains("slices");
  if (slices == nullptr || !slices->is_array()) return text + " a slice\n";
  const char* between = " ";
  for (const json::value& item : slices->as_array()) {
    const json::object& slice = item.as_object();
    const json::object& gpu = slice.at("gpu").as_object();
    text +=
        fmt::format("{}{} of GPU {} ({}) with {}", between,
                    to_string(share_of(slice, "shareThousandths")), number_of(gpu, "index"),
                    text_of(gpu, "model"), humanize(Bytes(number_of(slice, "memoryLimitBytes"))));
    between = ", ";
  }
  return text + "\n";
}

// Becomes the command. Returns the exit status when that is impossible.
int become(const std::vector<std::string>& command, const std::vector<std::string>& environment,
           std::ostream& err) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> variables;
  variables.reserve(environment.size() + 1);
  for (const std::string& entry : environment)
    variables.push_back(const_cast<char*>(entry.c_str()));
  variables.push_back(nullptr);
  err << std::flush;
  ::execvpe(arguments[0], arguments.data(), variables.data());
  const int reason = errno;
  err << "divvy: " << escape_for_terminal(command[0]) << ": "
      << (reason == ENOENT ? "no such command" : std::strerror(reason)) << "\n";
  return reason == ENOENT ? kExitNoSuchCommand : kExitCannotRun;
}

}  // namespace

Result<std::vector<std::string>> command_environment(const std::vector<std::string>& present,
                                                     const std::string& grant_environment,
                                                     const RunLibraries& libraries) {
  std::vector<std::string> result = present;
  for (const auto& entry : parse_object(grant_environment)) {
    const std::string name(entry.key());
    const json::value& value = entry.value();
    if (!value.is_string() || !may_be_set(name, value.as_string())) {
      return err(ErrorCode::kPermissionDenied,
                 "divvyd wants to set {} for the command, which is none of its variables or not "
                 "what they look like; are divvy and divvyd of the same version?",
                 escape_for_terminal(name.substr(0, 60)));
    }
    set(result, name, std::string(value.as_string()));
  }
  // The dynamic linker also takes spaces between libraries; we write only colons.
  set(result, "LD_PRELOAD", in_front(libraries.shim.string(), get(result, "LD_PRELOAD")));
  if (!libraries.simgpu.empty()) {
    set(result, "LD_LIBRARY_PATH",
        in_front(libraries.simgpu.string(), get(result, "LD_LIBRARY_PATH")));
  }
  return result;
}

bool is_no_fit(const Reply& reply) {
  return reply.status == 409 && parse_object(reply.body).contains("gpus");
}

std::string holders_text(const std::string& no_fit_document) {
  const json::object document = parse_object(no_fit_document);
  const json::value* gpus = document.if_contains("gpus");
  if (gpus == nullptr || !gpus->is_array()) return {};
  std::string text;
  for (const json::value& item : gpus->as_array()) {
    const json::object& gpu = item.as_object();
    text += fmt::format("  GPU {} {}\n", number_of(gpu, "index"), text_of(gpu, "reason"));
    const json::value* holders = gpu.if_contains("holders");
    if (holders == nullptr || !holders->is_array()) continue;
    for (const json::value& entry : holders->as_array()) {
      const json::object& holder = entry.as_object();
      text += fmt::format("    {} of {} holds {} GPU, {}: {}\n", text_of(holder, "tenant"),
                          text_of(holder, "user"), to_string(share_of(holder, "shareThousandths")),
                          humanize(Bytes(number_of(holder, "memoryLimitBytes"))),
                          text_of(holder, "command"));
    }
  }
  return text;
}

int run_command(const Daemon& daemon, const RunOptions& options, const RunLibraries& libraries,
                std::ostream& err) {
  const auto fail = [&err](const std::string& message, int status) {
    err << "divvy: " << message << "\n";
    return status;
  };
  std::error_code code;
  if (!std::filesystem::exists(libraries.shim, code)) {
    return fail(libraries.shim.string() + " is missing; install Divvy again", kExitError);
  }
  if (libraries.shim.string().find_first_of(" :") != std::string::npos) {
    return fail("the path " + libraries.shim.string() +
                    " has a space or colon in it, which the dynamic linker cannot preload; install "
                    "Divvy elsewhere",
                kExitError);
  }
  const auto started = daemon.start_where_none_runs();
  if (!started) return fail(started.error().message, kExitError);
  if (*started) {
    err << "divvy: started divvyd in the background (its socket is "
        << daemon.options().socket.string() << ")\n";
  }
  const auto simulated = daemon.has_simulated_gpus();
  if (!simulated) return fail(simulated.error().message, kExitError);
  RunLibraries used = libraries;
  if (!*simulated) used.simgpu.clear();

  auto reply = daemon.ask("POST", "/v1/tenants", request_body(options, false));
  if (!reply) return fail(reply.error().message, kExitError);
  if (is_no_fit(*reply)) {
    err << "divvy: " << problem_text(*reply) << "\n" << holders_text(reply->body);
    if (!options.wait) return kExitNoFit;
    err << "divvy: waiting for a place\n" << std::flush;
    reply = daemon.ask("POST", "/v1/tenants", request_body(options, true), std::nullopt);
    if (!reply) return fail(reply.error().message, kExitError);
  }
  if (!reply->ok()) {
    if (reply->status == 422) {
      err << "divvy: " << problem_text(*reply) << "\n" << holders_text(reply->body);
      return kExitError;
    }
    return fail(problem_text(*reply), problem_exit(*reply));
  }

  const json::object grant = parse_object(reply->body);
  const json::value* environment = grant.if_contains("environment");
  const std::vector<std::string> present = present_environment();
  if (!get(present, "CUDA_VISIBLE_DEVICES").empty() && get(present, "DIVVY_SOCKET").empty()) {
    err << "divvy: CUDA_VISIBLE_DEVICES is replaced by the slice's GPUs; choose them with "
           "--device\n";
  }
  if (!options.quiet && ::isatty(STDERR_FILENO) != 0) err << granted_text(grant);
  const auto variables =
      command_environment(present, environment ? json::serialize(*environment) : "{}", used);
  const int status = variables ? become(options.command, *variables, err)
                               : fail(variables.error().message, kExitError);
  (void)daemon.ask("DELETE", fmt::format("/v1/tenants/{}", number_of(grant, "id")));
  return status;
}

}  // namespace divvy::cli
