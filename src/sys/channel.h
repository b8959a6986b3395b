// One end of a channel: a byte stream in both directions that goes on over any number of
// connections, one after the other (docs/decisions/0027-channels.md). Every byte has a number. An
// end keeps what it sent until the other end has handed it on, and after a new connection sends
// what the other end has not received; what comes twice is dropped by its number. At most a window
// is kept in each direction, and who wants to send more waits.
//
// Over a connection go messages of one byte of kind, four of length and eight of a number (little
// endian), and so many bytes. Each end begins a connection with what it has received so far.
//
// Pure: whoever has the descriptors asks for what goes out and brings what came in. Bytes come from
// another process, so any are safe to pass. One thread at a time.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sys/byte_ring.h"

namespace divvy::sys {

inline constexpr std::size_t kChannelWindow = std::size_t{4} << 20;

class Channel {
 public:
  // Both ends have the same window, a power of two.
  explicit Channel(std::size_t window = kChannelWindow);

  // --- The connection ---

  // There is a new one; what was not yet sent over the last one is cut anew.
  void connect();
  // What came over it. An error is the end of the channel, which says so to the other end as well.
  [[nodiscard]] Status receive(std::string_view bytes);
  // What goes out next, in at most three pieces, and how much of it went. Nothing: none is due.
  [[nodiscard]] std::span<const iovec> outgoing();
  void sent(std::size_t count);

  // --- Whoever writes here ---

  // Where to put what is to be sent, and how much came there. Nothing: wait for the other end.
  [[nodiscard]] RingPieces space();
  void wrote(std::size_t count);
  // There is no more.
  void end();
  [[nodiscard]] bool has_ended() const { return end_written_; }

  // --- Whoever reads here ---

  // What has come and was not handed on, and how much of it was now.
  [[nodiscard]] RingPieces incoming() const;
  void handed_on(std::size_t count);
  // The other end has ended, and everything before that was handed on. Once: then tell it.
  [[nodiscard]] bool at_end() const;
  void handed_on_end();

  // --- The end ---

  // Nothing more comes or goes; the other end is told why, over this connection or the next one.
  void fail(std::string reason);
  // Why, from either end.
  [[nodiscard]] const std::optional<std::string>& failure() const { return failure_; }
  // Both directions have ended, and both ends have handed everything on.
  [[nodiscard]] bool is_finished() const;
  // The other end may forget this channel: nobody will come back to it. With it everything ends
  // that was started through the channel.
  void say_goodbye();
  [[nodiscard]] bool said_goodbye() const { return goodbye_sent_; }  // it went out
  [[nodiscard]] bool heard_goodbye() const { return goodbye_received_; }

 private:
  enum class Kind : std::uint8_t {
    kHello = 1,    // number: received so far
    kData = 2,     // number: of its first byte
    kAck = 3,      // number: handed on so far
    kEnd = 4,      // number: its own; it counts as a byte
    kFailure = 5,  // the reason
    kGoodbye = 6,
  };
  static constexpr std::size_t kHead = 13;

  void put(Kind kind, std::uint64_t number, std::size_t length = 0, std::string_view text = {});
  void make_batch();
  [[nodiscard]] Status begin_message();
  [[nodiscard]] Status take_hello(std::uint64_t number);
  [[nodiscard]] Status take_ack(std::uint64_t number);
  [[nodiscard]] Status take_data(std::string_view bytes);
  [[nodiscard]] Status take_end(std::uint64_t number);
  [[nodiscard]] Status broken(std::string reason);

  const std::size_t window_;

  // Outwards. The end counts as one more number.
  ByteRing kept_;  // from what was handed on over there
  bool end_written_ = false;
  bool end_acknowledged_ = false;
  std::uint64_t next_ = 0;  // to send over this connection
  bool end_sent_ = false;   // over this connection
  bool hello_received_ = false;
  bool hello_due_ = false;
  bool failure_due_ = false;
  bool goodbye_due_ = false;
  bool goodbye_sent_ = false;
  // What goes out as one: messages without bytes and the head of one with bytes, then those.
  std::string head_;
  std::size_t head_sent_ = 0;
  std::uint64_t batch_past_ = 0;  // next_ when all of it is out
  bool batch_says_goodbye_ = false;
  std::array<iovec, 3> pieces_{};

  // Inwards.
  ByteRing arrived_;  // from what was handed on here
  bool end_received_ = false;
  bool end_handed_on_ = false;
  std::uint64_t acknowledged_ = 0;  // told to the other end
  std::string message_;             // the head of one, or all of a failure, as far as it came
  Kind kind_ = Kind::kHello;
  std::uint64_t number_ = 0;
  std::size_t left_ = 0;  // of the bytes of this message

  std::optional<std::string> failure_;
  bool goodbye_received_ = false;
};

}  // namespace divvy::sys
