#include "events/log_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "../../support/temporary_folder.h"
#include "events/event_log.h"
#include "events/log_part.h"

namespace leeway {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

#ifdef LEEWAY_ZSTD
const std::string kEnding = ".zst";
#else
const std::string kEnding;
#endif

constexpr int64_t kTiny = 200;  // bytes in a part

class LogFiles : public testing::Test {
 protected:
  // Writes these updates and leaves.
  void write(int64_t first, int64_t last, bool append = true) const {
    auto log = EventLog::open(log_, append, kTiny);
    ASSERT_TRUE(log.ok());
    for (int64_t n = first; n <= last; ++n) {
      ASSERT_TRUE(log->write(Event("update").add("update", n)).ok());
      ASSERT_TRUE(log->flush().ok());
    }
  }
  std::vector<int64_t> read() const {
    std::vector<int64_t> updates;
    const auto history = read_events(log_);
    EXPECT_TRUE(history.ok()) << history.error().message;
    for (const Event& event : history->events) updates.push_back(*event.integer("update"));
    return updates;
  }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
      names.insert(file.path().filename().string());
    }
    return names;
  }
  static std::vector<int64_t> up_to(int64_t last) {
    std::vector<int64_t> numbers;
    for (int64_t n = 1; n <= last; ++n) numbers.push_back(n);
    return numbers;
  }

  TemporaryFolder folder_;
  Path log_ = folder_ / "events.jsonl";
};

TEST_F(LogFiles, ALongLogIsKeptInPartsAndReadAsOne) {
  write(1, 40, /*append=*/false);
  EXPECT_THAT(files(), Contains("events.jsonl.1" + kEnding));
  EXPECT_THAT(files(), Contains("events.jsonl.2" + kEnding));
  EXPECT_LT(std::filesystem::file_size(log_), 200u);
  EXPECT_EQ(read(), up_to(40));
  write(41, 60);
  EXPECT_EQ(read(), up_to(60)) << "after a resume";
  write(1, 3, /*append=*/false);
  EXPECT_EQ(read(), up_to(3));
  EXPECT_THAT(files(), ElementsAre("events.jsonl"));
}

TEST_F(LogFiles, ACrashAtAnyPointLosesAndDoublesNothing) {
  write(1, 17, /*append=*/false);
  ASSERT_THAT(files(),
              ElementsAre("events.jsonl", "events.jsonl.1" + kEnding, "events.jsonl.2" + kEnding));
  // After the file that grew has become a part, before there is a new one.
  ASSERT_TRUE(close_part(log_).ok());
  EXPECT_EQ(read(), up_to(17));
  EXPECT_EQ(log_end(log_)->part, 4);
  // While the part is being compressed.
  std::ofstream(folder_ / "events.jsonl.3.zst.tmp-1-0") << "half";
  EXPECT_EQ(read(), up_to(17));
#ifdef LEEWAY_ZSTD
  // After that, before the part itself is removed.
  ASSERT_TRUE(pack(folder_ / "events.jsonl.3").ok());
  EXPECT_EQ(read(), up_to(17));
#endif
  write(18, 18);
  EXPECT_EQ(read(), up_to(18));
  EXPECT_THAT(files(), ElementsAre("events.jsonl", "events.jsonl.1" + kEnding,
                                   "events.jsonl.2" + kEnding, "events.jsonl.3" + kEnding));
}

TEST_F(LogFiles, APositionStaysValidWhenItsPartIsClosed) {
  std::vector<int64_t> seen;
  LogPosition position;
  const auto follow = [&] {
    const auto read = read_log(log_, position, {}, [&](const LogLine& line) -> Result<bool> {
      seen.push_back(*Event::parse(line.text)->integer("update"));
      EXPECT_EQ(line.number, (seen.back() - 1) % 7 + 1) << "seven lines to a part";
      return true;
    });
    ASSERT_TRUE(read.ok()) << read.error().message;
    position = read->end;
  };
  for (int64_t n = 1; n <= 40; ++n) {
    write(n, n, /*append=*/n > 1);
    if (n % 3 == 0) follow();
  }
  follow();
  EXPECT_EQ(seen, up_to(40));
}

TEST_F(LogFiles, ReadingCanStop) {
  write(1, 20, /*append=*/false);
  int64_t lines = 0;
  const auto read =
      read_log(log_, {}, {}, [&](const LogLine&) -> Result<bool> { return ++lines < 9; });
  EXPECT_EQ(lines, 9);
  EXPECT_EQ(read->end.part, 2);
  EXPECT_EQ(read->end.lines, 2);
}

TEST_F(LogFiles, ErrorsNameTheFile) {
  write(1, 40, /*append=*/false);
  std::filesystem::remove(folder_ / ("events.jsonl.2" + kEnding));
  EXPECT_THAT(read_events(log_).error().message, HasSubstr("events.jsonl.2 is missing"));
  std::ofstream(folder_ / "events.jsonl.2") << "{\"event\":\"a\"}\nrubbish\n";
  EXPECT_THAT(read_events(log_).error().message, HasSubstr("events.jsonl.2:2 is not an event"));
#ifdef LEEWAY_ZSTD
  std::filesystem::remove(folder_ / "events.jsonl.2");
  std::ofstream(folder_ / "events.jsonl.2.zst") << "rubbish";
  EXPECT_THAT(read_events(log_).error().message, HasSubstr("cannot unpack"));
#endif
}

TEST_F(LogFiles, OtherFilesAreNotParts) {
  write(1, 1, /*append=*/false);
  for (const char* name : {"events.jsonl.bak", "events.jsonl.1.gz", "events.jsonl.0"}) {
    std::ofstream(folder_ / name) << "rubbish";
  }
  EXPECT_EQ(read(), up_to(1));
  EXPECT_FALSE(log_end(folder_ / "other.jsonl"));
}

}  // namespace
}  // namespace leeway
