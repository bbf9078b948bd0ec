#include "exec/worker/frame_sink.h"

namespace tideline {
namespace {

constexpr size_t kBlock = 4096;  // events or samples per frame

}  // namespace

void FrameSink::Write(FrameType type, std::string_view payload) {
  if (!status_.ok()) return;
  status_ = WriteFrame(descriptor_, type, payload);
}

uint32_t FrameSink::Intern(std::string_view name) {
  Write(FrameType::kName, name);
  return names_++;
}

void FrameSink::DeclareLane(int32_t rank, uint16_t lane, std::string_view name) {
  Write(FrameType::kLane, EncodeLane({rank, lane, std::string(name)}));
}

void FrameSink::Add(const RunEvent& event) {
  events_.push_back(event);
  if (events_.size() < kBlock) return;
  Write(FrameType::kEvents, EncodeEvents(events_));
  events_.clear();
}

void FrameSink::Add(const MemorySample& sample) {
  samples_.push_back(sample);
  if (samples_.size() < kBlock) return;
  Write(FrameType::kSamples, EncodeSamples(samples_));
  samples_.clear();
}

void FrameSink::OnStep(const StepResult& result) { Write(FrameType::kStep, EncodeStep(result)); }

void FrameSink::OnNote(std::string_view text) { Write(FrameType::kNote, text); }

Status FrameSink::Flush() {
  if (!events_.empty()) Write(FrameType::kEvents, EncodeEvents(events_));
  if (!samples_.empty()) Write(FrameType::kSamples, EncodeSamples(samples_));
  events_.clear();
  samples_.clear();
  return status_;
}

}  // namespace tideline
