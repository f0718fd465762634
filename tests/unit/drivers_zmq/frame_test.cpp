#include "drivers/zmq/frame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

namespace leeway::zmq {
namespace {

std::vector<std::byte> content(size_t bytes) { return std::vector<std::byte>(bytes, std::byte{7}); }

FrameHeader data_header(size_t bytes) {
  return {.kind = FrameKind::kData,
          .traffic = 2,
          .parcel_kind = 1,
          .gap = 1,
          .from = {3},
          .generation = 11,
          .peer_generation = 12,
          .received = {1, 2, 3},
          .sent_at = 4,
          .echo = 5,
          .session = 6,
          .sequence = 7,
          .offset = 1000,
          .parcel_bytes = 5000,
          .length = bytes};
}

Result<FrameHeader> open(const FrameHeader& header, std::span<const std::byte> fragment) {
  return open_frame(std::as_bytes(std::span(&header, 1)), fragment);
}

// Changed first and sealed then: only the check of that field can object.
std::string error_of(const std::function<void(FrameHeader&)>& change, size_t bytes = 100) {
  FrameHeader header = data_header(bytes);
  change(header);
  const std::vector<std::byte> fragment = content(bytes);
  seal(header, fragment);
  const Result<FrameHeader> opened = open(header, fragment);
  return opened.ok() ? "" : opened.error().message;
}

TEST(Frame, OpensAsItWasSealed) {
  FrameHeader header = data_header(100);
  seal(header, content(100));
  const Result<FrameHeader> opened = open(header, content(100));
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(std::memcmp(&*opened, &header, sizeof header), 0);
}

TEST(Frame, EveryKindButDataHasNoContent) {
  for (int kind = 0; kind < kFrameKinds; ++kind) {
    const auto set = [&](FrameHeader& header) { header.kind = static_cast<FrameKind>(kind); };
    const bool is_data = static_cast<FrameKind>(kind) == FrameKind::kData;
    EXPECT_EQ(error_of(set), is_data ? "" : "a frame has content that its kind does not have");
    EXPECT_EQ(error_of(set, 0), is_data ? "a frame without content" : "");
  }
}

TEST(Frame, EachFieldIsChecked) {
  using Header = FrameHeader;
  EXPECT_EQ(error_of([](Header&) {}), "");
  EXPECT_EQ(error_of([](Header& header) { header.kind = static_cast<FrameKind>(5); }),
            "a frame has an unknown kind");
  EXPECT_EQ(error_of([](Header& header) { header.traffic = kTrafficClasses; }),
            "a frame has an unknown class");
  EXPECT_EQ(error_of([](Header& header) { header.parcel_kind = kParcelKinds; }),
            "a frame has an unknown kind of parcel");
  EXPECT_EQ(error_of([](Header& header) { header.gap = 2; }), "a frame has an unknown mark");
  EXPECT_EQ(error_of([](Header& header) { header.from = {-1}; }), "a frame has a negative sender");
  EXPECT_EQ(error_of([](Header& header) { header.generation = 0; }), "a frame has no generation");
  EXPECT_EQ(error_of([](Header& header) { header.sent_at = -1; }), "a frame has a negative time");
  EXPECT_EQ(error_of([](Header& header) { header.echo = -1; }), "a frame has a negative time");
  EXPECT_EQ(error_of([](Header& header) { header.session = -1; }),
            "a frame has a negative session");
  EXPECT_EQ(error_of([](Header& header) { header.parcel_bytes = kParcelBytesMax + 1; }),
            "a frame is of a parcel that is too large");
  EXPECT_EQ(error_of([](Header& header) { header.parcel_bytes = kParcelBytesMax; }), "");
  EXPECT_EQ(error_of([](Header& header) { header.length = 99; }),
            "a frame is not as long as it says");
  EXPECT_EQ(error_of([](Header& header) { header.length = 101; }),
            "a frame is not as long as it says");
  EXPECT_EQ(error_of([](Header& header) { header.offset = 4900; }), "");
  EXPECT_EQ(error_of([](Header& header) { header.offset = 4901; }),
            "a frame lies outside its parcel");
  EXPECT_EQ(error_of([](Header& header) { header.offset = ~uint64_t{0}; }),
            "a frame lies outside its parcel");
  EXPECT_EQ(error_of([](Header&) {}, 0), "a frame without content");
  EXPECT_EQ(error_of([](Header& header) { header.offset = header.parcel_bytes = 0; }, 0), "");
}

TEST(Frame, AFragmentHasALargestSize) {
  const auto large = [](FrameHeader& header) { header.parcel_bytes = kParcelBytesMax; };
  EXPECT_EQ(error_of(large, kFragmentBytes), "");
  EXPECT_EQ(error_of(large, kFragmentBytes + 1), "a frame is too large");
}

TEST(Frame, EveryBitOfHeaderAndFragmentIsHashed) {
  FrameHeader header = data_header(100);
  std::vector<std::byte> fragment = content(100);
  seal(header, fragment);
  for (size_t at = 0; at < sizeof header; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      FrameHeader damaged = header;
      reinterpret_cast<std::byte*>(&damaged)[at] ^= std::byte{1} << bit;
      EXPECT_FALSE(open(damaged, fragment).ok()) << "byte " << at << ", bit " << bit;
    }
  }
  for (std::byte& byte : fragment) {
    byte ^= std::byte{16};
    const Result<FrameHeader> opened = open(header, fragment);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().message, "a frame is damaged");
    byte ^= std::byte{16};
  }
}

TEST(Frame, OneThatIsCutShortIsRefused) {
  FrameHeader header = data_header(100);
  const std::vector<std::byte> fragment = content(100);
  seal(header, fragment);
  const auto bytes = std::as_bytes(std::span(&header, 1));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(open_frame(bytes.first(size), fragment).ok()) << size;
  }
  for (size_t size = 0; size < fragment.size(); ++size) {
    EXPECT_FALSE(open_frame(bytes, std::span(fragment).first(size)).ok()) << size;
  }
}

TEST(Frame, ItsBytesOnTheLineIncludeWhatZeroMqAdds) {
  constexpr auto kHeader = static_cast<int64_t>(sizeof(FrameHeader));
  EXPECT_EQ(bytes_on_line(0, false), kHeader + 2);
  EXPECT_EQ(bytes_on_line(255, false), kHeader + 2 + 255 + 2);
  EXPECT_EQ(bytes_on_line(256, false), kHeader + 2 + 256 + 9);
  EXPECT_EQ(bytes_on_line(256, true), kHeader + 33 + 2 + 256 + 33 + 9);
}

}  // namespace
}  // namespace leeway::zmq
