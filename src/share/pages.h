// The shared pages (wire/pages.h) on the daemon's side: made here, sealed so that nobody can cut
// them short under us (which would be a SIGBUS), and mapped as long as their object lives.
//
// A page that a tenant sends is mapped only after its size, its seals and its magic number were
// checked. What is inside is the tenant's word and never trusted. Callable from any thread.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <functional>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"
#include "wire/pages.h"

namespace divvy::share {

// A mapping of a page, and the descriptor to hand on. Never null unless moved from.
template <typename Page>
class MappedPage {
 public:
  MappedPage() = default;
  MappedPage(UniqueFd fd, Page* page, std::size_t bytes)
      : fd_(std::move(fd)), page_(page), bytes_(bytes) {}
  MappedPage(MappedPage&& other) noexcept
      : fd_(std::move(other.fd_)),
        page_(std::exchange(other.page_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  MappedPage& operator=(MappedPage&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(page_, other.page_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  MappedPage(const MappedPage&) = delete;
  MappedPage& operator=(const MappedPage&) = delete;
  ~MappedPage() {
    if (page_ != nullptr) ::munmap(const_cast<void*>(static_cast<const void*>(page_)), bytes_);
  }

  [[nodiscard]] Page* get() const { return page_; }
  Page* operator->() const { return page_; }
  Page& operator*() const { return *page_; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  explicit operator bool() const { return page_ != nullptr; }

 private:
  UniqueFd fd_;
  Page* page_ = nullptr;
  std::size_t bytes_ = 0;
};

using ControlMapping = MappedPage<wire::ControlPage>;
using AccountMapping = MappedPage<wire::AccountPage>;
using LanesMapping = MappedPage<const wire::LanesPage>;

// Writable for us and, once this has returned, for nobody who maps it later. `before_seal` is
// called with the descriptor while others may still map it writable.
[[nodiscard]] Result<ControlMapping> create_control_page(
    const std::function<void(int fd)>& before_seal);
[[nodiscard]] Result<AccountMapping> create_account_page();

// Pages that a process sent. They keep their descriptor (account) or drop it (lanes).
[[nodiscard]] Result<AccountMapping> map_account_page(UniqueFd fd);
[[nodiscard]] Result<LanesMapping> map_lanes_page(UniqueFd fd);

// Do both descriptors name the same memory?
[[nodiscard]] bool same_page(int a, int b);

// Does the process have the memory of this descriptor mapped? Not where we may not look.
[[nodiscard]] bool has_mapped(pid_t process, int fd);

}  // namespace divvy::share
