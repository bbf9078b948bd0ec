#include "exec/data/open_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "exec/data/image_source.h"
#include "exec/data/token_source.h"

namespace tideline {

StatusOr<std::unique_ptr<const SampleSource>> OpenSamples(const Program& program,
                                                          const std::string& data,
                                                          int64_t classes) {
  for (const HostTask& task : program.host_tasks) {
    if (task.kind != HostTaskKind::kLoadImages) continue;
    if (!data.empty()) {
      return UsageError(absl::StrCat("--data ", data,
                                     ": the model takes images, and files of images are not read; "
                                     "leave --data out, and generated images are used"));
    }
    if (classes < 1) return InputError("program: it loads images, but no kernel has classes");
    return std::make_unique<const ImageSource>(program.seed, task.image, classes,
                                               program.global_batch);
  }
  TL_ASSIGN_OR_RETURN(TokenSource tokens,
                      TokenSource::Open(data, program.sequence, program.global_batch));
  return std::make_unique<const TokenSource>(std::move(tokens));
}

}  // namespace tideline
