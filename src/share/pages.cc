#include "share/pages.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace divvy::share {
namespace {

constexpr int kNeverResized = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Result<UniqueFd> create_memory(const char* name, std::size_t bytes) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return err(ErrorCode::kResourceExhausted, "no shared memory for the {}: {}", name,
               std::strerror(errno));
  }
  return fd;
}

Result<void*> map(int fd, std::size_t bytes, int protection) {
  void* address = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) {
    return err(ErrorCode::kResourceExhausted, "a shared page could not be mapped: {}",
               std::strerror(errno));
  }
  return address;
}

Status seal(int fd, int seals) {
  if (::fcntl(fd, F_ADD_SEALS, seals) == 0) return {};
  return err(ErrorCode::kUnsupported,
             "a shared page could not be sealed ({}); Divvy needs Linux 5.1 or newer",
             std::strerror(errno));
}

// Is this exactly what the shim would have sent? A file that could shrink under a mapping would
// end us with SIGBUS at the next look; files without seals (F_GET_SEALS fails) could.
Status check_foreign(int fd, std::size_t bytes) {
  struct stat status{};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    return err(ErrorCode::kInvalidArgument, "a page that was sent is no shared memory");
  }
  if (status.st_size != static_cast<off_t>(bytes)) {
    return err(ErrorCode::kInvalidArgument, "a page that was sent has {} bytes instead of {}",
               status.st_size, bytes);
  }
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kNeverResized) != kNeverResized) {
    return err(ErrorCode::kInvalidArgument, "a page that was sent is not sealed");
  }
  return {};
}

template <typename Page>
Result<MappedPage<Page>> map_foreign(UniqueFd fd, std::size_t bytes, std::uint32_t magic,
                                     int protection) {
  DIVVY_RETURN_IF_ERROR(check_foreign(fd.get(), bytes));
  DIVVY_TRY(address, map(fd.get(), bytes, protection));
  MappedPage<Page> page(std::move(fd), static_cast<Page*>(address), bytes);
  if (page->magic != magic || page->version != wire::kPagesVersion) {
    return err(ErrorCode::kInvalidArgument, "a page that was sent is of another kind or version");
  }
  return page;
}

}  // namespace

Result<ControlMapping> create_control_page(const std::function<void(int fd)>& before_seal) {
  DIVVY_TRY(fd, create_memory("divvy-control", wire::kControlBytes));
  DIVVY_TRY(address, map(fd.get(), wire::kControlBytes, PROT_READ | PROT_WRITE));
  ControlMapping page(std::move(fd), static_cast<wire::ControlPage*>(address), wire::kControlBytes);
  page->magic = wire::kControlMagic;
  page->version = wire::kPagesVersion;
  if (before_seal) before_seal(page.fd());
  DIVVY_RETURN_IF_ERROR(seal(page.fd(), F_SEAL_FUTURE_WRITE | kNeverResized));
  return page;
}

Result<AccountMapping> create_account_page() {
  DIVVY_TRY(fd, create_memory("divvy-account", wire::kAccountBytes));
  DIVVY_TRY(address, map(fd.get(), wire::kAccountBytes, PROT_READ | PROT_WRITE));
  AccountMapping page(std::move(fd), static_cast<wire::AccountPage*>(address), wire::kAccountBytes);
  page->magic = wire::kAccountMagic;
  page->version = wire::kPagesVersion;
  DIVVY_RETURN_IF_ERROR(seal(page.fd(), kNeverResized));
  return page;
}

Result<AccountMapping> map_account_page(UniqueFd fd) {
  return map_foreign<wire::AccountPage>(std::move(fd), wire::kAccountBytes, wire::kAccountMagic,
                                        PROT_READ | PROT_WRITE);
}

Result<LanesMapping> map_lanes_page(UniqueFd fd) {
  return map_foreign<const wire::LanesPage>(std::move(fd), wire::kLanesBytes, wire::kLanesMagic,
                                            PROT_READ);
}

bool same_page(int a, int b) {
  struct stat first{};
  struct stat second{};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

bool has_mapped(pid_t process, int fd) {
  struct stat page{};
  if (::fstat(fd, &page) != 0) return false;
  // "7f...-7f... rw-s 00000000 00:01 4711    /memfd:divvy-account (deleted)"
  const std::string wanted =
      fmt::format(" {:02x}:{:02x} {} ", major(page.st_dev), minor(page.st_dev), page.st_ino);
  std::ifstream maps(fmt::format("/proc/{}/maps", process));
  for (std::string line; std::getline(maps, line);) {
    if (line.find(wanted) != std::string::npos) return true;
  }
  return false;
}

}  // namespace divvy::share
