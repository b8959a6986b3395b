// What the tests of this room start from. Only for tests.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "base/check.h"
#include "base/temporary_folder.h"
#include "model/job.h"
#include "store/database.h"
#include "store/submission.h"

namespace divvy::store {

// A folder of its own, gone at the end.
class StoreTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path file() const { return folder_ / "divvy.db"; }

  TemporaryFolder folder_;
};

// With a database that is open.
class TableTest : public StoreTest {
 protected:
  void SetUp() override {
    auto opened = Database::open(file());
    ASSERT_TRUE(opened.has_value()) << opened.error().message;
    database_ = *std::move(opened);
  }

  // The change must succeed.
  void commit(const Change& change) const {
    const Status done = database_->commit(change);
    ASSERT_TRUE(done.has_value()) << done.error().message;
  }
  template <typename Look>
  [[nodiscard]] auto read(const Look& look) const {
    auto found = database_->read(look);
    DIVVY_CHECK(found.has_value(), "{}", found.error().message);
    return *std::move(found);
  }

  std::unique_ptr<Database> database_;
};

inline WallTime at_second(std::int64_t second) { return WallTime(std::chrono::seconds(second)); }

inline model::JobSpec test_spec() {
  model::JobSpec spec(model::Request::parse("0.3").value());
  spec.name = "train";
  spec.command = {"python", "train.py"};
  return spec;
}

inline model::Job test_job(std::uint64_t id) {
  model::Job job(model::JobId(id), "ada", test_spec(), at_second(1000 + static_cast<int>(id)));
  job.history.push_back({job.submitted, model::JobState::kQueued, "submitted"});
  return job;
}

// `count` jobs like test_job(), in a row.
inline Submission test_submission(std::size_t count = 1) {
  const auto make = [count](model::JobId first) {
    std::vector<model::Job> jobs;
    jobs.reserve(count);
    for (std::size_t i = 0; i < count; ++i) jobs.push_back(test_job(first.value() + i));
    return jobs;
  };
  return {.owner = "ada", .at = at_second(50), .make = make, .key = {}, .fingerprint = "f"};
}

}  // namespace divvy::store
