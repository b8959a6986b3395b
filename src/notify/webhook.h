// One message to a webhook. Callable from many threads at once.
#pragma once

#include <chrono>
#include <string>

#include "base/result.h"
#include "model/notify.h"

namespace divvy::notify {

struct Message {
  std::string id;    // the same whenever it is repeated
  std::string body;  // JSON
};

// The status that the receiver answered with. Takes five seconds at most beside the resolver's
// time; follows no redirect, and reads no more than 64 KiB. Errors name the host and nothing else
// of the address.
[[nodiscard]] Result<int> post(const model::WebhookUrl& url, const Message& message);

}  // namespace divvy::notify
