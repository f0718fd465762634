#include "drivers/loop/mailbox.h"

#include <gtest/gtest.h>

#include <chrono>

namespace leeway {
namespace {

Message numbered(int64_t index) {
  Message message;
  message.index = index;
  return message;
}

TEST(Mailbox, AReadersPatienceEnds) {
  Mailbox mailbox;
  EXPECT_TRUE(mailbox.take(/*wait=*/true, std::chrono::milliseconds(1)).empty());
  mailbox.put(numbered(3));
  EXPECT_EQ(mailbox.take(/*wait=*/true, std::chrono::milliseconds(1)).size(), 1U);
}

TEST(Mailbox, AReminderComesWithinAReadersPatience) {
  Mailbox mailbox;
  mailbox.put_after(Nanos{1000}, numbered(7));
  const auto messages = mailbox.take(/*wait=*/true, std::chrono::minutes(1));
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].index, 7);
}

}  // namespace
}  // namespace leeway
