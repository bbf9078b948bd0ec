// JSON form of protobuf messages, by reflection, stricter than protobuf's own: keys are the field
// names of the schema, 64-bit integers are numbers, every scalar field is written, unknown and
// repeated keys are errors, and each error names the path of the field ("stages[2].blocks").
#ifndef TIDELINE_PLANNER_PLAN_MESSAGE_JSON_H_
#define TIDELINE_PLANNER_PLAN_MESSAGE_JSON_H_

#include <string>
#include <string_view>

#include "base/status.h"

namespace google::protobuf {
class Message;
}

namespace tideline {

// Two-space indented, fields in the order of the schema, shortest round-trip reals, lists of
// scalars on one line; ends in a newline. Precondition: reals are finite.
std::string MessageToJson(const google::protobuf::Message& message);

// Replaces `message` by what `text` holds; absent keys stay unset. `where` names the source.
// Errors (exit 5): not JSON, nested deeper than 32, unknown or repeated key (the nearest valid one
// is named), a value of another type or out of range.
Status MessageFromJson(std::string_view text, const std::string& where,
                       google::protobuf::Message* message);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PLAN_MESSAGE_JSON_H_
