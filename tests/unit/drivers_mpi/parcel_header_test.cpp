#include "drivers/mpi/parcel_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace leeway::mpi {
namespace {

using testing::HasSubstr;

constexpr HeaderPlace kPlace = {.from = 2, .to = 0, .traffic = TrafficClass::kAveraging};

ParcelHeader good_header() {
  return header_of({.from = guest_of(2),
                    .to = kHost,
                    .parcel = {.kind = Parcel::Kind::kFleet,
                               .traffic = TrafficClass::kAveraging,
                               .session = 9,
                               .bytes = std::vector<std::byte>(5)}});
}

std::string complaint(const ParcelHeader& header) {
  const auto addressed = addressed_by(header, kPlace);
  return addressed.ok() ? "" : addressed.error().message;
}

TEST(ParcelHeader, RankZeroHasTheHostBesidesItsGuest) {
  EXPECT_EQ(rank_of(kHost), 0);
  EXPECT_EQ(rank_of(guest_of(0)), 0);
  EXPECT_EQ(rank_of(guest_of(3)), 3);
  EXPECT_EQ(guest_of(0), ProcessId{1});
}

TEST(ParcelHeader, SaysAllAboutAParcelButItsBytes) {
  const auto addressed = addressed_by(good_header(), kPlace);
  ASSERT_TRUE(addressed.ok());
  EXPECT_EQ(addressed->from, guest_of(2));
  EXPECT_EQ(addressed->to, kHost);
  EXPECT_EQ(addressed->parcel.kind, Parcel::Kind::kFleet);
  EXPECT_EQ(addressed->parcel.traffic, TrafficClass::kAveraging);
  EXPECT_EQ(addressed->parcel.session, 9);
  EXPECT_EQ(addressed->parcel.bytes.size(), 5u);
}

TEST(ParcelHeader, WhatDoesNotFitIsRefused) {
  const auto changed = [](auto change) {
    ParcelHeader header = good_header();
    change(header);
    return complaint(header);
  };
  EXPECT_THAT(changed([](auto& header) { header.from = 2; }), HasSubstr("the sender 2;"));
  EXPECT_THAT(changed([](auto& header) { header.from = -1; }), HasSubstr("the sender -1;"));
  EXPECT_THAT(changed([](auto& header) { header.to = 2; }), HasSubstr("the receiver 2;"));
  EXPECT_THAT(changed([](auto& header) { header.kind = 2; }), HasSubstr("the kind 2;"));
  EXPECT_THAT(changed([](auto& header) { header.traffic = 1; }), HasSubstr("the class 1;"));
  EXPECT_THAT(changed([](auto& header) { header.bytes = -1; }), HasSubstr("the size -1;"));
  EXPECT_THAT(changed([](auto& header) { header.bytes = kParcelBytesMax + 1; }),
              HasSubstr("rank 0 got a parcel from rank 2 with the size 1099511627777; start"));
}

}  // namespace
}  // namespace leeway::mpi
