// `divvy run`, `set` and `ps` as a user meets them: the programs themselves, on two simulated GPUs.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "divvyd_machine.h"

namespace divvy::testing {
namespace {

namespace json = boost::json;

bool has(const std::string& text, const std::string& piece) {
  return text.find(piece) != std::string::npos;
}

class Run : public Machine {
 protected:
  void SetUp() override {
    Machine::SetUp();
    start_daemon();
  }

  // A tenant that holds its slice until the test lets it go: it reads from a pipe that nobody
  // writes to.
  Program hold(const std::string& name, const std::vector<std::string>& how) {
    const std::string pipe = (folder() / ("hold-" + name)).string();
    EXPECT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    std::vector<std::string> arguments = {"run", "--name", name};
    arguments.insert(arguments.end(), how.begin(), how.end());
    arguments.insert(arguments.end(), {"--", "/bin/cat", pipe});
    Program program = start_divvy(arguments, name);
    EXPECT_TRUE(eventually([&] { return ask("GET", "/v1/tenants/" + name).status == 200; }));
    return program;
  }

  // Opens and closes the other end, so that the command above ends by itself.
  void let_go(const std::string& name) {
    const std::string pipe = (folder() / ("hold-" + name)).string();
    int fd = -1;
    ASSERT_TRUE(
        eventually([&] { return (fd = ::open(pipe.c_str(), O_WRONLY | O_NONBLOCK)) >= 0; }));
    ::close(fd);
  }

