#include "sys/fake_disk.h"

#include <algorithm>
#include <limits>

namespace divvy::sys {
namespace {

Status failure(std::string_view what) {
  return err(ErrorCode::kIo, "/fake: {}: a fault that a test asked for", what);
}

}  // namespace

class FakeFile final : public DiskFile {
 public:
  FakeFile(FakeDisk& disk, std::shared_ptr<FakeDisk::Inode> inode)
      : disk_(disk), inode_(std::move(inode)), life_(disk.life_) {}

  Status append(std::string_view bytes) override {
    if (dead()) return failure("written after its end");
    const auto verdict = disk_.next_operation();
    if (!verdict.works) {
      inode_->content += bytes.substr(0, std::min(verdict.part, bytes.size()));
      return failure("write");
    }
    const std::uint64_t space = disk_.space_left();
    if (bytes.size() > space) {
      inode_->content += bytes.substr(0, space);
      return err(ErrorCode::kIo, "/fake is full; free some space there and try again");
    }
    inode_->content += bytes;
    return {};
  }

  Status sync() override {
    if (dead()) return failure("synced after its end");
    const auto verdict = disk_.next_operation();
    ++disk_.syncs_;
    if (!verdict.works && verdict.fault == FakeDisk::Fault::kError) {
      inode_->lost.push_back({inode_->synced.size(), inode_->content.size()});
      return failure("sync");
    }
    if (verdict.works || verdict.part % 2 == 1) {
      inode_->synced = inode_->content;
      for (const FakeDisk::Range& range : inode_->lost) {
        for (std::size_t i = range.begin; i < std::min(range.end, inode_->synced.size()); ++i) {
          inode_->synced[i] = '\0';
        }
      }
      inode_->ghost.clear();
    }
    return verdict.works ? Status() : failure("sync");
  }

  Status truncate(std::uint64_t size) override {
    if (dead()) return failure("cut after its end");
    const auto verdict = disk_.next_operation();
    if (verdict.works || (verdict.fault == FakeDisk::Fault::kCrash && verdict.part % 2 == 1)) {
      inode_->ghost = inode_->content;
      inode_->content.resize(size);
    }
    return verdict.works ? Status() : failure("cut");
  }

 private:
  [[nodiscard]] bool dead() const { return disk_.off_ || life_ != disk_.life_; }

  FakeDisk& disk_;
  std::shared_ptr<FakeDisk::Inode> inode_;
  std::uint64_t life_;
};

void FakeDisk::fail_at(std::uint64_t operation, Fault fault, std::size_t part) {
  fault_at_ = operations_ + operation;
  fault_ = fault;
  part_ = part;
}

FakeDisk::Verdict FakeDisk::next_operation() {
  ++operations_;
  if (!fault_at_ || operations_ != *fault_at_) return {};
  if (fault_ == Fault::kCrash) off_ = true;
  return {false, part_, fault_};
}

std::uint64_t FakeDisk::space_left() const {
  if (!space_) return std::numeric_limits<std::uint64_t>::max();
  std::uint64_t used = 0;
  for (const auto& [name, inode] : names_) used += inode->content.size();
  return *space_ - std::min(used, *space_);
}

std::string FakeDisk::after_power_loss(const Inode& inode, std::mt19937& dice) {
  const std::size_t kept = inode.synced.size();
  std::string bytes = inode.content;
  for (const Range& range : inode.lost) {
    for (std::size_t i = range.begin; i < std::min(range.end, bytes.size()); ++i) bytes[i] = '\0';
  }
  if (bytes.size() <= kept) return dice() % 2 == 0 ? inode.synced : bytes;
  const std::size_t loose = bytes.size() - kept;
  switch (dice() % 5) {
    case 0:
      return inode.synced;
    case 1:
      return bytes;
    case 2:
      return bytes.substr(0, kept + dice() % loose);
    case 3: {
      // Its length arrived and some of its pages did not.
      const std::size_t hole = kept + dice() % loose;
      const std::size_t end = hole + dice() % (bytes.size() - hole) + 1;
      for (std::size_t i = hole; i < end; ++i) bytes[i] = '\0';
      return bytes;
    }
    default:
      // The cut did not arrive.
      if (inode.ghost.size() > bytes.size()) bytes += inode.ghost.substr(bytes.size());
      return bytes;
  }
}

void FakeDisk::lose_power(std::mt19937& dice) {
  past_names_.insert(past_names_.begin(), synced_names_);
  names_ = past_names_[dice() % past_names_.size()];
  past_names_.clear();
  for (auto& [name, inode] : names_) {
    auto left = std::make_shared<Inode>();
    left->content = after_power_loss(*inode, dice);
    left->synced = left->content;
    inode = std::move(left);
  }
  synced_names_ = names_;
  kill_process();
}

void FakeDisk::kill_process() {
  ++life_;
  off_ = false;
  work_again();
}

void FakeDisk::put(std::string_view name, std::string bytes) {
  auto inode = std::make_shared<Inode>();
  inode->content = bytes;
  inode->synced = std::move(bytes);
  names_[std::string(name)] = inode;
  synced_names_[std::string(name)] = inode;
}

std::string FakeDisk::content(std::string_view name) const {
  const auto found = names_.find(std::string(name));
  return found == names_.end() ? std::string() : found->second->content;
}

std::filesystem::path FakeDisk::path(std::string_view name) const {
  return std::filesystem::path("/fake") / name;
}

Result<std::string> FakeDisk::read(std::string_view name) const {
  if (!has(name)) return err(ErrorCode::kNotFound, "there is no {}", path(name).string());
  return content(name);
}

Result<std::unique_ptr<DiskFile>> FakeDisk::create(std::string_view name) {
  if (off_ || !next_operation().works) return err(failure("create").error());
  names_[std::string(name)] = std::make_shared<Inode>();
  folder_changed();
  return std::make_unique<FakeFile>(*this, names_[std::string(name)]);
}

Status FakeDisk::rename(std::string_view from, std::string_view to) {
  if (off_) return failure("rename");
  const Verdict verdict = next_operation();
  const auto found = names_.find(std::string(from));
  if (found == names_.end()) return err(ErrorCode::kIo, "there is no {}", path(from).string());
  if (verdict.works || verdict.part % 2 == 1) {
    names_[std::string(to)] = found->second;
    names_.erase(std::string(from));
    folder_changed();
  }
  return verdict.works ? Status() : failure("rename");
}

Status FakeDisk::remove(std::string_view name) {
  if (off_ || !next_operation().works) return failure("remove");
  names_.erase(std::string(name));
  folder_changed();
  return {};
}

Status FakeDisk::sync_folder() {
  if (off_) return failure("sync of the folder");
  const Verdict verdict = next_operation();
  ++syncs_;
  if (verdict.works || (verdict.fault == Fault::kCrash && verdict.part % 2 == 1)) {
    synced_names_ = names_;
    past_names_.clear();
  }
  return verdict.works ? Status() : failure("sync of the folder");
}

}  // namespace divvy::sys
