#include "sys/channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace divvy::sys {
namespace {

// Of the bytes of one message.
constexpr std::size_t kMaxData = std::size_t{256} << 10;
constexpr std::size_t kMaxReason = 4096;

template <typename Number>
void put_number(std::string& bytes, Number number) {
  for (std::size_t i = 0; i < sizeof number; ++i) {
    bytes += static_cast<char>((number >> (8 * i)) & 0xFFU);
  }
}

std::uint64_t get_number(std::string_view bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    number = (number << 8U) | static_cast<unsigned char>(bytes[i]);
  }
  return number;
}

}  // namespace

Channel::Channel(std::size_t window) : window_(window), kept_(window), arrived_(window) {}

void Channel::connect() {
  head_.clear();
  head_sent_ = 0;
  message_.clear();
  left_ = 0;
  hello_received_ = false;
  hello_due_ = true;
  end_sent_ = false;
  batch_says_goodbye_ = false;
  failure_due_ = failure_.has_value();
  // Until the other end has said what it has.
  next_ = kept_.first();
  batch_past_ = next_;
}

void Channel::put(Kind kind, std::uint64_t number, std::size_t length, std::string_view text) {
  head_ += static_cast<char>(kind);
  put_number(head_, static_cast<std::uint32_t>(length));
  put_number(head_, number);
  head_ += text;
}

void Channel::make_batch() {
  if (hello_due_) {
    // From here on it knows what was handed on, as well as what has come.
    put(Kind::kHello, arrived_.past() + (end_received_ ? 1 : 0));
    hello_due_ = false;
    acknowledged_ = 0;
  }
  if (failure_due_ && hello_received_) {
    const std::string text = failure_->substr(0, kMaxReason);
    put(Kind::kFailure, 0, text.size(), text);
    failure_due_ = false;
  }
  if (goodbye_due_) {
    put(Kind::kGoodbye, 0);
    goodbye_due_ = false;
    batch_says_goodbye_ = true;
  }
  if (failure_ || !hello_received_) return;
  // Rarely: the other end needs to hear of it only before it has to wait, and in the end.
  const std::uint64_t done = arrived_.first() + (end_handed_on_ ? 1 : 0);
  if (done > acknowledged_ && (done - acknowledged_ >= window_ / 4 || end_handed_on_)) {
    put(Kind::kAck, done);
    acknowledged_ = done;
  }
  if (next_ < kept_.past()) {
    batch_past_ = std::min(kept_.past(), next_ + kMaxData);
    put(Kind::kData, next_, static_cast<std::size_t>(batch_past_ - next_));
  } else if (end_written_ && !end_sent_ && !end_acknowledged_) {
    put(Kind::kEnd, kept_.past());
    end_sent_ = true;
  }
}

std::span<const iovec> Channel::outgoing() {
  if (head_.empty()) make_batch();
  std::size_t count = 0;
  if (head_sent_ < head_.size()) {
    pieces_[count++] = {head_.data() + head_sent_, head_.size() - head_sent_};
  }
  if (!head_.empty() && next_ < batch_past_) {
    for (const iovec& piece : kept_.part(next_, batch_past_)) {
      if (piece.iov_len > 0) pieces_[count++] = piece;
    }
  }
  return {pieces_.data(), count};
}

void Channel::sent(std::size_t count) {
  const std::size_t of_head = std::min(count, head_.size() - head_sent_);
  head_sent_ += of_head;
  count -= of_head;
  DIVVY_CHECK(count <= batch_past_ - next_);
  next_ += count;
  if (head_sent_ < head_.size() || next_ < batch_past_) return;
  head_.clear();
  head_sent_ = 0;
  goodbye_sent_ = goodbye_sent_ || std::exchange(batch_says_goodbye_, false);
}

RingPieces Channel::space() {
  if (end_written_ || failure_ || kept_.room() == 0) return {};
  return kept_.space();
}

void Channel::wrote(std::size_t count) { kept_.filled(count); }

void Channel::end() { end_written_ = true; }

RingPieces Channel::incoming() const {
  if (failure_) return {};
  return arrived_.part(arrived_.first(), arrived_.past());
}

void Channel::handed_on(std::size_t count) { arrived_.drop(count); }

bool Channel::at_end() const {
  return end_received_ && !end_handed_on_ && arrived_.size() == 0 && !failure_;
}

void Channel::handed_on_end() {
  DIVVY_CHECK(at_end());
  end_handed_on_ = true;
}

