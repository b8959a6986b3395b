#include "kubelet/device_plugin.h"

#include <device_plugin_v1beta1.grpc.pb.h>
#include <grpcpp/grpcpp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <thread>

#include "base/log.h"
#include "base/unique_fd.h"
#include "kube/object_names.h"

namespace divvy::kubelet {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSlotsPerGpu = 64;
constexpr const char* kSocketName = "divvy.dev-slot.sock";
constexpr const char* kKubeletSocket = "kubelet.sock";
constexpr auto kShutdownTime = std::chrono::seconds(2);
// The kubelet calls back before it answers.
constexpr auto kRegisterTime = std::chrono::seconds(15);
constexpr int kRegisterAgainMs = 1000;
// How soon a stream notices that its reader went.
constexpr auto kStreamTurn = std::chrono::milliseconds(500);

grpc::Status refused(std::string_view what, const std::vector<std::string>& slots,
                     const Error& error) {
  log_warning(what,
              {{"slots", fmt::format("{}", fmt::join(slots, ", "))}, {"reason", error.message}});
  return {grpc::StatusCode::FAILED_PRECONDITION, error.message};
}

template <typename Names>
std::vector<std::string> list_of(const Names& names) {
  return {names.begin(), names.end()};
}

class SlotService final : public v1beta1::DevicePlugin::Service {
 public:
  SlotService(SlotPods& pods, NodeView& view) : pods_(pods), view_(view) {}

  grpc::Status GetDevicePluginOptions(grpc::ServerContext* /*context*/,
                                      const v1beta1::Empty* /*request*/,
                                      v1beta1::DevicePluginOptions* options) override {
    options->set_pre_start_required(true);
    options->set_get_preferred_allocation_available(true);
    return grpc::Status::OK;
  }

  grpc::Status ListAndWatch(grpc::ServerContext* context, const v1beta1::Empty* /*request*/,
                            grpc::ServerWriter<v1beta1::ListAndWatchResponse>* writer) override {
    std::optional<std::size_t> told;
    while (!context->IsCancelled() && !view_.is_stopped()) {
      const NodeView::Snapshot snapshot = view_.now();
      if (told != snapshot.state.gpus.size()) {
        told = snapshot.state.gpus.size();
        v1beta1::ListAndWatchResponse message;
        for (const std::string& slot : slot_names(*told)) {
          v1beta1::Device* const device = message.add_devices();
          device->set_id(slot);
          device->set_health("Healthy");
        }
        if (!writer->Write(message)) break;
      }
      view_.await_change(snapshot.version, kStreamTurn);
    }
    return grpc::Status::OK;
  }

  grpc::Status GetPreferredAllocation(grpc::ServerContext* /*context*/,
                                      const v1beta1::PreferredAllocationRequest* request,
                                      v1beta1::PreferredAllocationResponse* response) override {
    for (const auto& one : request->container_requests()) {
      auto* const answer = response->add_container_responses();
      const auto count = static_cast<std::size_t>(std::max(one.allocation_size(), 0));
      for (const std::string& slot : pods_.prefer(list_of(one.available_deviceids()),
                                                  list_of(one.must_include_deviceids()), count)) {
        answer->add_deviceids(slot);
      }
    }
    return grpc::Status::OK;
  }

  grpc::Status Allocate(grpc::ServerContext* /*context*/, const v1beta1::AllocateRequest* request,
                        v1beta1::AllocateResponse* response) override {
    for (const auto& one : request->container_requests()) {
      const std::vector<std::string> slots = list_of(one.devices_ids());
      const auto devices = pods_.allocate(slots);
      if (!devices) return refused("slots are not given", slots, devices.error());
      auto* const answer = response->add_container_responses();
      for (const std::string& device : *devices) answer->add_cdi_devices()->set_name(device);
    }
    return grpc::Status::OK;
  }

  grpc::Status PreStartContainer(grpc::ServerContext* /*context*/,
                                 const v1beta1::PreStartContainerRequest* request,
                                 v1beta1::PreStartContainerResponse* /*response*/) override {
    const std::vector<std::string> slots = list_of(request->devices_ids());
    const Status started = pods_.start_container(slots);
    if (!started) return refused("a container with slots does not start", slots, started.error());
    return grpc::Status::OK;
  }

 private:
  SlotPods& pods_;
  NodeView& view_;
};

}  // namespace

std::vector<std::string> slot_names(std::size_t gpus) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < gpus * kSlotsPerGpu; ++i)
    names.push_back(fmt::format("slot-{:04}", i));
  return names;
}

class DevicePlugin::Impl {
 public:
  Impl(fs::path folder, SlotPods& pods, NodeView& view)
      : socket(folder / kSocketName), folder_(std::move(folder)), pods_(pods), view_(view) {}

