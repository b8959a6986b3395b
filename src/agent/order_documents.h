// The messages between the control side and an agent in another process, as JSON. Both ways are
// exact: what is written is read as the same value. Any bytes are safe to read. Pure, callable from
// any thread; the library behind it (Boost.JSON) stays inside order_documents.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "agent/orders.h"
#include "base/result.h"

namespace divvy::agent {

// Changes when a message means something else than before; the two sides refuse each other then.
inline constexpr std::uint32_t kAgentProtocol = 4;

// The agent says it first.
struct Hello {
  std::uint32_t protocol = kAgentProtocol;
  std::string node = {};
  std::string version = {};
  friend bool operator==(const Hello&, const Hello&) = default;
};
// The first word of a connection: it gives orders, or is a stream from then on.
struct Orders {
  friend bool operator==(const Orders&, const Orders&) = default;
};
struct NumberedOrder {
  std::uint64_t number = 0;
  Order order;
  friend bool operator==(const NumberedOrder&, const NumberedOrder&) = default;
};
struct NumberedAnswer {
  std::uint64_t number = 0;
  Result<Answer> answer;
  friend bool operator==(const NumberedAnswer&, const NumberedAnswer&) = default;
};
using Message = std::variant<Hello, Orders, StreamOrder, NumberedOrder, NumberedAnswer, News>;

[[nodiscard]] std::string write_message(const Message& message);
[[nodiscard]] Result<Message> read_message(std::string_view text);

}  // namespace divvy::agent
