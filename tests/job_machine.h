// A machine for whole-system tests of jobs: the real daemon with its queue, store, runtimes and API
// on two simulated GPUs, and members that are real processes. They end with the test.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "divvyd_machine.h"

namespace divvy::testing {

class JobMachine : public Machine {
 protected:
  // Members outlive the daemon, but not the test: one daemon has to run at its end.
  void TearDown() override;

  // The only job of a submit, or the first of an array; 0 when it was refused.
  std::uint64_t submit(boost::json::object job);
  boost::json::object job(std::uint64_t id);
  std::string state(std::uint64_t id);
  // Waits for a state.
  bool becomes(std::uint64_t id, const std::string& wanted);
  // Every reason in its history, in a line each.
  std::string history(std::uint64_t id);
  // Exit code of a member of its last attempt.
  int exit_code(std::uint64_t id, std::size_t rank = 0);
  std::size_t tenants();

  // A command that writes a line into the file of that name when it begins, and then waits to be
  // ended.
  [[nodiscard]] boost::json::object waiting(const std::string& name, double gpu = 0.3) const;
  // One that does the same, but ends by itself with `code` as soon as there is a file NAME.go.
  [[nodiscard]] boost::json::object gated(const std::string& name, double gpu = 0.3,
                                          int code = 0) const;
  void open_gate(const std::string& name) const;
  // How often a command of that name has begun.
  [[nodiscard]] int starts(const std::string& name) const;
  [[nodiscard]] std::string read_file(const std::string& name) const;
};

[[nodiscard]] bool has(const std::string& text, const std::string& piece);

}  // namespace divvy::testing
