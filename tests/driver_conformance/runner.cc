#include "runner.h"

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <sstream>

namespace divvy::conformance {
namespace {

template <typename Function>
struct Missing;
template <typename Code, typename... Arguments>
struct Missing<Code (*)(Arguments...)> {
  static Code call(Arguments...) { return static_cast<Code>(kMissingSymbol); }
};

template <typename Function>
void resolve(void* library, const char* symbol, Function& function) {
  function = library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr) function = &Missing<Function>::call;
}

bool load_libraries() {
  libcuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (libcuda == nullptr) return false;
#define DIVVY_CU(symbol, base, since, stream_kind, arguments) resolve(libcuda, #symbol, cu.symbol);
#include "abi/cuda_functions.inc"
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_GLOBAL);
#define DIVVY_NVML(symbol, arguments) resolve(library, #symbol, nvml.symbol);
#include "abi/nvml_functions.inc"
  if (library != nullptr) {
    nvml.nvmlErrorString = reinterpret_cast<nvmlErrorString_fn>(dlsym(library, "nvmlErrorString"));
  }
  return true;
}

int64_t monotonic_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

Statement parse_line(const std::string& line) {
  Statement statement;
  std::array<std::string, 4> fields;
  size_t field = 0;
  for (const char c : line) {
    if (c == '\t' && field < 3) {
      ++field;
    } else {
      fields[field] += c;
    }
  }
  statement.kind = fields[0].empty() ? 'n' : fields[0][0];
  statement.name = fields[1];
  statement.expected = fields[2];
  statement.got = fields[3];
  return statement;
}

// Reads until the pipe closes; false when the time was over first.
bool read_until_closed(int fd, int timeout_s, std::string& text) {
  const int64_t deadline = monotonic_ms() + int64_t{timeout_s} * 1000;
  std::array<char, 4096> buffer{};
  while (true) {
    const int64_t left = deadline - monotonic_ms();
    if (left <= 0) return false;
    pollfd ready{fd, POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(left)) <= 0) continue;
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got <= 0) return true;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return "killed by signal " + std::to_string(WTERMSIG(status));
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
    return "exit status " + std::to_string(WEXITSTATUS(status));
  }
  return {};
}

}  // namespace

std::vector<Case>& all_cases() {
  static std::vector<Case> cases;
  return cases;
}

Outcome run_case(const Case& one, int timeout_s) {
  Outcome outcome;
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) {
    outcome.ended = "no pipe could be made";
    return outcome;
  }
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    // A group of its own, so that a case that is stopped takes its own children with it.
    setpgid(0, 0);
    close(ends[0]);
    Check check(ends[1]);
    if (!load_libraries()) {
      check.is_true("libcuda.so.1 can be loaded", false);
      _exit(1);
    }
    one.run(check);
    // Not exit(): a driver's own clean-up at exit is no part of the case.
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  const bool in_time = child > 0 && read_until_closed(ends[0], timeout_s, text);
  close(ends[0]);
  if (child > 0) {
    if (!in_time) kill(-child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    kill(-child, SIGKILL);  // whoever is left of its group
    outcome.ended =
        in_time ? how_it_ended(status) : "not over after " + std::to_string(timeout_s) + " s";
  } else {
    outcome.ended = "no process could be started";
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    outcome.statements.push_back(parse_line(line));
  }
  return outcome;
}

namespace {

std::string stripped(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t`");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t`") - first + 1);
}

}  // namespace

std::map<std::string, std::string> read_expected(const std::string& text) {
  std::map<std::string, std::string> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find('#'));
    const size_t equals = line.find(" = ");
    if (equals == std::string::npos) continue;
    values[stripped(line.substr(0, equals))] = stripped(line.substr(equals + 3));
  }
  return values;
}

std::map<std::string, std::string> read_differences(const std::string& text) {
  std::map<std::string, std::string> reasons;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] != '|') continue;
    const size_t middle = line.find('|', 1);
    if (middle == std::string::npos) continue;
    const size_t end = line.find('|', middle + 1);
    const std::string name = stripped(line.substr(1, middle - 1));
    if (name.find('.') == std::string::npos) continue;  // head of the table
    reasons[name] = stripped(line.substr(middle + 1, end - middle - 1));
  }
  return reasons;
}

}  // namespace divvy::conformance
