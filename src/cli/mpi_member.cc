#include "cli/mpi_member.h"

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <set>
#include <thread>

#include "base/unique_fd.h"
#include "cli/exit_codes.h"
#include "sys/exec_pointers.h"
#include "sys/process.h"

extern char** environ;

namespace divvy::cli {
namespace {

using namespace std::chrono_literals;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr std::string_view kHostPrefix = "rank-";
constexpr std::chrono::milliseconds kAgain{100};  // until the first member is looked for again
constexpr char kOver = '.';                       // what the others are told when mpirun has ended

Result<std::uint32_t> parse_count(std::string_view name, const std::optional<std::string>& text) {
  std::uint32_t value = 0;
  if (text) {
    const char* const end = text->data() + text->size();
    const auto read = std::from_chars(text->data(), end, value);
    if (!text->empty() && read.ec == std::errc() && read.ptr == end) return value;
  }
  return err(ErrorCode::kInvalidArgument,
             "{} is no number here: this runs in the members of a job, of `divvy submit mpi`",
             name);
}

struct AbstractAddress {
  sockaddr_un address{};
  socklen_t size = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};
Result<AbstractAddress> address_of(const std::string& meeting) {
  const std::string name = "divvy-mpi-" + meeting;
  AbstractAddress made;
  made.address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof made.address.sun_path) {
    return err(ErrorCode::kInvalidArgument, "the name of the meeting is too long");
  }
  std::memcpy(made.address.sun_path + 1, name.data(), name.size());
  made.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return made;
}

UniqueFd unix_socket(int flags = 0) {
  return UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
}

// Whoever is at the other end is this job's user.
bool is_own(int socket) {
  const auto peer = sys::peer_of(socket);
  return peer && peer->uid == ::geteuid();
}

// --- The first member ---

class Meeting {
 public:
  static Result<Meeting> open(const MpiMember& member) {
    DIVVY_TRY(address, address_of(member.meeting));
    Meeting made(member.members);
    made.listening_ = unix_socket(SOCK_NONBLOCK);
    if (!made.listening_ || ::bind(made.listening_.get(), address.get(), address.size) != 0 ||
        ::listen(made.listening_.get(), 128) != 0) {
      return err(ErrorCode::kIo, "the members of the job cannot meet: {}", std::strerror(errno));
    }
    return made;
  }

  // Until every other member has said its number.
  Status wait_for_all(SteadyTime until) {
    while (here_.size() + 1 < members_) {
      std::vector<pollfd> waits{{listening_.get(), POLLIN, 0}};
      waits.reserve(others_.size() + 1);
      for (const UniqueFd& other : others_) waits.push_back({other.get(), POLLIN, 0});
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      const int ready =
          left.count() > 0 ? ::poll(waits.data(), waits.size(), static_cast<int>(left.count())) : 0;
      if (ready < 0 && errno != EINTR) {
        return err(ErrorCode::kIo, "waiting for the other members: {}", std::strerror(errno));
      }
      if (ready == 0) {
        return err(ErrorCode::kTimeout, "of {} members only {} came", members_, here_.size() + 1);
      }
      for (std::size_t i = others_.size(); i > 0; --i) {
        if (waits[i].revents != 0) hear(i - 1);
      }
      if (waits[0].revents != 0) accept_one();
    }
    listening_.reset();
    return {};
  }
  void tell_that_it_is_over() const {
    for (const UniqueFd& other : others_) (void)::send(other.get(), &kOver, 1, MSG_NOSIGNAL);
  }

 private:
  explicit Meeting(std::uint32_t members) : members_(members) {}

