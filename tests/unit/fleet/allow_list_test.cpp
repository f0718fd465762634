#include "fleet/allow_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "../../support/temporary_folder.h"

namespace leeway {
namespace {

using testing::HasSubstr;

const std::string kFirst = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";
const std::string kSecond = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";
const std::string kThird = "0#" + std::string(38, '0');

std::string error_of(const std::string& text) {
  const auto list = AllowList::parse(text, "machines.txt");
  if (list.ok()) return "no error";
  EXPECT_EQ(list.error().kind, ErrorKind::kUsage);
  return list.error().message;
}

TEST(AllowList, KnowsMachinesByTheirKeys) {
  const auto list = AllowList::parse(
      "# our machines\n\n  berlin " + kFirst + "\r\nparis\t" + kSecond + "  # in the hall",
      "machines.txt");
  ASSERT_TRUE(list.ok()) << list.error().message;
  ASSERT_EQ(list->machines().size(), 2U);
  const AllowedMachine* berlin = list->find(kFirst);
  ASSERT_NE(berlin, nullptr);
  EXPECT_EQ(berlin->name, "berlin");
  EXPECT_EQ(berlin->key, kFirst);
  EXPECT_EQ(berlin->line, 3);
  ASSERT_NE(list->find(kSecond), nullptr);
  EXPECT_EQ(list->find(kSecond)->name, "paris");
  EXPECT_EQ(list->find(kThird), nullptr);
  EXPECT_EQ(list->find(""), nullptr);
}

TEST(AllowList, TakesRemarks) {
  EXPECT_EQ(error_of("a " + kFirst + " #and why\n#b\n  # c d e f\n"), "no error");
  EXPECT_NE(AllowList::parse("a " + kThird + " # a remark", "x")->find(kThird), nullptr);
  EXPECT_THAT(error_of("a # " + kFirst), HasSubstr("machines.txt:1: not a machine"));
  EXPECT_EQ(error_of("a " + kFirst.substr(1)),
            "machines.txt:1: the second word is not a public key; copy the 40 characters that "
            "`leeway keys show` prints");
}

TEST(AllowList, MayBeEmpty) {
  EXPECT_TRUE(AllowList::parse("", "x")->machines().empty());
  EXPECT_TRUE(AllowList::parse("\n\n# nobody\n", "x")->machines().empty());
}

TEST(AllowList, NamesTheLineOfAMistake) {
  EXPECT_EQ(error_of("\nberlin"), "machines.txt:2: not a machine; write NAME PUBLIC_KEY");
  EXPECT_EQ(
      error_of("a " + kFirst + " watch"),
      "machines.txt:1: there are no roles, so watch has no meaning: every machine of the list "
      "may train; write NAME PUBLIC_KEY, and a remark after #");
  for (const std::string name : {"a/b", "../a", ".a", "\xc3\xbc"})
    EXPECT_THAT(error_of(name + " " + kFirst), HasSubstr("machines.txt:1: the name of a machine"));
  EXPECT_THAT(error_of(std::string(65, 'a') + " " + kFirst), HasSubstr("up to 64 letters"));
  EXPECT_EQ(error_of(std::string(64, 'a') + " " + kFirst), "no error");
}

TEST(AllowList, HasEachNameAndEachKeyOnce) {
  EXPECT_EQ(error_of("a " + kFirst + "\n\na " + kSecond),
            "machines.txt:3: line 1 has the name a too; give each machine its own");
  EXPECT_EQ(error_of("# x\na " + kFirst + "\nb " + kFirst),
            "machines.txt:3: line 2 has the same key; make one for each machine with `leeway keys "
            "new`");
}

TEST(AllowList, HasALimit) {
  EXPECT_EQ(error_of(std::string(100'000, '\n')), "no error");
  EXPECT_THAT(error_of(std::string(100'001, '\n')), HasSubstr("is no list of machines"));
  EXPECT_EQ(error_of("#" + std::string((1 << 20) - 1, 'x')), "no error");
  EXPECT_THAT(error_of("#" + std::string(1 << 20, 'x')), HasSubstr("is no list of machines"));
}

TEST(AllowList, IsReadFromAFile) {
  const TemporaryFolder folder;
  std::ofstream(folder / "list") << "a " << kFirst << "\n";
  EXPECT_EQ(AllowList::read(folder / "list")->machines().size(), 1U);
  std::ofstream(folder / "list") << std::string((1 << 20) + 1, '\n');
  EXPECT_THAT(AllowList::read(folder / "list").error().message, HasSubstr("is no list"));
  const auto missing = AllowList::read(folder / "missing");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace leeway
