// Commands about queues, what users may have, and what was used: queue, quota, usage.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <memory>

#include "base/text.h"
#include "base/units.h"
#include "cli/command_groups.h"
#include "cli/command_tree.h"
#include "cli/exit_codes.h"
#include "cli/job_reference.h"
#include "cli/list_view.h"
#include "cli/people_help_texts.h"
#include "cli/session.h"
#include "cli/since.h"
#include "model/job_spec.h"
#include "model/name.h"
#include "model/seconds.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

constexpr OutputFormat kFormats[] = {OutputFormat::kTable, OutputFormat::kWide, OutputFormat::kJson,
                                     OutputFormat::kYaml,  OutputFormat::kName, OutputFormat::kCsv};

std::string bytes_text(const Answer& count) {
  const auto number = count.number();
  return number && *number >= 0 ? humanize(Bytes(static_cast<std::uint64_t>(*number))) : "";
}

// "1.5 of 4", or "1.5" where there is no limit.
ListColumn held_column(std::string header, const std::string& limits, const std::string& field,
                       bool wide = false) {
  const bool bytes = field == "memoryBytes";
  return {.header = std::move(header),
          .cell =
              [=](const Answer& item) {
                const Answer held = item["held"][field];
                const Answer most = item[limits][field];
                const std::string has = bytes ? bytes_text(held) : held.text();
                return Cell(most.empty() ? has
                                         : has + " of " + (bytes ? bytes_text(most) : most.text()));
              },
          .align = Align::kRight,
          .wide = wide};
}

