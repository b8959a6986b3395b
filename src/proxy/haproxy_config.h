// The configuration of HAProxy as text, made from checked values alone. Pure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "proxy/proxy.h"

namespace divvy::proxy {

struct ConfigPlaces {
  std::filesystem::path control;  // the socket of its runtime API
  std::filesystem::path script;   // wait_script()
  std::string address;            // where services listen: "127.0.0.1"
  std::uint32_t threads = 1;
};

// Refused, with kInternal: what has a character that no caller lets through. Nothing that a user
// wrote gets into the text unchecked, whatever was checked before.
[[nodiscard]] Result<std::string> write_config(const ConfigPlaces& places,
                                               const std::vector<Site>& sites);

// In Lua, for HAProxy: a request waits in it until its site has a server.
[[nodiscard]] std::string_view wait_script();

// What the parts of a site are called there.
[[nodiscard]] std::string frontend_name(const Site& site);
[[nodiscard]] std::string backend_name(std::string_view site);
// The site of such a name; empty where it is none of ours.
[[nodiscard]] std::string_view site_of_backend(std::string_view name);

// A server of every site that is haproxy itself: for requests that an old worker has to hand on.
[[nodiscard]] std::string_view own_server_name();

// How a server is looked at; also for those that are added at run time.
[[nodiscard]] std::string_view check_words();

}  // namespace divvy::proxy
