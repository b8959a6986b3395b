#include "cli/events_command.h"

#include <fmt/chrono.h>

#include <boost/json.hpp>
#include <chrono>
#include <ostream>

#include "cli/answer.h"
#include "cli/exit_codes.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

// The daemon answers sooner when something happens; this only bounds one question.
constexpr int kWaitSeconds = 30;

std::string text(const json::object& from, std::string_view name) {
  const json::value& value = from.at(name);
  return value.is_null() ? std::string() : std::string(value.as_string());
}

std::string time_text(std::int64_t milliseconds) {
  const auto seconds = static_cast<std::time_t>(milliseconds / 1000);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}Z", fmt::gmtime(seconds));
}

Color color_of(std::string_view state) {
  if (state == "quarantined") return Color::kRed;
  return state == "healthy" ? Color::kGreen : Color::kYellow;
}

// 2026-01-01T00:00:00Z  health  GPU 0  quarantined  XID 79: ...
std::string line_of(const json::object& event, const Style& style) {
  const std::string kind = text(event, "kind");
  const std::string state = kind == "health" ? text(event, "state") : "";
  const std::string tenant = text(event, "tenant");
  const std::string gpu = event.at("gpu").is_null()
                              ? ""
                              : fmt::format("GPU {}", event.at("gpu").to_number<std::uint32_t>());
  std::string line = fmt::format("{}  {:<8}  {:<6}  ",
                                 time_text(event.at("unixMilliseconds").as_int64()), kind, gpu);
  if (!state.empty()) line += style.paint(color_of(state), fmt::format("{:<11}", state)) + "  ";
  if (!tenant.empty()) line += tenant + ": ";
  line += text(event, "reason");
  while (line.ends_with(' ')) line.pop_back();
  return line + "\n";
}

}  // namespace

std::optional<std::string> write_event(const std::string& document, const std::string& name,
                                       OutputFormat format) {
  switch (format) {
    case OutputFormat::kJson:
      return document + "\n";
    case OutputFormat::kYaml:
      return "---\n" + to_yaml(document);
    case OutputFormat::kName: {
      const auto answer = Answer::parse(document);
      return (answer ? (*answer)[name].text() : "") + "\n";
    }
    default:
      return std::nullopt;
  }
}

Result<std::string> event_lines(const std::string& document, OutputFormat format,
                                const Style& style, std::uint64_t& last) {
  try {
    const json::value value = json::parse(document);
    const json::object& list = value.as_object();
    std::string lines;
    for (const json::value& item : list.at("items").as_array()) {
      lines += write_event(json::serialize(item), "number", format)
                   .value_or(line_of(item.as_object(), style));
    }
    last = list.at("last").to_number<std::uint64_t>();
    return lines;
  } catch (const std::exception& error) {
    return err(not_understood(error.what()));
  }
}

int show_events(const Daemon& daemon, const EventsOptions& options, const Style& style,
                std::ostream& out, std::ostream& err) {
  std::uint64_t since = options.since;
  for (bool first = true;; first = false) {
    // What there is already comes at once; only then is there something to wait for.
    const int wait = options.follow && !first ? kWaitSeconds : 0;
    const auto reply = daemon.ask("GET", fmt::format("/v1/events?since={}&wait={}", since, wait),
                                  {}, std::chrono::seconds(kWaitSeconds + 30));
    if (!reply) {
      err << "divvy: " << reply.error().message << "\n";
      return kExitError;
    }
    if (!reply->ok()) {
      err << "divvy: " << problem_text(*reply) << "\n";
      return problem_exit(*reply);
    }
    const auto lines = event_lines(reply->body, options.format, style, since);
    if (!lines) {
      err << "divvy: " << lines.error().message << "\n";
      return kExitError;
    }
    out << *lines << std::flush;
    if (!out) return kExitError;
    if (lines->empty() && first && options.since == 0 && options.format != OutputFormat::kJson) {
      err << "divvy: nothing has happened to the GPUs; `divvy events --jobs` tells of jobs\n";
    }
    if (!options.follow) return kExitOk;
  }
}

}  // namespace divvy::cli