  Status start() {
    watch_ = UniqueFd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    stop_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
    if (!watch_ || !stop_ ||
        ::inotify_add_watch(watch_.get(), folder_.c_str(),
                            IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM) < 0) {
      return err(ErrorCode::kNotFound,
                 "{} cannot be watched; it is the kubelet's folder of device plugins",
                 folder_.string());
    }
    DIVVY_RETURN_IF_ERROR(serve());
    thread_ = std::thread([this] { run(); });
    return {};
  }

  ~Impl() {
    const std::uint64_t one = 1;
    if (stop_) static_cast<void>(!::write(stop_.get(), &one, sizeof one));
    if (thread_.joinable()) thread_.join();
    view_.stop();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + kShutdownTime);
    ::unlink(socket.c_str());
  }

  [[nodiscard]] bool is_registered() const { return is_registered_; }

  const fs::path socket;

 private:
  Status serve() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + kShutdownTime);
    server_.reset();
    ::unlink(socket.c_str());
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + socket.string(), grpc::InsecureServerCredentials());
    service_ = std::make_unique<SlotService>(pods_, view_);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) {
      return err(ErrorCode::kIo, "no device plugin can be served at {}", socket.string());
    }
    return {};
  }

  [[nodiscard]] bool tell_kubelet() const {
    const auto kubelet = v1beta1::Registration::NewStub(grpc::CreateChannel(
        "unix:" + (folder_ / kKubeletSocket).string(), grpc::InsecureChannelCredentials()));
    v1beta1::RegisterRequest request;
    request.set_version("v1beta1");
    request.set_endpoint(kSocketName);
    request.set_resource_name(std::string(kube::kSlotResource));
    request.mutable_options()->set_pre_start_required(true);
    request.mutable_options()->set_get_preferred_allocation_available(true);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kRegisterTime);
    v1beta1::Empty nothing;
    const grpc::Status status = kubelet->Register(&context, request, &nothing);
    if (!status.ok()) {
      log_debug("the kubelet does not know the plugin for slots yet",
                {{"reason", status.error_message()}});
    }
    return status.ok();
  }

  // Whether the kubelet made its socket anew.
  [[nodiscard]] bool read_events() const {
    alignas(inotify_event) std::array<char, 4096> bytes{};
    bool anew = false;
    for (;;) {
      const ssize_t got = ::read(watch_.get(), bytes.data(), bytes.size());
      if (got <= 0) return anew;
      for (ssize_t at = 0; at < got;) {
        const auto* const event = reinterpret_cast<const inotify_event*>(bytes.data() + at);
        const bool made = (event->mask & (IN_CREATE | IN_MOVED_TO)) != 0;
        if (made && event->len > 0 && std::string_view(event->name) == kKubeletSocket) anew = true;
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
      }
    }
  }

  void run() {
    for (;;) {
      std::error_code code;
      if (!fs::exists(socket, code)) {
        is_registered_ = false;
        if (const Status served = serve(); !served) {
          log_error("the kubelet finds no plugin for slots", {{"reason", served.error().message}});
        }
      }
      if (!is_registered_ && fs::exists(folder_ / kKubeletSocket, code) && tell_kubelet()) {
        is_registered_ = true;
        log_info("the kubelet knows the plugin for slots");
      }
      std::array<pollfd, 2> wait{pollfd{watch_.get(), POLLIN, 0}, pollfd{stop_.get(), POLLIN, 0}};
      ::poll(wait.data(), wait.size(), is_registered_ ? -1 : kRegisterAgainMs);
      if (wait[1].revents != 0) return;
      if (read_events()) is_registered_ = false;
    }
  }

  const fs::path folder_;
  SlotPods& pods_;
  NodeView& view_;
  UniqueFd watch_;
  UniqueFd stop_;
  std::unique_ptr<SlotService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<bool> is_registered_ = false;
  std::thread thread_;
};

DevicePlugin::DevicePlugin(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DevicePlugin::~DevicePlugin() = default;

Result<std::unique_ptr<DevicePlugin>> DevicePlugin::create(fs::path folder, SlotPods& pods,
                                                           NodeView& view) {
  const fs::path socket = folder / kSocketName;
  if (socket.string().size() >= sizeof(sockaddr_un::sun_path)) {
    return err(ErrorCode::kOutOfRange,
               "{} is too long for a socket; choose a shorter --kubelet-root", socket.string());
  }
  auto impl = std::make_unique<Impl>(std::move(folder), pods, view);
  DIVVY_RETURN_IF_ERROR(impl->start());
  return std::unique_ptr<DevicePlugin>(new DevicePlugin(std::move(impl)));
}

const fs::path& DevicePlugin::socket() const { return impl_->socket; }
bool DevicePlugin::is_registered() const { return impl_->is_registered(); }

}  // namespace divvy::kubelet
