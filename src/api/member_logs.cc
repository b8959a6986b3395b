#include "api/member_logs.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "base/time_text.h"

namespace divvy::api {
namespace {

// Of one member, before others are asked and what there is is given.
constexpr std::size_t kMostLines = 10'000;
constexpr std::size_t kMostBytes = std::size_t{4} << 20;
// For an agent that neither tells nor says that it has told everything.
constexpr std::chrono::seconds kPatience{10};

}  // namespace

std::string to_text(const MemberLine& line, const LogStyle& style) {
  std::string result;
  if (style.ranks) result += fmt::format("[{}] ", line.rank);
  if (style.timestamps) result += time_text(line.line.at) + " ";
  if (line.line.stream == sys::LineStream::kDivvy) result += "divvy: ";
  return result + line.line.text + "\n";
}

MemberLogs::MemberLogs() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

void MemberLogs::add(std::uint32_t rank, UniqueFd stream) {
  epoll_event event{};
  event.events = EPOLLIN;
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, stream.get(), &event);
  Member& member = members_.emplace_back();
  member.rank = rank;
  member.stream = std::move(stream);
}

void MemberLogs::finish() {
  if (finishing_) return;
  finishing_ = true;
  for (const Member& member : members_) {
    if (!member.ended) {
      (void)sys::send_frames(member.stream.get(), sys::to_bytes(sys::InputEndFrame{}));
    }
  }
}

bool MemberLogs::is_behind(const Member& member) const {
  if (member.ended || member.lines.size() >= kMostLines || member.bytes >= kMostBytes) return false;
  return finishing_ || !member.caught_up;
}

void MemberLogs::take(Member& member, const sys::Frame& frame) {
  if (const auto* const line = std::get_if<sys::LineFrame>(&frame)) {
    member.caught_up = false;
    member.bytes += line->text.size();
    if (member.unfinished) {
      member.lines.back().text += line->text;
    } else {
      member.lines.push_back(*line);
    }
    member.unfinished = !line->whole;
  } else if (std::holds_alternative<sys::CaughtUpFrame>(frame)) {
    member.caught_up = true;
  } else {
    member.ended = true;
  }
}

void MemberLogs::receive(Member& member) const {
  std::array<char, 65536> piece;
  const ssize_t got = ::recv(member.stream.get(), piece.data(), piece.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) member.ended = true;
  if (got > 0) member.frames.add({piece.data(), static_cast<std::size_t>(got)});
  while (!member.ended) {
    const auto frame = member.frames.next();
    if (frame && !*frame) break;
    if (frame) {
      take(member, **frame);
    } else {
      member.ended = true;
    }
  }
  // Its end is told once.
  if (member.ended) {
    (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, member.stream.get(), nullptr);
    member.stream.reset();
  }
}

std::vector<MemberLine> MemberLogs::read() {
  for (Member& member : members_) {
    if (!member.ended && member.lines.empty()) receive(member);
  }
  const auto until = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    std::vector<pollfd> waits;
    waits.reserve(members_.size());
    for (const Member& member : members_) {
      waits.push_back({is_behind(member) ? member.stream.get() : -1, POLLIN, 0});
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until - std::chrono::steady_clock::now());
    if (std::ranges::none_of(waits, [](const pollfd& wait) { return wait.fd >= 0; })) break;
    if (left.count() <= 0) break;
    if (::poll(waits.data(), waits.size(), static_cast<int>(left.count())) == 0) break;
    for (std::size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].revents != 0) receive(members_[i]);
    }
  }
  std::vector<MemberLine> all;
  for (Member& member : members_) {
    // The rest of a line that is cut here comes with the next ones.
    const bool keep = member.unfinished && !member.ended;
    const std::size_t count = member.lines.size() - (keep ? 1 : 0);
    for (std::size_t i = 0; i < count; ++i) {
      all.push_back({member.rank, std::move(member.lines[i])});
    }
    member.lines.erase(member.lines.begin(),
                       member.lines.begin() + static_cast<std::ptrdiff_t>(count));
    member.bytes = keep ? member.lines.front().text.size() : 0;
  }
  // What one member wrote in one moment stays in its order. (The library's stable sort uses what
  // clang calls deprecated.)
  std::vector<std::pair<WallTime, std::size_t>> order;
  order.reserve(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) order.emplace_back(all[i].line.at, i);
  std::ranges::sort(order);
  std::vector<MemberLine> sorted;
  sorted.reserve(all.size());
  for (const auto& [at, place] : order) sorted.push_back(std::move(all[place]));
  return sorted;
}

}  // namespace divvy::api
