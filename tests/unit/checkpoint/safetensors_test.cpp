#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "../../support/file_size_limit.h"
#include "../../support/temporary_folder.h"

namespace leeway {
namespace {

using testing::HasSubstr;

TensorFile example() {
  TensorFile file;
  file.tensors.push_back({"zeta", at::arange(6, at::kFloat).reshape({2, 3})});
  file.tensors.push_back({"bytes", at::arange(3, at::kByte)});
  file.tensors.push_back({"alpha", at::arange(4, at::kDouble)});
  file.metadata = {{"format", "pt"}, {"note", "a \"quoted\"\nline"}};
  return file;
}

// Writes a file with this header and this many bytes of data, whether they match or not.
Path write_raw(const TemporaryFolder& folder, const std::string& header, size_t data_bytes) {
  std::string bytes(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  const Path path = folder / "raw.safetensors";
  EXPECT_TRUE(write_atomically(path, bytes + header + std::string(data_bytes, 'x')).ok());
  return path;
}

std::string error_of_raw(const std::string& header, size_t data_bytes) {
  const TemporaryFolder folder;
  const auto file = read_safetensors(write_raw(folder, header, data_bytes));
  return file.ok() ? "no error" : file.error().message;
}

TEST(Safetensors, KeepsOrderValuesAndMetadata) {
  const TemporaryFolder folder;
  const TensorFile written = example();
  ASSERT_TRUE(write_safetensors(folder / "a", written).ok());
  const auto read = read_safetensors(folder / "a");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->metadata, written.metadata);
  ASSERT_EQ(read->tensors.size(), written.tensors.size());
  for (size_t i = 0; i < written.tensors.size(); ++i) {
    EXPECT_EQ(read->tensors[i].name, written.tensors[i].name);
    EXPECT_TRUE(at::equal(read->tensors[i].tensor, written.tensors[i].tensor));
  }
}

TEST(Safetensors, StoresEveryDtypeBitForBit) {
  const TemporaryFolder folder;
  TensorFile written;
  for (const auto dtype :
       {at::kByte, at::kDouble, at::kFloat, at::kBFloat16, at::kHalf, at::kLong, at::kInt}) {
    written.tensors.push_back({c10::toString(dtype), at::arange(-3, 4, at::kDouble).to(dtype)});
  }
  ASSERT_TRUE(write_safetensors(folder / "a", written).ok());
  const auto read = read_safetensors(folder / "a");
  ASSERT_TRUE(read.ok()) << read.error().message;
  for (size_t i = 0; i < written.tensors.size(); ++i) {
    EXPECT_EQ(read->tensors[i].tensor.scalar_type(), written.tensors[i].tensor.scalar_type());
    EXPECT_TRUE(at::equal(read->tensors[i].tensor, written.tensors[i].tensor));
  }
}

TEST(Safetensors, StoresScalarsEmptyTensorsAndViews) {
  const TemporaryFolder folder;
  const at::Tensor matrix = at::arange(12, at::kFloat).reshape({3, 4});
  TensorFile written;
  written.tensors = {{"scalar", at::scalar_tensor(2.5)},
                     {"empty", at::empty({0, 7})},
                     {"transposed", matrix.t()},
                     {"column", matrix.select(1, 2)}};
  ASSERT_TRUE(write_safetensors(folder / "a", written).ok());
  const auto read = read_safetensors(folder / "a");
  ASSERT_TRUE(read.ok()) << read.error().message;
  for (size_t i = 0; i < written.tensors.size(); ++i) {
    EXPECT_EQ(read->tensors[i].tensor.sizes(), written.tensors[i].tensor.sizes());
    EXPECT_TRUE(at::equal(read->tensors[i].tensor, written.tensors[i].tensor));
  }
}

TEST(Safetensors, TensorsOutliveTheFile) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_safetensors(folder / "a", example()).ok());
  const auto read = read_safetensors(folder / "a");
  ASSERT_TRUE(read.ok());
  ASSERT_TRUE(write_atomically(folder / "a", "gone").ok());
  EXPECT_TRUE(at::equal(read->tensors[0].tensor, example().tensors[0].tensor));
}

TEST(Safetensors, FileCutInHalfNamesBothSizes) {
  const TemporaryFolder folder;
  const Path path = folder / "model.safetensors";
  TensorFile file;
  file.tensors.push_back({"w", at::zeros({1000})});
  ASSERT_TRUE(write_safetensors(path, file).ok());
  const auto whole = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, whole / 2);
  const auto read = read_safetensors(path);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().message, path.string() + " is cut short: header promises " +
                                      std::to_string(whole) + " bytes, file has " +
                                      std::to_string(whole / 2) + "; use an earlier checkpoint");
}

