// The daemon is killed at random moments while jobs come, run and end. Nothing that was
// acknowledged is lost, nothing runs twice, and nothing is held at the end.
//
// A failing round is replayed with the seed that it prints: DIVVY_TEST_SEED=SEED.
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include <fstream>
#include <map>
#include <random>
#include <thread>

#include "divvyd_machine.h"
#include "net/http.h"

namespace divvy::testing {
namespace {

namespace json = boost::json;

constexpr int kRounds = 300;

unsigned choose_seed() {
  if (const char* given = ::getenv("DIVVY_TEST_SEED")) {
    return static_cast<unsigned>(std::strtoul(given, nullptr, 10));
  }
  return std::random_device{}();
}

class JobsKilled : public Machine {
 protected:
  // Like ask(), but the daemon may be killed meanwhile.
  std::optional<Answer> try_to_ask(const net::HttpRequest& request) {
    const auto response =
        net::http_request(folder() / "run/divvyd.sock", request, std::chrono::seconds(20));
    if (!response) return std::nullopt;
    return Answer{response->status, json::parse(response->body).as_object()};
  }

  // A job that writes down that it ran. With a key, so that it can be sent again when the answer
  // was lost.
  std::optional<std::uint64_t> try_to_submit(int number) {
    const std::string line = "echo " + std::to_string(number) + " >> " + ran().string();
    const json::object job{
        {"name", "j" + std::to_string(number)}, {"gpu", 0.1}, {"command", {"sh", "-c", line}}};
    net::HttpRequest request{
        .method = "POST", .path = "/v1/jobs", .query = {}, .body = json::serialize(job)};
    request.headers["idempotency-key"] = "key-" + std::to_string(number);
    const auto answer = try_to_ask(request);
    if (!answer) return std::nullopt;
    EXPECT_EQ(answer->status / 100, 2) << json::serialize(answer->body);
    if (answer->status / 100 != 2) return std::nullopt;
    return answer->body.at("items").at(0).at("id").to_number<std::uint64_t>();
  }

  [[nodiscard]] std::filesystem::path ran() const { return folder() / "ran"; }
  [[nodiscard]] std::map<int, int> times_run() const {
    std::map<int, int> times;
    std::ifstream file(ran());
    for (int number = 0; file >> number;) ++times[number];
    return times;
  }
};

TEST_F(JobsKilled, AtRandomMomentsNothingIsLostAndNothingRunsTwice) {
  const unsigned seed = choose_seed();
  std::cout << "seed " << seed << "\n";
  std::minstd_rand random(seed);
  std::map<int, std::uint64_t> acknowledged;
  int number = 0;
  for (int round = 0; round < kRounds; ++round) {
    start_daemon();
    if (HasFatalFailure()) return;
    // Not to wait for something: the moment is what is tried out.
    const timespec until_the_kill{0, static_cast<long>(random() % 60) * 1'000'000};
    std::thread killer([&] {
      ::nanosleep(&until_the_kill, nullptr);
      ::kill(daemon_pid(), SIGKILL);
    });
    for (int i = 0; i < 3; ++i) {
      const auto id = try_to_submit(number);
      if (!id) break;  // It comes again in the next round, with its key
      acknowledged[number++] = *id;
    }
    killer.join();
    stop_daemon(SIGKILL);
  }
  start_daemon();
  for (const auto& [job, id] : acknowledged) {
    const std::string path = "/v1/jobs/" + std::to_string(id);
    ASSERT_TRUE(eventually([&] {
      return !ask("GET", path).body.at("endedUnixMilliseconds").is_null();
    })) << "job "
        << id << " did not end";
    const json::object ended = ask("GET", path).body;
    EXPECT_EQ(ended.at("state").as_string(), "succeeded") << json::serialize(ended);
  }
  const auto times = times_run();
  for (const auto& [job, id] : acknowledged) {
    EXPECT_EQ(times.contains(job) ? times.at(job) : 0, 1) << "number " << job << ", job " << id;
  }
  EXPECT_TRUE(eventually([&] {
    return ask("GET", "/v1/tenants").body.at("items").as_array().empty();
  })) << "slices are held by nobody";
  std::cout << acknowledged.size() << " jobs in " << kRounds << " rounds\n";
}

}  // namespace
}  // namespace divvy::testing
