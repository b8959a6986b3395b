#include "cli/job_view.h"

#include <fmt/chrono.h>

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "cli/exit_codes.h"
#include "model/notify.h"

namespace divvy::cli {
namespace {

std::int64_t milliseconds(WallTime time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

std::string share_text(const Answer& thousandths) {
  const auto number =
      std::clamp<std::int64_t>(thousandths.number().value_or(0), 0, Share::kMaxThousandths);
  return to_string(Share(static_cast<std::uint32_t>(number)));
}

std::string state_text(const Answer& job) {
  const std::string why = job["stopping"].text();
  return job["state"].text() + (why.empty() ? "" : " (" + why + ")");
}

// What it was given last is its own no more: it will have another place.
bool waits_for_a_place(const Answer& job) {
  const std::string state = job["state"].text();
  return state == "queued" || state == "suspended";
}

// Since the start of the present attempt, up to its end.
std::optional<std::int64_t> seconds_of(const Answer& job, WallTime now) {
  if (waits_for_a_place(job)) return std::nullopt;
  const auto started = job["startedUnixMilliseconds"].number();
  const auto ended = job["endedUnixMilliseconds"].number();
  if (!started) return std::nullopt;
  return std::max<std::int64_t>(0, (ended.value_or(milliseconds(now)) - *started) / 1000);
}

std::optional<std::int64_t> age_of(const Answer& job, WallTime now) {
  const auto submitted = job["submittedUnixMilliseconds"].number();
  if (!submitted) return std::nullopt;
  return std::max<std::int64_t>(0, (milliseconds(now) - *submitted) / 1000);
}

std::string optional_span(std::optional<std::int64_t> seconds) {
  return seconds ? span_text(*seconds) : "";
}

std::string command_text(const Answer& spec) {
  std::string text;
  for (const Answer& word : spec["command"].items()) {
    const std::string raw = word.text();
    const bool plain = !raw.empty() && raw.find_first_of(" \"'$") == std::string::npos;
    text += (text.empty() ? "" : " ") + (plain ? raw : "'" + raw + "'");
  }
  return text;
}

// "GPU 3"
std::string gpu_name(const std::string& uuid, const GpuIndices& gpus) {
  const auto found = gpus.find(uuid);
  return found == gpus.end() ? uuid.substr(0, 12) : fmt::format("GPU {}", found->second);
}

// "GPU 0 on box, GPU 1 on box"
std::string places_text(const Answer& job, const GpuIndices& gpus) {
  std::string text;
  if (waits_for_a_place(job)) return text;
  for (const Answer& member : job["running"].items()) {
    for (const Answer& slice : member["slices"].items()) {
      if (!text.empty()) text += ", ";
      text += fmt::format("{}{}", gpu_name(slice["gpu"].text(), gpus),
                          member["node"].text().empty() ? "" : " on " + member["node"].text());
    }
  }
  return text;
}

std::string end_text(const Answer& end) {
  if (end.empty()) return "";
  std::string text = end["signal"].number().value_or(0) != 0
                         ? "killed by signal " + end["signal"].text()
                         : "exit status " + end["exitCode"].text();
  const std::string reason = end["reason"].text();
  return reason.empty() ? text : text + " (" + reason + ")";
}

// Lines of a name and a value, aligned.
class Lines {
 public:
  void add(const std::string& name, const std::string& value) {
    if (!value.empty()) text_ += fmt::format("  {:<10} {}\n", name, value);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string starts_text(const Answer& starts, WallTime now) {
  const auto at = starts.number();
  if (!at) return "nobody can tell yet";
  const std::int64_t seconds = (*at - milliseconds(now)) / 1000;
  if (seconds <= 0) return "any moment";
  return fmt::format("in about {} (at {})", span_text(seconds), moment_text(starts));
}

void add_wait(Lines& lines, const Answer& waits, WallTime now) {
  if (waits.empty() || waits["kind"].text() == "nothing") return;
  if (!waits["place"].empty()) {
    lines.add("place",
              fmt::format("{} of {} in line", waits["place"].text(), waits["inLine"].text()));
  }
  lines.add("waits for", waits["text"].text());
  if (waits["kind"].text() != "never" && waits["kind"].text() != "suspended") {
    lines.add("starts", starts_text(waits["startsUnixMilliseconds"], now));
  }
}

std::string bytes_text(const Answer& bytes) {
  const auto number = bytes.number();
  return number ? humanize(Bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(*number, 0))))
                : "";
}

// "0.8s", "1m30s"
std::string time_text(const Answer& milliseconds) {
  const auto number = milliseconds.number();
  if (!number) return "";
  if (*number < 10'000) return fmt::format("{:.1f}s", static_cast<double>(*number) / 1000);
  return span_text(*number / 1000);
}

// "; ran 1m30s until 2026-11-16T..., CPU 1m20s, RAM 2GiB, GPU memory 9GiB"
std::string attempt_use_text(const Answer& attempt, const Answer& end) {
  std::string text;
  const auto add = [&text](const char* name, const std::string& value) {
    if (!value.empty()) text += fmt::format("{}{} {}", text.empty() ? "; " : ", ", name, value);
  };
  const auto started = attempt["startedUnixMilliseconds"].number();
  const auto ended = end["unixMilliseconds"].number();
  if (started && ended) {
    add("ran", span_text(std::max<std::int64_t>(0, *ended - *started) / 1000) + " until " +
                   moment_text(end["unixMilliseconds"]));
  }
  add("CPU", time_text(end["cpuMilliseconds"]));
  add("RAM", bytes_text(end["ramPeakBytes"]));
  add("GPU memory", bytes_text(end["gpuMemoryPeakBytes"]));
  return text;
}

void add_accounting(Lines& lines, const Answer& used) {
  if (used.empty()) return;
  lines.add("waited", time_text(used["waitedMilliseconds"]));
  lines.add("ran", time_text(used["ranMilliseconds"]));
  if (used["gpuHeldMilliseconds"].number().value_or(0) > 0) {
    lines.add("GPU time", fmt::format("{} held, {} used", time_text(used["gpuHeldMilliseconds"]),
                                      time_text(used["gpuUsedMilliseconds"])));
  }
  const auto peak = [&lines](const char* name, const std::string& text) {
    lines.add(name, text.empty() ? "" : text + " at most");
  };
  peak("GPU memory", bytes_text(used["gpuMemoryPeakBytes"]));
  lines.add("CPU time", time_text(used["cpuMilliseconds"]));
  peak("RAM", bytes_text(used["ramPeakBytes"]));
}

// Of the members of its last attempt: the sum, or the largest.
std::optional<std::int64_t> used_by_members(const Answer& job, const char* field, bool sum) {
  std::optional<std::int64_t> result;
  for (const Answer& member : job["running"].items()) {
    const auto one = member["end"][field].number();
    if (!one) continue;
    result = !result ? *one : sum ? *result + *one : std::max(*result, *one);
  }
  return result;
}

ListColumn used_column(const char* header, const char* field, bool sum) {
  const auto number = [field, sum](const Answer& job) { return used_by_members(job, field, sum); };
  return {.header = header,
          .cell =
              [number, sum](const Answer& job) {
                const auto value = number(job);
                if (!value) return Cell("");
                return Cell(sum ? span_text(*value / 1000)
                                : humanize(Bytes(static_cast<std::uint64_t>(*value))));
              },
          .align = Align::kRight,
          .wide = true,
          .number = number};
}

// Without what may be a secret in the address: terminals are looked at by others.
std::string notify_text(const Answer& notify) {
  if (notify.empty()) return "";
  const auto url = model::WebhookUrl::parse(notify["url"].raw());
  if (!url) return "";
  std::string ends;
  for (const Answer& end : notify["on"].items()) ends += (ends.empty() ? "" : ", ") + end.text();
  return fmt::format("{}{}{} when {}", url->origin(), url->path, url->query.empty() ? "" : "?...",
                     ends);
}

}  // namespace

Color color_of_state(std::string_view state) {
  if (state == "running" || state == "succeeded") return Color::kGreen;
  if (state == "failed") return Color::kRed;
  if (state == "cancelled") return Color::kDim;
  return Color::kYellow;
}

bool is_final_state(std::string_view state) {
  return state == "succeeded" || state == "failed" || state == "cancelled";
}

std::string job_gpu_text(const Answer& job) {
  const std::int64_t members = job["members"].number().value_or(1);
  // By its memory alone it is a part of a GPU as large as that.
  const bool by_memory = job["shareThousandths"].number() == 0 && !job["gpuMemoryBytes"].empty();
  const std::string part =
      by_memory ? bytes_text(job["gpuMemoryBytes"]) : share_text(job["shareThousandths"]);
  return members == 1 ? part : fmt::format("{} x {}", members, part);
}

int exit_status_of(const Answer& job) {
  if (job["state"].text() == "succeeded") return kExitOk;
  for (const Answer& member : job["running"].items()) {
    const auto signal = member["end"]["signal"].number().value_or(0);
    const auto code = member["end"]["exitCode"].number().value_or(0);
    if (signal > 0) return 128 + static_cast<int>(signal & 127);
    if (code > 0) return static_cast<int>(code & 255);
  }
  return kExitError;
}

std::string span_text(std::int64_t seconds) {
  if (seconds < 60) return fmt::format("{}s", seconds);
  if (seconds < 3600) return fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  if (seconds < 86'400) return fmt::format("{}h{:02}m", seconds / 3600, seconds / 60 % 60);
  return fmt::format("{}d{:02}h", seconds / 86'400, seconds / 3600 % 24);
}

std::string moment_text(const Answer& value) {
  const auto number = value.number();
  if (!number) return "";
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}Z",
                     fmt::gmtime(static_cast<std::time_t>(*number / 1000)));
}

GpuIndices gpu_indices(const Answer& gpus) {
  GpuIndices indices;
  for (const Answer& gpu : gpus["items"].items()) {
    const auto index = gpu["index"].number();
    if (index) indices[gpu["uuid"].text()] = static_cast<std::uint64_t>(*index);
  }
  return indices;
}

ListView job_list_view(WallTime now, const GpuIndices& gpus) {
  ListView view;
  view.name = "id";
  view.nothing = "there are no such jobs";
  view.columns = {
      number_column("ID", "id"),
      text_column("NAME", "name"),
      text_column("USER", "owner"),
      text_column("QUEUE", "queue"),
      {.header = "STATE",
       .cell =
           [](const Answer& job) {
             return Cell(state_text(job), color_of_state(job["state"].text()));
           }},
      {.header = "GPU",
       .cell = [](const Answer& job) { return Cell(job_gpu_text(job)); },
       .align = Align::kRight,
       .number =
           [](const Answer& job) {
             return std::optional(job["shareThousandths"].number().value_or(0) *
                                  job["members"].number().value_or(1));
           }},
      {.header = "AGE",
       .cell = [now](const Answer& job) { return Cell(optional_span(age_of(job, now))); },
       .align = Align::kRight,
       .number = [now](const Answer& job) { return age_of(job, now); }},
      {.header = "TIME",
       .cell = [now](const Answer& job) { return Cell(optional_span(seconds_of(job, now))); },
       .align = Align::kRight,
       .number = [now](const Answer& job) { return seconds_of(job, now); }},
      text_column("CLASS", "class", true),
      number_column("PRIORITY", "priority", true),
      number_column("ATTEMPT", "attempt", true),
      number_column("ARRAY", "array", true),
      used_column("CPU", "cpuMilliseconds", true),
      used_column("RAM", "ramPeakBytes", false),
      used_column("GPU MEMORY", "gpuMemoryPeakBytes", false),
      {.header = "WHERE",
       .cell = [gpus](const Answer& job) { return Cell(places_text(job, gpus)); },
       .wide = true},
      {.header = "COMMAND",
       .cell = [](const Answer& job) { return Cell(command_text(job["spec"])); },
       .wide = true},
      {.header = "MADE BY",
       .cell =
           [](const Answer& job) {
             const Answer workload = job["workload"];
             if (workload.empty()) return Cell("");
             return Cell(workload["kind"].text() + " " + workload["name"].text());
           },
       .wide = true}};
  return view;
}

std::string job_summary(const Answer& job, const GpuIndices& gpus, WallTime now,
                        const Style& style) {
  const std::string state = job["state"].text();
  Lines lines;
  lines.add("user", job["owner"].text());
  lines.add("queue", job["queue"].text());
  if (!job["workload"].empty()) {
    lines.add("made by", job["workload"]["kind"].text() + " " + job["workload"]["name"].text());
  }
  lines.add("GPU", job_gpu_text(job) + (job["class"].text() == "latency" ? ", latency" : ""));
  if (!job["array"].empty()) {
    lines.add("array", job["array"].text() + ", index " + job["arrayIndex"].text());
  }
  lines.add("submitted", moment_text(job["submittedUnixMilliseconds"]));
  lines.add("started", moment_text(job["startedUnixMilliseconds"]));
  lines.add("ended", moment_text(job["endedUnixMilliseconds"]));
  if (!is_final_state(state)) lines.add("time", optional_span(seconds_of(job, now)));
  lines.add("where", places_text(job, gpus));
  if (is_final_state(state)) {
    for (const Answer& member : job["running"].items()) {
      lines.add(fmt::format("rank {}", member["rank"].text()), end_text(member["end"]));
    }
  }
  // Who has ended says why where that is not what was hoped for.
  if (state == "failed" || state == "cancelled") {
    const auto steps = job["history"].items();
    if (!steps.empty()) lines.add("reason", steps.back()["reason"].text());
  }
  add_accounting(lines, job["accounting"]);
  add_wait(lines, job["waits"], now);
  if (const auto idle = job["idleLeftSeconds"].number()) {
    lines.add("idle", "does not use its GPU; ended in " + span_text(*idle));
  }
  return fmt::format("Job {} {}: {}\n{}", job["id"].text(), job["name"].text(),
                     style.paint(color_of_state(state), state_text(job)), lines.text());
}

std::string job_description(const Answer& job, const Answer& attempts, const GpuIndices& gpus,
                            WallTime now, const Style& style) {
  std::string text = job_summary(job, gpus, now, style);
  const Answer spec = job["spec"];
  if (spec.empty()) return text + "\nWhat is inside it is for its owner and operators.\n";
  Lines asked;
  asked.add("command", command_text(spec));
  const std::string holder = spec["holder"].text();
  if (holder == "process") asked.add("held by", "a process of its owner (divvy run)");
  if (holder == "slice") asked.add("held by", "its name, for containers (divvy slice create)");
  asked.add("image", spec["container"]["image"].text());
  asked.add("folder", spec["working_directory"].text());
  asked.add("memory", spec["gpu_memory"].text());
  asked.add("priority", spec["priority"].text());
  asked.add("limit", spec["time_limit"].text());
  asked.add("expected", spec["expected"].text());
  for (const std::string& name : spec["environment"].names()) asked.add("variable", name);
  for (const std::string& name : spec["secrets"].names()) {
    asked.add("secret", fmt::format("{} in {}", spec["secrets"][name].text(), name));
  }
  asked.add("notify", notify_text(spec["notify"]));
  for (const Answer& other : spec["after"].items()) {
    asked.add("after", other["job"].text() + " " + other["kind"].text());
  }
  for (const std::string& name : spec["labels"].names()) {
    asked.add("label", name + "=" + spec["labels"][name].text());
  }
  text += "\nAsked for:\n" + asked.text();
  text += "\nHistory:\n";
  for (const Answer& step : job["history"].items()) {
    text += fmt::format("  {}  {}  {}", moment_text(step["unixMilliseconds"]),
                        style.paint(color_of_state(step["state"].text()),
                                    fmt::format("{:<9}", step["state"].text())),
                        step["reason"].text());
    text.erase(text.find_last_not_of(' ') + 1);
    text += "\n";
  }
  const auto tried = attempts["items"].items();
  if (tried.empty()) return text;
  text += "\nAttempts:\n";
  for (const Answer& attempt : tried) {
    for (const Answer& member : attempt["members"].items()) {
      std::string where;
      for (const Answer& slice : member["slices"].items()) {
        where += (where.empty() ? "" : ", ") + share_text(slice["shareThousandths"]) + " of " +
                 gpu_name(slice["gpu"].text(), gpus);
      }
      const std::string end = end_text(member["end"]);
      text += fmt::format("  {}, rank {}: {}{}{}\n", attempt["attempt"].text(),
                          member["rank"].text(), where, end.empty() ? "" : "; " + end,
                          attempt_use_text(attempt, member["end"]));
    }
  }
  return text;
}

std::string job_explanation(const Answer& explanation, WallTime now, const Style& style) {
  const std::string id = explanation["job"].text();
  const std::string state = explanation["state"].text();
  std::string text = fmt::format("Job {}: {}\n", id, style.paint(color_of_state(state), state));
  if (is_final_state(state)) {
    return text + fmt::format("  It has ended; `divvy describe {}` tells how.\n", id);
  }
  if (state != "queued" && state != "suspended") {
    return text + fmt::format("  It does not wait; `divvy get {}` tells where it is.\n", id);
  }
  Lines lines;
  add_wait(lines, explanation["waits"], now);
  text += lines.text();
  const std::string details = explanation["details"].raw();
  const std::string_view trimmed = trim(details);
  if (trimmed.empty()) return text;
  text += "\n";
  for (const std::string_view line : split(details, '\n')) {
    if (!line.empty()) text += escape_for_terminal(line) + "\n";
  }
  return text;
}

}  // namespace divvy::cli
