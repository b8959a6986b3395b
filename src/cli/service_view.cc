#include "cli/service_view.h"

#include "base/counted.h"
#include "cli/job_view.h"

namespace divvy::cli {
namespace {

std::int64_t number(const Answer& value) { return value.number().value_or(0); }

Color color_of_service(const std::string& state) {
  if (state == "ready") return Color::kGreen;
  if (state == "starting" || state == "updating" || state == "deleting") return Color::kYellow;
  return Color::kDim;
}

ListColumn state_column() {
  return {.header = "STATE", .cell = [](const Answer& item) {
            const std::string state = item["state"].text();
            return Cell(state, color_of_service(state));
          }};
}

// "2 of 3"
std::string ready_text(const Answer& service) {
  return fmt::format("{} of {}", service["readyReplicas"].text(),
                     service["desiredReplicas"].text());
}

// "2", or "2, and 3 for 10 %"
std::string version_text(const Answer& service) {
  std::string text = service["stable"].text();
  const Answer candidate = service["candidate"];
  if (candidate.empty()) return text;
  return fmt::format("{}, {} for {} %", text, candidate["version"].text(),
                     candidate["weight"].text());
}

ListView replica_view() {
  ListView view;
  view.nothing = "no replicas";
  view.columns = {text_column("JOB", "job"),
                  text_column("VERSION", "version"),
                  text_column("STATE", "state"),
                  number_column("PORT", "port"),
                  number_column("IN FLIGHT", "inFlight"),
                  number_column("REQUESTS", "requests"),
                  number_column("ERRORS", "errors")};
  return view;
}

ListView version_view() {
  ListView view;
  view.nothing = "no versions";
  view.columns = {
      text_column("VERSION", "number"),
      text_column("STATE", "state"),
      {.header = "MADE",
       .cell = [](const Answer& one) { return Cell(moment_text(one["madeUnixMilliseconds"])); }},
      {.header = "COMMAND",
       .cell =
           [](const Answer& one) {
             std::string text = one["spec"]["container"]["image"].text();
             for (const Answer& word : one["spec"]["command"].items()) {
               if (!text.empty()) text += ' ';
               text += word.text();
             }
             return Cell(text.size() > 60 ? text.substr(0, 57) + "..." : text);
           }},
      text_column("TAKEN BACK BECAUSE", "rejected")};
  return view;
}

}  // namespace

std::string service_address(const Answer& service) {
  const std::string address = service["address"].text();
  const std::string port = service["port"].text();
  if (address == "127.0.0.1") return fmt::format("http://127.0.0.1:{}", port);
  return fmt::format("port {} of every address of the machine", port);
}

std::string replicas_text(const Answer& service) {
  const std::int64_t least = number(service["scale"]["least"]);
  const std::int64_t most = number(service["scale"]["most"]);
  if (least == most) return counted(static_cast<std::uint64_t>(least), "replica");
  return fmt::format("{} to {} replicas", least, most);
}

// "up to 8 requests each, answers within 50 ms, 70 % of each share of the GPU"
std::string scaling_text(const Answer& scale) {
  std::vector<std::string> by;
  if (const auto each = number(scale["inFlight"]); each > 0) {
    by.push_back(
        fmt::format("up to {} each", counted(static_cast<std::uint64_t>(each), "request")));
  }
  if (const auto latency = number(scale["latencyMs"]); latency > 0) {
    by.push_back(fmt::format("answers within {} ms", latency));
  }
  if (const auto use = number(scale["gpuUsePercent"]); use > 0) {
    by.push_back(fmt::format("{} % of each share of the GPU", use));
  }
  return fmt::format("{}", fmt::join(by, ", "));
}

ListView service_list_view() {
  ListView view;
  view.name = "name";
  view.nothing = "no services; divvy serve --help shows how to make one";
  view.columns = {
      text_column("NAME", "name"),
      state_column(),
      {.header = "READY", .cell = [](const Answer& item) { return Cell(ready_text(item)); }},
      {.header = "VERSION", .cell = [](const Answer& item) { return Cell(version_text(item)); }},
      {.header = "ADDRESS", .cell = [](const Answer& item) { return Cell(service_address(item)); }},
      number_column("IN FLIGHT", "inFlight"),
      text_column("OWNER", "owner"),
      {.header = "REPLICAS",
       .cell = [](const Answer& item) { return Cell(replicas_text(item)); },
       .wide = true},
      text_column("TROUBLE", "trouble", true)};
  return view;
}

std::string service_summary(const Answer& service, const Style& style) {
  std::string text = fmt::format("{} of {}: {}\n", service["name"].text(), service["owner"].text(),
                                 service["state"].text());
  const auto line = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("  {:<10} {}\n", name, value);
  };
  line("address", service_address(service));
  line("replicas", fmt::format("{} ready; {}", ready_text(service), replicas_text(service)));
  if (service["scale"]["least"].number() != service["scale"]["most"].number()) {
    line("scaled by", scaling_text(service["scale"]));
  }
  line("version", version_text(service));
  line("in flight", service["inFlight"].text());
  line("ready path", service["ready"].text());
  if (const std::string trouble = service["trouble"].text(); !trouble.empty()) {
    line("trouble", trouble);
  }
  const auto replicas = service["replicas"].items();
  if (!replicas.empty()) text += "\n" + show_rows(replica_view(), replicas, false, style);
  const auto history = service["history"].items();
  if (!history.empty()) {
    text += fmt::format("\nlast: {}  {}\n", moment_text(history.back()["unixMilliseconds"]),
                        history.back()["text"].text());
  }
  return text;
}

std::string service_history(const Answer& service, const Style& style) {
  std::string text = show_rows(version_view(), service["versions"].items(), false, style);
  const auto history = service["history"].items();
  if (!history.empty()) text += "\n";
  for (const Answer& step : history) {
    text += fmt::format("{}  {}\n", moment_text(step["unixMilliseconds"]), step["text"].text());
  }
  return text;
}

}  // namespace divvy::cli