  void accept_one() {
    UniqueFd other(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (other && is_own(other.get())) others_.push_back(std::move(other));
  }
  // One that says anything but the number of another member, or leaves, is not counted.
  void hear(std::size_t index) {
    std::uint32_t rank = 0;
    const ssize_t got = ::recv(others_[index].get(), &rank, sizeof rank, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got == sizeof rank && rank > 0 && rank < members_ && here_.insert(rank).second) return;
    others_.erase(others_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  std::uint32_t members_;
  UniqueFd listening_;
  std::vector<UniqueFd> others_;
  std::set<std::uint32_t> here_;
};

// With signals that are for it blocked here, and not there.
Result<pid_t> spawn_mpirun(const MpiMember& member, const std::string& starter,
                           const sigset_t& before) {
  std::vector<std::string> words = mpirun_command(member);
  std::vector<std::string> variables;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view pair(*at);
    if (!is_rank_variable(std::string(pair.substr(0, pair.find('=')))))
      variables.emplace_back(pair);
  }
  for (std::string& pair : mpirun_variables(starter, ::geteuid() == 0)) {
    variables.push_back(std::move(pair));
  }
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &before);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = -1;
  const int failed =
      ::posix_spawnp(&child, words.front().c_str(), nullptr, &attributes,
                     sys::exec_pointers(words).data(), sys::exec_pointers(variables).data());
  ::posix_spawnattr_destroy(&attributes);
  if (failed == ENOENT) {
    return err(ErrorCode::kNotFound,
               "mpirun is not there; get it with apt-get install openmpi-bin");
  }
  if (failed != 0) return err(ErrorCode::kIo, "mpirun cannot be run: {}", std::strerror(failed));
  return child;
}

int status_of(int ended) { return WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended); }

Result<int> lead(const MpiMember& member, const std::string& starter, SteadyTime until) {
  DIVVY_TRY(meeting, Meeting::open(member));
  DIVVY_RETURN_IF_ERROR(meeting.wait_for_all(until));
  sigset_t wanted;
  sigset_t before;
  ::sigemptyset(&wanted);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2}) {
    ::sigaddset(&wanted, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &wanted, &before);
  const UniqueFd signals(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  DIVVY_TRY(child, spawn_mpirun(member, starter, before));
  DIVVY_TRY(life, sys::open_process(child));
  int ended = 0;
  while (::waitpid(child, &ended, WNOHANG) != child) {
    pollfd waits[] = {{life.get(), POLLIN, 0}, {signals.get(), POLLIN, 0}};
    (void)::poll(waits, std::size(waits), -1);
    signalfd_siginfo signal{};
    while (::read(signals.get(), &signal, sizeof signal) == sizeof signal) {
      ::kill(child, static_cast<int>(signal.ssi_signo));
    }
  }
  meeting.tell_that_it_is_over();
  return status_of(ended);
}

// --- The others ---

Result<int> follow(const MpiMember& member, SteadyTime until) {
  DIVVY_TRY(address, address_of(member.meeting));
  UniqueFd socket;
  for (;;) {
    socket = unix_socket();
    if (socket && ::connect(socket.get(), address.get(), address.size) == 0 &&
        is_own(socket.get())) {
      break;
    }
    if (std::chrono::steady_clock::now() > until) {
      return err(ErrorCode::kTimeout, "the first member of the job does not begin");
    }
    std::this_thread::sleep_for(kAgain);
  }
  if (::send(socket.get(), &member.rank, sizeof member.rank, MSG_NOSIGNAL) < 0) {
    return err(ErrorCode::kUnavailable, "the first member of the job is gone");
  }
  for (;;) {
    char said = 0;
    const ssize_t got = ::recv(socket.get(), &said, 1, 0);
    if (got == 1 && said == kOver) return kExitOk;
    if (got < 0 && errno == EINTR) continue;
    return err(ErrorCode::kUnavailable, "the first member of the job is gone");
  }
}

}  // namespace

Result<MpiMember> read_mpi_member(const MemberVariables& variables, const std::string& meeting,
                                  std::uint32_t processes, std::vector<std::string> words) {
  DIVVY_TRY(rank, parse_count("DIVVY_RANK", variables("DIVVY_RANK")));
  DIVVY_TRY(members, parse_count("DIVVY_MEMBERS", variables("DIVVY_MEMBERS")));
  if (rank >= members) {
    return err(ErrorCode::kInvalidArgument, "DIVVY_RANK: there is no member {} of {}", rank,
               members);
  }
  return MpiMember{.rank = rank,
                   .members = members,
                   .processes = processes,
                   .meeting = meeting + "." + variables("DIVVY_ATTEMPT").value_or("0"),
                   .words = std::move(words)};
}

