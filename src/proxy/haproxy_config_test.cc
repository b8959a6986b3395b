#include "proxy/haproxy_config.h"

#include <gtest/gtest.h>

namespace divvy::proxy {
namespace {

using namespace std::chrono_literals;

const ConfigPlaces kPlaces{.control = "/run/divvy/serve/own/control.sock",
                           .script = "/run/divvy/serve/wait.lua",
                           .address = "127.0.0.1",
                           .threads = 2};

Site site() {
  return {.name = "model",
          .port = 8000,
          .ready = "/health",
          .wait = 60s,
          .servers = {{"j1", 20001, 256}, {"j2", 20002, 0}}};
}

TEST(HaproxyConfig, ServersThatMayNotBeAskedAreLeftOut) {
  const std::string text = write_config(kPlaces, {site()}).value();
  EXPECT_NE(text.find("  bind 127.0.0.1:8000\n  maxconn 9000\n  default_backend s_model\n"),
            std::string::npos);
  EXPECT_NE(text.find("uri /health "), std::string::npos);
  EXPECT_NE(text.find("  http-request lua.divvy_wait 60000\n"), std::string::npos);
  EXPECT_NE(text.find("  server j1 127.0.0.1:20001 weight 256 check"), std::string::npos);
  EXPECT_EQ(text.find("j2"), std::string::npos);
}

TEST(HaproxyConfig, OldWorkersAreBoundedInTimeAndNumber) {
  const std::string text = write_config(kPlaces, {site()}).value();
  EXPECT_NE(text.find("  hard-stop-after 24h\n"), std::string::npos);
  EXPECT_NE(text.find("  mworker-max-reloads 50\n"), std::string::npos);
}

TEST(HaproxyConfig, EachServiceHasItsPartOfTheConnections) {
  std::vector<Site> sites(40, site());
  const std::string text = write_config(kPlaces, sites).value();
  std::size_t limits = 0;
  for (std::size_t at = 0; (at = text.find("  maxconn 225\n", at)) != std::string::npos; ++at) {
    ++limits;
  }
  EXPECT_EQ(limits, 40U) << "together less than haproxy has, with one to a replica for each";
  EXPECT_NE(text.find("  fd-hard-limit 20000\n"), std::string::npos);
}

TEST(HaproxyConfig, NothingThatAUserWroteCanAddToIt) {
  const auto refused = [](const Site& bad) { return !write_config(kPlaces, {bad}).has_value(); };
  for (const std::string text :
       {"a b", "a\nbind :1", "a\"", "a#", "a'", "a\\", "a$HOME", "a{", ""}) {
    Site bad = site();
    bad.name = text;
    EXPECT_TRUE(refused(bad)) << text;
    bad = site();
    bad.ready = "/" + text;
    EXPECT_TRUE(text.empty() || refused(bad)) << text;
    bad = site();
    bad.servers[0].name = text;
    EXPECT_TRUE(refused(bad)) << text;
  }
  ConfigPlaces places = kPlaces;
  places.address = "127.0.0.1:80 ssl";
  EXPECT_FALSE(write_config(places, {}));
}

TEST(HaproxyConfig, ABackendTellsItsSite) {
  EXPECT_EQ(site_of_backend(backend_name("model")), "model");
  EXPECT_EQ(site_of_backend("f_8000_model"), "");
}

}  // namespace
}  // namespace divvy::proxy
