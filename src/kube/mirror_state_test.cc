#include "kube/mirror_state.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <boost/json.hpp>
#include <random>

#include "kube/fake_store.h"
#include "kube/selector.h"

namespace divvy::kube {
namespace {

namespace json = boost::json;

json::object object(const char* name, const char* uid, const char* version) {
  return {{"metadata", {{"name", name}, {"uid", uid}, {"resourceVersion", version}}}};
}

TEST(MirrorState, AnEventThatWasSeenAlreadyChangesNothing) {
  MirrorState state;
  EXPECT_EQ(state.replace({object("a", "1", "5")}, "9").size(), 1U);
  EXPECT_TRUE(state.apply({WatchEvent::Kind::kDeleted, object("a", "1", "8")}).empty());
  EXPECT_TRUE(state.apply({WatchEvent::Kind::kAdded, object("b", "2", "9")}).empty());
  EXPECT_EQ(state.apply({WatchEvent::Kind::kAdded, object("b", "2", "10")}).size(), 1U);
  EXPECT_EQ(state.version(), "10");
}

TEST(MirrorState, OneThatWasMadeAnewIsTwoChanges) {
  MirrorState state;
  (void)state.replace({object("a", "1", "5")}, "9");
  const auto changes = state.replace({object("a", "2", "12")}, "15");
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].after, nullptr);
  EXPECT_EQ(changes[1].before, nullptr);
}

TEST(MirrorState, ABookmarkOnlyMovesTheVersion) {
  MirrorState state;
  (void)state.replace({object("a", "1", "5")}, "9");
  EXPECT_TRUE(
      state.apply({WatchEvent::Kind::kBookmark, {{"metadata", {{"resourceVersion", "20"}}}}})
          .empty());
  EXPECT_EQ(state.version(), "20");
  EXPECT_EQ(state.objects().size(), 1U);
}

TEST(MirrorState, ComparesVersionsAsNumbers) {
  EXPECT_TRUE(is_older_version("9", "10"));
  EXPECT_TRUE(is_older_version("007", "8"));
  EXPECT_FALSE(is_older_version("10", "9"));
  EXPECT_FALSE(is_older_version("10", "10"));
  EXPECT_FALSE(is_older_version("a", "10"));
  EXPECT_FALSE(is_older_version("", "10"));
  EXPECT_TRUE(is_older_version("99999999999999999999", "100000000000000000000"));
}

// A server whose pods change at random, and a client that hears of it over a connection that
// breaks, repeats itself and becomes too old.
class History {
 public:
  explicit History(std::uint32_t seed) : random_(seed), store_(clock_, seed) {}

  void step() {
    switch (random_() % 10) {
      case 0:
      case 1:
      case 2:
      case 3:
        change();
        break;
      case 4:
      case 5:
        hear(random_() % 4);
        break;
      case 6:
        repeat();
        break;
      case 7:
        forget();
        break;
      case 8:
        bookmark();
        break;
      default:
        list();
        break;
    }
  }

  // Hears all that is left, and compares.
  void finish() {
    hear(~0U);
    RC_ASSERT(told_.size() == store_.list(pods_).size());
    for (const FakeStore::Object& pod : store_.list(pods_)) {
      RC_ASSERT(*told_.at(std::string(text_at(*pod, "metadata.name"))) == *pod);
    }
    RC_ASSERT(state_.objects().size() == told_.size());
  }

 private:
  void change() {
    ResourcePath one = pods_;
    one.name = "pod-" + std::to_string(random_() % 5);
    if (!store_.find(one)) {
      RC_ASSERT(store_.create(pods_, {{"metadata", {{"name", one.name}}}}).has_value());
    } else if (random_() % 2 == 0) {
      const json::value patch{{"metadata", {{"labels", {{"l", std::to_string(random_())}}}}}};
      RC_ASSERT(store_.patch(one, PatchType::kMerge, patch).has_value());
    } else {
      RC_ASSERT(store_.remove(one, {}).has_value());
    }
  }

  static WatchEvent event_of(const FakeStore::Change& change) {
    if (change.after == nullptr) return {WatchEvent::Kind::kDeleted, *change.before};
    return {change.before == nullptr ? WatchEvent::Kind::kAdded : WatchEvent::Kind::kModified,
            *change.after};
  }

  // The next events of a watch from where we are, then the connection breaks.
  void hear(std::size_t most) {
    if (state_.version().empty() || std::stoull(state_.version()) < store_.oldest()) list();
    for (const FakeStore::Change& change : store_.changes("/api/v1/pods")) {
      if (change.revision <= std::stoull(state_.version())) continue;
      if (most-- == 0) return;
      tell(state_.apply(event_of(change)));
    }
  }

  // Something from before comes once more.
  void repeat() {
    const auto& changes = store_.changes("/api/v1/pods");
    if (changes.empty() || state_.version().empty()) return;
    const FakeStore::Change& change = changes[random_() % changes.size()];
    if (change.revision > std::stoull(state_.version())) return;
    const auto made = state_.apply(event_of(change));
    RC_ASSERT(made.empty());
  }

  void forget() { store_.forget_changes(); }

  void bookmark() {
    hear(~0U);
    const std::string version = std::to_string(store_.revision());
    tell(state_.apply(
        {WatchEvent::Kind::kBookmark, {{"metadata", {{"resourceVersion", version}}}}}));
  }

  void list() {
    std::vector<json::object> items;
    for (const FakeStore::Object& pod : store_.list(pods_)) items.push_back(*pod);
    std::shuffle(items.begin(), items.end(), random_);
    tell(state_.replace(std::move(items), std::to_string(store_.revision())));
  }

  // What a listener knows follows from what it was told, with no gap.
  void tell(const std::vector<ObjectChange>& changes) {
    for (const ObjectChange& change : changes) {
      const ObjectPtr& any = change.before ? change.before : change.after;
      const std::string name(text_at(*any, "metadata.name"));
      const auto known = told_.find(name);
      RC_ASSERT((known == told_.end() ? nullptr : known->second) == change.before);
      if (change.after == nullptr) {
        told_.erase(name);
      } else {
        if (change.before != nullptr) {
          RC_ASSERT(text_at(*change.before, "metadata.uid") ==
                    text_at(*change.after, "metadata.uid"));
        }
        told_[name] = change.after;
      }
    }
  }

  std::mt19937 random_;
  ManualClock clock_;
  FakeStore store_;
  const ResourcePath pods_ = *ResourcePath::parse("/api/v1/namespaces/a/pods");
  MirrorState state_;
  std::map<std::string, ObjectPtr> told_;
};

TEST(MirrorState, EveryHistoryIsToldWithoutGapsAndEndsAtTheTruth) {
  EXPECT_TRUE(rc::check([] {
    History history(*rc::gen::arbitrary<std::uint32_t>());
    const int steps = *rc::gen::inRange(0, 150);
    for (int i = 0; i < steps; ++i) history.step();
    history.finish();
  }));
}

}  // namespace
}  // namespace divvy::kube
