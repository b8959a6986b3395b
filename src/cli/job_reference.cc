#include "cli/job_reference.h"

#include <charconv>

#include "base/text.h"
#include "cli/exit_codes.h"
#include "cli/session.h"

namespace divvy::cli {

tl::expected<std::uint64_t, int> find_job(const Session& session, const std::string& typed,
                                          JobMeant meant) {
  std::uint64_t number = 0;
  const char* end = typed.data() + typed.size();
  const auto read = std::from_chars(typed.data(), end, number);
  if (read.ec == std::errc() && read.ptr == end) return number;

  const bool only = meant == JobMeant::kOnly;
  const Asked found = ask(
      session, "GET",
      "/v1/jobs" + write_query({{"name", typed},
                                {"state", only ? "queued,starting,running,stopping,suspended" : ""},
                                {"limit", only ? "10" : "1"}}));
  if (!found) return tl::unexpected(found.status());
  const auto jobs = found.answer()["items"].items();
  if (jobs.empty()) {
    session.say(fmt::format("there is no job \"{}\"{}; `divvy list{}` shows those there are",
                            escape_for_terminal(typed), only ? " that has not ended" : "",
                            only ? "" : " --all"));
    return tl::unexpected(kExitNotFound);
  }
  if (only && jobs.size() > 1) {
    std::string numbers;
    for (const Answer& job : jobs) numbers += (numbers.empty() ? "" : ", ") + job["id"].text();
    session.say(fmt::format("several jobs are called {}: {}; name one by its number",
                            escape_for_terminal(typed), numbers));
    return tl::unexpected(kExitUsage);
  }
  return static_cast<std::uint64_t>(jobs.front()["id"].number().value_or(0));
}

}  // namespace divvy::cli