void Channel::fail(std::string reason) {
  if (failure_) return;
  failure_ = std::move(reason);
  failure_due_ = true;
}

bool Channel::is_finished() const { return end_handed_on_ && end_acknowledged_; }

void Channel::say_goodbye() { goodbye_due_ = true; }

Status Channel::broken(std::string reason) {
  fail(reason);
  return err(ErrorCode::kDataLoss, "{}", reason);
}

Status Channel::receive(std::string_view bytes) {
  while (!bytes.empty()) {
    if (message_.size() < kHead) {
      const std::size_t now = std::min(kHead - message_.size(), bytes.size());
      message_ += bytes.substr(0, now);
      bytes.remove_prefix(now);
      if (message_.size() < kHead) return {};
      DIVVY_RETURN_IF_ERROR(begin_message());
    }
    const std::size_t now = std::min(left_, bytes.size());
    if (kind_ == Kind::kData) {
      DIVVY_RETURN_IF_ERROR(take_data(bytes.substr(0, now)));
    } else {
      message_ += bytes.substr(0, now);
    }
    bytes.remove_prefix(now);
    left_ -= now;
    if (left_ > 0) return {};
    if (kind_ == Kind::kFailure && !failure_) failure_ = message_.substr(kHead);
    message_.clear();
  }
  return {};
}

Status Channel::begin_message() {
  kind_ = static_cast<Kind>(message_[0]);
  left_ = static_cast<std::size_t>(get_number(std::string_view(message_).substr(1, 4)));
  number_ = get_number(std::string_view(message_).substr(5, 8));
  const std::size_t most = kind_ == Kind::kData      ? kMaxData
                           : kind_ == Kind::kFailure ? kMaxReason
                                                     : 0;
  if (left_ > most) return broken(fmt::format("a message of {} bytes in a channel", left_));
  if (!hello_received_ && kind_ != Kind::kHello) {
    return broken("a channel's connection that does not begin with a greeting");
  }
  switch (kind_) {
    case Kind::kHello:
      return take_hello(number_);
    case Kind::kAck:
      return take_ack(number_);
    case Kind::kEnd:
      return take_end(number_);
    case Kind::kGoodbye:
      goodbye_received_ = true;
      return {};
    case Kind::kData:
    case Kind::kFailure:
      return {};
  }
  return broken(fmt::format("a message of kind {} in a channel", static_cast<int>(kind_)));
}

Status Channel::take_hello(std::uint64_t number) {
  if (hello_received_) return broken("a second greeting on one connection of a channel");
  hello_received_ = true;
  if (failure_) return {};
  const std::uint64_t written = kept_.past() + (end_written_ ? 1 : 0);
  if (number < kept_.first()) {
    return broken(
        fmt::format("bytes from number {} on are wanted again, but only those from {} on "
                    "are kept",
                    number, kept_.first()));
  }
  if (number > written) {
    return broken(fmt::format("{} bytes are said to have come of {}", number, written));
  }
  next_ = std::min(number, kept_.past());
  batch_past_ = next_;
  end_sent_ = number > kept_.past();
  return {};
}

Status Channel::take_ack(std::uint64_t number) {
  if (failure_) return {};
  if (number > next_ + (end_sent_ ? 1 : 0) || number < kept_.first()) {
    return broken(fmt::format("byte {} of a channel is acknowledged, which was not sent", number));
  }
  if (number > kept_.past()) end_acknowledged_ = true;
  kept_.drop(static_cast<std::size_t>(std::min(number, kept_.past()) - kept_.first()));
  return {};
}

Status Channel::take_data(std::string_view bytes) {
  if (failure_) return {};
  if (number_ > arrived_.past()) {
    return broken(
        fmt::format("bytes {} to {} of a channel are missing", arrived_.past(), number_ - 1));
  }
  const std::uint64_t had = arrived_.past() - number_;
  number_ += bytes.size();
  if (had >= bytes.size()) return {};
  bytes.remove_prefix(static_cast<std::size_t>(had));
  if (end_received_) return broken("bytes behind the end of a channel");
  if (bytes.size() > arrived_.room()) {
    return broken(fmt::format("more than {} bytes of a channel that nobody asked for", window_));
  }
  arrived_.append(bytes);
  return {};
}

Status Channel::take_end(std::uint64_t number) {
  if (failure_) return {};
  if (number != arrived_.past()) {
    return broken(
        fmt::format("a channel that ends at byte {} and not at {}", arrived_.past(), number));
  }
  end_received_ = true;
  return {};
}

}  // namespace divvy::sys
