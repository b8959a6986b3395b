#include "proxy/haproxy_stats.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.h"

namespace divvy::proxy {
namespace {

constexpr std::uint32_t kForcedMaintenance = 0x01;
constexpr std::uint32_t kForcedDrain = 0x08;
constexpr std::uint32_t kPassed = 3;  // CHK_RES_PASSED; 4: passed, but wants no new sessions

template <typename Number>
Number number_of(std::string_view text) {
  Number number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() ? number : 0;
}

// Lines whose columns are named by a first line that begins with "#".
class Table {
 public:
  [[nodiscard]] static Result<Table> read(std::string_view text, char separator) {
    Table table;
    for (const std::string_view line : split(text, '\n')) {
      const std::string_view content = trim(line);
      if (content.starts_with("# ")) {
        table.names_ = split(content.substr(2), separator);
      } else if (!content.empty() && !table.names_.empty()) {
        table.rows_.push_back(split(content, separator));
      }
    }
    if (table.names_.empty()) {
      return err(ErrorCode::kUnavailable, "haproxy gave an answer that is not understood: {}",
                 escape_for_terminal(trim(text).substr(0, 200)));
    }
    return table;
  }
  [[nodiscard]] std::size_t rows() const { return rows_.size(); }
  [[nodiscard]] std::string_view at(std::size_t row, std::string_view name) const {
    const auto column = std::ranges::find(names_, name) - names_.begin();
    const auto index = static_cast<std::size_t>(column);
    return index < names_.size() && index < rows_[row].size() ? rows_[row][index]
                                                              : std::string_view();
  }

 private:
  std::vector<std::string_view> names_;
  std::vector<std::vector<std::string_view>> rows_;
};

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words = split(line, ' ');
  std::erase_if(words, [](std::string_view word) { return trim(word).empty(); });
  return words;
}

}  // namespace

Result<std::vector<StatLine>> read_stat(std::string_view text) {
  DIVVY_TRY(table, Table::read(text, ','));
  std::vector<StatLine> lines;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    StatLine& line = lines.emplace_back();
    line.proxy = table.at(row, "pxname");
    line.server = table.at(row, "svname");
    line.in_flight = number_of<std::uint32_t>(table.at(row, "scur"));
    line.requests = number_of<std::uint64_t>(table.at(row, "stot"));
    line.errors = number_of<std::uint64_t>(table.at(row, "hrsp_5xx"));
    for (const std::string_view part : {"qtime", "ctime", "rtime"}) {
      line.latency_ms += number_of<std::uint32_t>(table.at(row, part));
    }
  }
  return lines;
}

Result<std::vector<ServerState>> read_servers_state(std::string_view text) {
  DIVVY_TRY(table, Table::read(text, ' '));
  std::vector<ServerState> servers;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto number = [&](std::string_view name) {
      return number_of<std::uint32_t>(table.at(row, name));
    };
    ServerState& server = servers.emplace_back();
    server.proxy = table.at(row, "be_name");
    server.server = table.at(row, "srv_name");
    server.up = number("srv_op_state") > 0;
    server.maintained = (number("srv_admin_state") & kForcedMaintenance) != 0;
    server.drained = (number("srv_admin_state") & kForcedDrain) != 0;
    server.passed = number("srv_check_result") >= kPassed;
    server.weight = number("srv_uweight");
  }
  return servers;
}

Result<Processes> read_processes(std::string_view text) {
  Processes found;
  bool old = false;
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with("#")) {
      if (line.starts_with("# old workers")) old = true;
      if (line.starts_with("# workers") || line.starts_with("# programs")) old = false;
      continue;
    }
    const auto words = words_of(line);
    if (words.size() < 2) continue;
    const auto pid = number_of<pid_t>(words[0]);
    if (pid <= 1) continue;
    if (words[1] == "master") {
      found.master = pid;
    } else if (words[1] == "worker" && old) {
      found.old_workers.push_back(pid);
    } else if (words[1] == "worker") {
      found.worker = pid;
    }
  }
  if (found.master > 0) return found;
  return err(ErrorCode::kUnavailable, "haproxy does not say which processes it has: {}",
             escape_for_terminal(trim(text).substr(0, 200)));
}

}  // namespace divvy::proxy
