#include "run/attachments.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sys/pipe.h"

namespace divvy::run {
namespace {

// So far may whoever reads be behind.
constexpr int kPipeRoom = 1 << 20;

Result<sys::Pipe> make_output_pipe() {
  DIVVY_TRY(pipe, sys::make_pipe());
  // Only our own end: the other is not ours to change.
  ::fcntl(pipe.writer.get(), F_SETFL, O_NONBLOCK);
  (void)::fcntl(pipe.writer.get(), F_SETPIPE_SZ, kPipeRoom);
  return pipe;
}

}  // namespace

Result<Attachments::Ends> Attachments::add(int connection) {
  DIVVY_TRY(output, make_output_pipe());
  DIVVY_TRY(error, make_output_pipe());
  remove(connection);
  attachments_.push_back({connection, std::move(output.writer), std::move(error.writer)});
  return Ends{std::move(output.reader), std::move(error.reader)};
}

void Attachments::remove(int connection) {
  std::erase_if(attachments_, [connection](const Attachment& attachment) {
    return attachment.connection == connection;
  });
}

bool Attachments::has(int connection) const {
  return std::ranges::any_of(attachments_, [connection](const Attachment& attachment) {
    return attachment.connection == connection;
  });
}

std::vector<int> Attachments::connections() const {
  std::vector<int> result;
  result.reserve(attachments_.size());
  for (const Attachment& attachment : attachments_) result.push_back(attachment.connection);
  return result;
}

std::vector<int> Attachments::write(LogStream stream, std::string_view bytes) {
  std::vector<int> failed;
  for (const Attachment& attachment : attachments_) {
    const int fd = stream == LogStream::kStdout ? attachment.output.get() : attachment.error.get();
    std::string_view left = bytes;
    while (!left.empty()) {
      const ssize_t written = ::write(fd, left.data(), left.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) break;
      left.remove_prefix(static_cast<std::size_t>(written));
    }
    if (!left.empty()) failed.push_back(attachment.connection);
  }
  for (const int connection : failed) remove(connection);
  return failed;
}

}  // namespace divvy::run
