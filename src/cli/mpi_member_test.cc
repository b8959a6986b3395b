#include "cli/mpi_member.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <thread>

#include "base/temporary_folder.h"
#include "cli/member_processes.h"

namespace divvy::cli {
namespace {

using namespace std::chrono_literals;

using Words = std::vector<std::string>;

MpiMember mpi_member(std::uint32_t rank, std::uint32_t members, const std::string& meeting,
                     Words words = {"./solver"}) {
  return {.rank = rank,
          .members = members,
          .processes = 2,
          .meeting = meeting,
          .words = std::move(words)};
}

TEST(MemberProcesses, IsOneForEachGpuUnlessItIsNamed) {
  EXPECT_EQ(processes_of_member({}, {}).value(), 1U);
  EXPECT_EQ(processes_of_member("2.5", {}).value(), 3U);
  EXPECT_EQ(processes_of_member("0", {}).value(), 1U);
  EXPECT_EQ(processes_of_member("4", 2).value(), 2U);
  EXPECT_FALSE(processes_of_member("4", 0));
  EXPECT_FALSE(processes_of_member("much", {}));
}

TEST(MpiMember, IsReadFromTheVariablesOfAMember) {
  std::map<std::string, std::string> variables{
      {"DIVVY_RANK", "2"}, {"DIVVY_MEMBERS", "3"}, {"DIVVY_ATTEMPT", "4"}};
  const auto read = [&] {
    return read_mpi_member(
        [&](const char* name) {
          const auto found = variables.find(name);
          return found == variables.end() ? std::nullopt : std::optional(found->second);
        },
        "abc", 2, {"./solver"});
  };
  const auto member = read();
  ASSERT_TRUE(member);
  EXPECT_EQ(member->rank, 2U);
  EXPECT_EQ(member->members, 3U);
  EXPECT_EQ(member->meeting, "abc.4") << "members of another attempt meet elsewhere";
  variables["DIVVY_RANK"] = "3";
  EXPECT_EQ(read().error().message, "DIVVY_RANK: there is no member 3 of 3");
  variables["DIVVY_RANK"] = "2x";
  EXPECT_FALSE(read());
  variables.erase("DIVVY_RANK");
  EXPECT_EQ(read().error().message,
            "DIVVY_RANK is no number here: this runs in the members of a job, of `divvy submit "
            "mpi`");
}

TEST(MpiMember, TellsMpirunOfEveryMemberAndOfTheNumberOfProcesses) {
  EXPECT_EQ(mpirun_command(mpi_member(0, 3, "m")),
            (Words{"mpirun", "--host", "localhost:2,rank-1:2,rank-2:2", "-np", "6", "./solver"}));
  EXPECT_EQ(mpirun_command(mpi_member(0, 1, "m", {"-np", "1", "./solver"})),
            (Words{"mpirun", "--host", "localhost:2", "-np", "1", "./solver"}))
      << "who names a number gets it";
  EXPECT_EQ(member_of_host("rank-17").value(), 17U);
  EXPECT_FALSE(member_of_host("rank-"));
  EXPECT_FALSE(member_of_host("rank-1x"));
  EXPECT_FALSE(member_of_host("gpu.example"));
}

TEST(MpiMember, RanksOfMembersAreNotTakenForRanksOfMpi) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "OMPI_UNIVERSE_SIZE", "PMI_RANK", "RANK",
                           "MPI_LOCALRANKID", "WORLD_SIZE"}) {
    EXPECT_TRUE(is_rank_variable(name)) << name;
  }
  for (const char* name : {"OMPI_MCA_btl", "DIVVY_RANK", "PATH", "RANKS"}) {
    EXPECT_FALSE(is_rank_variable(name)) << name;
  }
}

// With an mpirun that writes down how it was called.
class MpiMeeting : public ::testing::Test {
 protected:
  MpiMeeting() : path_(::getenv("PATH")) {
    ::setenv("PATH", (folder_.path().string() + ":" + path_).c_str(), 1);
    ::setenv("OMPI_COMM_WORLD_RANK", "7", 1);
  }
  ~MpiMeeting() override {
    ::setenv("PATH", path_.c_str(), 1);
    ::unsetenv("OMPI_COMM_WORLD_RANK");
  }
  void mpirun(const std::string& body) {
    const std::string file = folder_ / "mpirun";
    std::ofstream(file) << "#!/bin/sh\n" << body << "\n";
    ::chmod(file.c_str(), 0755);
  }
  [[nodiscard]] std::string name() const { return folder_.path().filename().string(); }
  [[nodiscard]] std::string said() const {
    std::ifstream stream(folder_ / "said");
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  TemporaryFolder folder_;
  std::string path_;
};

TEST_F(MpiMeeting, MpirunBeginsWhenAllAreThereAndAllEndWithIt) {
  mpirun(R"(echo "$2 $OMPI_MCA_plm_rsh_agent ${OMPI_COMM_WORLD_RANK-none}" >)" +
         (folder_ / "said").string() + "; exit 3");
  std::vector<int> statuses(3, -1);
  {
    std::vector<std::jthread> others;
    for (const std::uint32_t rank : {2U, 1U}) {
      others.emplace_back([this, rank, &statuses] {
        statuses[rank] = run_mpi_member(mpi_member(rank, 3, name()), "start", 2min).value_or(-2);
      });
    }
    statuses[0] = run_mpi_member(mpi_member(0, 3, name()), "/bin/divvy start", 2min).value_or(-2);
  }
  EXPECT_EQ(statuses, (std::vector<int>{3, 0, 0}));
  EXPECT_EQ(said(), "localhost:2,rank-1:2,rank-2:2 /bin/divvy start none\n");
}

TEST_F(MpiMeeting, WhoDoesNotComeIsNotWaitedForForever) {
  mpirun("true");
  const auto first = run_mpi_member(mpi_member(0, 2, name()), "start", 1ms);
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().message, "of 2 members only 1 came");
  const auto second = run_mpi_member(mpi_member(1, 2, name()), "start", 1ms);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message, "the first member of the job does not begin");
}

TEST_F(MpiMeeting, WithoutMpirunItIsSaidWhereToGetIt) {
  ::setenv("PATH", folder_.path().c_str(), 1);
  const auto alone = run_mpi_member(mpi_member(0, 1, name()), "start", 2min);
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().message, "mpirun is not there; get it with apt-get install openmpi-bin");
}

}  // namespace
}  // namespace divvy::cli
