#include "drivers/zmq/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "../../support/file_size_limit.h"
#include "../../support/temporary_folder.h"

namespace leeway::zmq {
namespace {

using testing::HasSubstr;
using testing::Not;

mode_t mode_of(const Path& file) {
  struct stat status = {};
  EXPECT_EQ(::stat(file.c_str(), &status), 0) << file;
  return status.st_mode & 07777;
}

// A file that only its owner can read.
void write_secret(const Path& file, const std::string& text) {
  std::ofstream(file) << text;
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
}

std::string error_of(const Path& file) {
  const auto keys = read_key_pair(file);
  return keys.ok() ? "no error" : keys.error().message;
}

TEST(Keys, AreNewEachTime) {
  const auto first = new_key_pair(), second = new_key_pair();
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(is_key(first->public_key) && is_key(first->secret_key));
  EXPECT_NE(first->public_key, second->public_key);
  EXPECT_NE(first->secret_key, second->secret_key);
}

TEST(Keys, AreFortyCharactersOfZ85) {
  EXPECT_TRUE(is_key("rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"));  // from the RFC of CURVE
  EXPECT_TRUE(is_key(std::string(40, '0')));
  EXPECT_FALSE(is_key(""));
  EXPECT_FALSE(is_key(std::string(39, '0')));
  EXPECT_FALSE(is_key(std::string(41, '0')));
  for (const char c : {'"', '\\', ' ', '\n', '_', ',', '~', '\0'})
    EXPECT_FALSE(is_key(std::string(39, '0') + c)) << static_cast<int>(c);
  // %nSc0 is 2^32 - 1, and the next one is more than four bytes.
  EXPECT_TRUE(is_key("%nSc0" + std::string(35, '0')));
  EXPECT_FALSE(is_key("%nSc1" + std::string(35, '0')));
  EXPECT_FALSE(is_key(std::string(40, '#')));
}

TEST(KeyFile, ReadsBackAndIsForItsOwnerAlone) {
  const TemporaryFolder folder;
  const auto keys = new_key_pair();
  ASSERT_TRUE(keys.ok());
  ASSERT_TRUE(write_key_pair(folder / "a.key", *keys).ok());
  EXPECT_EQ(mode_of(folder / "a.key"), 0600U);
  EXPECT_EQ(mode_of(folder / "a.key.pub"), 0644U);
  EXPECT_EQ(folder.entry_count(), 2U);
  const auto again = read_key_pair(folder / "a.key");
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*again, *keys);
  EXPECT_EQ(read_public_key(folder / "a.key.pub").value(), keys->public_key);
  EXPECT_EQ(read_public_key(keys->public_key).value(), keys->public_key);
  EXPECT_EQ(read_text(folder / "a.key.pub").value(), keys->public_key + "\n");
  EXPECT_THAT(read_text(folder / "a.key").value(), HasSubstr("# Keep this file secret"));
}

// A user's mask takes rights away, but the public key is for everybody.
TEST(KeyFile, HasItsRightsWhateverTheMask) {
  const TemporaryFolder folder;
  const auto keys = new_key_pair();
  const mode_t before = ::umask(0077);
  const Status strict = write_key_pair(folder / "a", *keys);
  ::umask(0);
  const Status loose = write_key_pair(folder / "b", *keys);
  ::umask(before);
  ASSERT_TRUE(strict.ok() && loose.ok());
  for (const std::string name : {"a", "b"}) {
    EXPECT_EQ(mode_of(folder / name), 0600U);
    EXPECT_EQ(mode_of(folder / (name + ".pub")), 0644U);
  }
}

TEST(KeyFile, IsNeverOverwritten) {
  const TemporaryFolder folder;
  const auto first = new_key_pair(), second = new_key_pair();
  ASSERT_TRUE(write_key_pair(folder / "a", *first).ok());
  const Status again = write_key_pair(folder / "a", *second);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(again.error().message, HasSubstr("a key is never overwritten; name another file"));
  EXPECT_EQ(read_key_pair(folder / "a").value(), *first);
  // Nor is a public key whose secret one is elsewhere; half a pair does not stay.
  ASSERT_EQ(::unlink((folder / "a").c_str()), 0);
  EXPECT_FALSE(write_key_pair(folder / "a", *second).ok());
  EXPECT_EQ(read_public_key(folder / "a.pub").value(), first->public_key);
  EXPECT_EQ(folder.entry_count(), 1U);
  EXPECT_THAT(write_key_pair(folder / "no/such/folder/a", *first).error().message,
              HasSubstr("cannot create "));
}

TEST(KeyFile, IsWholeOrNotThere) {
  const TemporaryFolder folder;
  const auto keys = new_key_pair();
  for (const rlim_t bytes : {0U, 100U}) {
    const FileSizeLimit full(bytes);
    const Status status = write_key_pair(folder / "a", *keys);
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.error().message, HasSubstr("cannot write "));
    EXPECT_EQ(folder.entry_count(), 0U);
  }
}

