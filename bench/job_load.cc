// A queue that is full: a real divvyd on 16 simulated GPUs with jobs that run and many that wait.
// Prints, as JSON, how long submits, lists and questions took as the asker saw it, how many submits
// a second were acknowledged (each is on the disk then), and what the daemon held of memory.
//
//   job_load [--running 200] [--queued 10000] [--rate 1000] [--seconds 30] [--folder DIR]
//            [--divvyd PROGRAM]
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "net/http.h"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using namespace divvy;

constexpr int kGpus = 16;
constexpr int kCallers = 32;

struct Options {
  int running = 200;
  int queued = 10'000;
  int rate = 1000;
  int seconds = 30;
  fs::path folder = fs::temp_directory_path();
  // Another build's, to compare the two with one and the same caller.
  std::string divvyd = DIVVYD_PROGRAM;
};

// How long things took, from many threads.
class Times {
 public:
  void add(Clock::duration time) {
    const std::lock_guard lock(mutex_);
    ms_.push_back(std::chrono::duration<double, std::milli>(time).count());
  }
  [[nodiscard]] std::string json() {
    const std::lock_guard lock(mutex_);
    std::ranges::sort(ms_);
    const auto at = [this](double part) {
      if (ms_.empty()) return 0.0;
      return ms_[static_cast<std::size_t>(part * static_cast<double>(ms_.size() - 1))];
    };
    return fmt::format(R"({{"count": {}, "p50_ms": {:.2f}, "p99_ms": {:.2f}, "most_ms": {:.2f}}})",
                       ms_.size(), at(0.5), at(0.99), at(1));
  }

 private:
  std::mutex mutex_;
  std::vector<double> ms_;
};

// Members outlive the daemon, but need not outlive a program that was killed.
const std::string kUntilWeEnd =
    fmt::format(R"(["tail", "--pid={}", "-f", "/dev/null"])", ::getpid());

class Daemon {
 public:
  Daemon(const fs::path& in, const std::string& divvyd) {
    std::string pattern = (in / "job-load-XXXXXX").string();
    DIVVY_CHECK(::mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    const std::vector<std::string> environment = {"PATH=/usr/bin:/bin",
                                                  "DIVVY_RUN_DIR=" + (folder_ / "run").string(),
                                                  "DIVVY_STATE_DIR=" + (folder_ / "state").string(),
                                                  fmt::format("DIVVY_SIM_GPUS={}xH200", kGpus),
                                                  "DIVVY_SIM_STATE=" + (folder_ / "gpus").string()};
    std::vector<char*> texts;
    texts.reserve(environment.size() + 1);
    for (const std::string& text : environment) texts.push_back(const_cast<char*>(text.c_str()));
    texts.push_back(nullptr);
    // It ends with this program, whatever that ends by.
    std::string program = "/usr/bin/setpriv";
    std::string dies = "--pdeathsig=TERM";
    std::string daemon = divvyd;
    std::string level = "--log-level=warning";
    // More than one user may usually have waiting.
    const fs::path file = folder_ / "divvyd.yaml";
    std::ofstream(file) << "queue:\n  max_waiting: 1000000\n  max_waiting_per_user: 1000000\n";
    std::string config = "--config=" + file.string();
    char* arguments[] = {program.data(), dies.data(),   daemon.data(),
                         level.data(),   config.data(), nullptr};
    DIVVY_CHECK(::posix_spawn(&pid_, program.c_str(), nullptr, nullptr, arguments, texts.data()) ==
                0);
    while (!ask("GET", "/v1/node")) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ~Daemon() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  Result<net::HttpResponse> ask(const std::string& method, const std::string& path,
                                const std::string& query = {}, const std::string& body = {}) {
    return net::http_request(folder_ / "run/divvyd.sock",
                             {.method = method, .path = path, .query = query, .body = body},
                             std::chrono::seconds(30));
  }
  void submit(const std::string& share, Times& times) {
    const auto begin = Clock::now();
    const auto answer =
        ask("POST", "/v1/jobs", {},
            fmt::format(R"({{"gpu": {}, "command": {}, "grace": "1s"}})", share, kUntilWeEnd));
    times.add(Clock::now() - begin);
    if (answer && answer->status == 201) return;
    const std::lock_guard lock(mutex_);
    ++refused_[answer ? fmt::format("{} {}", answer->status, answer->body)
                      : answer.error().message];
  }
  // Why, and how often.
  [[nodiscard]] std::string refusals() {
    const std::lock_guard lock(mutex_);
    std::string text;
    for (const auto& [why, times] : refused_) text += fmt::format("{} times: {}\n", times, why);
    return text;
  }
  [[nodiscard]] long rss_kib() const {
    std::ifstream file(fmt::format("/proc/{}/status", pid_));
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("VmRSS:")) return std::atol(line.c_str() + 6);
    }
    return 0;
  }

