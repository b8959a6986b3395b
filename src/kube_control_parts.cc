#include "kube_control_parts.h"

#include <sys/random.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cstdlib>

#include "base/log.h"
#include "daemon_settings.h"
#include "kube/credentials.h"
#include "kube/json_view.h"
#include "kube/namespace_policy.h"

namespace divvy {
namespace {

namespace json = boost::json;

// A leader that may not write any more has five seconds.
constexpr std::chrono::seconds kWriteTime{4};
// The webhook waits for the first look at namespaces and policies, and no probe waits for longer.
constexpr std::chrono::seconds kUntilServed{10};

std::uint64_t random_number() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) {
    number = static_cast<std::uint64_t>(::getpid());
  }
  return number;
}

// Who it is in the lease: never the same as another process.
std::string identity() {
  std::string name;
  if (const char* const pod = std::getenv("POD_NAME"); pod != nullptr) name = pod;
  if (name.empty()) {
    std::array<char, 256> host{};
    if (::gethostname(host.data(), host.size() - 1) == 0) name = host.data();
  }
  return fmt::format("{}_{:016x}", name, random_number());
}

Result<kube::DialectPolicy> dialects_of(const KubeOptions& options) {
  kube::DialectPolicy policy;
  DIVVY_TRY(meaning, kube::parse_nvidia_gpus(options.nvidia_gpus));
  DIVVY_TRY(left_alone, kube::parse_dialects(options.left_alone));
  if (meaning == kube::NvidiaGpus::kReplicas && options.replicas_per_gpu == 0) {
    return err(ErrorCode::kInvalidArgument, "--nvidia-gpus replicas needs --replicas-per-gpu N");
  }
  policy.nvidia_gpus = meaning;
  policy.replicas_per_gpu = options.replicas_per_gpu;
  policy.left_alone = std::move(left_alone);
  return policy;
}

// Helm does not upgrade CRDs: those of an older version have not all kinds of objects.
struct OurKinds {
  bool queues = false;
  bool policies = false;
  bool capacity_plans = false;
};
Result<OurKinds> find_our_kinds(kube::ApiServer& api) {
  OurKinds kinds;
  DIVVY_TRY(group, api.get("/apis/divvy.dev/v1"));
  for (const json::value& one : kube::array_at(group, {"resources"})) {
    if (!one.is_object()) continue;
    const std::string_view name = kube::text_at(one.get_object(), {"name"});
    kinds.queues |= name == "queues";
    kinds.policies |= name == "policies";
    kinds.capacity_plans |= name == "capacityplans";
  }
  const auto warn = [](bool there, std::string_view name) {
    if (there) return;
    log_warning("there are no such objects: their CRD is missing",
                {{"crd", fmt::format("{}.divvy.dev", name)},
                 {"remedy", "kubectl apply -f deploy/helm/divvy/crds"}});
  };
  warn(kinds.queues, "queues");
  warn(kinds.policies, "policies");
  warn(kinds.capacity_plans, "capacityplans");
  return kinds;
}

// As the text format of metrics has it in labels.
std::string escape_label(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '\\' || letter == '"') escaped += '\\';
    if (letter == '\n') {
      escaped += "\\n";
    } else {
      escaped += letter;
    }
  }
  return escaped;
}

jobs::Settings queue_settings_of(const config::DaemonConfig& config) {
  return control_settings_of(config).queue;
}

}  // namespace

ClusterSide::~ClusterSide() = default;

