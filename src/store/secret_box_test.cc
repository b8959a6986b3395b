#include "store/secret_box.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "base/temporary_folder.h"

namespace divvy::store {
namespace {

class SecretBoxTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path key() const { return folder_ / "secrets.key"; }
  [[nodiscard]] SecretBox box() const {
    auto opened = SecretBox::open(key());
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    return *std::move(opened);
  }

  TemporaryFolder folder_;
};

TEST_F(SecretBoxTest, OpensWhatItSealedAlsoAfterARestart) {
  for (const std::string& secret :
       {std::string("hf_abc"), std::string(), std::string("a\0b\n", 4), std::string(16384, 'x')}) {
    const auto sealed = box().seal("ada/HF_TOKEN", secret);
    ASSERT_TRUE(sealed.has_value()) << sealed.error().message;
    EXPECT_EQ(sealed->find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_EQ(box().unseal("ada/HF_TOKEN", *sealed), secret);
  }
}

TEST_F(SecretBoxTest, TheSameSecretIsNeverSealedAlike) {
  const SecretBox one = box();
  EXPECT_NE(one.seal("p", "secret").value(), one.seal("p", "secret").value());
}

TEST_F(SecretBoxTest, OpensNothingThatWasMovedChangedOrSealedWithAnotherKey) {
  const std::string sealed = box().seal("ada/HF_TOKEN", "secret").value();
  EXPECT_EQ(box().unseal("eve/HF_TOKEN", sealed).error().code, ErrorCode::kDataLoss);
  for (std::size_t i = 0; i < sealed.size(); ++i) {
    std::string changed = sealed;
    changed[i] = changed[i] == '0' ? '1' : '0';
    EXPECT_FALSE(box().unseal("ada/HF_TOKEN", changed).has_value()) << i;
    EXPECT_FALSE(box().unseal("ada/HF_TOKEN", sealed.substr(0, i)).has_value()) << i;
  }
  std::filesystem::remove(key());
  EXPECT_EQ(box().unseal("ada/HF_TOKEN", sealed).error().code, ErrorCode::kDataLoss);
}

TEST_F(SecretBoxTest, TheKeyIsReadByItsOwnerAlone) {
  (void)box();
  struct stat state{};
  ASSERT_EQ(::stat(key().c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777, 0600U);
  EXPECT_EQ(state.st_size, static_cast<off_t>(SecretBox::kKeyBytes));

  ASSERT_EQ(::chmod(key().c_str(), 0640), 0);
  const auto shared = SecretBox::open(key());
  ASSERT_FALSE(shared.has_value());
  EXPECT_NE(shared.error().message.find("chmod 600"), std::string::npos) << shared.error().message;
}

TEST_F(SecretBoxTest, ADamagedKeyIsRefusedAndKept) {
  for (const std::size_t size : {0U, 31U, 33U}) {
    std::ofstream(key(), std::ios::trunc) << std::string(size, 'k');
    ASSERT_EQ(::chmod(key().c_str(), 0600), 0);
    EXPECT_FALSE(SecretBox::open(key()).has_value()) << size;
    EXPECT_EQ(std::filesystem::file_size(key()), size);
  }
}

TEST_F(SecretBoxTest, ALinkIsNoKey) {
  std::ofstream(folder_ / "elsewhere") << std::string(SecretBox::kKeyBytes, 'k');
  std::filesystem::create_symlink(folder_ / "elsewhere", key());
  EXPECT_FALSE(SecretBox::open(key()).has_value());
}

}  // namespace
}  // namespace divvy::store
