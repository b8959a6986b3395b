#include "kubelet/dra_plugin.h"

#include <dra_health_v1alpha1.grpc.pb.h>
#include <dra_v1.grpc.pb.h>
#include <grpcpp/grpcpp.h>
#include <plugin_registration.grpc.pb.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <future>

#include "base/log.h"
#include "kube/object_names.h"

namespace divvy::kubelet {
namespace {

namespace fs = std::filesystem;
namespace dra = k8s::io::kubelet::pkg::apis::dra::v1;

// The kubelet takes silence of so many seconds for an unknown health.
constexpr std::int64_t kHealthTimeout = 60;
constexpr auto kShutdownTime = std::chrono::seconds(5);

class RegistrationService final : public pluginregistration::Registration::Service {
 public:
  explicit RegistrationService(fs::path endpoint) : endpoint_(std::move(endpoint)) {}

  grpc::Status GetInfo(grpc::ServerContext* /*context*/,
                       const pluginregistration::InfoRequest* /*request*/,
                       pluginregistration::PluginInfo* info) override {
    info->set_type("DRAPlugin");
    info->set_name(std::string(kube::kDriver));
    info->set_endpoint(endpoint_.string());
    info->add_supported_versions("v1.DRAPlugin");
    info->add_supported_versions("v1alpha1.DRAResourceHealth");
    return grpc::Status::OK;
  }

  grpc::Status NotifyRegistrationStatus(
      grpc::ServerContext* /*context*/, const pluginregistration::RegistrationStatus* status,
      pluginregistration::RegistrationStatusResponse* /*response*/) override {
    is_registered_ = status->plugin_registered();
    if (is_registered_) {
      log_info("the kubelet knows the plugin for claims");
    } else {
      log_error("the kubelet refuses the plugin for claims", {{"reason", status->error()}});
    }
    return grpc::Status::OK;
  }

  [[nodiscard]] bool is_registered() const { return is_registered_; }

 private:
  const fs::path endpoint_;
  std::atomic<bool> is_registered_ = false;
};

ClaimName name_of(const dra::Claim& claim) {
  return {claim.namespace_(), claim.name(), claim.uid()};
}

void log_refusal(std::string_view what, const dra::Claim& claim, const Error& error) {
  log_warning(what, {{"claim", claim.namespace_() + "/" + claim.name()},
                     {"uid", claim.uid()},
                     {"reason", error.message}});
}

// Asks about all claims at the same time, so that none waits for another.
template <typename Claims, typename Ask>
auto for_each_claim(const Claims& claims, const Ask& ask) {
  using Answer = std::invoke_result_t<Ask, const dra::Claim&>;
  std::vector<std::future<Answer>> running;
  for (int i = 1; i < claims.size(); ++i) {
    running.push_back(
        std::async(std::launch::async, [&ask, &claim = claims[i]] { return ask(claim); }));
  }
  std::vector<Answer> answers;
  if (!claims.empty()) answers.push_back(ask(claims[0]));
  for (std::future<Answer>& one : running) answers.push_back(one.get());
  return answers;
}

class ClaimService final : public dra::DRAPlugin::Service {
 public:
  explicit ClaimService(PreparedClaims& claims) : claims_(claims) {}

  grpc::Status NodePrepareResources(grpc::ServerContext* /*context*/,
                                    const dra::NodePrepareResourcesRequest* request,
                                    dra::NodePrepareResourcesResponse* response) override {
    const auto answers = for_each_claim(request->claims(), [this](const dra::Claim& claim) {
      return claims_.prepare(name_of(claim));
    });
    for (int i = 0; i < request->claims_size(); ++i) {
      const dra::Claim& claim = request->claims(i);
      auto& answer = (*response->mutable_claims())[claim.uid()];
      const auto& prepared = answers[static_cast<std::size_t>(i)];
      if (!prepared) {
        log_refusal("claim is not prepared", claim, prepared.error());
        answer.set_error(prepared.error().message);
        continue;
      }
      for (const PreparedDevice& one : *prepared) {
        dra::Device* const device = answer.add_devices();
        device->add_request_names(one.request);
        device->set_pool_name(one.pool);
        device->set_device_name(one.device);
        device->add_cdi_device_ids(one.cdi);
      }
    }
    return grpc::Status::OK;
  }

  grpc::Status NodeUnprepareResources(grpc::ServerContext* /*context*/,
                                      const dra::NodeUnprepareResourcesRequest* request,
                                      dra::NodeUnprepareResourcesResponse* response) override {
    const auto answers = for_each_claim(request->claims(), [this](const dra::Claim& claim) {
      return claims_.unprepare(name_of(claim));
    });
    for (int i = 0; i < request->claims_size(); ++i) {
      const dra::Claim& claim = request->claims(i);
      auto& answer = (*response->mutable_claims())[claim.uid()];
      const Status& done = answers[static_cast<std::size_t>(i)];
      if (done) continue;
      log_refusal("claim is not released", claim, done.error());
      answer.set_error(done.error().message);
    }
    return grpc::Status::OK;
  }

 private:
  PreparedClaims& claims_;
};

class HealthService final : public v1alpha1::DRAResourceHealth::Service {
 public:
  HealthService(NodeView& view, Clock& clock, std::chrono::milliseconds interval)
      : view_(view), clock_(clock), interval_(interval) {}

