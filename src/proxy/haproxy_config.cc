#include "proxy/haproxy_config.h"

#include <algorithm>

namespace divvy::proxy {
namespace {

constexpr std::string_view kBackend = "s_";
constexpr std::uint32_t kMostWeight = 256;
// Of connections, each with one to a replica. The rest is for looking, and for waiting again.
constexpr int kDescriptors = 20000;
constexpr std::size_t kConnections = 9000;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// All that HAProxy takes for a name.
bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-';
  });
}

// No character that ends a word, a line or a quote, begins a comment or stands for something else.
bool is_path(std::string_view text) {
  constexpr std::string_view kOthers = "/-._~?=&%:@!+,;";
  return text.starts_with('/') && std::ranges::all_of(text, [kOthers](char c) {
           return is_letter_or_digit(c) || kOthers.find(c) != std::string_view::npos;
         });
}

bool is_address(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_letter_or_digit(c) || c == '.' || c == ':' || c == '-' || c == '*';
  });
}

tl::unexpected<Error> refuse(std::string_view what) {
  return err(ErrorCode::kInternal, "{} cannot stand in the configuration of haproxy", what);
}

Status check(const Site& site) {
  if (!is_name(site.name)) return refuse("the name of a service");
  if (!is_path(site.ready)) return refuse("the ready path of a service");
  for (const Server& server : site.servers) {
    if (!is_name(server.name) || server.weight > kMostWeight) return refuse("a replica");
  }
  return {};
}

std::string quoted(const std::filesystem::path& path) {
  std::string text = "\"";
  for (const char c : path.native()) {
    if (c == '"' || c == '\\' || c == '$') text += '\\';
    text += c;
  }
  return text + '"';
}

std::string site_text(const Site& site, const ConfigPlaces& places, std::size_t connections) {
  const std::string frontend = frontend_name(site);
  const std::string backend = backend_name(site.name);
  std::string text = fmt::format(
      "\n"
      "frontend {0}\n"
      "  bind {1}:{2}\n"
      // More wait until one of these ends, and hold up nobody else.
      "  maxconn {9}\n"
      "  default_backend {3}\n"
      "backend {3}\n"
      "  option httpchk\n"
      "  http-check send meth GET uri {4} ver HTTP/1.1 hdr Host {5}\n"
      // A request may be sent twice only where the method allows it; one that reached nobody may
      // always.
      "  http-request disable-l7-retry unless METH_GET or METH_OPTIONS\n"
      "  http-request lua.divvy_wait {6}\n"
      "  use-server {7} if {{ var(txn.divvy_old) -m bool }}\n"
      "  server {7} {8}:{2} weight 0\n",
      frontend, places.address, site.port, backend, site.ready, site.name,
      std::chrono::milliseconds(site.wait).count(), own_server_name(),
      places.address == "::" ? "::1" : "127.0.0.1", connections);
  for (const Server& server : site.servers) {
    if (server.weight == 0) continue;
    text += fmt::format("  server {} 127.0.0.1:{} weight {} {}\n", server.name, server.port,
                        server.weight, check_words());
  }
  return text;
}

}  // namespace

std::string frontend_name(const Site& site) { return fmt::format("f_{}_{}", site.port, site.name); }

std::string backend_name(std::string_view site) { return fmt::format("{}{}", kBackend, site); }

std::string_view site_of_backend(std::string_view name) {
  return name.starts_with(kBackend) ? name.substr(kBackend.size()) : std::string_view();
}

std::string_view own_server_name() { return "divvy-self"; }

std::string_view check_words() {
  return "check inter 1s fastinter 250 downinter 250 rise 1 fall 3";
}

std::string_view wait_script() {
  return R"(-- A request waits here until its service has a replica that may be asked.
core.register_action("divvy_wait", {"http-req"}, function(txn, patience)
  local backend = txn.f:be_name()
  local left = tonumber(patience)
  while left > 0 and txn.f:nbsrv(backend) == 0 do
    -- An old worker learns of no servers any more: the new one does.
    -- A truth of HAProxy's is a number here, and each number is true for Lua.
    local stopping = txn.f:stopping()
    if stopping == 1 or stopping == true then
      txn:set_var("txn.divvy_old", true)
      return
    end
    core.msleep(25)
    left = left - 25
  end
end, 1)
)";
}

Result<std::string> write_config(const ConfigPlaces& places, const std::vector<Site>& sites) {
  if (!is_address(places.address)) return refuse("the address of services");
  for (const auto& path : {places.control, places.script}) {
    if (path.native().find_first_of("\n\r") != std::string::npos) return refuse("the run folder");
  }
  std::string text = fmt::format(
      "# Written by divvyd, which writes it again: changes are lost.\n"
      "global\n"
      "  stats socket {} mode 666 level admin expose-fd listeners\n"
      "  lua-load {}\n"
      "  nbthread {}\n"
      "  fd-hard-limit {}\n"
      "  hard-stop-after 24h\n"
      // Otherwise whoever makes and deletes services with a connection open has as many processes
      // as they like.
      "  mworker-max-reloads 50\n"
      "defaults\n"
      "  mode http\n"
      // The lesser load of two that are drawn by weight: near to the least loaded one, and exact
      // where there is no load.
      "  balance random(2)\n"
      "  option redispatch 1\n"
      "  option http-server-close\n"
      "  option abortonclose\n"
      "  option forwardfor\n"
      "  retries 3\n"
      "  retry-on conn-failure empty-response\n"
      "  timeout connect 5s\n"
      "  timeout client 1h\n"
      "  timeout server 1h\n"
      "  timeout tunnel 24h\n"
      "  timeout queue 1m\n"
      "  timeout check 5s\n"
      "  timeout http-request 30s\n"
      "  timeout http-keep-alive 1m\n",
      quoted(places.control), quoted(places.script), places.threads, kDescriptors);
  const std::size_t connections = kConnections / std::max(sites.size(), std::size_t{1});
  for (const Site& site : sites) {
    DIVVY_RETURN_IF_ERROR(check(site));
    text += site_text(site, places, std::max(connections, std::size_t{1}));
  }
  return text;
}

}  // namespace divvy::proxy