  std::size_t tenants() { return ask("GET", "/v1/tenants").body.at("items").as_array().size(); }
};

TEST_F(Run, EndsAsTheCommandEnds) {
  EXPECT_EQ(divvy({"run", "--gpu", "0.3", "--", "/bin/sh", "-c", "exit 7"}).status, 7);
  EXPECT_EQ(divvy({"run", "--gpu", "0.3", "--", "/bin/sh", "-c", "kill -TERM $$"}).status,
            -SIGTERM);
  const Outcome outcome = divvy({"run", "/bin/echo", "--gpu", "a b"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "--gpu a b\n");
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(eventually([&] { return tenants() == 0; }));
}

TEST_F(Run, GivesTheCommandItsEnvironment) {
  environment_.push_back("LD_PRELOAD=libm.so.6");
  const Outcome outcome = divvy({"run", "--gpu", "1.5", "--", "/usr/bin/env"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(has(outcome.out, "DIVVY_SOCKET=" + (folder() / "run/t/1.sock").string() + "\n"));
  EXPECT_TRUE(has(outcome.out, "lib/divvy/libdivvy.so:libm.so.6\n")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "lib/divvy/simgpu\n")) << outcome.out;
  const std::size_t at = outcome.out.find("CUDA_VISIBLE_DEVICES=GPU-");
  ASSERT_NE(at, std::string::npos) << outcome.out;
  EXPECT_TRUE(has(outcome.out.substr(at), ",GPU-"));
}

TEST_F(Run, TheProgramSeesTheMemoryThatWasAskedOfAWholeGpuAndOfAPart) {
  for (const std::vector<std::string>& how :
       {std::vector<std::string>{"--gpu", "1", "--gpu-mem", "10GiB"}, {"--gpu-mem", "10GiB"}}) {
    std::vector<std::string> arguments{"run"};
    arguments.insert(arguments.end(), how.begin(), how.end());
    arguments.insert(arguments.end(), {"--", GPULOAD_PROGRAM, "info"});
    const Outcome seen = divvy(arguments);
    ASSERT_EQ(seen.status, 0) << seen.err;
    EXPECT_EQ(json::parse(seen.out).at("memory").at("device_total_bytes").to_number<std::int64_t>(),
              std::int64_t{10} << 30)
        << seen.out;
  }
  ASSERT_EQ(divvy({"slice", "create", "whole", "--gpu", "1", "--gpu-mem", "10GiB"}).status, 0);
  ASSERT_EQ(divvy({"slice", "create", "part", "--gpu-mem", "14GiB"}).status, 0);
  for (const auto& [name, share, gib] :
       {std::tuple("whole", 1000, 10), std::tuple("part", 101, 14)}) {
    const json::object held = ask("GET", "/v1/tenants/" + std::string(name)).body;
    const json::value& slice = held.at("slices").at(0);
    EXPECT_EQ(slice.at("shareThousandths").to_number<int>(), share);
    EXPECT_EQ(slice.at("memoryLimitBytes").to_number<std::int64_t>(), std::int64_t{gib} << 30);
  }
}

TEST_F(Run, UsesOnlyGpusOfTheModelThatWasNamed) {
  EXPECT_EQ(divvy({"run", "--model", "h200", "--", "/bin/true"}).status, 0);
  const Outcome refused = divvy({"run", "--model", "A100", "--", "/bin/true"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(has(refused.err, "is of model NVIDIA H200")) << refused.err;
  EXPECT_EQ(divvy({"slice", "create", "a", "--model", "A100"}).status, 1);
  EXPECT_EQ(divvy({"slice", "create", "b", "--model", "A100", "--model", "H200"}).status, 0);
}

TEST_F(Run, SaysThatCudaVisibleDevicesIsReplaced) {
  environment_.push_back("CUDA_VISIBLE_DEVICES=1");
  const Outcome outcome = divvy({"run", "--gpu", "0.3", "--", "/bin/true"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(has(outcome.err, "CUDA_VISIBLE_DEVICES is replaced")) << outcome.err;
}

TEST_F(Run, RefusesWithSeventyFiveAndSaysWhoHoldsWhat) {
  Program holder = hold("holder", {"--gpu", "2"});
  const Outcome outcome = divvy({"run", "--gpu", "0.5", "--", "/bin/true"});
  EXPECT_EQ(outcome.status, 75);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(has(outcome.err, "0.5 GPU does not fit")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "holder")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "--wait")) << outcome.err;
  let_go("holder");
  EXPECT_EQ(holder.finish().status, 0);
  // At once: who ended is noticed before somebody is turned away.
  EXPECT_EQ(divvy({"run", "--gpu", "2", "--", "/bin/true"}).status, 0);
}

TEST_F(Run, ThatWaitedInAQueueStillHasItsTerminal) {
  Program holder = hold("holder", {"--gpu", "2"});
  const std::string said = (folder() / "said").string();
  const std::string command = fmt::format(
      "exec {} run --queue default --gpu 0.5 -- sh -c 'test -t 0 && test -t 1 && echo interactive'",
      DIVVY_PROGRAM);
  Program second =
      start({"/usr/bin/script", "--quiet", "--return", "--command", command, said}, "second");
  ASSERT_TRUE(
      eventually([&] { return ask("GET", "/v1/node").body.at("waiting").to_number<int>() == 1; }));
  let_go("holder");
  EXPECT_EQ(second.finish().status, 0);
  std::ifstream file(said);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(has(text, "interactive")) << text;
}

TEST_F(Run, ReleasesWhatAKilledCommandHeld) {
  Program holder = hold("victim", {"--gpu", "2"});
  holder.signal(SIGKILL);
  EXPECT_EQ(holder.finish().status, -SIGKILL);
  EXPECT_EQ(divvy({"run", "--gpu", "2", "--", "/bin/true"}).status, 0);
}

TEST_F(Run, WaitsForItsTurnInOrder) {
  Program holder = hold("holder", {"--gpu", "2"});
  Program first = start_divvy({"run", "--gpu", "2", "--wait", "--", "/bin/true"}, "first");
  ASSERT_TRUE(
      eventually([&] { return ask("GET", "/v1/node").body.at("waiting").to_number<int>() == 1; }));
  // Comes later and would fit sooner, but has to wait behind the first.
  Program second = start_divvy({"run", "--gpu", "0.1", "--wait", "--", "/bin/true"}, "second");
  ASSERT_TRUE(
      eventually([&] { return ask("GET", "/v1/node").body.at("waiting").to_number<int>() == 2; }));
  let_go("holder");
  EXPECT_EQ(first.finish().status, 0);
  EXPECT_EQ(second.finish().status, 0);
  EXPECT_EQ(holder.finish().status, 0);
  EXPECT_TRUE(eventually([&] { return tenants() == 0; }));
}

TEST_F(Run, StopsWaitingWhenItIsKilledOrTheTimeIsOver) {
  Program holder = hold("holder", {"--gpu", "2"});
  const Outcome late = divvy({"run", "--gpu", "1", "--wait", "--timeout", "1", "--", "/bin/true"});
  EXPECT_EQ(late.status, 124);
  Program killed = start_divvy({"run", "--gpu", "1", "--wait", "--", "/bin/true"}, "killed");
  const auto waiting = [&](int count) {
    return eventually(
        [&] { return ask("GET", "/v1/node").body.at("waiting").to_number<int>() == count; });
  };
  ASSERT_TRUE(waiting(1));
  killed.signal(SIGKILL);
  EXPECT_TRUE(waiting(0));
}

TEST_F(Run, CannotRunWhatIsNotThere) {
  const Outcome missing = divvy({"run", "--gpu", "0.5", "--", "no-such-command"});
  EXPECT_EQ(missing.status, 127);
  EXPECT_TRUE(has(missing.err, "no-such-command: no such command")) << missing.err;
  EXPECT_EQ(divvy({"run", "--gpu", "0.5", "--", "/etc/passwd"}).status, 126);
  EXPECT_EQ(tenants(), 0U);
}

TEST_F(Run, ExplainsWhatIsWrongWithARequest) {
  struct Case {
    std::vector<std::string> how;
    int status;
    std::string says;
  };
  const Case cases[] = {
      {{"--gpu", "0"}, 2, "asks for nothing"},
      {{"--gpu", "-1"}, 2, "--gpu"},
      {{"--gpu", "lots"}, 2, "lots"},
      {{"--gpu", "17"}, 1, "can never fit"},
      {{"--gpu", "3"}, 1, "at most --gpu 2"},
      {{"--gpu", "0.5", "--gpu-mem", "500GiB"}, 1, "139.8 GiB"},
      {{"--gpu", "0.5", "--gpu-mem", "1MiB"}, 1, "256MiB"},
      {{"--gpu", "0.5", "--device", "9"}, 3, "there is no GPU \"9\""},
      {{"--gpu", "0.5", "--device", "GPU-zz"}, 3, "there is no GPU"},
      {{"--class", "royal"}, 2, "batch or latency"},
      {{"--name", "a/b"}, 2, "name"},
      {{"--gup", "0.5"}, 2, "did you mean --gpu"},
      {{"--timeout", "5"}, 2, "--wait"},
  };
  for (const Case& one : cases) {
    std::vector<std::string> arguments = {"run"};
    arguments.insert(arguments.end(), one.how.begin(), one.how.end());
    arguments.insert(arguments.end(), {"--", "/bin/true"});
    const Outcome outcome = divvy(arguments);
    EXPECT_EQ(outcome.status, one.status) << one.says << ": " << outcome.err;
    EXPECT_TRUE(has(outcome.err, one.says)) << outcome.err;
  }
  EXPECT_EQ(divvy({"run", "--gpu", "0.5"}).status, 2);
}

TEST_F(Run, ChangesASliceWhileItIsHeld) {
  Program holder = hold("worker", {"--gpu", "0.3", "--device", "0"});
  const Outcome changed =
      divvy({"set", "worker", "--gpu", "0.7", "--gpu-mem", "20GiB", "--cap", "--class", "latency"});
  EXPECT_EQ(changed.status, 0) << changed.err;
  const json::object tenant = ask("GET", "/v1/tenants/worker").body;
  EXPECT_EQ(tenant.at("class").as_string(), "latency");
  const json::object& slice = tenant.at("slices").at(0).as_object();
  EXPECT_EQ(slice.at("shareThousandths").as_int64(), 700);
  EXPECT_EQ(slice.at("memoryLimitBytes").as_int64(), std::int64_t{20} << 30);
  EXPECT_TRUE(slice.at("capped").as_bool());

  EXPECT_EQ(divvy({"set", "nobody", "--gpu", "0.7"}).status, 3);
  EXPECT_EQ(divvy({"set", "worker"}).status, 2);
  const Outcome larger = divvy({"set", "worker", "--gpu", "2"});
  EXPECT_EQ(larger.status, 1);
  EXPECT_TRUE(has(larger.err, "worker holds 1 GPU, and 2 would be 2 GPUs")) << larger.err;
  EXPECT_EQ(divvy({"set", "worker", "--gpu-mem", "1TiB"}).status, 2);
  // What others hold is not for the taking.
  Program other = hold("other", {"--gpu", "0.3", "--device", "0"});
  const Outcome refused = divvy({"set", "worker", "--gpu", "0.8"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(has(refused.err, "is not free")) << refused.err;
}

TEST_F(Run, ListsTenantsForPeopleAndPrograms) {
  EXPECT_EQ(divvy({"ps"}).out, "nobody holds a slice\n");
  Program holder = hold("worker", {"--gpu", "0.3", "--gpu-mem", "10GiB"});
  const Outcome table = divvy({"ps"});
  EXPECT_TRUE(has(table.out, "worker")) << table.out;
  EXPECT_TRUE(has(table.out, "10.0 GiB")) << table.out;
  const Outcome document = divvy({"ps", "-o", "json"});
  const json::value value = json::parse(document.out);
  EXPECT_EQ(value.at("apiVersion").as_string(), "divvy/v1");
  EXPECT_EQ(value.at("items").at(0).at("name").as_string(), "worker");
  EXPECT_TRUE(has(divvy({"ps", "-o", "wide"}).out, "/bin/cat"));
  EXPECT_TRUE(has(divvy({"ps", "-o", "yaml"}).out, "name: worker"));
  EXPECT_EQ(divvy({"ps", "-o", "xml"}).status, 2);
}

TEST_F(Run, MeasuresATenantThatIsAloneOnItsGpuByTheDriver) {
  const Program load = start_divvy({"run", "--name", "alone", "--gpu", "0.3", "--", GPULOAD_PROGRAM,
                                    "spin", "--us", "5000", "--seconds", "600"},
                                   "alone");
  ASSERT_TRUE(eventually([&] { return ask("GET", "/v1/tenants/alone").status == 200; }));
  // No gates are put before it, and yet it is known to have more than its share.
  EXPECT_TRUE(eventually([&] {
    const json::object tenant = ask("GET", "/v1/tenants/alone").body;
    const json::object& slice = tenant.at("slices").at(0).as_object();
    const json::value& used = slice.at("usedShareThousandths");
    return !slice.at("gated").as_bool() && slice.at("usedShareMeasuredBy") == "driver" &&
           !used.is_null() && used.to_number<int>() > 500 && tenant.at("state") == "running";
  }));
}

TEST_F(Run, TwoThatStartAtTheSameInstantShare) {
  std::vector<Program> loads;
  for (const char* share : {"0.3", "0.7"}) {
    loads.push_back(start_divvy({"run", "--gpu", share, "--device", "0", "--", GPULOAD_PROGRAM,
                                 "spin", "--us", "900", "--seconds", "600"},
                                "load"));
  }
  EXPECT_TRUE(eventually([&] {
    const json::object answer = ask("GET", "/v1/tenants").body;
    const json::array& items = answer.at("items").as_array();
    return items.size() == 2 && items[0].at("slices").at(0).at("gated").as_bool() &&
           items[1].at("slices").at(0).at("gated").as_bool();
  }));
}

TEST_F(Run, ThreeHundredTenantsLeaveNothingOpenInTheDaemon) {
  // The keeper maps pages too. Where the kernel lists no children it is left out.
  std::vector<pid_t> programs = {daemon_pid()};
  std::ifstream list(fmt::format("/proc/{0}/task/{0}/children", daemon_pid()));
  for (pid_t child = 0; list >> child;) programs.push_back(child);
  const auto descriptors = [&programs] {
    std::ptrdiff_t count = 0;
    for (const pid_t pid : programs) {
      const auto folder = fmt::format("/proc/{}/fd", pid);
      count += std::distance(std::filesystem::directory_iterator(folder), {});
    }
    return count;
  };
  const auto pages = [&programs] {
    int count = 0;
    for (const pid_t pid : programs) {
      std::ifstream maps(fmt::format("/proc/{}/maps", pid));
      for (std::string line; std::getline(maps, line);) count += has(line, "memfd:divvy") ? 1 : 0;
    }
    return count;
  };
  // Connections to the API close a moment after their answer, so a number is read until it is so.
  const auto one_by_one = [&](int count) {
    for (int i = 0; i < count; ++i) {
      // Every tenth registers, which opens pages, a pidfd and a connection besides.
      const bool registers = i % 10 == 0;
      const Outcome outcome = registers
                                  ? divvy({"run", "--gpu", "0.3", "--", GPULOAD_PROGRAM, "info"})
                                  : divvy({"run", "--gpu", "0.3", "--", "/bin/true"});
      ASSERT_EQ(outcome.status, 0) << outcome.err;
    }
    ASSERT_TRUE(eventually([&] { return tenants() == 0; }));
  };
  one_by_one(10);  // Whatever is opened once is open now
  std::ptrdiff_t before = 0;
  ASSERT_TRUE(eventually([&] {
    const std::ptrdiff_t now = descriptors();
    return std::exchange(before, now) == now;
  }));
  one_by_one(300);
  EXPECT_TRUE(eventually([&] { return descriptors() <= before; }))
      << before << " before, " << descriptors() << " after";
  EXPECT_TRUE(eventually([&] { return pages() == 0; })) << pages() << " pages are left";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder() / "run/t"), {}), 0)
      << "sockets are left";
}

// Without a daemon.
class Alone : public Machine {};

TEST_F(Alone, RunStartsADaemonAndSaysSo) {
  const Outcome first = divvy({"run", "--gpu", "0.3", "--", "/bin/echo", "hello"});
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_EQ(first.out, "hello\n");
  EXPECT_TRUE(has(first.err, "started divvyd in the background")) << first.err;
  EXPECT_EQ(divvy({"run", "--gpu", "0.3", "--", "/bin/echo"}).err, "");
}

TEST_F(Alone, ManyWhoStartADaemonAtOnceShareOne) {
  std::vector<Program> programs;
  for (int i = 0; i < 6; ++i) {
    programs.push_back(start_divvy({"run", "--gpu", "0.1", "--", "/bin/true"}, "many"));
  }
  for (Program& program : programs) {
    const Outcome outcome = program.finish();
    EXPECT_EQ(outcome.status, 0) << outcome.err;
  }
}

TEST_F(Alone, PsSaysThatThereIsNoDaemon) {
  const Outcome outcome = divvy({"ps"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(has(outcome.err, "no divvyd answers")) << outcome.err;
}

TEST_F(Alone, ADaemonWithoutGpusToShareSaysSo) {
  environment_[3] = "DIVVY_SIM_GPUS=nonsense";
  const Outcome outcome = divvy({"run", "--gpu", "0.3", "--", "/bin/true"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(has(outcome.err, "simulated GPUs could not be started")) << outcome.err;
}

}  // namespace
}  // namespace divvy::testing