Result<std::unique_ptr<ClusterSide>> ClusterSide::create(const KubeOptions& options,
                                                         const config::DaemonConfig& config,
                                                         Clock& clock) {
  std::unique_ptr<ClusterSide> made(new ClusterSide());
  DIVVY_TRY(credentials, kube::find_credentials(options.kubeconfig));
  kube::HttpApiOptions reading;
  reading.user_agent = "divvy-controller/" DIVVY_VERSION;
  kube::HttpApiOptions writing = reading;
  writing.timeout = kWriteTime;
  writing.most_retry_wait = std::chrono::milliseconds(0);
  DIVVY_TRY(reader, kube::HttpApi::create(credentials, reading, clock));
  DIVVY_TRY(writer, kube::HttpApi::create(std::move(credentials), writing, clock));
  made->reading_ = std::move(reader);
  made->writing_ = std::move(writer);
  DIVVY_RETURN_IF_ERROR(made->trust_ourselves(options.space));
  DIVVY_TRY(dialects, dialects_of(options));
  made->policy_->dialects = std::move(dialects);
  DIVVY_TRY(way, kube::parse_way(options.way));
  made->policy_->way = way;

  kube::Controller::Options controller;
  controller.queue.settings = queue_settings_of(config);
  controller.queue.settings.preemption &= !options.no_preemption;
  made->no_preemption_ = options.no_preemption;
  controller.queue.dialects = made->policy_->dialects;
  controller.queue.topology = {options.zone_label, options.rack_label};
  DIVVY_TRY(defragmentation, kube::parse_defragmentation(options.defragmentation));
  kube::DefragmentationRules& moves = controller.queue.defragmentation;
  moves.mode = defragmentation;
  moves.moves = options.defragmentation_moves;
  moves.moves_per_hour = options.defragmentation_moves_per_hour;
  moves.least_stay = std::chrono::seconds(options.defragmentation_least_stay);
  controller.queue.seed = random_number();
  controller.queue.evict_from_failed_gpus = !options.keep_on_failed_gpus;
  controller.lease = {.space = options.space, .name = "divvy-controller", .identity = identity()};
  controller.lease.owner = std::move(made->account_);
  controller.queue.instance = controller.lease.identity;
  if (way == kube::Way::kSlots) {
    // Claims of before are heeded where there can be any.
    const auto claims = made->reading_->get("/apis/resource.k8s.io/v1");
    if (!claims && claims.error().code != ErrorCode::kNotFound) return err(claims.error());
    controller.claims = claims.has_value();
    log_info("pods get their slices by slots", {{"claims", controller.claims}});
  }
  DIVVY_TRY(kinds, find_our_kinds(*made->reading_));
  controller.queues = kinds.queues;
  controller.policies = kinds.policies;
  controller.capacity_plans = kinds.capacity_plans;
  DIVVY_TRY(running, kube::Controller::create(*made->reading_, *made->writing_, clock,
                                              std::move(controller)));
  made->controller_ = std::move(running);
  made->policy_->namespaces = [side = made.get()](std::string_view name) {
    return side->controller_->dialects_for(name, side->policy_->dialects);
  };
  made->routes_ = std::make_unique<kube::ControllerRoutes>(*made->controller_, *made->writing_);
  made->webhook_ =
      std::make_unique<kube::WebhookRoutes>([side = made.get()] { return side->policy_; });
  if (!options.webhook_address.empty()) {
    // Until then pods that ask for GPUs are refused; another replica may know more.
    if (!made->controller_->await_policies(kUntilServed)) {
      log_warning("namespaces and policies cannot be read yet");
    }
    DIVVY_RETURN_IF_ERROR(made->serve_webhook(options));
  }
  DIVVY_RETURN_IF_ERROR(made->serve_metrics(config));
  return made;
}

// The webhook keeps everybody but the controller away from claims and gates, so it has to know who
// that is.
Status ClusterSide::trust_ourselves(const std::string& space) {
  DIVVY_TRY(review, reading_->create("/apis/authentication.k8s.io/v1/selfsubjectreviews",
                                     {{"apiVersion", "authentication.k8s.io/v1"},
                                      {"kind", "SelfSubjectReview"}}));
  const std::string user(kube::text_at(review, {"status", "userInfo", "username"}));
  policy_ = std::make_shared<kube::AdmissionPolicy>();
  policy_->exempt_namespaces = {"kube-system", space};
  if (user.empty()) {
    return err(ErrorCode::kPermissionDenied,
               "the API server does not say as whom the controller speaks to it");
  }
  policy_->trusted_users = {user};
  // "system:serviceaccount:NAMESPACE:NAME"
  const std::string account = fmt::format("system:serviceaccount:{}:", space);
  const std::string_view uid = kube::text_at(review, {"status", "userInfo", "uid"});
  if (user.starts_with(account) && !uid.empty()) {
    account_ = {{"apiVersion", "v1"},
                {"kind", "ServiceAccount"},
                {"name", user.substr(account.size())},
                {"uid", uid}};
  }
  log_info("API server answers", {{"user", user}});
  return {};
}

