// `divvy schedule`: jobs that are submitted at times that come again. `divvy submit --every` makes
// them.
#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <memory>

#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/job_help_texts.h"
#include "cli/job_view.h"
#include "cli/list_view.h"
#include "cli/schedule_submit.h"
#include "cli/session.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

std::string path_of(const std::string& name) { return "/v1/schedules/" + escape_for_url(name); }

// "in 3h04m"; empty for nothing.
std::string from_now(const Answer& milliseconds, WallTime now) {
  const auto at = milliseconds.number();
  if (!at) return "";
  const auto now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch());
  const std::int64_t seconds = (*at - now_ms.count()) / 1000;
  return seconds >= 0 ? "in " + span_text(seconds) : span_text(-seconds) + " ago";
}

ListView schedule_view(WallTime now) {
  ListView view;
  view.name = "name";
  view.nothing = "there are no schedules; `divvy submit --every` makes one";
  const auto when = [now](const char* field) {
    return [now, field](const Answer& one) { return Cell(from_now(one[field], now)); };
  };
  const auto moment = [](const char* field) {
    return [field](const Answer& one) { return one[field].number(); };
  };
  view.columns = {text_column("NAME", "name"),
                  text_column("USER", "owner"),
                  text_column("EVERY", "every"),
                  {.header = "NEXT",
                   .cell =
                       [next = when("nextUnixMilliseconds")](const Answer& one) {
                         return one["suspended"].flag() ? Cell("suspended", Color::kYellow)
                                                        : next(one);
                       },
                   .number = moment("nextUnixMilliseconds")},
                  {.header = "LAST",
                   .cell = when("lastUnixMilliseconds"),
                   .number = moment("lastUnixMilliseconds")},
                  number_column("JOB", "lastJob"),
                  text_column("MISSED", "missed", true),
                  text_column("OVERLAP", "overlap", true),
                  text_column("TROUBLE", "trouble")};
  return view;
}

Result<int> list(const Session& session, const std::string& typed_format) {
  DIVVY_TRY(format, parse_output_format(typed_format, kListFormats));
  const Asked all = ask(session, "GET", "/v1/schedules");
  if (!all) return all.status();
  DIVVY_TRY(text, show_list(schedule_view(session.now()), all.body(), format, "", session.style));
  return session.print(text);
}

Result<int> set_suspended(const Session& session, const std::vector<std::string>& names,
                          bool suspended) {
  int status = kExitOk;
  for (const std::string& name : names) {
    const Asked done = ask(session, "PATCH", path_of(name),
                           json::serialize(json::object{{"suspended", suspended}}));
    if (done) {
      (void)session.print(fmt::format(
          "schedule {} {}\n", done.answer()["name"].text(),
          suspended ? "is suspended"
                    : "goes on " + from_now(done.answer()["nextUnixMilliseconds"], session.now())));
    } else if (status == kExitOk) {
      status = done.status();
    }
  }
  return status;
}

Result<int> remove(const Session& session, const std::vector<std::string>& names) {
  int status = kExitOk;
  for (const std::string& name : names) {
    const Asked done = ask(session, "DELETE", path_of(name));
    if (done) {
      (void)session.print(fmt::format("schedule {} is deleted; jobs that it submitted go on\n",
                                      done.answer()["name"].text()));
    } else if (status == kExitOk) {
      status = done.status();
    }
  }
  return status;
}

}  // namespace

int submit_schedule(const Session& session, const ScheduleWish& wish, json::object job,
                    OutputFormat format) {
  const json::value* const named = job.if_contains("name");
  if (named == nullptr || !named->is_string()) {
    session.say("a schedule needs a name: --name nightly");
    return kExitUsage;
  }
  json::object body{{"name", *named}, {"every", wish.every}};
  if (wish.missed) body["missed"] = *wish.missed;
  if (wish.overlap) body["overlap"] = *wish.overlap;
  body["job"] = std::move(job);
  const Asked made = ask(session, "POST", "/v1/schedules", json::serialize(body));
  if (!made) return made.status();
  if (format == OutputFormat::kJson || format == OutputFormat::kYaml) {
    return session.print(write_document(made.body(), format));
  }
  const std::string name = made.answer()["name"].text();
  if (format == OutputFormat::kName) return session.print(name + "\n");
  return session.print(fmt::format("schedule {} runs {}\n", name,
                                   from_now(made.answer()["nextUnixMilliseconds"], session.now())));
}

void add_schedule_commands(CommandTree& tree) {
  CLI::App* group = tree.add(heading::kJobs, "schedule",
                             "Jobs that are submitted at times that come again", kScheduleFooter);
  auto format = std::make_shared<std::string>("table");
  CLI::App* command = tree.add_below(
      *group, "list", "Schedules, their next time and their last job", kScheduleListFooter,
      [format](const Session& session) { return list(session, *format); });
  add_output(*command, *format, kListFormats);
  const auto add = [&](const char* name, const char* text, const char* footer, auto action) {
    auto names = std::make_shared<std::vector<std::string>>();
    CLI::App* const one =
        tree.add_below(*group, name, text, footer,
                       [names, action](const Session& session) { return action(session, *names); });
    one->add_option("SCHEDULE", *names, "Their names")->required();
  };
  add("suspend", "Submit nothing until it is resumed", kScheduleSuspendFooter,
      [](const Session& session, const std::vector<std::string>& names) {
        return set_suspended(session, names, true);
      });
  add("resume", "Go on; what came in between is left out", kScheduleResumeFooter,
      [](const Session& session, const std::vector<std::string>& names) {
        return set_suspended(session, names, false);
      });
  add("delete", "Forget schedules; their jobs go on", kScheduleDeleteFooter, remove);
}

}  // namespace divvy::cli
