#include "daemon_settings.h"

#include "config/schema.h"

namespace divvy {

model::GpuMode default_mode(const config::DaemonConfig& config) {
  return config.sharing.mode == config::SharingMode::kMps ? model::GpuMode::kMps
                                                          : model::GpuMode::kTimeslice;
}

Result<api::MetricsOptions> metrics_options_of(const config::DaemonConfig& config) {
  api::MetricsOptions options;
  DIVVY_TRY(listen, api::parse_metrics_address(config.metrics.address));
  options.listen = std::move(listen);
  options.oldest_sample = config.metrics.oldest_sample;
  options.old_hostname_label = config.metrics.old_hostname_label;
  return options;
}

ContainerSettings container_settings_of(const config::DaemonConfig& config) {
  return {.run = config.folders.run,
          .state = config.folders.state,
          .cdi = config.cdi.folder,
          .graphics = config.cdi.graphics};
}

health::HealthSettings health_settings_of(const config::DaemonConfig& config) {
  const config::HealthConfig& health = config.health;
  return {.policy = {.suspect_time = health.suspect_time,
                     .failing_time = health.failing_time,
                     .strikes = health.strikes,
                     .strike_window = health.strike_window,
                     .quarantine_time = health.quarantine_time,
                     .longest_quarantine = health.longest_quarantine,
                     .forget_time = health.forget_time,
                     .probation_probes = health.probation_probes,
                     .probation_interval = health.probation_interval,
                     .hot_time = health.hot_time,
                     .hot_margin_c = health.hot_margin_c,
                     .ignored_xids = health.ignored_xids},
          .sample_interval = health.sample_interval,
          .idle_interval = health.idle_interval,
          .answer_time = health.answer_time,
          .probe_time = health.probe_time,
          .on_failure = health.on_failure == config::OnFailure::kEnd ? health::OnFailure::kEnd
                                                                     : health::OnFailure::kKeep,
          .grace_time = health.grace_time};
}

namespace {

std::optional<SignInSettings> sign_in_settings_of(const config::SignInConfig& config,
                                                  bool console) {
  if (config.issuer.empty()) return std::nullopt;
  SignInSettings settings;
  settings.provider.issuer = config.issuer;
  settings.provider.client_id = config.client_id;
  settings.provider.scopes = config.scopes;
  settings.provider.authorities = config.authorities;
  settings.provider.user_claim = config.user_claim;
  settings.provider.groups_claim = config.groups_claim;
  settings.client_secret_file = config.client_secret_file;
  settings.options.provider_name = config.name;
  if (console) settings.options.console_url = config.console_url;
  settings.options.rules.user_domain = config.user_domain;
  settings.options.rules.allowed_groups = config.allowed_groups;
  settings.options.rules.admin_groups = config.admin_groups;
  settings.options.rules.new_users = config.new_users;
  settings.options.token_time = config.token_time;
  return settings;
}

}  // namespace

ControlSettings control_settings_of(const config::DaemonConfig& config) {
  const auto seconds = [](Duration time) { return std::chrono::floor<model::Seconds>(time); };
  ControlSettings settings;
  settings.state = config.folders.state;
  settings.run = config.folders.run;
  constexpr std::string_view kAddresses[] = {"127.0.0.1", "0.0.0.0", "::"};
  settings.services_address = kAddresses[static_cast<std::size_t>(config.services.address)];
  settings.queue.half_life = seconds(config.queue.half_life);
  settings.queue.preemption = config.queue.preemption;
  settings.queue.reservations = config.queue.reservations;
  settings.queue.passing = seconds(config.queue.passing);
  settings.queue.policy = config::kPlacementPolicies[static_cast<std::size_t>(config.queue.policy)];
  settings.queue.most_waiting = config.queue.max_waiting;
  settings.queue.most_waiting_of_user = config.queue.max_waiting_per_user;
  settings.queue.idle = {seconds(config.queue.idle_after), seconds(config.queue.idle_warning)};
  const auto limit = [&seconds](Duration time) -> std::optional<model::Seconds> {
    if (time == Duration(0)) return std::nullopt;
    return std::max(seconds(time), model::Seconds(1));
  };
  settings.queue.time = {limit(config.queue.default_time_limit),
                         limit(config.queue.max_time_limit)};
  settings.retention = {.keep = seconds(config.queue.keep_finished),
                        .most_jobs = config.queue.keep_finished_jobs,
                        .most_logs = gib(config.queue.keep_logs_gib)};
  settings.address = config.api.address;
  settings.certificate = config.api.certificate;
  settings.key = config.api.key;
  settings.max_rate = config.api.max_rate;
  settings.console = config.api.console;
  settings.keep_channels = config.api.keep_channels;
  settings.notifications = {.enabled = config.notifications.enabled,
                            .allowed_hosts = config.notifications.allowed_hosts};
  settings.sign_in = sign_in_settings_of(config.sign_in, config.api.console);
  for (const config::Setting& row : config::settings()) {
    settings.shown.push_back(
        {row.path(), row.write(config), std::string(row.meaning), row.reloadable});
  }
  return settings;
}

run::PodmanSettings podman_settings_of(const config::DaemonConfig& config) {
  run::PodmanSettings settings;
  settings.program = config.containers.podman;
  settings.run_options = config.containers.options;
  settings.per_user = config.containers.rootless;
  settings.run_folder = (config.folders.run / "users").string();
  settings.storage = config.containers.storage.string();
  return settings;
}

}  // namespace divvy