Status ClusterSide::serve_webhook(const KubeOptions& options) {
  DIVVY_TRY(address, net::TcpAddress::parse(options.webhook_address));
  if (options.webhook_certificate.empty() || options.webhook_key.empty()) {
    return err(ErrorCode::kInvalidArgument,
               "--webhook-address needs --webhook-certificate and --webhook-key: Kubernetes calls "
               "webhooks over TLS only");
  }
  net::HttpServerOptions server;
  server.network = std::move(address);
  server.tls = net::TlsIdentity{options.webhook_certificate, options.webhook_key};
  server.max_connections = 256;
  server.max_body = kube::WebhookRoutes::kLargestReview;
  DIVVY_TRY(serving, net::HttpServer::create(server, [this](const auto& request, const auto&) {
              return handle(request);
            }));
  server_ = std::move(serving);
  log_info("the webhook is served", {{"port", server_->port()}});
  return {};
}

Status ClusterSide::serve_metrics(const config::DaemonConfig& config) {
  DIVVY_TRY(options, metrics_options_of(config));
  if (!options.listen) return {};
  net::HttpServerOptions server;
  server.network = options.listen;
  server.max_body = 1024;
  DIVVY_TRY(serving, net::HttpServer::create(server, [this](const auto& request, const auto&) {
              return metrics(request);
            }));
  metrics_server_ = std::move(serving);
  return {};
}

net::HttpResponse ClusterSide::handle(const net::HttpRequest& request) const {
  if (kube::ControllerRoutes::serves(request.path)) return routes_->handle(request);
  return webhook_->handle(request);
}

net::HttpResponse ClusterSide::metrics(const net::HttpRequest& request) const {
  net::HttpResponse response;
  response.content_type = "text/plain; version=0.0.4";
  if (request.path != "/metrics") {
    response.status = 404;
    response.body = "there is /metrics\n";
    return response;
  }
  const kube::Controller::Load load = controller_->load();
  const auto add = [&response](std::string_view name, std::string_view type, std::string_view help,
                               std::uint64_t value) {
    response.body +=
        fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", name, help, type, value);
  };
  add("divvy_controller_leads", "gauge", "1 where this replica leads",
      controller_->leads() ? 1 : 0);
  add("divvy_controller_pods", "gauge", "Pods that hold or want slices", load.pods);
  add("divvy_controller_pods_waiting", "gauge", "Pods that wait for a place", load.waiting);
  add("divvy_controller_moves_total", "counter",
      "Pods that were evicted to start elsewhere, so that others fit", load.moves.pods);
  add("divvy_controller_move_plans_finished_total", "counter",
      "Plans of moves after which somebody who waited got their place", load.moves.finished);
  add("divvy_controller_move_plans_given_up_total", "counter",
      "Plans of moves that were not carried out to the end", load.moves.given_up);
  add("divvy_controller_moves_under_way", "gauge", "1 while a pod is being moved",
      load.moves.under_way ? 1 : 0);
  add("divvy_controller_free_share_thousandths", "gauge",
      "What is free on nodes that take new pods, in thousandths of a GPU", load.room.share);
  add("divvy_controller_stranded_share_thousandths", "gauge",
      "Of it on GPUs of which some pod has a part", load.room.stranded);
  add("divvy_controller_largest_free_gpus", "gauge", "Whole GPUs that are free on one node",
      load.room.largest_gpus);
  response.body +=
      "# HELP divvy_controller_nodes_wanted Nodes of a kind that would have to be added for those "
      "to "
      "start who wait for room\n# TYPE divvy_controller_nodes_wanted gauge\n";
  for (const auto& [kind, nodes] : load.nodes_wanted) {
    response.body +=
        fmt::format("divvy_controller_nodes_wanted{{kind=\"{}\"}} {}\n", escape_label(kind), nodes);
  }
  add("divvy_controller_writes_total", "counter", "Requests to the API server that were answered",
      load.written);
  add("divvy_controller_write_errors_total", "counter", "Of them with an error", load.failed);
  return response;
}

Status ClusterSide::change(const config::DaemonConfig& config) {
  jobs::Settings settings = queue_settings_of(config);
  settings.preemption &= !no_preemption_;
  return controller_->set_settings(std::move(settings));
}

void ClusterSide::renew_certificate() const {
  if (!server_) return;
  if (const Status renewed = server_->reload_tls(); !renewed) {
    log_error("the webhook keeps its certificate", {{"reason", renewed.error().message}});
  }
}

std::string ClusterSide::status() const {
  const kube::Controller::Load load = controller_->load();
  if (!controller_->leads()) return "another leads.";
  return fmt::format("leads, {} pods, {} waiting.", load.pods, load.waiting);
}

}  // namespace divvy