// With three places at most, and no zeros at the end: 0, 1.5, 12.004.
std::string decimal_text(const std::string& written) {
  double value = 0;
  const auto read = std::from_chars(written.data(), written.data() + written.size(), value);
  if (written.empty() || read.ec != std::errc()) return written;
  std::string text = fmt::format("{:.3f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

ListColumn decimal_column(std::string header, const std::string& field) {
  return {.header = std::move(header),
          .cell = [field](const Answer& item) { return Cell(decimal_text(item[field].text())); },
          .align = Align::kRight,
          .number = [field](const Answer& item) -> std::optional<std::int64_t> {
            double value = 0;
            const std::string written = item[field].text();
            const auto read =
                std::from_chars(written.data(), written.data() + written.size(), value);
            if (written.empty() || read.ec != std::errc()) return std::nullopt;
            return static_cast<std::int64_t>(std::clamp(value, -1e12, 1e12) * 1000);
          }};
}

ListColumn time_column(std::string header, const std::string& field) {
  return {.header = std::move(header),
          .cell =
              [field](const Answer& item) {
                const auto seconds = item[field].number();
                return Cell(seconds ? model::seconds_text(model::Seconds(*seconds)) : "");
              },
          .align = Align::kRight,
          .wide = true,
          .number = [field](const Answer& item) { return item[field].number(); }};
}

ListView queue_view() {
  ListView view;
  view.name = "path";
  view.nothing = "there are no queues";
  view.columns = {
      text_column("QUEUE", "path"),
      held_column("GPU", "quota", "gpu"),
      held_column("MEMORY", "quota", "memoryBytes"),
      held_column("JOBS", "quota", "jobs"),
      number_column("WAITING", "waiting"),
      decimal_column("BORROWED", "borrowedGpu"),
      number_column("WEIGHT", "weight", true),
      {.header = "BORROWS",
       .cell = [](const Answer& queue) { return Cell(queue["mayBorrow"].flag() ? "yes" : "no"); },
       .wide = true},
      time_column("TIME LIMIT", "defaultTimeLimitSeconds"),
      time_column("MOST TIME", "maxTimeLimitSeconds"),
      decimal_column("MOST GPU", "mostGpu"),
      decimal_column("GPU HOURS", "usedGpuHours"),
      decimal_column("SCORE", "score")};
  for (std::size_t i = view.columns.size() - 3; i < view.columns.size(); ++i) {
    view.columns[i].wide = true;
  }
  return view;
}

ListView quota_view() {
  ListView view;
  view.name = "user";
  view.nothing = "nobody has a job or a quota";
  view.columns = {text_column("USER", "user"), held_column("GPU", "most", "gpu"),
                  held_column("MEMORY", "most", "memoryBytes"),
                  held_column("JOBS", "most", "jobs")};
  return view;
}

struct ListArguments {
  std::string format = "table";
  std::string sort_by;
};

void add_listing(CommandTree& tree, CLI::App& above, const char* summary, const std::string& path,
                 ListView (*view)()) {
  auto arguments = std::make_shared<ListArguments>();
  CLI::App* command =
      tree.add_below(above, "list", summary, "", [=](const Session& session) -> Result<int> {
        DIVVY_TRY(format, parse_output_format(arguments->format, kFormats));
        std::vector<Answer> none;
        DIVVY_RETURN_IF_ERROR(sort_items(view(), arguments->sort_by, none));
        const Asked asked = ask(session, "GET", path);
        if (!asked) return asked.status();
        DIVVY_TRY(text, show_list(view(), asked.body(), format, arguments->sort_by, session.style));
        return session.print(text);
      });
  add_output(*command, arguments->format, kFormats);
  command->add_option("--sort-by", arguments->sort_by, "A column; -gpu turns it round")
      ->type_name("COLUMN");
}

struct QuotaArguments {
  std::string name;
  std::optional<std::string> gpu, memory, user_gpu, user_memory, most_gpu, idle_after, idle_warning;
  std::optional<std::string> default_time_limit, max_time_limit;
  std::optional<std::uint32_t> jobs, user_jobs, weight;
  bool no_borrow = false;
};

json::object quota_body(const QuotaArguments& arguments) {
  json::object body;
  const auto put = [&body](const char* field, const auto& value) {
    if (value) body[field] = *value;
  };
  put("gpu", arguments.gpu);
  put("memory", arguments.memory);
  put("jobs", arguments.jobs);
  put("user_gpu", arguments.user_gpu);
  put("user_memory", arguments.user_memory);
  put("user_jobs", arguments.user_jobs);
  put("most_gpu", arguments.most_gpu);
  put("weight", arguments.weight);
  put("default_time_limit", arguments.default_time_limit);
  put("max_time_limit", arguments.max_time_limit);
  put("idle_after", arguments.idle_after);
  put("idle_warning", arguments.idle_warning);
  if (arguments.no_borrow) body["borrow"] = false;
  return body;
}

void add_quota_options(CLI::App& command, QuotaArguments& arguments) {
  command.add_option("--gpu", arguments.gpu, "GPUs at one time: 2, 2.5")->type_name("SHARE");
  command.add_option("--gpu-mem", arguments.memory, "GPU memory at one time")->type_name("SIZE");
  command.add_option("--jobs", arguments.jobs, "Jobs at one time")->type_name("NUMBER");
  command.add_option("--weight", arguments.weight, "Of its fair share, beside the others (1)")
      ->type_name("NUMBER");
}

int put_and_say(const Session& session, const std::string& path, const QuotaArguments& arguments,
                const std::string& what) {
  const Asked done = ask(session, "PUT", path, json::serialize(quota_body(arguments)));
  return done ? session.print(fmt::format("{} {} is set\n", what, arguments.name)) : done.status();
}

int reset_and_say(const Session& session, const std::string& path, const std::string& name,
                  const std::string& what) {
  const Asked done = ask(session, "DELETE", path);
  return done ? session.print(fmt::format("{} {} is as the configuration has it\n", what, name))
              : done.status();
}

void add_queue(CommandTree& tree) {
  CLI::App* queue =
      tree.add(heading::kPeople, "queue", "Queues: what they have and may have", kQueueFooter);
  add_listing(tree, *queue, "How the queues stand", "/v1/queues", queue_view);
  auto arguments = std::make_shared<QuotaArguments>();
  CLI::App* set = tree.add_below(
      *queue, "set", "Say what a queue may have; for operators", kQueueSetFooter,
      [arguments](const Session& session) -> Result<int> {
        DIVVY_RETURN_IF_ERROR(model::check_queue_path(arguments->name));
        return put_and_say(session, "/v1/queues/" + arguments->name, *arguments, "queue");
      });
  set->add_option("QUEUE", arguments->name, "Like research/vision")->required();
  add_quota_options(*set, *arguments);
  set->add_flag("--no-borrow", arguments->no_borrow, "Never more than its quota");
  set->add_option("--most-gpu", arguments->most_gpu, "Never more than this, borrowed or not")
      ->type_name("SHARE");
  set->add_option("--user-gpu", arguments->user_gpu, "GPUs of each user in it")->type_name("SHARE");
  set->add_option("--user-gpu-mem", arguments->user_memory, "GPU memory of each user in it")
      ->type_name("SIZE");
  set->add_option("--user-jobs", arguments->user_jobs, "Jobs of each user in it")
      ->type_name("NUMBER");
  set->add_option("--default-time-limit", arguments->default_time_limit,
                  "Of jobs that name none; queues below have it, too, unless they say otherwise")
      ->type_name("TIME");
  set->add_option("--max-time-limit", arguments->max_time_limit,
                  "No job in it or in the queues below may ask for more")
      ->type_name("TIME");
  set->add_option("--idle-after", arguments->idle_after,
                  "End jobs that have not used their GPU for so long")
      ->type_name("TIME");
  set->add_option("--idle-warning", arguments->idle_warning, "Warn them so long before")
      ->type_name("TIME");
  auto name = std::make_shared<std::string>();
  CLI::App* reset =
      tree.add_below(*queue, "reset", "Back to what the configuration says; for operators", "",
                     [name](const Session& session) -> Result<int> {
                       DIVVY_RETURN_IF_ERROR(model::check_queue_path(*name));
                       return reset_and_say(session, "/v1/queues/" + *name, *name, "queue");
                     });
  reset->add_option("QUEUE", *name, "Like research/vision")->required();
}

void add_quota(CommandTree& tree) {
  CLI::App* quota =
      tree.add(heading::kPeople, "quota", "What users have and may have", kQuotaFooter);
  add_listing(tree, *quota, "What users have and may have", "/v1/quotas", quota_view);
  auto arguments = std::make_shared<QuotaArguments>();
  CLI::App* set = tree.add_below(
      *quota, "set", "Say what a user may have; for operators", kQuotaSetFooter,
      [arguments](const Session& session) -> Result<int> {
        DIVVY_RETURN_IF_ERROR(model::check_name("user", arguments->name));
        return put_and_say(session, "/v1/quotas/" + arguments->name, *arguments, "the quota of");
      });
  set->add_option("USER", arguments->name, "Whose it is")->required();
  add_quota_options(*set, *arguments);
  auto name = std::make_shared<std::string>();
  CLI::App* reset =
      tree.add_below(*quota, "reset", "Back to what the configuration says; for operators", "",
                     [name](const Session& session) -> Result<int> {
                       DIVVY_RETURN_IF_ERROR(model::check_name("user", *name));
                       return reset_and_say(session, "/v1/quotas/" + *name, *name, "the quota of");
                     });
  reset->add_option("USER", *name, "Whose it is")->required();
}

// GPU-hours of thousandths of a GPU times seconds.
std::string hours_text(const Answer& share_seconds) {
  const std::int64_t thousandths = (share_seconds.number().value_or(0) + 1800) / 3600;
  return fmt::format("{}.{:03}", thousandths / 1000, thousandths % 1000);
}

ListColumn hours_column(std::string header, const std::string& field) {
  return {.header = std::move(header),
          .cell = [field](const Answer& sum) { return Cell(hours_text(sum[field])); },
          .align = Align::kRight,
          .number = [field](const Answer& sum) { return sum[field].number(); }};
}

constexpr std::string_view kUsageKinds[] = {"user", "queue", "job", "hour"};
constexpr const char* kUsageHeads[] = {"USER", "QUEUE", "JOB", "HOUR"};

struct UsageArguments {
  std::string by = "user";
  std::string since, before, user, queue, job, sort_by;
  std::string format = "table";
};

Result<int> usage(const Session& session, const UsageArguments& arguments) {
  DIVVY_TRY(format, parse_output_format(arguments.format, kFormats));
  const auto* const kind = std::ranges::find(kUsageKinds, arguments.by);
  if (kind == std::end(kUsageKinds)) {
    const auto meant = did_you_mean(arguments.by, kUsageKinds);
    return err(ErrorCode::kInvalidArgument, "--by: \"{}\" is not user, queue, job or hour{}",
               escape_for_terminal(arguments.by),
               meant ? fmt::format("; did you mean {}?", *meant) : "");
  }
  const char* const head = kUsageHeads[kind - std::begin(kUsageKinds)];
  ListView view;
  view.name = "name";
  view.nothing = "nothing was used";
  view.columns = {text_column(head, "name"), number_column("JOBS", "jobs"),
                  hours_column("GPU HOURS", "heldShareThousandthSeconds"),
                  hours_column("OF THEM USED", "usedShareThousandthSeconds"),
                  hours_column("CPU HOURS", "cpuMilliseconds")};
  std::vector<Answer> none;
  DIVVY_RETURN_IF_ERROR(sort_items(view, arguments.sort_by, none));
  QueryParts query{{"by", arguments.by}, {"user", arguments.user}, {"queue", arguments.queue}};
  if (!arguments.since.empty()) {
    DIVVY_TRY(since, parse_since(arguments.since, session.now()));
    query.emplace_back("since", std::to_string(since));
  }
  if (!arguments.before.empty()) {
    DIVVY_TRY(before, parse_since(arguments.before, session.now()));
    query.emplace_back("before", std::to_string(before));
  }
  if (!arguments.job.empty()) {
    const auto id = find_job(session, arguments.job, JobMeant::kNewest);
    if (!id) return id.error();
    query.emplace_back("job", std::to_string(*id));
  }
  if (format == OutputFormat::kCsv) {
    query.emplace_back("format", "csv");
    const auto daemon = session.daemon();
    if (!daemon) return session.fail(daemon.error());
    const auto reply = daemon->ask("GET", "/v1/usage" + write_query(query));
    if (!reply) return session.fail(reply.error());
    return reply->ok() ? session.print(reply->body) : session.fail(*reply);
  }
  const Asked asked = ask(session, "GET", "/v1/usage" + write_query(query));
  if (!asked) return asked.status();
  DIVVY_TRY(text, show_list(view, asked.body(), format, arguments.sort_by, session.style));
  return session.print(text);
}

}  // namespace

void add_queue_commands(CommandTree& tree) {
  add_queue(tree);
  add_quota(tree);
  auto arguments = std::make_shared<UsageArguments>();
  CLI::App* command =
      tree.add(heading::kPeople, "usage", "GPU hours that were held and used", kUsageFooter,
               [arguments](const Session& session) { return usage(session, *arguments); });
  command->add_option("--by", arguments->by, "A line for each: user, queue, job or hour (user)")
      ->type_name("WORD");
  command->add_option("--since", arguments->since, "From: 30d, 2026-11-01")->type_name("TIME");
  command->add_option("--before", arguments->before, "Until")->type_name("TIME");
  command->add_option("--user", arguments->user, "Only of this user")->type_name("USER");
  command->add_option("--queue", arguments->queue, "Only in this queue")->type_name("QUEUE");
  command->add_option("--job", arguments->job, "Only of this job")->type_name("JOB");
  command->add_option("--sort-by", arguments->sort_by, "A column; -gpu-hours turns it round")
      ->type_name("COLUMN");
  add_output(*command, arguments->format, kFormats);
}

}  // namespace divvy::cli
