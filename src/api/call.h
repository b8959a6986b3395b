// What a handler of the API is given (handlers.h): a request that has passed the permission step of
// its route, and the parts of the daemon that answers come from. Of one request, one thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/agents.h"
#include "api/event_bell.h"
#include "api/people.h"
#include "api/use_history.h"
#include "api/what_if_desk.h"
#include "base/clock.h"
#include "base/result.h"
#include "control/dispatcher.h"
#include "control/schedules.h"
#include "control/secrets.h"
#include "control/services.h"
#include "jobs/settings.h"
#include "model/seconds.h"
#include "net/http.h"
#include "store/database.h"

namespace divvy::api {

class SignIn;

// A setting of the configuration, as it is in force.
struct SettingLine {
  std::string name;  // "queue.half_life"
  std::string value;
  std::string meaning;
  bool reloads = false;  // without a restart
};

// What is referred to outlives the API, and may be used from many threads at once.
struct Parts {
  control::Dispatcher& dispatcher;
  store::Database& database;
  const People& people;
  const agent::Agents& agents;
  const Clock& clock;
  EventBell& bell;
  // How long ended jobs are kept; 0: until somebody prunes them.
  std::function<model::Seconds()> kept_for;
  // The queue's settings as the configuration has them, without what was set later.
  std::function<jobs::Settings()> configured;
  // The API is reached inside TLS, so the cookies of sessions need not go outside of it.
  bool cookies_need_tls = false;
  // What members used of late; null: nobody keeps it.
  const UseHistory* history = nullptr;
  std::function<std::vector<SettingLine>()> settings{};
  // Who simulates just now; null: nobody may.
  WhatIfDesk* what_if = nullptr;
  // A channel into a member is kept for so long without a connection.
  Duration keep_channels = std::chrono::minutes(10);
  // Null: this daemon keeps none.
  control::Services* services = nullptr;
  std::string services_address = "127.0.0.1";  // where they listen
  control::Schedules* schedules = nullptr;     // likewise
  control::Secrets* secrets = nullptr;         // likewise
  SignIn* sign_in = nullptr;                   // Null: only tokens let anybody in
};

using Answer = Result<net::HttpResponse>;

// Made by Api alone, behind its permission step: whoever has one has passed it.
struct Call {
  const Parts& parts;
  const net::HttpRequest& request;
  const net::Caller& caller;
  const model::Person& who;
  // As whom they act on the machines: as the kernel says where they are on the socket as
  // themselves, as root where they are an admin, otherwise as the user that they are there.
  const agent::LocalCaller as;

 private:
  friend class Api;
  Call(const Parts& parts_given, const net::HttpRequest& sent, const net::Caller& sender,
       const model::Person& person);
};

// A request of somebody who need not have shown who they are.
struct StrangerCall {
  const Parts& parts;
  const net::HttpRequest& request;
  const net::Caller& caller;
};

// The path of a queue, as it stands in the path of a request: with slashes.
struct QueuePath {
  std::string text;
};

}  // namespace divvy::api
