#include "cli/job_reference.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "cli/exit_codes.h"
#include "cli/session.h"

namespace divvy::cli {
namespace {

// Empty where nobody says it.
std::string own_name(const Session& session) {
  const auto daemon = session.daemon();
  if (!daemon) return "";
  const auto reply = daemon->ask("GET", "/v1/whoami");
  if (!reply || !reply->ok()) return "";
  const auto answer = Answer::parse(reply->body);
  return answer ? (*answer)["name"].raw() : "";
}

}  // namespace

tl::expected<std::uint64_t, int> find_job(const Session& session, const std::string& typed,
                                          JobMeant meant) {
  std::uint64_t number = 0;
  const char* end = typed.data() + typed.size();
  const auto read = std::from_chars(typed.data(), end, number);
  if (read.ec == std::errc() && read.ptr == end) return number;

  const bool only = meant != JobMeant::kNewest;
  QueryParts query{{"name", typed},
                   {"state", only ? "queued,starting,running,stopping,suspended" : ""},
                   {"limit", only ? "10" : "1"}};
  const Asked found = ask(session, "GET", "/v1/jobs" + write_query(query));
  if (!found) return tl::unexpected(found.status());
  auto jobs = found.answer()["items"].items();
  if (jobs.empty()) {
    session.say(fmt::format("there is no job \"{}\"{}; `divvy list{}` shows those there are",
                            escape_for_terminal(typed), only ? " that has not ended" : "",
                            only ? "" : " --all"));
    return tl::unexpected(kExitNotFound);
  }
  // Many people call a job "train": one's own is meant where there is one.
  const std::string me = own_name(session);
  const bool all_mine =
      std::ranges::all_of(jobs, [&](const Answer& job) { return job["owner"].raw() == me; });
  if (!me.empty() && !all_mine) {
    query.emplace_back("owner", me);
    const Asked own = ask(session, "GET", "/v1/jobs" + write_query(query));
    if (!own) return tl::unexpected(own.status());
    if (!own.answer()["items"].items().empty()) jobs = own.answer()["items"].items();
  }
  const std::string array = jobs.front()["array"].text();
  const bool one_array =
      meant == JobMeant::kOnlyArray && !array.empty() &&
      std::ranges::all_of(jobs, [&](const Answer& job) { return job["array"].text() == array; });
  if (only && jobs.size() > 1 && !one_array) {
    std::string numbers;
    for (const Answer& job : jobs) numbers += (numbers.empty() ? "" : ", ") + job["id"].text();
    session.say(fmt::format("several jobs are called {}: {}; name one by its number",
                            escape_for_terminal(typed), numbers));
    return tl::unexpected(kExitUsage);
  }
  return static_cast<std::uint64_t>(jobs.front()["id"].number().value_or(0));
}

}  // namespace divvy::cli
