// Bytes that go in at one end and out at the other, in memory that grows with what is in it. The
// bytes are numbered from the beginning of time, so that a part in the middle can be asked for. One
// thread at a time.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace divvy::sys {

// A part of the ring: two pieces where it goes over the edge; an unused one has no length.
using RingPieces = std::array<iovec, 2>;

class ByteRing {
 public:
  // Never holds more than `most`, which is a power of two.
  explicit ByteRing(std::size_t most);

  [[nodiscard]] std::uint64_t first() const { return first_; }  // the oldest that is there
  [[nodiscard]] std::uint64_t past() const { return past_; }    // behind the newest
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(past_ - first_); }
  [[nodiscard]] std::size_t room() const { return most_ - size(); }

  // Where the next bytes can be put, as many as the memory has room for at the moment; then how
  // many came. Whoever fills all of it gets more the next time.
  [[nodiscard]] RingPieces space();
  void filled(std::size_t count);
  // As far as there is room, which has to be enough.
  void append(std::string_view bytes);

  // [from, past) of what is there.
  [[nodiscard]] RingPieces part(std::uint64_t from, std::uint64_t past) const;
  // Forgets the oldest.
  void drop(std::size_t count);

 private:
  void grow(std::size_t at_least);

  const std::size_t most_;
  std::size_t capacity_ = 0;  // a power of two, or nothing yet
  std::unique_ptr<char[]> memory_;
  std::uint64_t first_ = 0;
  std::uint64_t past_ = 0;
};

[[nodiscard]] inline std::size_t size_of(const RingPieces& pieces) {
  return pieces[0].iov_len + pieces[1].iov_len;
}

}  // namespace divvy::sys
