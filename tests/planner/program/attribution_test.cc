#include "planner/program/attribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tideline {
namespace {

using Wait = BindingWait<int64_t>;
using Split = TimeSplit<int64_t>;

Split Charge(int64_t idle_begin, int64_t start, int64_t launch_end, const Wait& wait) {
  Split split;
  ChargeIdle<int64_t>(idle_begin, start, launch_end, {&wait, 1}, split);
  return split;
}

TEST(AttributionTest, LaunchIsHost) {
  // Idle 10..15, launched until 15, waits for nothing.
  EXPECT_EQ(Charge(10, 15, 15, {}), (Split{.host = 5}));
}

TEST(AttributionTest, LateLaunchBindsThoughATransferEndedOnTheWay) {
  // The collective ended at 14, the launch at 15: without the collective it would start at 15 too.
  EXPECT_EQ(Charge(10, 15, 15, {Wait::Kind::kTransfer, 8, 9, 14}), (Split{.host = 5}));
}

TEST(AttributionTest, TransferSplitsAtArrivals) {
  // Idle 10..30; own end ready at 12, the peer's at 18, over at 30: 2 stall, 6 bubble, 12 comm.
  EXPECT_EQ(Charge(10, 30, 11, {Wait::Kind::kTransfer, 12, 18, 30}),
            (Split{.exposed_comm = 12, .bubble = 6, .stall = 2}));
  // Everyone was there before the lane fell idle: all of it is exposed communication.
  EXPECT_EQ(Charge(10, 30, 11, {Wait::Kind::kTransfer, 5, 7, 30}), (Split{.exposed_comm = 20}));
  // Only the end of the bubble is within the idle interval.
  EXPECT_EQ(Charge(10, 30, 11, {Wait::Kind::kTransfer, 5, 20, 30}),
            (Split{.exposed_comm = 10, .bubble = 10}));
}

TEST(AttributionTest, WhatATransferWaitedForIsChargedToThat) {
  // A kernel waits 10..40 for an all-gather that this rank was at from 30, all ranks from 32, and
  // that was over at 40.
  const auto charge = [](const Wait& before) {
    const Wait causes[] = {{Wait::Kind::kTransfer, 30, 32, 40, 14}, before};
    Split split;
    ChargeIdle<int64_t>(10, 40, 11, causes, split);
    return split;
  };
  // The all-gather waited for a message, launched at 12, sent from 25 on, over at 30: host 10..12,
  // bubble 12..25, exposed 25..30; then bubble 30..32 and exposed 32..40.
  EXPECT_EQ(charge({Wait::Kind::kTransfer, 12, 25, 30, 12}),
            (Split{.host = 2, .exposed_comm = 5 + 8, .bubble = 13 + 2}));
  // The same, at hand before the lane fell idle.
  EXPECT_EQ(charge({Wait::Kind::kTransfer, 8, 25, 30, 3}),
            (Split{.exposed_comm = 5 + 8, .bubble = 15 + 2}));
  // It waited for something that is no transfer.
  EXPECT_EQ(charge({Wait::Kind::kOther, 0, 0, 30, 0}),
            (Split{.exposed_comm = 8, .bubble = 2, .stall = 20}));
  // The message was over at 13, before the all-gather's launch at 14: 10..14 is host, and why it
  // was at hand at 30 only, nobody knows.
  EXPECT_EQ(charge({Wait::Kind::kTransfer, 5, 6, 13, 1}),
            (Split{.host = 4, .exposed_comm = 8, .bubble = 2, .stall = 16}));
}

TEST(AttributionTest, AnythingElseIsStall) {
  EXPECT_EQ(Charge(10, 30, 11, {Wait::Kind::kOther, 0, 0, 30}), (Split{.stall = 20}));
  // Started later than launch and wait explain.
  EXPECT_EQ(Charge(10, 30, 12, {}), (Split{.host = 2, .stall = 18}));
  EXPECT_EQ(Charge(10, 30, 12, {Wait::Kind::kTransfer, 5, 7, 25}),
            (Split{.exposed_comm = 15, .stall = 5}));
}

TEST(AttributionTest, EmptyIntervalChargesNothing) {
  EXPECT_EQ(Charge(10, 10, 40, {Wait::Kind::kTransfer, 1, 2, 50}), Split());
  EXPECT_EQ(Charge(10, 9, 40, {}), Split());
}

TEST(AttributionTest, PartsAddUpToTheIntervalWhateverTheTimes) {
  std::mt19937_64 random(1);
  const auto draw = [&] { return static_cast<int64_t>(random() % 50); };
  for (int round = 0; round < 20000; ++round) {
    const int64_t begin = draw(), start = begin + draw();
    std::vector<Wait> causes(random() % 4);
    for (Wait& wait : causes) {
      wait = {static_cast<Wait::Kind>(random() % 3), draw(), draw(), draw(), draw()};
    }
    Split split;
    ChargeIdle<int64_t>(begin, start, draw(), causes, split);
    ASSERT_EQ(split.Total(), start - begin);
    ASSERT_GE(std::min({split.host, split.exposed_comm, split.bubble, split.stall}), 0);
    ASSERT_EQ(split.compute, 0);
  }
}

TEST(AttributionTest, WorksInSeconds) {
  TimeSplit<double> split;
  const BindingWait<double> wait{BindingWait<double>::Kind::kTransfer, 1.5, 1.75, 2.0, 1.0};
  ChargeIdle<double>(1.0, 2.0, 1.25, {&wait, 1}, split);
  EXPECT_EQ(split.stall, 0.5);
  EXPECT_EQ(split.bubble, 0.25);
  EXPECT_EQ(split.exposed_comm, 0.25);
}

}  // namespace
}  // namespace tideline
