#include "cli/names.h"

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "models/cluster/catalogue.h"
#include "models/zoo/zoo.h"

namespace tideline {

HelpSection ModelSection() {
  return {
      .title = "Models",
      .rows = {{"a name of the zoo", absl::StrCat(JoinNames(ZooNames()), ".")},
               {"gpt:layers=,hidden=,heads=",
                "Sizes of your own, as GPT-2 is built. Also vocab= (50257), positions= (1024, or "
                "--seq), ffn= (4 x hidden), kv_heads=, head_dim=, activation= (gelu, relu, "
                "swiglu), norm= (layer_norm, rms_norm), dropout= (0)."},
               {"llama:layers=,hidden=,heads=",
                "The same keys, as LLaMA is built: vocab 32000, positions 2048, ffn 8/3 x hidden, "
                "swiglu, rms_norm, rotary positions."},
               {"resnet50:image=64,classes=10",
                "A published convolutional network at other sizes. Also channels=, width=, stem= "
                "(standard, small)."},
               {"resnet:blocks=2-2-2",
                "One of your own, by the blocks of each stage. Also block= (basic, bottleneck), "
                "width= (64), stem=, image= (224), channels= (3), classes= (1000); densenet: the "
                "same, with growth= (32) for block=."},
               {"path/to/config.json", "A Hugging Face configuration of GPT-2, OPT or LLaMA."}}};
}

HelpSection ClusterSection() {
  HelpSection section{.title = "Clusters", .rows = {}};
  for (const CatalogueEntry& entry : Catalogue()) {
    section.rows.emplace_back(
        entry.name, absl::StrCat(entry.sentence,
                                 entry.device.calibrated ? "; calibrated." : "; not calibrated."));
  }
  section.rows.emplace_back("emulated:4x256MiB",
                            "Four emulated GPUs of 256 MiB on this machine; not calibrated.");
  section.rows.emplace_back("4x NAME", "Four such nodes.");
  section.rows.emplace_back(
      "NAME{gpus=1,memory=32GiB}",
      "Changes a node: gpus, memory (of a GPU), host_memory, host_cores, nics, nic_bandwidth (of "
      "one, as 200Gb/s), nvlink_bandwidth (per direction, as 300GB/s).");
  section.rows.emplace_back("path/to/cluster.json", "Machines of your own: docs/reference.md.");
  return section;
}

HelpSection PinSection() {
  return {.title = "Pins",
          .rows = {{"dp=N, pp=N, tp=N",
                    "Data, pipeline and tensor parallelism; dp x pp x tp is the number of GPUs. "
                    "Convolutional "
                    "networks have tp=1."},
                   {"micro_batch=N",
                    "Sequences or images that a replica takes through the model at once."},
                   {"zero=0..3",
                    "What is cut over the replicas: optimizer state (1), also "
                    "gradients (2), also parameters (3)."},
                   {"reduce=once|each_micro_batch",
                    "When gradients are reduced; with zero 2 and 3 the latter keeps only a cut "
                    "one, for more communication."},
                   {"recompute=WHAT", "none, selective (attention's inner part), full (layers)."},
                   {"attention=FORM", "unfused (default), fused (no probabilities in memory)."},
                   {"schedule=ORDER", "gpipe, 1f1b or interleaved."},
                   {"chunks=N", "Parts of the model on each stage; above 1 with interleaved."},
                   {"sequence_parallel=0|1",
                    "Cut activations along the sequence between the "
                    "tensor-parallel regions."},
                   {"bucket=SIZE", "Gradients that are reduced together, as 25MiB."},
                   {"dtype=TYPE", "bf16, fp16 or fp32."},
                   {"grad_dtype=TYPE", "In which gradients are summed; fp32 unless given."},
                   {"offload=none", "Nothing is kept outside the GPU; no other value so far."}}};
}

}  // namespace tideline