  grpc::Status NodeWatchResources(
      grpc::ServerContext* context, const v1alpha1::NodeWatchResourcesRequest* /*request*/,
      grpc::ServerWriter<v1alpha1::NodeWatchResourcesResponse>* writer) override {
    while (!context->IsCancelled() && !view_.is_stopped()) {
      const NodeView::Snapshot snapshot = view_.now();
      if (!writer->Write(message_of(snapshot))) break;
      view_.await_change(snapshot.version, interval_);
    }
    return grpc::Status::OK;
  }

 private:
  [[nodiscard]] v1alpha1::NodeWatchResourcesResponse message_of(
      const NodeView::Snapshot& snapshot) const {
    const auto now =
        std::chrono::duration_cast<std::chrono::seconds>(clock_.wall_now().time_since_epoch());
    v1alpha1::NodeWatchResourcesResponse message;
    for (const DeviceHealth& one : health_of(snapshot)) {
      v1alpha1::DeviceHealth* const device = message.add_devices();
      device->mutable_device()->set_pool_name(view_.node());
      device->mutable_device()->set_device_name(one.device);
      device->set_health(one.healthy ? v1alpha1::HEALTHY : v1alpha1::UNHEALTHY);
      device->set_last_updated_time(now.count());
      device->set_health_check_timeout_seconds(kHealthTimeout);
      device->set_message(one.message);
    }
    return message;
  }

  NodeView& view_;
  Clock& clock_;
  const std::chrono::milliseconds interval_;
};

Status make_folder(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (!code) return {};
  return err(ErrorCode::kIo, "{} could not be made: {}", folder.string(), code.message());
}

Status check_length(const fs::path& socket) {
  if (socket.string().size() < sizeof(sockaddr_un::sun_path)) return {};
  return err(ErrorCode::kOutOfRange, "{} is too long for a socket; choose a shorter --kubelet-root",
             socket.string());
}

// Those that an instance before us has left: the kubelet would try them for ever.
void remove_old_sockets(const fs::path& folder, std::string_view start) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(start) || !name.ends_with(".sock")) continue;
    if (!fs::is_socket(entry.symlink_status(code))) continue;
    ::unlink(entry.path().c_str());
  }
}

}  // namespace

class DraPlugin::Impl {
 public:
  Impl(fs::path registration, fs::path calls, const Options& options, PreparedClaims& claims,
       NodeView& view, Clock& clock)
      : registration_socket(std::move(registration)),
        calls_socket(std::move(calls)),
        registration_(calls_socket),
        claims_(claims),
        health_(view, clock, options.health_interval),
        view_(view) {}

  Status serve() {
    grpc::ServerBuilder builder;
    for (const fs::path& socket : {calls_socket, registration_socket}) {
      builder.AddListeningPort("unix:" + socket.string(), grpc::InsecureServerCredentials());
    }
    builder.RegisterService(&registration_);
    builder.RegisterService(&claims_);
    builder.RegisterService(&health_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) {
      return err(ErrorCode::kIo, "no plugin of the kubelet can be served at {}",
                 registration_socket.string());
    }
    return {};
  }

  ~Impl() {
    view_.stop();
    ::unlink(registration_socket.c_str());
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + kShutdownTime);
    ::unlink(calls_socket.c_str());
  }

  [[nodiscard]] bool is_registered() const { return registration_.is_registered(); }

  const fs::path registration_socket;
  const fs::path calls_socket;

 private:
  RegistrationService registration_;
  ClaimService claims_;
  HealthService health_;
  NodeView& view_;
  std::unique_ptr<grpc::Server> server_;
};

DraPlugin::DraPlugin(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DraPlugin::~DraPlugin() = default;

Result<std::unique_ptr<DraPlugin>> DraPlugin::create(Options options, PreparedClaims& claims,
                                                     NodeView& view, Clock& clock) {
  std::error_code code;
  if (!fs::is_directory(options.kubelet_root, code)) {
    return err(ErrorCode::kNotFound,
               "there is no folder {}; --kubelet-root names that of the kubelet",
               options.kubelet_root.string());
  }
  const std::string driver(kube::kDriver);
  const fs::path registry = options.kubelet_root / "plugins_registry";
  const fs::path folder = options.kubelet_root / "plugins" / driver;
  const fs::path registration = registry / fmt::format("{}-{}-reg.sock", driver, options.instance);
  const fs::path calls = folder / fmt::format("dra-{}.sock", options.instance);
  DIVVY_RETURN_IF_ERROR(check_length(registration));
  DIVVY_RETURN_IF_ERROR(check_length(calls));
  DIVVY_RETURN_IF_ERROR(make_folder(registry));
  DIVVY_RETURN_IF_ERROR(make_folder(folder));
  remove_old_sockets(registry, driver + "-");
  remove_old_sockets(folder, "dra-");
  auto impl = std::make_unique<Impl>(registration, calls, options, claims, view, clock);
  DIVVY_RETURN_IF_ERROR(impl->serve());
  return std::unique_ptr<DraPlugin>(new DraPlugin(std::move(impl)));
}

const fs::path& DraPlugin::registration_socket() const { return impl_->registration_socket; }
const fs::path& DraPlugin::calls_socket() const { return impl_->calls_socket; }
bool DraPlugin::is_registered() const { return impl_->is_registered(); }

}  // namespace divvy::kubelet
