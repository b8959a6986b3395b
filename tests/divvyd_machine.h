// A machine for whole-system tests: two simulated GPUs, a run folder of its own, and the real
// divvyd and divvy on it. Everything goes away with the test.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <boost/json.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "share/pages.h"
#include "wire/messages.h"

namespace divvy::testing {

struct Outcome {
  int status = -1;  // Exit status, or minus the signal's number
  std::string out;
  std::string err;
};

// A program that runs beside the test. Killed at the end if it is still there.
class Program {
 public:
  Program() = default;
  Program(const std::vector<std::string>& command, const std::vector<std::string>& environment,
          const std::filesystem::path& output);
  ~Program();
  Program(Program&& other) noexcept;
  Program& operator=(Program&& other) noexcept;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const;
  // What it has written to standard error so far.
  [[nodiscard]] std::string errors() const;
  // The same of standard output.
  [[nodiscard]] std::string printed() const;
  // Waits for its end.
  Outcome finish();

 private:
  pid_t pid_ = -1;
  std::filesystem::path output_;
};

struct Answer {
  int status = 0;
  boost::json::object body;
};

// The whole test runs with the agent in a process of its own.
[[nodiscard]] bool has_separate_agent();

class Machine : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  void start_daemon(const std::vector<std::string>& options = {});
  // Another one, or with options.
  void start_daemon_as(const std::vector<std::string>& command);
  // What the daemon that runs now has logged so far.
  [[nodiscard]] std::string daemon_log() const { return daemon_.errors(); }
  void stop_daemon(int signal);
  [[nodiscard]] pid_t daemon_pid() const { return daemon_.pid(); }

  Program start(const std::vector<std::string>& command, const std::string& label);
  Program start_divvy(std::vector<std::string> arguments, const std::string& label);
  Outcome divvy(const std::vector<std::string>& arguments);

  Answer ask(const std::string& method, const std::string& path, const std::string& body = {});
  // Puts the programs and libraries where other users can read them, wherever they were built, as
  // an installation in folder() would.
  void install_for_others() const;
  // A slice for this process, which is granted or the test fails.
  boost::json::object grant(const std::string& body);
  // The tenant as GET /v1/tenants shows it, if it is there.
  std::optional<boost::json::object> tenant(std::uint64_t id);
  [[nodiscard]] std::filesystem::path folder() const { return folder_; }
  std::vector<std::string> environment_;

 private:
  std::filesystem::path folder_;
  Program daemon_;
  int serial_ = 0;
};

// Waits for something to become true; false after a time in which it should have ten times over.
bool eventually(const std::function<bool()>& condition);

// A port of the loopback that nobody listens on now.
[[nodiscard]] std::uint16_t free_port();

// A process of a tenant as the daemon sees it, without CUDA: speaks on the tenant's socket.
class FakeProcess {
 public:
  explicit FakeProcess(std::string socket) : path_(std::move(socket)) {}

  // Connects and says Hello, with the account page and slot of before if there are any. False when
  // nobody listens; `welcome` then holds nothing.
  bool join();
  // The version of the messages from now on, as a library of that age would send them.
  void speak(std::uint32_t version) { version_ = version; }
  bool refused() const { return welcome_.refusal != 0; }
  void hang_up() { socket_.reset(); }

  // The answer of the daemon to a Measure, unless it hangs up.
  std::optional<wire::Measured> measure(std::uint32_t gpu);

  const wire::Welcome& welcome() const { return welcome_; }
  wire::AccountPage& account() { return *account_->get(); }
  int account_fd() const { return account_->fd(); }
  const wire::ControlPage& control() const { return **control_; }
  int control_fd() const { return control_->fd(); }
  int socket() const { return socket_.get(); }
  std::atomic<std::uint64_t>& used(int gpu) { return account().slot[welcome_.slot].gpu[gpu].used; }

 private:
  std::string path_;
  std::uint32_t version_ = wire::kWireVersion;
  UniqueFd socket_;
  wire::Welcome welcome_{};
  std::optional<share::AccountMapping> account_;
  std::optional<share::MappedPage<const wire::ControlPage>> control_;
};

// A sealed page as the shim makes one for its lanes.
UniqueFd make_lanes();
// Connects to a tenant's socket; no descriptor when nobody listens.
UniqueFd connect_to(const std::string& path);

}  // namespace divvy::testing
