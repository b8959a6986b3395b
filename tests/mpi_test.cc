// MPI jobs with the real mpirun of Debian, which starts its daemons in the other members by Divvy.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/text.h"
#include "job_machine.h"

namespace divvy::testing {
namespace {

class MpiJobs : public JobMachine {
 protected:
  void SetUp() override {
    JobMachine::SetUp();
    start_daemon();
  }
  [[nodiscard]] std::vector<std::string> submit_mpi(const std::vector<std::string>& options,
                                                    const std::vector<std::string>& program) {
    std::vector<std::string> words{"submit", "mpi", "--gpu", "0.3", "--follow"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), program.begin(), program.end());
    return words;
  }
  // Of what a job wrote, in the order of its letters and without the rank of who wrote it. mpirun
  // itself warns, in lines that begin with "[host:pid]", of races that it has with its own
  // children.
  static std::vector<std::string> lines_of(const Outcome& outcome) {
    std::vector<std::string> lines;
    for (const std::string_view line : split(outcome.out, '\n')) {
      if (!line.starts_with("[0] ") || line.starts_with("[0] [")) continue;
      lines.emplace_back(line.substr(4));
    }
    std::ranges::sort(lines);
    return lines;
  }
};

// A sum over all ranks, and each on the slice of its member.
TEST_F(MpiJobs, EachRankRunsInItsMember) {
  const std::string file = folder() / "sum.py";
  std::ofstream(file) << "import os\n"
                         "from mpi4py import MPI\n"
                         "world = MPI.COMM_WORLD\n"
                         "total = world.allreduce(world.rank)\n"
                         "print(world.rank, world.size, total, os.environ['DIVVY_RANK'],\n"
                         "      os.environ['OMPI_COMM_WORLD_LOCAL_RANK'], flush=True)\n";
  const Outcome done =
      divvy(submit_mpi({"--members", "3", "--processes", "2"}, {"/usr/bin/python3", file}));
  EXPECT_EQ(done.status, 0) << done.out << done.err;
  EXPECT_EQ(lines_of(done), (std::vector<std::string>{"0 6 15 0 0", "1 6 15 0 1", "2 6 15 1 0",
                                                      "3 6 15 1 1", "4 6 15 2 0", "5 6 15 2 1"}))
      << done.out << done.err;
}

TEST_F(MpiJobs, EachRankSeesTheSliceOfItsMember) {
  const Outcome done = divvy(
      submit_mpi({"--members", "2", "--gpu-mem", "3GiB"}, {GPULOAD_PROGRAM, "-o", "text", "info"}));
  EXPECT_EQ(done.status, 0) << done.out << done.err;
  const auto lines = lines_of(done);
  EXPECT_EQ(std::ranges::count(lines, "  device_total_bytes: 3221225472"), 2) << done.out;
}

TEST_F(MpiJobs, EndAsMpirunEnds) {
  const Outcome done = divvy(submit_mpi({"--members", "2"}, {"sh", "-c", "exit 7"}));
  EXPECT_EQ(done.status, 7) << done.out << done.err;
}

TEST_F(MpiJobs, GoOnWhileTheDaemonIsReplaced) {
  const std::string file = folder() / "gate.py";
  std::ofstream(file) << "import os, time\n"
                         "from mpi4py import MPI\n"
                         "world = MPI.COMM_WORLD\n"
                         "world.allreduce(1)\n"
                         "if world.rank == 0: open('begun', 'w').close()\n"
                         "while not os.path.exists('gate'): time.sleep(0.02)\n"
                         "print(world.allreduce(world.rank), flush=True)\n";
  Program started = start_divvy(
      submit_mpi({"--members", "3", "--cwd", folder().string()}, {"/usr/bin/python3", file}),
      "mpi");
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(folder() / "begun"); }))
      << started.printed() << started.errors();
  stop_daemon(SIGKILL);
  start_daemon();
  std::ofstream(folder() / "gate").put('\n');
  EXPECT_TRUE(becomes(1, "succeeded")) << job(1);
  const Outcome done = started.finish();
  EXPECT_EQ(lines_of(done), (std::vector<std::string>{"3", "3", "3"})) << done.out << done.err;
}

TEST_F(MpiJobs, AreProcessesOfTheMachine) {
  const Outcome refused = divvy(submit_mpi({"--image", "x:1"}, {"./solver"}));
  EXPECT_EQ(refused.status, 2);
  EXPECT_TRUE(has(refused.err, "neither --image, --file nor --template")) << refused.err;
  const Outcome nothing = divvy(submit_mpi({}, {}));
  EXPECT_EQ(nothing.status, 2);
  EXPECT_TRUE(has(nothing.err, "no program was given")) << nothing.err;
}

}  // namespace
}  // namespace divvy::testing
