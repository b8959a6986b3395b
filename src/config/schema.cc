#include "config/schema.h"

#include <fmt/format.h>

#include <array>

namespace divvy::config {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::string_view kLevels[] = {"debug", "info", "warning", "error", "off"};
constexpr std::string_view kModes[] = {"timeslice", "mps"};
constexpr std::string_view kOnFailure[] = {"keep", "end"};

constexpr std::string_view kServiceAddresses[] = {"127.0.0.1", "0.0.0.0", "::"};

constexpr Section kSections[] = {
    {"folders", "Where the daemon keeps its files."},
    {"log", "What is logged, and how."},
    {"socket", "Who may speak with the daemon through the local API."},
    {"metrics", "Metrics for Prometheus."},
    {"sharing", "How GPUs are shared."},
    {"health", "How GPUs are watched, and what happens when one fails."},
    {"queue", "How jobs are ordered, preempted and reclaimed."},
    {"api", "The API for the network; the local socket is always there."},
    {"sign_in", "Signing in with a provider of OpenID Connect, beside tokens."},
    {"services", "What `divvy serve` keeps running."},
    {"notifications", "Messages to the webhooks that jobs name with `notify`."},
    {"cdi", "Descriptions of GPUs and slices for container runtimes."},
    {"containers", "How members of jobs in containers are started."},
    {"privileges", "What root's daemon gives up once it is ready."},
};

enum Reload : bool { kRestart = false, kReload = true };

// What makes the row of a field `section.*field` of the configuration: how it is read and written.
// `From` gives the field; the rows below name it once.
template <typename From>
Setting row(std::string_view section, std::string_view key, std::string kind, Reload reload,
            std::string_view meaning, From from, auto read, auto write) {
  return {section,
          key,
          std::move(kind),
          meaning,
          reload,
          [from, read](const YamlNode& node, DaemonConfig& config, Problems& problems) {
            read(node, from(config), problems);
          },
          [from, write](const DaemonConfig& config) {
            DaemonConfig copy = config;
            return write(from(copy));
          }};
}

constexpr auto kWritePlainly = [](const auto& value) { return write_value(value); };
constexpr auto kReadPlainly = [](const YamlNode& node, auto& value, Problems& problems) {
  read_value(node, value, problems);
};

template <typename T>
auto within(T lowest, T highest) {
  return [=](const YamlNode& node, auto& value, Problems& problems) {
    read_value(node, value, Limits<T>{lowest, highest}, problems);
  };
}

template <typename T>
std::string range(std::string_view what, T lowest, T highest) {
  return fmt::format("{} from {} to {}", what, write_value(lowest), write_value(highest));
}

// The enumerators count from zero in the order of `names`.
auto choose(std::span<const std::string_view> names) {
  return [=]<typename E>(const YamlNode& node, E& value, Problems& problems) {
    value = static_cast<E>(read_choice(node, names, static_cast<std::size_t>(value), problems));
  };
}
auto chosen(std::span<const std::string_view> names) {
  return [=](auto value) { return std::string(names[static_cast<std::size_t>(value)]); };
}
std::string one_of(std::span<const std::string_view> names) {
  return fmt::format("one of {}", fmt::join(names, ", "));
}

template <typename From>
Setting flag(std::string_view section, std::string_view key, Reload reload,
             std::string_view meaning, From from) {
  return row(section, key, "true or false", reload, meaning, from, kReadPlainly, kWritePlainly);
}

template <typename From>
Setting folder(std::string_view section, std::string_view key, Reload reload,
               std::string_view meaning, From from) {
  return row(section, key, "a folder", reload, meaning, from, kReadPlainly, kWritePlainly);
}

template <typename From>
Setting choice(std::string_view section, std::string_view key, Reload reload,
               std::string_view meaning, From from, std::span<const std::string_view> names) {
  return row(section, key, one_of(names), reload, meaning, from, choose(names), chosen(names));
}

template <typename From>
Setting time(std::string_view section, std::string_view key, Reload reload,
             std::string_view meaning, From from, Duration lowest, Duration highest) {
  return row(section, key, range("a time", lowest, highest), reload, meaning, from,
             within(lowest, highest), kWritePlainly);
}

// The field of a configuration, named once for reading and writing.
#define FIELD(path) [](DaemonConfig& config) -> auto& { return config.path; }

void add_health(std::vector<Setting>& table) {
  const auto span = [&table](std::string_view key, std::string_view meaning, auto field,
                             Duration lowest = Duration(0)) {
    table.push_back(time("health", key, kRestart, meaning, field, lowest, hours(7 * 24)));
  };
  const auto count = [&table](std::string_view key, std::string_view meaning, auto field) {
    table.push_back(row("health", key, range("a number", 1U, 1000U), kRestart, meaning, field,
                        within(1U, 1000U), kWritePlainly));
  };
  span("sample_interval", "How often each GPU is looked at.", FIELD(health.sample_interval),
       milliseconds(10));
  span("idle_interval", "The same for a GPU on which nothing has run for a while.",
       FIELD(health.idle_interval), milliseconds(10));
  span("answer_time",
       "A GPU that says nothing for so long after it should have is suspect, after twice that "
       "quarantined.",
       FIELD(health.answer_time));
  span("probe_time", "A probe that takes longer counts as failed, and the driver as stuck.",
       FIELD(health.probe_time));
  span("suspect_time", "A suspect GPU that shows nothing new for so long is healthy again.",
       FIELD(health.suspect_time));
  span("failing_time", "Questions that fail for so long make of a suspect GPU a quarantined one.",
       FIELD(health.failing_time));
  count("strikes", "So many troubles within strike_window do the same, whatever they were.",
        FIELD(health.strikes));
  span("strike_window", "See strikes.", FIELD(health.strike_window));
  span("quarantine_time",
       "How long a failed GPU is left alone before it is probed; each relapse doubles it.",
       FIELD(health.quarantine_time));
  span("longest_quarantine", "The doubling ends here.", FIELD(health.longest_quarantine));
  span("forget_time", "Without any trouble for so long, earlier quarantines count no more.",
       FIELD(health.forget_time));
  count("probation_probes", "Probes that a GPU has to pass before it counts as healthy.",
        FIELD(health.probation_probes));
  span("probation_interval", "How far these probes are apart.", FIELD(health.probation_interval));
  span("hot_time", "At or over the temperature at which it slows down for so long is too hot.",
       FIELD(health.hot_time));
  table.push_back(row("health", "hot_margin_c", range("degrees Celsius", 1U, 50U), kRestart,
                      "So much cooler than that is cool enough again.", FIELD(health.hot_margin_c),
                      within(1U, 50U), kWritePlainly));
  table.push_back(choice("health", "on_failure", kRestart,
                         "What happens to the tenants of a GPU that fails: they are told and keep "
                         "running, or are ended.",
                         FIELD(health.on_failure), kOnFailure));
  span("grace_time", "Between asking a tenant to end and ending it.", FIELD(health.grace_time));
  table.push_back(row("health", "ignored_xids", "a list of numbers from 1 to 1023", kRestart,
                      "Errors of the driver that count for nothing on this machine.",
                      FIELD(health.ignored_xids), within(1U, 1023U), kWritePlainly));
}

void add_sign_in(std::vector<Setting>& table) {
  const auto add = [&table](std::string_view key, std::string_view kind, std::string_view meaning,
                            auto field, auto read) {
    table.push_back(
        row("sign_in", key, std::string(kind), kRestart, meaning, field, read, kWritePlainly));
  };
  add("issuer", "an address, or nothing",
      "Of the provider, as it calls itself. Nothing: only tokens let anybody in.",
      FIELD(sign_in.issuer), read_url);
  add("name", "text", "Of the provider, for people. Nothing: its host.", FIELD(sign_in.name),
      read_text);
  add("client_id", "text", "What the provider knows this daemon as.", FIELD(sign_in.client_id),
      read_text);
  add("client_secret_file", "a file, or nothing",
      "The client's secret, in a file that only the daemon can read. Nothing: a public client.",
      FIELD(sign_in.client_secret_file), read_optional_folder);
  add("authorities", "a file, or nothing",
      "PEM: who may have signed the provider's certificate. Nothing: those of this machine.",
      FIELD(sign_in.authorities), read_optional_folder);
  add("scopes", "a list of words", "That are asked for, beside openid.", FIELD(sign_in.scopes),
      read_words);
  add("console_url", "an address, or nothing",
      "Of the console, as browsers see it. The provider has to know it, with "
      "/v1/sign-in/callback behind it, as the client's redirect URI. Nothing: browsers sign in "
      "with tokens alone.",
      FIELD(sign_in.console_url), read_url);
  add("user_claim", "text",
      "The claim of the ID token that names the user. The provider must not let people choose it.",
      FIELD(sign_in.user_claim), read_text);
  add("user_domain", "text",
      "Where that claim is like ada@example.com: the domain that is left out. Other domains are "
      "refused.",
      FIELD(sign_in.user_domain), read_text);
  add("groups_claim", "text", "The claim with the groups of the user.", FIELD(sign_in.groups_claim),
      read_text);
  add("allowed_groups", "a list of words", "Who is in none of them is refused; []: anybody may.",
      FIELD(sign_in.allowed_groups), read_words);
  add("admin_groups", "a list of words",
      "Who is in one of them is an admin from their next sign-in on, and who is in none is not. "
      "[]: roles are what `divvy user set` made them.",
      FIELD(sign_in.admin_groups), read_words);
  table.push_back(flag("sign_in", "new_users", kRestart,
                       "Who signs in for the first time becomes a user. With false, only those "
                       "whom `divvy user add` has added are let in.",
                       FIELD(sign_in.new_users)));
  table.push_back(time("sign_in", "token_time", kRestart,
                       "So long a sign-in is good for; in a browser twelve hours at most.",
                       FIELD(sign_in.token_time), std::chrono::minutes(5), hours(24 * 365)));
}

std::vector<Setting> make_table() {
  std::vector<Setting> table;
  table.push_back(folder("folders", "run", kRestart,
                         "Sockets and what is only true until the next boot. Commands look for the "
                         "daemon in /run/divvy, or where DIVVY_RUN_DIR says.",
                         FIELD(folders.run)));
  table.push_back(folder("folders", "state", kRestart, "The ledger, which has to survive a reboot.",
                         FIELD(folders.state)));

  table.push_back(choice("log", "level", kReload, "What is less important is not logged.",
                         FIELD(log.level), kLevels));
  table.push_back(
      flag("log", "json", kReload, "One JSON object per line instead of text.", FIELD(log.json)));

  table.push_back(row("socket", "mode", "rights in octal", kReload,
                      "Of the API's socket. With 0666 every user may ask for slices; each can "
                      "change only their own.",
                      FIELD(socket.mode), read_mode, write_mode));
  table.push_back(row("socket", "group", "the name of a group, or nothing", kReload,
                      "Owns the API's socket; with mode 0660 its members alone may ask.",
                      FIELD(socket.group), read_name, kWritePlainly));

  table.push_back(row("metrics", "address", "HOST:PORT, :PORT or off", kRestart,
                      "Where /metrics, /healthz and /readyz are served. Off by itself for a daemon "
                      "that is not the machine's.",
                      FIELD(metrics.address), read_address, kWritePlainly));
  table.push_back(time("metrics", "oldest_sample", kRestart,
                       "What a GPU said longer ago is left out.", FIELD(metrics.oldest_sample),
                       seconds(1), hours(1)));
  table.push_back(flag("metrics", "old_hostname_label", kRestart,
                       "Also write the label Hostname, as dcgm-exporter did until 2026.",
                       FIELD(metrics.old_hostname_label)));

  table.push_back(choice("sharing", "mode", kReload,
                         "How tenants share a GPU that name no mode themselves: by turns, or side "
                         "by side through MPS.",
                         FIELD(sharing.mode), kModes));

  add_health(table);

  table.push_back(time("queue", "half_life", kReload,
                       "After so long, what somebody has used counts half for their turn.",
                       FIELD(queue.half_life), std::chrono::minutes(1), hours(24 * 365)));
  table.push_back(flag("queue", "preemption", kReload,
                       "Jobs may be stopped for others of a higher priority, and to give borrowed "
                       "GPUs back.",
                       FIELD(queue.preemption)));
  table.push_back(row("queue", "reservations", range("a number", 0U, 1000U), kReload,
                      "So many jobs that wait have their place kept while smaller ones pass.",
                      FIELD(queue.reservations), within(0U, 1000U), kWritePlainly));
  table.push_back(time("queue", "passing", kReload,
                       "Jobs may pass one whose start is not known for so long; then GPUs that "
                       "become free are kept for it.",
                       FIELD(queue.passing), Duration(0), hours(24 * 365)));
  table.push_back(choice("queue", "policy", kReload,
                         "How placement chooses between GPUs: keep what is left useful, as few "
                         "machines as possible, evenly, or close together.",
                         FIELD(queue.policy), kPlacementPolicies));
  table.push_back(
      time("queue", "default_time_limit", kReload,
           "Of a job that names no time limit, where its queue says nothing; 0s: it may "
           "run for ever.",
           FIELD(queue.default_time_limit), Duration(0), hours(24 * 365)));
  table.push_back(time("queue", "max_time_limit", kReload,
                       "No job may ask for more, in any queue; 0s: any time.",
                       FIELD(queue.max_time_limit), Duration(0), hours(24 * 365)));
  table.push_back(time("queue", "keep_finished", kReload,
                       "Jobs that ended longer ago are removed, with their output and events; 0s: "
                       "never.",
                       FIELD(queue.keep_finished), Duration(0), hours(24 * 3660)));
  table.push_back(
      row("queue", "keep_finished_jobs", range("a number", 0U, 10'000'000U), kReload,
          "So many jobs that have ended are kept, those that ended last; 0: any number.",
          FIELD(queue.keep_finished_jobs), within(0U, 10'000'000U), kWritePlainly));
  table.push_back(row("queue", "keep_logs_gib", range("a number", 0U, 1'000'000U), kReload,
                      "So many GiB of output of ended jobs are kept, the newest; 0: any amount.",
                      FIELD(queue.keep_logs_gib), within(0U, 1'000'000U), kWritePlainly));
  table.push_back(
      time("queue", "idle_after", kReload,
           "A job that holds a GPU and does not use it for so long is ended; 0s: never.",
           FIELD(queue.idle_after), Duration(0), hours(24 * 365)));
  table.push_back(time("queue", "idle_warning", kReload, "So long before that it is warned.",
                       FIELD(queue.idle_warning), Duration(0), hours(24 * 365)));

  table.push_back(row("queue", "max_waiting", range("a number", 1U, 1'000'000U), kReload,
                      "So many jobs may wait, each task of an array counted; more are refused.",
                      FIELD(queue.max_waiting), within(1U, 1'000'000U), kWritePlainly));
  table.push_back(row("queue", "max_waiting_per_user", range("a number", 1U, 1'000'000U), kReload,
                      "The same for the jobs of one user.", FIELD(queue.max_waiting_per_user),
                      within(1U, 1'000'000U), kWritePlainly));

  table.push_back(row("api", "address", "HOST:PORT, :PORT or off", kRestart,
                      "Where the API is served to the network; callers need a token.",
                      FIELD(api.address), read_address, kWritePlainly));
  table.push_back(row("api", "certificate", "a file, or nothing", kRestart,
                      "PEM, with the chain behind it. Needed for any address but one of this "
                      "machine alone.",
                      FIELD(api.certificate), read_optional_folder, kWritePlainly));
  table.push_back(row("api", "key", "a file, or nothing", kRestart,
                      "Of the certificate; readable for the daemon alone.", FIELD(api.key),
                      read_optional_folder, kWritePlainly));
  table.push_back(row("api", "max_rate", range("a number", 1U, 100'000U), kRestart,
                      "Requests a second of one caller on the network.", FIELD(api.max_rate),
                      within(1U, 100'000U), kWritePlainly));
  table.push_back(flag("api", "console", kRestart,
                       "Serve the web console at the same address, under /.", FIELD(api.console)));
  table.push_back(time("api", "keep_channels", kRestart,
                       "So long a forwarded port waits for a client that lost its connection.",
                       FIELD(api.keep_channels), std::chrono::seconds(1), hours(24)));

  add_sign_in(table);

  table.push_back(
      choice("services", "address", kRestart,
             "Where services listen, each at its own port: on this machine alone, or on "
             "all of its addresses. Whoever reaches a service may use it.",
             FIELD(services.address), kServiceAddresses));

  table.push_back(flag("notifications", "enabled", kReload,
                       "Send them. With false a job that wants one is refused, and what waits is "
                       "dropped.",
                       FIELD(notifications.enabled)));
  table.push_back(row("notifications", "allowed_hosts", "a list of words", kReload,
                      "Where they may go: hooks.example, or *.example for every name below it; []: "
                      "anywhere.",
                      FIELD(notifications.allowed_hosts), read_words, kWritePlainly));

  table.push_back(flag("cdi", "enabled", kRestart,
                       "Write descriptions of GPUs and slices for container runtimes.",
                       FIELD(cdi.enabled)));
  table.push_back(row("cdi", "folder", "a folder, or nothing", kRestart,
                      "Where they are written. Nothing: /etc/cdi for GPUs and /var/run/cdi for "
                      "slices, where runtimes look by themselves.",
                      FIELD(cdi.folder), read_optional_folder, kWritePlainly));
  table.push_back(flag("cdi", "graphics", kRestart,
                       "Give containers what drawing and video need as well.",
                       FIELD(cdi.graphics)));

  table.push_back(row("containers", "podman", "a list of words", kRestart,
                      "The program, with options that hold for all its commands.",
                      FIELD(containers.podman), read_words, kWritePlainly));
  table.push_back(row("containers", "options", "a list of words", kRestart,
                      "For every `podman run`, before those that a job asks for.",
                      FIELD(containers.options), read_words, kWritePlainly));
  table.push_back(flag("containers", "rootless", kRestart,
                       "Root's daemon has the job's own user run podman, in a user namespace. With "
                       "false root's podman runs the containers of everybody, which needs "
                       "privileges.drop: false.",
                       FIELD(containers.rootless)));
  table.push_back(row("containers", "storage", "a folder", kRestart,
                      "Where rootless containers and their images are, in a folder for each user "
                      "that is made here. Empty: in the user's home, below .local/share/divvy.",
                      FIELD(containers.storage), read_optional_folder, kWritePlainly));

  table.push_back(flag("privileges", "drop", kRestart,
                       "Give up the capabilities that the daemon does not need.",
                       FIELD(privileges.drop)));
  table.push_back(row("privileges", "keep", "a list of capabilities", kRestart,
                      "Capabilities to keep besides, like SYS_ADMIN for a driver that shows some "
                      "readings to administrators only.",
                      FIELD(privileges.keep), read_capabilities, kWritePlainly));
  return table;
}

#undef FIELD

}  // namespace

std::string Setting::path() const { return fmt::format("{}.{}", section, key); }

std::span<const Section> sections() { return kSections; }

std::span<const Setting> settings() {
  static const std::vector<Setting> table = make_table();
  return table;
}

std::vector<const Setting*> settings_of(std::string_view section) {
  std::vector<const Setting*> result;
  for (const Setting& setting : settings()) {
    if (setting.section == section) result.push_back(&setting);
  }
  return result;
}

}  // namespace divvy::config
