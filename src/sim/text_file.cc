#include "sim/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "base/text.h"

namespace divvy::sim {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{64} << 10;

struct GzClose {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzHandle = std::unique_ptr<std::remove_pointer_t<gzFile>, GzClose>;

tl::unexpected<Error> too_large(const std::string& path, std::uint64_t limit) {
  return err(ErrorCode::kOutOfRange,
             "{}: larger than {}, the most that is read; cut the trace into parts",
             escape_for_terminal(path), describe_bytes(limit));
}

// Counts lines on the way, for the sentence about a NUL byte.
std::optional<std::uint64_t> line_of_nul(std::string_view piece, std::uint64_t& line) {
  const std::size_t nul = piece.find('\0');
  line += static_cast<std::uint64_t>(std::count(piece.begin(), piece.end(), '\n'));
  if (nul == std::string_view::npos) return std::nullopt;
  const auto rest = piece.substr(nul);
  return line - static_cast<std::uint64_t>(std::count(rest.begin(), rest.end(), '\n'));
}

Result<GzHandle> open_text(const std::string& path, const TextLimits& limits) {
  const std::string shown = escape_for_terminal(path);
  if (path.find('\0') != std::string::npos)
    return err(ErrorCode::kInvalidArgument, "{}: no file has a NUL byte in its name", shown);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    return err(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
               "{}: cannot open it: {}; check the path", shown, std::strerror(error));
  }
  struct stat info{};
  if (::fstat(fd, &info) == 0) {
    const bool folder = S_ISDIR(info.st_mode);
    // Compressed text may be larger than its file but hardly ever smaller, so this limit holds for
    // both kinds.
    const bool large =
        S_ISREG(info.st_mode) && static_cast<std::uint64_t>(info.st_size) > limits.file_bytes;
    if (folder || large) ::close(fd);
    if (folder)
      return err(ErrorCode::kInvalidArgument, "{}: this is a folder; name a file inside it", shown);
    if (large) return too_large(path, limits.file_bytes);
  }
  GzHandle file(gzdopen(fd, "rb"));
  if (!file) {
    ::close(fd);
    return err(ErrorCode::kResourceExhausted, "{}: no memory to read it", shown);
  }
  gzbuffer(file.get(), static_cast<unsigned>(kPieceBytes));
  return file;
}

}  // namespace

std::string describe_bytes(std::uint64_t bytes) {
  const std::array<std::pair<unsigned, const char*>, 3> units{
      {{30, "GiB"}, {20, "MiB"}, {10, "KiB"}}};
  for (const auto& [shift, name] : units) {
    const std::uint64_t unit = std::uint64_t{1} << shift;
    if (bytes >= unit && bytes % unit == 0) return fmt::format("{} {}", bytes / unit, name);
  }
  return fmt::format("{} bytes", bytes);
}

Status read_text(const std::string& path, const TextLimits& limits,
                 const std::function<Status(std::string_view)>& take) {
  DIVVY_TRY(file, open_text(path, limits));
  std::string buffer(kPieceBytes, '\0');
  std::uint64_t total = 0;
  std::uint64_t line = 1;
  while (true) {
    const int got = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()));
    int code = Z_OK;
    const char* reason = gzerror(file.get(), &code);
    // A compressed file that stops in the middle gives what there was and then Z_BUF_ERROR.
    if (got < 0 || code == Z_BUF_ERROR) {
      if (code == Z_ERRNO)
        return err(ErrorCode::kIo, "{}: cannot read it: {}", escape_for_terminal(path),
                   std::strerror(errno));
      return err(ErrorCode::kDataLoss,
                 "{}:{}: the compressed data is damaged ({}); fetch or compress it again",
                 escape_for_terminal(path), line,
                 code == Z_BUF_ERROR ? "it ends too early" : reason);
    }
    if (got == 0) return {};
    const std::string_view piece(buffer.data(), static_cast<std::size_t>(got));
    total += piece.size();
    if (total > limits.file_bytes) return too_large(path, limits.file_bytes);
    if (const auto where = line_of_nul(piece, line))
      return err(ErrorCode::kInvalidArgument,
                 "{}:{}: a NUL byte, so this is binary data and no text; name a text file, plain "
                 "or compressed with gzip",
                 escape_for_terminal(path), *where);
    DIVVY_RETURN_IF_ERROR(take(piece));
  }
}

}  // namespace divvy::sim
