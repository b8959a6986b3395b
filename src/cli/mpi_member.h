// What runs in the members of `divvy submit mpi`, which are processes of one machine. The first one
// starts mpirun once all others are there, and tells them when it has ended. mpirun has its daemons
// started in the other members by `divvy mpi-start` (in the place of ssh), so that every rank runs
// on the slice of its member. Members meet at an abstract socket, where each is of the job's user.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace divvy::cli {

// The job as a member knows it.
struct MpiMember {
  std::uint32_t rank = 0;
  std::uint32_t members = 1;
  std::uint32_t processes = 1;     // of each member
  std::string meeting;             // what the members of this attempt have in common
  std::vector<std::string> words;  // for mpirun: its own options, the program, the program's
};
// From DIVVY_RANK and its like.
using MemberVariables = std::function<std::optional<std::string>(const char* name)>;
[[nodiscard]] Result<MpiMember> read_mpi_member(const MemberVariables& variables,
                                                const std::string& meeting, std::uint32_t processes,
                                                std::vector<std::string> words);

// How mpirun is called, and what is set for it (NAME=VALUE). `starter`: the program and the first
// words of whatever starts its daemons elsewhere, which gets a host's name and a line for a shell.
[[nodiscard]] std::vector<std::string> mpirun_command(const MpiMember& member);
[[nodiscard]] std::vector<std::string> mpirun_variables(const std::string& starter, bool is_root);
// Variables that say which rank a member is to programs without mpirun, and confuse those with one.
[[nodiscard]] bool is_rank_variable(const std::string& name);

// The member of that host's name ("rank-3").
[[nodiscard]] Result<std::uint32_t> member_of_host(const std::string& host);
// What a member runs of such a line: with a place of its own for what mpirun's daemons keep by the
// name of the machine, which they have in common here.
[[nodiscard]] std::vector<std::string> mpi_daemon_command(const std::string& line);

// The exit status: of mpirun in the first member, 0 in the others once it has ended. Blocks SIGTERM
// and the like in this process and passes them on to mpirun. `patience`: for members to come.
[[nodiscard]] Result<int> run_mpi_member(const MpiMember& member, const std::string& starter,
                                         std::chrono::milliseconds patience);

}  // namespace divvy::cli
