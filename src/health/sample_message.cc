#include "health/sample_message.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/text.h"

namespace divvy::health {
namespace {

constexpr std::chrono::milliseconds kLongestPause = std::chrono::hours(1);
constexpr std::size_t kMaxWords = 300;

void put(std::string& text, const std::optional<std::uint32_t>& field) {
  text += field ? fmt::format(" {}", *field) : " -";
}
void put(std::string& text, const std::optional<std::uint64_t>& field) {
  text += field ? fmt::format(" {}", *field) : " -";
}
void put(std::string& text, const std::optional<double>& field) {
  text += field ? fmt::format(" {}", *field) : " -";
}
void put(std::string& text, const std::optional<bool>& field) {
  text += field ? (*field ? " 1" : " 0") : " -";
}
void put(std::string& text, const std::optional<Bytes>& field) {
  text += field ? fmt::format(" {}", field->count()) : " -";
}

// Takes one word after the other; after the first that is wrong it stays wrong.
class Words {
 public:
  explicit Words(std::string_view text) : left_(text) {}

  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool at_end() const { return good_ && left_.empty(); }

  std::string_view next() {
    if (left_.empty()) good_ = false;
    const std::size_t end = std::min(left_.find(' '), left_.size());
    const std::string_view word = left_.substr(0, end);
    // Exactly one space between two words and none at the end.
    if (end + 1 == left_.size()) good_ = false;
    left_.remove_prefix(std::min(end + 1, left_.size()));
    if (word.empty()) good_ = false;
    return word;
  }

  std::string_view rest() { return std::exchange(left_, {}); }

  template <typename Number>
  Number number() {
    return parse<Number>(next());
  }

  std::optional<model::GpuUuid> uuid() {
    auto parsed = model::GpuUuid::parse(next());
    if (!parsed) good_ = false;
    return parsed ? std::optional(*std::move(parsed)) : std::nullopt;
  }

  std::chrono::milliseconds pause() {
    const std::chrono::milliseconds time(number<std::uint32_t>());
    if (time > kLongestPause) good_ = false;
    return time;
  }

  template <typename Number>
  void take(std::optional<Number>& field) {
    const std::string_view word = next();
    field.reset();
    if (word != "-") field = parse<Number>(word);
  }
  void take(std::optional<Bytes>& field) {
    std::optional<std::uint64_t> count;
    take(count);
    if (count) field = Bytes(*count);
  }
  void take(std::optional<bool>& field) {
    std::optional<std::uint32_t> bit;
    take(bit);
    if (bit && *bit > 1) good_ = false;
    if (bit) field = *bit == 1;
  }

 private:
  template <typename Number>
  Number parse(std::string_view word) {
    Number value{};
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (code != std::errc() || end != word.data() + word.size()) good_ = false;
    if constexpr (std::is_floating_point_v<Number>) {
      if (!std::isfinite(value)) good_ = false;
    }
    return value;
  }

  std::string_view left_;
  bool good_ = true;
};

std::optional<SamplerMessage> read_sample(Words& words) {
  const auto uuid = words.uuid();
  const auto index = words.number<std::uint32_t>();
  const auto wall = words.number<std::int64_t>();
  const auto next = words.pause();
  if (!uuid || !words.good()) return std::nullopt;
  SampleMessage message{
      {.index = model::GpuIndex(index), .uuid = *uuid, .taken = WallTime(Duration(wall))}, next};
  visit_fields(message.sample, [&words](auto& field) { words.take(field); });
  if (!words.at_end()) return std::nullopt;
  return message;
}

std::optional<SamplerMessage> read_xid(Words& words) {
  const auto uuid = words.uuid();
  const auto number = words.number<std::uint64_t>();
  if (!uuid || !words.at_end()) return std::nullopt;
  return XidMessage{*uuid, number};
}

std::optional<SamplerMessage> read_failed(Words& words) {
  const auto uuid = words.uuid();
  const auto next = words.pause();
  const std::string_view kind = words.next();
  const std::string_view text = words.rest();
  if (!uuid || !words.good() || text.empty() || text.size() > kMaxWords) return std::nullopt;
  FailedMessage message{*uuid, next, FailedMessage::Kind::kError, escape_for_terminal(text)};
  if (kind == "lost") {
    message.kind = FailedMessage::Kind::kLost;
  } else if (kind == "reset") {
    message.kind = FailedMessage::Kind::kResetRequired;
  } else if (kind != "error") {
    return std::nullopt;
  }
  return message;
}

struct Writer {
  std::string operator()(const SampleMessage& message) const {
    const GpuSample& sample = message.sample;
    std::string text = fmt::format("sample {} {} {} {}", sample.uuid, sample.index,
                                   sample.taken.time_since_epoch().count(), message.next.count());
    visit_fields(sample, [&text](const auto& field) { put(text, field); });
    return text;
  }
  std::string operator()(const XidMessage& message) const {
    return fmt::format("xid {} {}", message.uuid, message.number);
  }
  std::string operator()(const FailedMessage& message) const {
    const char* kind = message.kind == FailedMessage::Kind::kLost            ? "lost"
                       : message.kind == FailedMessage::Kind::kResetRequired ? "reset"
                                                                             : "error";
    const std::string_view words = message.words.empty() ? "?" : std::string_view(message.words);
    return fmt::format("failed {} {} {} {}", message.uuid, message.next.count(), kind,
                       words.substr(0, kMaxWords));
  }
};

}  // namespace

std::string write_orders(const SamplerOrders& orders) {
  std::string text =
      fmt::format("watch {} {}", orders.interval.count(), orders.idle_interval.count());
  for (const SamplerOrders::Gpu& gpu : orders.gpus) {
    text += fmt::format(" {}={}", gpu.index, gpu.uuid);
  }
  return text;
}

std::optional<SamplerOrders> read_orders(std::string_view packet) {
  Words words(packet);
  if (words.next() != "watch") return std::nullopt;
  SamplerOrders orders;
  orders.interval = words.pause();
  orders.idle_interval = words.pause();
  while (words.good() && !words.at_end()) {
    const std::string_view word = words.next();
    const std::size_t middle = std::min(word.find('='), word.size());
    Words index(word.substr(0, middle));
    const auto number = index.number<std::uint32_t>();
    auto uuid = model::GpuUuid::parse(word.substr(std::min(middle + 1, word.size())));
    if (!index.at_end() || !uuid) return std::nullopt;
    orders.gpus.push_back({model::GpuIndex(number), *std::move(uuid)});
  }
  if (!words.good()) return std::nullopt;
  return orders;
}

std::string write_message(const SamplerMessage& message) { return std::visit(Writer{}, message); }

std::optional<SamplerMessage> read_message(std::string_view packet) {
  if (packet.size() > kMaxSampleMessage) return std::nullopt;
  Words words(packet);
  const std::string_view kind = words.next();
  if (!words.good()) return std::nullopt;
  if (kind == "sample") return read_sample(words);
  if (kind == "xid") return read_xid(words);
  if (kind == "failed") return read_failed(words);
  return std::nullopt;
}

}  // namespace divvy::health