 private:
  fs::path folder_;
  pid_t pid_ = -1;
  std::mutex mutex_;
  std::map<std::string, int> refused_;
};

// Calls `one` so many times from several threads, not faster than `rate` a second (0: any); how
// many a second there were.
template <typename One>
double many(int count, int rate, const One& one) {
  const auto start = Clock::now();
  std::atomic<int> next = 0;
  std::vector<std::thread> callers;
  callers.reserve(kCallers);
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&] {
      for (int i = next++; i < count; i = next++) {
        if (rate > 0) {
          std::this_thread::sleep_until(start +
                                        std::chrono::nanoseconds(1'000'000'000LL * i / rate));
        }
        one();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  return count / std::chrono::duration<double>(Clock::now() - start).count();
}

void measure(const Options& options) {
  Daemon daemon(options.folder, options.divvyd);
  const auto submit = [&](const char* share, Times& times) { daemon.submit(share, times); };
  Times first;
  many(options.running, 0, [&] { submit("0.08", first); });
  const auto running = [&] {
    const auto page = daemon.ask("GET", "/v1/jobs", "state=running&limit=1000");
    int found = 0;
    for (std::size_t at = 0;
         (at = page->body.find("\"state\":\"running\"", at)) != std::string::npos; ++at) {
      ++found;
    }
    return found;
  };
  const auto patience = Clock::now() + std::chrono::seconds(120);
  while (running() < options.running && Clock::now() < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  const int really_running = running();
  Times filling;
  const double fill_rate = many(options.queued, 0, [&] { submit("1", filling); });
  Times lists;
  Times pages;
  Times questions;
  Times singles;
  for (int i = 0; i < 100; ++i) {
    const auto timed = [](Times& times, const auto& what) {
      const auto begin = Clock::now();
      what();
      times.add(Clock::now() - begin);
    };
    timed(lists, [&] { (void)daemon.ask("GET", "/v1/jobs", "limit=100"); });
    if (i < 20) timed(pages, [&] { (void)daemon.ask("GET", "/v1/jobs", "limit=1000"); });
    timed(questions,
          [&] { (void)daemon.ask("GET", fmt::format("/v1/jobs/{}", options.running + 1 + i)); });
    submit("1", singles);
  }
  const long rss = daemon.rss_kib();
  Times steady;
  const double steady_rate =
      many(options.rate * options.seconds, options.rate, [&] { submit("1", steady); });
  std::cout << fmt::format(
      R"({{"running": {}, "queued": {},
 "fill": {}, "fill_per_s": {:.0f},
 "with_the_queue_full": {{"submit": {}, "list_100": {}, "list_1000": {}, "get_one_that_waits": {}}},
 "steady": {}, "steady_per_s": {:.0f}, "steady_seconds": {},
 "rss_mib": {:.1f}, "rss_mib_after": {:.1f}}}
)",
      really_running, options.queued, filling.json(), fill_rate, singles.json(), lists.json(),
      pages.json(), questions.json(), steady.json(), steady_rate, options.seconds,
      static_cast<double>(rss) / 1024, static_cast<double>(daemon.rss_kib()) / 1024);
  std::cerr << daemon.refusals();
  // Members outlive the daemon, so they are ended first.
  for (int id = 1; id <= options.running; ++id) {
    (void)daemon.ask("DELETE", fmt::format("/v1/jobs/{}", id));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("How a full queue answers");
  app.add_option("--running", options.running);
  app.add_option("--queued", options.queued);
  app.add_option("--rate", options.rate);
  app.add_option("--seconds", options.seconds);
  app.add_option("--folder", options.folder);
  app.add_option("--divvyd", options.divvyd)->check(CLI::ExistingFile);
  CLI11_PARSE(app, argc, argv);
  measure(options);
  return 0;
}
