// Going into pods: exec, attach, copies and ports, each a connection of its own through the API
// server, on a thread of its own for as long as it lasts.
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <thread>

#include "api/stream_requests.h"
#include "kube/json_view.h"
#include "kube/pod_channels.h"
#include "kube/resource_path.h"
#include "kube_api/cluster_api.h"
#include "kube_api/pod_visit.h"

namespace divvy::kube_api {
namespace {

namespace json = boost::json;
using Kind = agent::StreamOrder::Kind;

// Until the kubelet has told how a container ended whose output has.
constexpr int kMostLooks = 60;

// In the member's own environment and folder, unless others are asked for.
std::vector<std::string> words_of(const agent::StreamOrder& order) {
  std::vector<std::string> words = order.command;
  std::vector<std::string> variables;
  for (const auto& [name, value] : order.environment) {
    // The container runtime sets its own for a terminal.
    if (name != "TERM") variables.push_back(fmt::format("{}={}", name, value));
  }
  if (!variables.empty()) {
    variables.insert(variables.begin(), "env");
    words.insert(words.begin(), variables.begin(), variables.end());
  }
  if (!order.path.empty()) {
    const std::vector<std::string> in_folder{"sh", "-c", R"(cd -- "$0" && exec "$@")", order.path};
    words.insert(words.begin(), in_folder.begin(), in_folder.end());
  }
  return words;
}

std::string_view trimmed(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

// With the options that every tar has.
std::vector<std::string> copy_words(const agent::StreamOrder& order) {
  const std::string path(trimmed(order.path));
  if (order.kind == Kind::kCopyIn) return {"tar", "-x", "-f", "-", "-C", path};
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == 0 ? "/" : path.substr(0, slash);
  const std::string name = path == "/" ? "." : path.substr(slash + 1);
  return {"tar", "-c", "-f", "-", "-C", folder, "--", name};
}

const json::object& container_of(const json::object& pod, const std::string& name) {
  static const json::object kNone;
  for (const json::value& one : kube::array_at(pod, {"spec", "containers"})) {
    if (one.is_object() && kube::text_at(one.get_object(), {"name"}) == name) {
      return one.get_object();
    }
  }
  return kNone;
}

std::optional<std::int32_t> exit_status(const json::object& pod, const std::string& container) {
  for (const json::value& one : kube::array_at(pod, {"status", "containerStatuses"})) {
    if (!one.is_object() || kube::text_at(one.get_object(), {"name"}) != container) continue;
    for (const char* const state : {"state", "lastState"}) {
      const json::object& ended = kube::object_at(one.get_object(), {state, "terminated"});
      if (const auto code = kube::number_at(ended, {"exitCode"})) {
        return static_cast<std::int32_t>(*code);
      }
    }
  }
  return std::nullopt;
}

struct Line {
  UniqueFd ours;
  UniqueFd callers;
};
Result<Line> make_socket_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return err(ErrorCode::kResourceExhausted, "no socket: {}", std::strerror(errno));
  }
  return Line{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

ClusterApi::~ClusterApi() {
  for (Visiting& visit : visits_) visit.thread.join();
}

Result<const MemberPod*> ClusterApi::find_running(const ClusterJob& job, std::uint32_t rank) {
  const auto member = std::ranges::find_if(
      job.pods, [rank](const MemberPod& one) { return one.rank == rank && one.runs; });
  if (member == job.pods.end()) {
    return err(ErrorCode::kNotFound, "job {} has no member {} that runs", job.job.id, rank);
  }
  return &*member;
}

// Channels of clusters last as long as their connection, so none was opened before.
ClusterApi::Answer ClusterApi::join_channel(const Asked& asked, const ClusterJob& job) {
  DIVVY_TRY(order, api::parse_join_query(asked.request.query));
  DIVVY_RETURN_IF_ERROR(find_running(job, order.key.rank));
  return err(ErrorCode::kNotFound, "there is no such channel");
}

ClusterApi::Answer ClusterApi::open_channel(const Asked& asked, const ClusterJob& job) {
  DIVVY_TRY(order, api::parse_channel_request(asked.request.body));
  DIVVY_TRY(member, find_running(job, order.key.rank));
  if (asked.request.header("upgrade").empty()) {
    return err(ErrorCode::kUnsupported,
               "a channel into a pod is its connection, which an upgrade of this request opens; "
               "divvy exec does that, and so does kubectl: kubectl -n {} exec -it {} -c {} -- "
               "COMMAND",
               job.space(), member->pod, member->container);
  }
  net::HttpResponse response;
  response.upgrade = [this, order, space = job.space(), pod = member->pod,
                      container = member->container](UniqueFd& socket) {
    auto opened = visit(order, space, pod, container);
    if (!opened) return api::problem(opened.error());
    socket = *std::move(opened);
    return net::HttpResponse{.status = 101, .content_type = {}, .body = {}};
  };
  return response;
}

Result<UniqueFd> ClusterApi::visit(const agent::StreamOrder& order, const std::string& space,
                                   const std::string& pod, const std::string& container) {
  DIVVY_TRY(line, make_socket_pair());
  if (order.kind == Kind::kPort) {
    DIVVY_TRY(connection, api_.connect(kube::port_path(space, pod, order.port),
                                       std::string(kube::kPortProtocol)));
    auto pod_end = std::make_shared<std::unique_ptr<kube::PodConnection>>(std::move(connection));
    auto ours = std::make_shared<UniqueFd>(std::move(line.ours));
    DIVVY_RETURN_IF_ERROR(
        begin_visit([pod_end, ours] { carry_port(std::move(*pod_end), std::move(*ours)); }));
    return std::move(line.callers);
  }
  PodVisitor visitor;
  kube::PodVisit wanted{.space = space, .pod = pod, .container = container};
  const std::string path = fmt::format("/api/v1/namespaces/{}/pods/{}", kube::percent_encode(space),
                                       kube::percent_encode(pod));
  if (order.kind == Kind::kAttach) {
    DIVVY_TRY(document, api_.get(path));
    const json::object& has = container_of(document, container);
    wanted.input = kube::true_at(has, {"stdin"});
    wanted.terminal = kube::true_at(has, {"tty"});
    visitor.how_it_ended = [this, path, container] { return wait_for_end(path, container); };
  } else {
    visitor.copies = order.kind != Kind::kExec;
    wanted.command = visitor.copies ? copy_words(order) : words_of(order);
    wanted.input = order.kind != Kind::kCopyOut;
    wanted.terminal = order.terminal;
  }
  visitor.takes_input = wanted.input;
  visitor.terminal = wanted.terminal;
  DIVVY_TRY(connection, api_.connect(kube::visit_path(wanted), std::string(kube::kExecProtocols)));
  visitor.pod = std::move(connection);
  visitor.caller = std::move(line.ours);
  if (order.terminal) {
    // Before anything is written there.
    const std::string size = kube::resize_message(order.rows, order.columns);
    static_cast<void>(::send(visitor.pod->fd(), size.data(), size.size(), MSG_NOSIGNAL));
  }
  auto all = std::make_shared<PodVisitor>(std::move(visitor));
  DIVVY_RETURN_IF_ERROR(begin_visit([all] { carry_visit(std::move(*all)); }));
  return std::move(line.callers);
}

// The connection tells that there is no more output, and not the exit status.
Result<std::int32_t> ClusterApi::wait_for_end(const std::string& path,
                                              const std::string& container) {
  for (int look = 0; look < kMostLooks; ++look) {
    if (look > 0) std::this_thread::sleep_for(options_.look_again);
    const auto pod = api_.get(path);
    if (!pod && pod.error().code == ErrorCode::kNotFound) {
      return err(ErrorCode::kUnavailable, "the pod is gone; it is not known how it ended");
    }
    if (!pod) continue;
    if (const auto status = exit_status(*pod, container)) return *status;
  }
  return err(ErrorCode::kUnavailable,
             "its output has ended, and Kubernetes does not say how the container did");
}

Status ClusterApi::begin_visit(std::function<void()> work) {
  const std::lock_guard lock(visits_mutex_);
  std::erase_if(visits_, [](Visiting& visit) {
    if (visit.done) visit.thread.join();
    return visit.done.load();
  });
  Visiting& visit = visits_.emplace_back();
  // Signals are for the caller's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Status begun;
  try {
    visit.thread = std::thread([&visit, work = std::move(work)] {
      work();
      visit.done = true;
    });
  } catch (const std::system_error& error) {
    visits_.pop_back();
    begun = err(ErrorCode::kResourceExhausted, "no thread: {}", error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return begun;
}

}  // namespace divvy::kube_api