TEST(KeyFile, IsRefusedIfOthersCanReadIt) {
  const TemporaryFolder folder;
  const Path file = folder / "my key";
  ASSERT_TRUE(write_key_pair(file, *new_key_pair()).ok());
  for (const mode_t mode : {0640U, 0604U, 0620U, 0601U}) {
    ASSERT_EQ(::chmod(file.c_str(), mode), 0);
    EXPECT_THAT(error_of(file), HasSubstr("run chmod 600 '" + file.string() + "'")) << mode;
  }
  ASSERT_EQ(::chmod(file.c_str(), 0400), 0);
  EXPECT_EQ(error_of(file), "no error");
}

TEST(KeyFile, IsRefusedIfItsKeysDoNotBelongTogether) {
  const TemporaryFolder folder;
  const auto one = new_key_pair(), other = new_key_pair();
  const KeyPair mixed = {.public_key = one->public_key, .secret_key = other->secret_key};
  ASSERT_TRUE(write_key_pair(folder / "a", mixed).ok());
  EXPECT_THAT(error_of(folder / "a"), HasSubstr("does not belong to its secret key"));
  EXPECT_THAT(error_of(folder / "a"), Not(HasSubstr(other->secret_key)));
}

TEST(KeyFile, IsRefusedIfItIsAnythingElse) {
  const TemporaryFolder folder;
  const auto keys = new_key_pair();
  const std::string open = "public = \"" + keys->public_key + "\"\n";
  const std::string secret = "secret = \"" + keys->secret_key + "\"\n";
  const std::pair<std::string, std::string> files[] = {
      {"", "lacks a public or a secret key"},
      {"# only a remark\n", "lacks a public or a secret key"},
      {open, "lacks a public or a secret key"},
      {secret, "lacks a public or a secret key"},
      {open + secret + open, ":3: not a line of a key file"},
      {open + secret + secret, ":3: not a line of a key file"},
      {open + "secret = " + keys->secret_key, ":2: not a line of a key file"},
      {open + "secret = \"", ":2: not a line of a key file"},
      {open + "secret = \"" + keys->secret_key, ":2: not a line of a key file"},
      {open + "secret = \"" + keys->secret_key + "0\"", ":2: not a line of a key file"},
      {keys->secret_key, ":1: not a line of a key file"},
      {open + secret + std::string(5000, '\n'), "is not a key file"},
  };
  for (const auto& [text, sentence] : files) {
    write_secret(folder / "a", text);
    EXPECT_THAT(error_of(folder / "a"), HasSubstr(sentence)) << text;
    EXPECT_THAT(error_of(folder / "a"), Not(HasSubstr(keys->secret_key)));
  }
  write_secret(folder / "a", secret + "\n# a remark\n" + open);
  EXPECT_EQ(error_of(folder / "a"), "no error");
  EXPECT_THAT(error_of(folder.path()), HasSubstr("is not a key file"));
  EXPECT_THAT(error_of(folder / "missing"), HasSubstr("cannot read "));
}

TEST(PublicKey, IsNotReadFromAnythingElse) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_key_pair(folder / "a", *new_key_pair()).ok());
  const auto from_secret = read_public_key(folder / "a");
  ASSERT_FALSE(from_secret.ok());
  EXPECT_THAT(from_secret.error().message, HasSubstr("name a .pub file"));
  EXPECT_FALSE(read_public_key("not a key").ok());
}

}  // namespace
}  // namespace leeway::zmq
