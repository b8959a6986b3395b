// Tenants that come and go: a real divvyd on simulated GPUs, and a process per tenant that asks for
// a slice over the socket, holds it for a while and is killed. Prints, as JSON, how long a grant
// took as the asker saw it, and what the daemon held of memory and descriptors meanwhile.
//
//   churn [--seconds 60] [--rate 200] [--tenants 500] [--folder DIR]
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <span>
#include <thread>

#include "base/check.h"
#include "net/http.h"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using namespace divvy;

constexpr int kGpus = 16;

struct Options {
  int seconds = 60;
  int rate = 200;
  int tenants = 500;
  fs::path folder = fs::temp_directory_path();
  // As /run is: sockets that come and go are no work for a disk.
  fs::path run_folder = "/dev/shm";
};

// What a tenant tells, in memory that all processes share.
struct Told {
  std::atomic<int> status;  // Of HTTP; 0 while there is no answer, -1 where there will be none
  std::int64_t nanoseconds;
};

struct Footprint {
  double at_s = 0;
  long tenants = 0;
  long rss_kib = 0;
  long descriptors = 0;
  long threads = 0;
};

long status_value(pid_t pid, const std::string& key) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return std::atol(line.c_str() + key.size() + 1);
  }
  return 0;
}

Footprint footprint(pid_t pid, Clock::time_point start, std::size_t tenants) {
  const auto descriptors = fs::directory_iterator(fmt::format("/proc/{}/fd", pid));
  return {std::chrono::duration<double>(Clock::now() - start).count(), static_cast<long>(tenants),
          status_value(pid, "VmRSS"), std::distance(fs::begin(descriptors), fs::end(descriptors)),
          status_value(pid, "Threads")};
}

std::string to_json(const Footprint& one) {
  return fmt::format(
      R"({{"at_s": {:.1f}, "tenants": {}, "rss_kib": {}, "descriptors": {}, "threads": {}}})",
      one.at_s, one.tenants, one.rss_kib, one.descriptors, one.threads);
}

std::string load_average() {
  std::ifstream file("/proc/loadavg");
  std::string one;
  file >> one;
  return one;
}

// {"503": 2}; -1 where there was no answer.
std::string counts(const std::map<int, int>& by_status) {
  std::string text;
  for (const auto& [status, count] : by_status) {
    text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", status, count);
  }
  return "{" + text + "}";
}

fs::path make_folder(const fs::path& in) {
  std::string pattern = (in / "churn-XXXXXX").string();
  DIVVY_CHECK(::mkdtemp(pattern.data()) != nullptr);
  return pattern;
}

// In milliseconds; sorts.
double percentile(std::vector<std::int64_t>& values, double part) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const auto at = static_cast<std::size_t>(part * static_cast<double>(values.size() - 1));
  return static_cast<double>(values[at]) / 1e6;
}

// What one small record costs on this disk with nobody else at work on it.
double sync_ms(const fs::path& folder) {
  const int fd =
      ::open((folder / "probe").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  std::vector<std::int64_t> times;
  const std::string record(300, 'x');
  for (int i = 0; i < 100; ++i) {
    const auto begin = Clock::now();
    DIVVY_CHECK(::write(fd, record.data(), record.size()) > 0 && ::fdatasync(fd) == 0);
    times.push_back((Clock::now() - begin).count());
  }
  ::close(fd);
  return percentile(times, 0.5);
}

pid_t start_daemon(const fs::path& folder, const fs::path& run) {
  const std::vector<std::string> environment = {
      "PATH=/usr/bin:/bin", "DIVVY_RUN_DIR=" + run.string(), "DIVVY_STATE_DIR=" + folder.string(),
      fmt::format("DIVVY_SIM_GPUS={}xH200", kGpus), "DIVVY_SIM_STATE=" + (run / "gpus").string()};
  std::vector<char*> texts;
  texts.reserve(environment.size() + 1);
  for (const std::string& text : environment) texts.push_back(const_cast<char*>(text.c_str()));
  texts.push_back(nullptr);
  std::string program = DIVVYD_PROGRAM;
  std::string level = "--log-level=warning";
  char* arguments[] = {program.data(), level.data(), nullptr};
  pid_t pid = -1;
  DIVVY_CHECK(::posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments, texts.data()) == 0);
  return pid;
}

[[noreturn]] void be_a_tenant(const fs::path& socket, Told& told) {
  const auto begin = Clock::now();
  const auto answer = net::http_request(socket,
                                        {.method = "POST",
                                         .path = "/v1/tenants",
                                         .query = {},
                                         .body = R"({"gpu":"0.03","command":"churn"})"},
                                        std::chrono::seconds(30));
  told.nanoseconds = (Clock::now() - begin).count();
  told.status = answer ? answer->status : -1;
  for (;;) ::pause();
}