TEST(Safetensors, CutInsideTheHeader) {
  const TemporaryFolder folder;
  const Path path = folder / "a";
  ASSERT_TRUE(write_safetensors(path, example()).ok());
  for (const uintmax_t size : {20U, 8U, 3U, 0U}) {
    std::filesystem::resize_file(path, size);
    const auto read = read_safetensors(path);
    ASSERT_FALSE(read.ok());
    EXPECT_THAT(read.error().message, HasSubstr("is cut short"));
  }
}

TEST(Safetensors, RejectsWhatIsNotASafetensorsFile) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_atomically(folder / "a", "Once upon a time there was a text.").ok());
  const auto read = read_safetensors(folder / "a");
  ASSERT_FALSE(read.ok());
  EXPECT_THAT(read.error().message, HasSubstr("does not start with a valid header length"));
}

TEST(Safetensors, RejectsInvalidHeaders) {
  const auto entry = [](const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
    return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}";
  };
  const std::string f32 = entry("F32", "[2]", "[0,8]");
  EXPECT_THAT(error_of_raw("{oops", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(error_of_raw("[1]", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(error_of_raw(R"({"a":)" + f32 + R"(,"a":)" + f32 + "}", 8),
              HasSubstr("unique names"));
  EXPECT_THAT(error_of_raw(R"({"a":7})", 0), HasSubstr("'a' lacks a valid dtype"));
  EXPECT_THAT(error_of_raw(R"({"a":)" + entry("F8", "[2]", "[0,2]") + "}", 2),
              HasSubstr("has dtype F8"));
  EXPECT_THAT(error_of_raw(R"({"a":)" + entry("F32", "[-2]", "[0,8]") + "}", 8),
              HasSubstr("lacks a valid dtype, shape"));
  EXPECT_THAT(error_of_raw(R"({"a":)" + entry("F32", "[3]", "[0,8]") + "}", 8),
              HasSubstr("does not match its size in bytes"));
  EXPECT_THAT(error_of_raw(R"({"a":)" + entry("F32", "[2]", "[8,0]") + "}", 8),
              HasSubstr("does not match its size in bytes"));
  EXPECT_THAT(error_of_raw(R"({"a":)" + f32 + R"(,"b":)" + entry("F32", "[2]", "[4,12]") + "}", 12),
              HasSubstr("'b' overlaps"));
  EXPECT_THAT(
      error_of_raw(R"({"a":)" + f32 + R"(,"b":)" + entry("F32", "[2]", "[12,20]") + "}", 20),
      HasSubstr("'b' leaves a gap"));
  EXPECT_THAT(error_of_raw(R"({"a":)" + f32 + "}", 9), HasSubstr("1 bytes follow"));
  EXPECT_THAT(error_of_raw(R"({"__metadata__":{"a":1}})", 0), HasSubstr("'a' is not a string"));
  EXPECT_THAT(error_of_raw(R"({"__metadata__":3})", 0), HasSubstr("metadata is not an object"));
  EXPECT_EQ(error_of_raw(R"({"a":)" + f32 + "}", 8), "no error");
}

TEST(Safetensors, HugeShapesDoNotOverflow) {
  // 2^32 * 2^32 elements are 0 modulo 2^64: the product must be checked for overflow.
  const std::string wrapped =
      R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})";
  EXPECT_THAT(error_of_raw(wrapped, 0), HasSubstr("does not match its size in bytes"));
  const std::string hidden_by_zero =
      R"({"a":{"dtype":"U8","shape":[4611686018427387904,4611686018427387904,0],)"
      R"("data_offsets":[0,0]}})";
  EXPECT_THAT(error_of_raw(hidden_by_zero, 0), HasSubstr("does not match its size in bytes"));
}

TEST(Safetensors, MissingFileIsOneSentence) {
  const auto read = read_safetensors("no/such/file");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().message,
            "cannot read no/such/file: No such file or directory (check the path)");
}

TEST(Safetensors, FailedWriteKeepsTheOldFile) {
  const TemporaryFolder folder;
  const Path path = folder / "a";
  ASSERT_TRUE(write_safetensors(path, example()).ok());
  TensorFile large;
  large.tensors.push_back({"w", at::zeros({100'000})});
  {
    const FileSizeLimit limit(4096);
    const Status status = write_safetensors(path, large);
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.error().message, HasSubstr("cannot write " + path.string()));
  }
  EXPECT_EQ(folder.entry_count(), 1u);
  EXPECT_TRUE(read_safetensors(path).ok());
}

TEST(SafetensorsDeath, TwoTensorsWithOneNameAreABug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // LibTorch has started threads by now
  const TemporaryFolder folder;
  TensorFile file;
  file.tensors = {{"w", at::zeros({1})}, {"w", at::zeros({1})}};
  EXPECT_DEATH(static_cast<void>(write_safetensors(folder / "a", file)),
               "two tensors have the name w");
}

}  // namespace
}  // namespace leeway