std::vector<std::string> mpirun_command(const MpiMember& member) {
  std::string hosts = fmt::format("localhost:{}", member.processes);
  for (std::uint32_t rank = 1; rank < member.members; ++rank) {
    hosts += fmt::format(",{}{}:{}", kHostPrefix, rank, member.processes);
  }
  std::vector<std::string> command{"mpirun", "--host", hosts};
  const auto is_count = [](const std::string& word) {
    return word == "-np" || word == "--np" || word == "-n" || word == "--n" || word == "-c";
  };
  // Its own options end where the program begins; nobody calls a program "-np".
  if (std::ranges::none_of(member.words, is_count)) {
    command.insert(command.end(), {"-np", fmt::to_string(member.members * member.processes)});
  }
  command.insert(command.end(), member.words.begin(), member.words.end());
  return command;
}

std::vector<std::string> mpirun_variables(const std::string& starter, bool is_root) {
  // Of Open MPI 4, and as 5 calls them.
  std::vector<std::string> all{
      "OMPI_MCA_plm_rsh_agent=" + starter,
      "PRTE_MCA_plm_ssh_agent=" + starter,
      // Every daemon is started by the first member, and its connection stays.
      "OMPI_MCA_plm_rsh_no_tree_spawn=1",
      "PRTE_MCA_plm_ssh_no_tree_spawn=1",
      "OMPI_MCA_orte_leave_session_attached=1",
      // One machine: nobody else is spoken with, and there may be no other network.
      "OMPI_MCA_oob_tcp_if_include=lo",
      "PRTE_MCA_prte_if_include=lo",
      "OMPI_MCA_btl_tcp_if_include=lo",
      // Each daemon would bind its ranks to the first processors.
      "OMPI_MCA_hwloc_base_binding_policy=none",
      "PRTE_MCA_hwloc_default_binding_policy=none",
  };
  if (is_root) {
    all.insert(all.end(), {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                           "PRTE_ALLOW_RUN_AS_ROOT=1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1"});
  }
  return all;
}

bool is_rank_variable(const std::string& name) {
  return name.starts_with("OMPI_COMM_WORLD_") || name == "OMPI_UNIVERSE_SIZE" ||
         name.starts_with("PMI_") || name.starts_with("PMIX_") || name.starts_with("MPI_LOCAL") ||
         name == "RANK" || name == "LOCAL_RANK" || name == "WORLD_SIZE" ||
         name == "LOCAL_WORLD_SIZE";
}

Result<std::uint32_t> member_of_host(const std::string& host) {
  std::uint32_t rank = 0;
  if (host.starts_with(kHostPrefix)) {
    const char* const end = host.data() + host.size();
    const auto read = std::from_chars(host.data() + kHostPrefix.size(), end, rank);
    if (read.ec == std::errc() && read.ptr == end) return rank;
  }
  return err(ErrorCode::kInvalidArgument, "\"{}\" is no member like rank-1: mpirun is told of them",
             host.substr(0, 60));
}

std::vector<std::string> mpi_daemon_command(const std::string& line) {
  constexpr const char* kScript =
      R"(for name in $(env | sed -n -e 's/^\(OMPI_COMM_WORLD_[A-Z_]*\)=.*/\1/p' -e 's/^\(PMIX*_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
unset OMPI_UNIVERSE_SIZE MPI_LOCALRANKID MPI_LOCALNRANKS RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE
TMPDIR=$(mktemp -d -p /dev/shm divvy-mpi.XXXXXX 2>/dev/null || mktemp -d) || exit 1
OMPI_MCA_btl_vader_backing_directory=$TMPDIR OMPI_MCA_btl_sm_backing_directory=$TMPDIR
export TMPDIR OMPI_MCA_btl_vader_backing_directory OMPI_MCA_btl_sm_backing_directory
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 143' TERM HUP INT
sh -c "$1")";
  return {"sh", "-c", kScript, "mpi", line};
}

Result<int> run_mpi_member(const MpiMember& member, const std::string& starter,
                           std::chrono::milliseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  return member.rank == 0 ? lead(member, starter, until) : follow(member, until);
}

}  // namespace divvy::cli