class Churn {
 public:
  Churn(Options options, fs::path folder, fs::path run)
      : options_(std::move(options)), folder_(std::move(folder)), run_(std::move(run)) {
    const std::size_t most =
        static_cast<std::size_t>(options_.seconds) * static_cast<std::size_t>(options_.rate);
    void* page = ::mmap(nullptr, most * sizeof(Told), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    DIVVY_CHECK(page != MAP_FAILED);
    told_ = {static_cast<Told*>(page), most};
  }

  void run() {
    const fs::path socket = run_ / "divvyd.sock";
    sync_ms_ = sync_ms(folder_);
    load_before_ = load_average();
    daemon_ = start_daemon(folder_, run_);
    while (!answers(socket)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    start_ = Clock::now();
    idle_ = footprint(daemon_, start_, 0);

    const auto step = std::chrono::nanoseconds(std::chrono::seconds(1)) / options_.rate;
    // Flat is judged from when the first generation has gone.
    const std::size_t full =
        std::min<std::size_t>(2 * static_cast<std::size_t>(options_.tenants), told_.size() / 3);
    for (std::size_t i = 0; i < told_.size(); ++i) {
      std::this_thread::sleep_until(start_ + step * static_cast<std::int64_t>(i));
      if (alive_.size() >= static_cast<std::size_t>(options_.tenants)) end_oldest();
      const pid_t pid = ::fork();
      if (pid == 0) be_a_tenant(socket, told_[i]);
      if (pid > 0) alive_.push_back(pid);
      if (i == full || i == (full + told_.size()) / 2 || i + 1 == told_.size()) {
        busy_.push_back(footprint(daemon_, start_, alive_.size()));
      }
    }
    took_s_ = std::chrono::duration<double>(Clock::now() - start_).count();
    // The last ones have only just asked.
    const auto patience = Clock::now() + std::chrono::seconds(30);
    while (told_.back().status == 0 && Clock::now() < patience) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    while (!alive_.empty()) end_oldest();
    wait_until_empty(socket);
    after_ = footprint(daemon_, start_, 0);
    ::kill(daemon_, SIGTERM);
    int status = 0;
    ::waitpid(daemon_, &status, 0);
  }

  [[nodiscard]] std::string report() const {
    std::vector<std::int64_t> times;
    std::map<int, int> refused;  // By status
    for (const Told& one : told_) {
      if (one.status == 201) {
        times.push_back(one.nanoseconds);
      } else {
        ++refused[one.status];
      }
    }
    const double p50 = percentile(times, 0.5);
    std::string text = fmt::format(
        "{{\n  \"what\": \"{} tenants, {} a second for {} s, {} simulated GPUs\",\n"
        "  \"took_s\": {:.1f},\n  \"granted\": {},\n  \"not_granted\": {},\n"
        "  \"grant_ms\": {{\"p50\": {:.3f}, \"p90\": {:.3f}, \"p99\": {:.3f}, \"p99.9\": {:.3f}, "
        "\"max\": {:.3f}}},\n",
        options_.tenants, options_.rate, options_.seconds, kGpus, took_s_, times.size(),
        counts(refused), p50, percentile(times, 0.9), percentile(times, 0.99),
        percentile(times, 0.999), percentile(times, 1));
    text += fmt::format("  \"one_sync_ms\": {:.3f},\n  \"cores\": {},\n", sync_ms_,
                        std::thread::hardware_concurrency());
    text += fmt::format("  \"load_average\": {{\"before\": {}, \"after\": {}}},\n", load_before_,
                        load_average());
    text += fmt::format("  \"daemon\": {{\n    \"idle\": {},\n", to_json(idle_));
    const char* names[] = {"start", "middle", "end"};
    for (std::size_t i = 0; i < busy_.size(); ++i) {
      text += fmt::format("    \"{}\": {},\n", names[i], to_json(busy_[i]));
    }
    return text + fmt::format("    \"after\": {}\n  }}\n}}\n", to_json(after_));
  }

 private:
  static bool answers(const fs::path& socket) {
    return net::http_request(socket, {.method = "GET", .path = "/v1/node", .query = {}, .body = {}},
                             std::chrono::seconds(5))
        .has_value();
  }

  void end_oldest() {
    const pid_t pid = alive_.front();
    alive_.pop_front();
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }

  // The daemon hears of the deaths by itself.
  static void wait_until_empty(const fs::path& socket) {
    for (int i = 0; i < 1000; ++i) {
      const auto answer = net::http_request(
          socket, {.method = "GET", .path = "/v1/tenants", .query = {}, .body = {}},
          std::chrono::seconds(5));
      if (answer && answer->body.find("\"items\":[]") != std::string::npos) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  Options options_;
  fs::path folder_;
  fs::path run_;
  std::span<Told> told_;
  std::deque<pid_t> alive_;
  pid_t daemon_ = -1;
  Clock::time_point start_;
  double took_s_ = 0;
  double sync_ms_ = 0;
  std::string load_before_;
  Footprint idle_;
  std::vector<Footprint> busy_;
  Footprint after_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Tenants that come and go at a divvyd on simulated GPUs."};
  app.add_option("--seconds", options.seconds, "How long")->check(CLI::Range(1, 3600));
  app.add_option("--rate", options.rate, "Tenants that come in a second")
      ->check(CLI::Range(1, 10'000));
  app.add_option("--tenants", options.tenants, "The most at a time")->check(CLI::Range(1, 500));
  app.add_option("--folder", options.folder, "Where the folder of the ledger is made: the disk");
  app.add_option("--run-folder", options.run_folder, "Where the folder of its sockets is made");
  CLI11_PARSE(app, argc, argv);
  const fs::path folder = make_folder(options.folder);
  const fs::path run = make_folder(options.run_folder);
  Churn churn(options, folder, run);
  churn.run();
  std::cout << churn.report();
  fs::remove_all(folder);
  fs::remove_all(run);
  return 0;
}
