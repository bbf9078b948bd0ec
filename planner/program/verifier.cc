#include "planner/program/verifier.h"

#include "base/text.h"
#include "planner/program/message.h"
#include "planner/program/verify_communication.h"
#include "planner/program/verify_memory.h"
#include "planner/program/verify_registers.h"
#include "planner/program/verify_structure.h"

namespace tideline {
namespace {

Status VerifyCapacity(const Program& program, const VerifyOptions& options) {
  for (const Role& role : program.roles) {
    for (const Space space : {Space::kDevice, Space::kPinnedHost}) {
      const size_t index = static_cast<size_t>(space);
      if (role.extent[index] <= options.capacity[index]) continue;
      return InternalError(Message("role ", Quoted(role.name), " needs ", role.extent[index],
                                   " bytes of ", Name(space), " memory, the capacity is ",
                                   options.capacity[index]));
    }
  }
  return absl::OkStatus();
}

Status VerifyAll(const Program& program, const VerifyOptions& options) {
  TL_RETURN_IF_ERROR(VerifyStructure(program));
  TL_RETURN_IF_ERROR(VerifyRegisterUse(program));
  for (uint32_t role = 0; role < program.roles.size(); ++role) {
    TL_RETURN_IF_ERROR(VerifyMemory(program, role));
  }
  TL_RETURN_IF_ERROR(VerifyCommunication(program));
  return VerifyCapacity(program, options);
}

}  // namespace

Status Verify(const Program& program, const VerifyOptions& options) {
  Status status = VerifyAll(program, options);
  if (status.ok() || options.after_pass.empty()) return status;
  return Annotate(status, Message("after pass ", options.after_pass));
}

}  // namespace tideline
