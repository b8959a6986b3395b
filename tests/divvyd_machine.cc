#include "divvyd_machine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "net/http.h"
#include "sys/packet_socket.h"

namespace divvy::testing {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr auto kPatience = std::chrono::seconds(120);

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

std::uint16_t free_port() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  socklen_t size = sizeof address;
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

Program::Program(const std::vector<std::string>& command,
                 const std::vector<std::string>& environment, const fs::path& output)
    : output_(output) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  const int flags = O_WRONLY | O_CREAT | O_TRUNC;
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  const std::string out = output.string() + ".out";
  const std::string err = output.string() + ".err";
  ::posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), flags, 0600);
  ::posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), flags, 0600);
  const int failed = ::posix_spawn(&pid_, command[0].c_str(), &actions, nullptr,
                                   pointers(command).data(), pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(failed, 0) << command[0];
}

Program::~Program() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

Program::Program(Program&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), output_(std::move(other.output_)) {}

Program& Program::operator=(Program&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(output_, other.output_);
  return *this;
}

void Program::signal(int number) const {
  // Minus one, of a program that has ended, would mean every process there is.
  if (pid_ <= 0) {
    ADD_FAILURE() << "the program has ended already";
    return;
  }
  ::kill(pid_, number);
}

std::string Program::errors() const { return read(output_.string() + ".err"); }
std::string Program::printed() const { return read(output_.string() + ".out"); }

Outcome Program::finish() {
  int status = 0;
  const bool ended = eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; });
  EXPECT_TRUE(ended) << "a program did not end: " << read(output_.string() + ".err");
  if (!ended) return {};
  pid_ = -1;
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
          read(output_.string() + ".out"), read(output_.string() + ".err")};
}

bool has_separate_agent() { return ::getenv("DIVVY_TEST_SEPARATE_AGENT") != nullptr; }

namespace {

// Whoever holds this lock.
void end_by_lock(const fs::path& file) {
  std::ifstream lock(file);
  pid_t pid = 0;
  if (!(lock >> pid) || pid <= 0 || pid == ::getpid()) return;
  const auto is_daemon = [pid] {
    return read(fmt::format("/proc/{}/cmdline", pid)).find("divvyd") != std::string::npos;
  };
  // The number may be another's by now.
  if (!is_daemon()) return;
  ::kill(pid, SIGTERM);
  eventually([pid, &is_daemon] {
    return !is_daemon() || read(fmt::format("/proc/{}/stat", pid)).find(") Z") != std::string::npos;
  });
}

// An MPS daemon that is in use outlives divvyd, which would start one anew that ended before it.
void end_mps_daemons(const fs::path& folder) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder / "run/mps", none)) {
    std::ifstream file(entry.path() / "process");
    std::string gpu;
    pid_t pid = 0;
    if (!(file >> gpu >> pid) || pid <= 1) continue;
    // Its number may be another's by now.
    const std::string environment = read(fmt::format("/proc/{}/environ", pid));
    if (environment.find(folder.string()) != std::string::npos) ::kill(pid, SIGKILL);
  }
}

}  // namespace

void Machine::SetUp() {
  std::string pattern = (fs::temp_directory_path() / "divvyd-XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  folder_ = pattern;
  environment_ = {"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8",
                  "DIVVY_RUN_DIR=" + (folder_ / "run").string(), "DIVVY_SIM_GPUS=2xH200",
                  "DIVVY_SIM_STATE=" + (folder_ / "gpus").string()};
}

void Machine::TearDown() {
  // One that `divvy run` started is not our child, but its lock says who it is.
  if (daemon_.pid() <= 0) end_by_lock(folder_ / "run/divvyd.lock");
  daemon_ = Program();
  // Nor is an agent of its own.
  end_by_lock(folder_ / "run/state/ledger.lock");
  end_mps_daemons(folder_);
  if (HasFailure()) {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() == ".err")
        std::cerr << entry.path() << ":\n" << read(entry.path());
    }
  }
  // What the daemon had started (the keeper, the sampler) ends a moment after it.
  EXPECT_TRUE(eventually([this] {
    std::error_code error;
    fs::remove_all(folder_, error);
    return !error;
  }));
}

void Machine::start_daemon(const std::vector<std::string>& options) {
  std::vector<std::string> command = {DIVVYD_PROGRAM};
  if (has_separate_agent()) command.emplace_back("--separate-agent");
  command.insert(command.end(), options.begin(), options.end());
  start_daemon_as(command);
}

void Machine::start_daemon_as(const std::vector<std::string>& command) {
  daemon_ = start(command, "divvyd");
  const bool ready = eventually([this] {
    return net::http_request(folder_ / "run/divvyd.sock",
                             {.method = "GET", .path = "/v1/node", .query = {}, .body = {}},
                             std::chrono::seconds(5))
        .has_value();
  });
  ASSERT_TRUE(ready) << "divvyd did not start";
}

void Machine::stop_daemon(int signal) {
  daemon_.signal(signal);
  (void)daemon_.finish();
}

