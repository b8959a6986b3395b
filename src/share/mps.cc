#include "share/mps.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <system_error>

#include "base/check.h"
#include "base/log.h"

namespace divvy::share {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

// The path of a socket has to be short, so the folder has only the digits of the UUID.
std::string folder_name(const model::GpuUuid& gpu) {
  std::string name;
  for (const char c : std::string_view(gpu.str()).substr(4)) {
    if (c != '-') name.push_back(c);
  }
  return name;
}

}  // namespace

std::uint32_t mps_thread_percentage(Share share, TenantClass tenant_class) {
  if (tenant_class == TenantClass::kLatency) return 100;
  return std::clamp<std::uint32_t>((share.thousandths() + 9) / 10, 1, 100);
}

Mps::Mps(Options options)
    : options_(std::move(options)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  DIVVY_CHECK(wake_.get() >= 0, "no event descriptor for the MPS watch");
}

Mps::~Mps() {
  closing_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<Mps::Server> Mps::server_for(const model::GpuUuid& gpu) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Server>& server = servers_[gpu];
  if (!server) {
    server = std::make_shared<Server>(gpu, folder_of(gpu), options_.control);
  }
  return server;
}

std::vector<std::shared_ptr<Mps::Server>> Mps::servers() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Server>> all;
  all.reserve(servers_.size());
  for (const auto& [gpu, server] : servers_) all.push_back(server);
  return all;
}

Status Mps::check_installed() const { return MpsControl::check_installed(options_.control); }

fs::path Mps::folder_of(const model::GpuUuid& gpu) const {
  return options_.folder / folder_name(gpu);
}

fs::path Mps::pipe_folder(const model::GpuUuid& gpu) const {
  return MpsControl::pipe_folder(folder_of(gpu));
}

Status Mps::acquire(const model::GpuUuid& gpu) {
  const auto server = server_for(gpu);
  {
    const std::lock_guard lock(server->mutex);
    const bool was_running = server->control.running();
    DIVVY_RETURN_IF_ERROR(server->control.start());
    server->wanted = true;
    if (!was_running) log_info("MPS started", {{"gpu", gpu}});
  }
  begin_watching();
  wake();
  return {};
}

void Mps::release(const model::GpuUuid& gpu) {
  server_for(gpu)->wanted = false;
  begin_watching();
  wake();
}

void Mps::stop_unused() {
  std::error_code error;
  std::set<model::GpuUuid> left;
  for (const auto& entry : fs::directory_iterator(options_.folder, error)) {
    if (const auto gpu = MpsControl::gpu_of_folder(entry.path())) left.insert(*gpu);
  }
  for (const model::GpuUuid& gpu : left) {
    const auto server = server_for(gpu);
    const std::lock_guard lock(server->mutex);
    if (server->wanted) continue;
    // One that still runs is stopped by the watching thread; of one that is gone only the folder is
    // left.
    if (!server->control.take_over()) server->control.stop();
  }
  if (!left.empty()) begin_watching();
  wake();
}

void Mps::settle() {
  for (const auto& server : servers()) {
    const std::lock_guard lock(server->mutex);
    if (!server->wanted) server->control.stop();
  }
}

void Mps::begin_watching() {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { watch(); });
}

void Mps::wake() const {
  const std::uint64_t one = 1;
  // A full counter wakes just as well.
  (void)!::write(wake_.get(), &one, sizeof one);
}

void Mps::watch() {
  while (true) {
    // A last round after closing, so that what was released is stopped.
    const bool last = closing_;
    std::vector<pollfd> waiting{{wake_.get(), POLLIN, 0}};
    for (const auto& server : servers()) {
      if (last && server->wanted) continue;
      const std::lock_guard lock(server->mutex);
      if (const int fd = tend(*server); fd >= 0) waiting.push_back({fd, POLLIN, 0});
    }
    if (last) return;
    (void)::poll(waiting.data(), waiting.size(), -1);
    std::uint64_t count = 0;
    (void)!::read(wake_.get(), &count, sizeof count);
  }
}

int Mps::tend(Server& server) {
  MpsControl& control = server.control;
  if (!server.wanted) {
    if (control.process_fd() >= 0) {
      control.stop();
      log_info("MPS stopped", {{"gpu", control.gpu()}});
    }
    return -1;
  }
  if (control.process_fd() < 0) return -1;
  if (control.running()) return control.process_fd();

  const auto now = steady_clock::now();
  std::erase_if(server.deaths, [now](auto at) { return now - at > std::chrono::minutes(1); });
  server.deaths.push_back(now);
  Status restarted;
  if (static_cast<int>(server.deaths.size()) > options_.restarts_per_minute) {
    control.forget();
    restarted = err(ErrorCode::kUnavailable,
                    "the MPS control daemon for {} died {} times within a minute and is left alone "
                    "until the next tenant comes; its logs are in {}",
                    control.gpu(), server.deaths.size(), control.log_folder().string());
  } else {
    restarted = control.start();
  }
  if (restarted) {
    log_warning("MPS died and was started again", {{"gpu", control.gpu()}});
  } else {
    log_error("MPS died", {{"gpu", control.gpu()}, {"reason", restarted.error().message}});
  }
  if (options_.on_death) options_.on_death(control.gpu(), restarted);
  return control.process_fd();
}

}  // namespace divvy::share