Program Machine::start(const std::vector<std::string>& command, const std::string& label) {
  return {command, environment_, folder_ / fmt::format("{}-{}", label, ++serial_)};
}

Program Machine::start_divvy(std::vector<std::string> arguments, const std::string& label) {
  arguments.insert(arguments.begin(), DIVVY_PROGRAM);
  return start(arguments, label);
}

Outcome Machine::divvy(const std::vector<std::string>& arguments) {
  return start_divvy(arguments, "divvy").finish();
}

Answer Machine::ask(const std::string& method, const std::string& path, const std::string& body) {
  const auto response =
      net::http_request(folder_ / "run/divvyd.sock",
                        {.method = method, .path = path, .query = {}, .body = body}, kPatience);
  if (!response) {
    ADD_FAILURE() << response.error().message;
    return {};
  }
  boost::system::error_code code;
  const json::value value = json::parse(response->body, code);
  EXPECT_FALSE(code) << response->body;
  return {response->status, value.is_object() ? value.as_object() : json::object{}};
}

void Machine::install_for_others() const {
  fs::permissions(folder_, fs::perms(0755));
  const fs::path built = fs::path(DIVVY_PROGRAM).parent_path().parent_path();
  fs::create_directories(folder_ / "bin");
  fs::create_directories(folder_ / "lib/divvy/simgpu");
  for (const char* file : {"bin/divvy", "bin/divvyd", "bin/gpuload", "lib/divvy/libdivvy.so",
                           "lib/divvy/simgpu/libcuda.so.1", "lib/divvy/simgpu/libnvidia-ml.so.1"}) {
    fs::copy_file(built / file, folder_ / file);
  }
}

json::object Machine::grant(const std::string& body) {
  Answer answer = ask("POST", "/v1/tenants", body);
  EXPECT_EQ(answer.status, 201) << json::serialize(answer.body);
  return answer.body;
}

std::optional<json::object> Machine::tenant(std::uint64_t id) {
  const Answer answer = ask("GET", "/v1/tenants");
  for (const json::value& item : answer.body.at("items").as_array()) {
    if (item.as_object().at("id").to_number<std::uint64_t>() == id) return item.as_object();
  }
  return std::nullopt;
}

UniqueFd make_lanes() {
  UniqueFd fd(::memfd_create("divvy-lanes", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::ftruncate(fd.get(), wire::kLanesBytes), 0);
  const std::uint32_t head[] = {wire::kLanesMagic, wire::kPagesVersion};
  EXPECT_EQ(::pwrite(fd.get(), head, sizeof head, 0), static_cast<ssize_t>(sizeof head));
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  return fd;
}

UniqueFd connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}

bool FakeProcess::join() {
  socket_ = connect_to(path_);
  if (!socket_) return false;
  wire::Hello hello{};
  hello.header = {static_cast<std::uint32_t>(wire::Kind::kHello), wire::hello_bytes(version_)};
  hello.version = version_;
  hello.pid = ::getpid();
  std::strcpy(hello.program, "fake");
  const UniqueFd lanes = make_lanes();
  std::vector<int> fds = {lanes.get()};
  if (account_) {
    hello.slot = welcome_.slot;
    hello.generation = welcome_.generation;
    fds.push_back(account_->fd());
  }
  const auto bytes = std::as_bytes(std::span(&hello, 1)).first(wire::hello_bytes(version_));
  if (!sys::send_packet(socket_.get(), bytes, fds)) return false;
  pollfd wait{socket_.get(), POLLIN, 0};
  if (::poll(&wait, 1, 30'000) != 1) return false;
  sys::Packet packet = sys::receive_packet(socket_.get());
  if (packet.bytes.size() != sizeof welcome_) return false;
  std::memcpy(&welcome_, packet.bytes.data(), sizeof welcome_);
  if (refused()) return true;
  if (packet.fds.size() != 2) return false;
  void* page = ::mmap(nullptr, wire::kControlBytes, PROT_READ, MAP_SHARED, packet.fds[0].get(), 0);
  if (page == MAP_FAILED) return false;
  control_.emplace(std::move(packet.fds[0]), static_cast<const wire::ControlPage*>(page),
                   wire::kControlBytes);
  auto account = share::map_account_page(std::move(packet.fds[1]));
  if (!account) return false;
  account_ = *std::move(account);
  return true;
}

std::optional<wire::Measured> FakeProcess::measure(std::uint32_t gpu) {
  wire::Measure question{};
  question.header = {static_cast<std::uint32_t>(wire::Kind::kMeasure), sizeof question};
  question.gpu = gpu;
  question.serial = 7;
  if (!sys::send_message(socket_.get(), question)) return std::nullopt;
  pollfd wait{socket_.get(), POLLIN, 0};
  if (::poll(&wait, 1, 30'000) != 1) return std::nullopt;
  const sys::Packet packet = sys::receive_packet(socket_.get());
  wire::Measured answer{};
  if (packet.bytes.size() != sizeof answer) return std::nullopt;
  std::memcpy(&answer, packet.bytes.data(), sizeof answer);
  return answer;
}

}  // namespace divvy::testing
