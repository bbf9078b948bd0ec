#include "tests/reference/reference_trainer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "tests/reference/attention.h"
#include "tests/reference/layers.h"
#include "tests/reference/parameters.h"

namespace tideline::reference {

Batch ReferenceBatch(std::string_view text, int64_t sequence, int64_t global_batch, int64_t step) {
  const int64_t count = (static_cast<int64_t>(text.size()) - 1) / sequence;
  TL_CHECK(count > 0, "the text must hold at least one sequence and the byte after it");
  Batch batch;
  for (int64_t sample = 0; sample < global_batch; ++sample) {
    const int64_t begin = (step * global_batch + sample) % count * sequence;
    for (int64_t i = 0; i < sequence; ++i) {
      batch.ids.push_back(static_cast<unsigned char>(text[begin + i]));
      batch.targets.push_back(static_cast<unsigned char>(text[begin + i + 1]));
    }
  }
  return batch;
}

namespace {

// y = x W + b.
struct LinearUse {
  Use weight;
  Use bias;
  int64_t inner = 0;
  int64_t columns = 0;
};

struct NormUse {
  Use gamma;
  Use beta;
};

struct LayerUses {
  NormUse attention_norm;
  std::vector<LinearUse> qkv;  // three, or one fused whose parts are [3, hidden, hidden]
  LinearUse attention_output;
  NormUse mlp_norm;
  LinearUse gate;  // SwiGLU only
  LinearUse up;
  LinearUse down;
};

// What backward needs of one norm and of one layer.
template <class Real>
struct NormCache {
  Array<Real> input, output, mean, scale;
};

template <class Real>
struct LayerCache {
  NormCache<Real> attention_norm, mlp_norm;
  Array<Real> q, k, v, probabilities, context;  // q and k after rotation
  Array<Real> gate, up, activated;
};

}  // namespace

template <class Real>
class ReferenceTrainer<Real>::Model {
 public:
  Model(const DecoderConfig& config, const ReferenceOptions& options)
      : config_(config), options_(options) {
    norm_.centred = config.norm == NormKind::kLayerNorm;
    norm_.epsilon = static_cast<float>(config.norm_epsilon);
    norm_.width = config.hidden;
    if (options_.micro_batch == 0) {
      options_.micro_batch = options_.global_batch / options_.replicas;
    }
    TL_CHECK(options_.global_batch % (options_.replicas * options_.micro_batch) == 0,
             "the global batch must be replicas x micro-batches x sequences");
    DeclareParameters();
  }

  double Step(const Batch& batch) {
    const double loss = ComputeGradients(batch);
    parameters_.Update(options_.adam);
    return loss;
  }

  double Loss(const Batch& batch) { return Run(batch, false); }

  double ComputeGradients(const Batch& batch) { return Run(batch, true); }

  ParameterStore<Real>& parameters() { return parameters_; }

 private:
  // ---- Parameters ----

  Use Declare(const std::string& name, std::vector<int64_t> shape, Initial initial) {
    return parameters_.Declare(options_.seed, name, std::move(shape), initial);
  }

  NormUse DeclareNorm(const std::string& name) {
    NormUse norm;
    norm.gamma = Declare(name + ".weight", {config_.hidden}, Initial::kOne);
    if (norm_.centred) norm.beta = Declare(name + ".bias", {config_.hidden}, Initial::kZero);
    return norm;
  }

  LinearUse DeclareLinear(const std::string& name, int64_t inner, int64_t columns, bool bias) {
    LinearUse linear;
    linear.inner = inner;
    linear.columns = columns;
    linear.weight = Declare(name + ".weight", {inner, columns}, Initial::kNormal);
    if (bias) linear.bias = Declare(name + ".bias", {columns}, Initial::kZero);
    return linear;
  }

  LinearUse DeclareFusedQkv(const std::string& name, int64_t columns) {
    LinearUse linear;
    linear.inner = config_.hidden;
    linear.columns = columns;
    linear.weight = Declare(name + ".weight", {3, config_.hidden, columns}, Initial::kNormal);
    if (config_.attention_bias) {
      linear.bias = Declare(name + ".bias", {3, columns}, Initial::kZero);
    }
    return linear;
  }

  void DeclareParameters() {
    const int64_t hidden = config_.hidden;
    table_ = Declare("embedding.weight", {config_.vocab, hidden}, Initial::kNormal);
    if (config_.position == PositionKind::kLearned) {
      positions_ =
          Declare("position.weight", {config_.max_positions + config_.position_offset, hidden},
                  Initial::kNormal);
    }
    for (int64_t index = 0; index < config_.layers; ++index) {
      const std::string prefix = "layers." + std::to_string(index) + ".";
      const int64_t query = config_.heads * config_.head_dim;
      const int64_t key = config_.kv_heads * config_.head_dim;
      const bool bias = config_.attention_bias;
      LayerUses layer;
      layer.attention_norm = DeclareNorm(prefix + "attention.norm");
      if (config_.fused_qkv) {
        layer.qkv.push_back(DeclareFusedQkv(prefix + "attention.qkv", query));
      } else {
        layer.qkv.push_back(DeclareLinear(prefix + "attention.q", hidden, query, bias));
        layer.qkv.push_back(DeclareLinear(prefix + "attention.k", hidden, key, bias));
        layer.qkv.push_back(DeclareLinear(prefix + "attention.v", hidden, key, bias));
      }
      layer.attention_output =
          DeclareLinear(prefix + "attention.output", query, hidden, config_.output_bias);
      layer.mlp_norm = DeclareNorm(prefix + "mlp.norm");
      if (config_.activation == ActivationKind::kSwiGlu) {
        layer.gate = DeclareLinear(prefix + "mlp.gate", hidden, config_.ffn, config_.mlp_bias);
      }
      layer.up = DeclareLinear(prefix + "mlp.up", hidden, config_.ffn, config_.mlp_bias);
      layer.down = DeclareLinear(prefix + "mlp.down", config_.ffn, hidden, config_.mlp_bias);
      layers_.push_back(std::move(layer));
    }
    final_norm_ = DeclareNorm("final_norm");
    head_ = config_.tied_embedding
                ? parameters_.AddUse(table_.weight)
                : Declare("head.weight", {config_.vocab, hidden}, Initial::kNormal);
  }

  const Real* Value(Use use) const { return parameters_.Value(use); }
  Real* Accumulator(Use use) { return parameters_.Accumulator(use); }

  // ---- Pieces ----

  int64_t Rows() const { return options_.micro_batch * options_.sequence; }

  Array<Real> Forward(const LinearUse& linear, const Array<Real>& x, int64_t part = 0) const {
    Array<Real> y(Rows() * linear.columns);
    MatrixProduct(Rows(), linear.inner, linear.columns, x.data(),
                  Value(linear.weight) + part * linear.inner * linear.columns, y.data());
    if (linear.bias.present()) {
      AddBias(Rows(), linear.columns, Value(linear.bias) + part * linear.columns, y.data());
    }
    return y;
  }

  // Adds to the parameter gradients; the chains of dx continue from what it holds.
  void Backward(const LinearUse& linear, const Array<Real>& x, const Array<Real>& dy,
                Array<Real>& dx, int64_t part = 0) {
    const int64_t offset = part * linear.inner * linear.columns;
    ProductInputGradient(Rows(), linear.inner, linear.columns, dy.data(),
                         Value(linear.weight) + offset, dx.data());
    ProductWeightGradient(Rows(), linear.inner, linear.columns, x.data(), dy.data(),
                          Accumulator(linear.weight) + offset);
    if (linear.bias.present()) {
      BiasGradient(Rows(), linear.columns, dy.data(),
                   Accumulator(linear.bias) + part * linear.columns);
    }
  }

  void Forward(const NormUse& uses, const Array<Real>& x, NormCache<Real>& cache) const {
    cache.input = x;
    cache.output.resize(x.size());
    cache.mean.resize(Rows());
    cache.scale.resize(Rows());
    NormForward(norm_, Rows(), x.data(), Value(uses.gamma),
                norm_.centred ? Value(uses.beta) : nullptr, cache.output.data(), cache.mean.data(),
                cache.scale.data());
  }

  Array<Real> Backward(const NormUse& uses, const NormCache<Real>& cache, const Array<Real>& dy) {
    Array<Real> dx(dy.size());
    NormInputGradient(norm_, Rows(), dy.data(), cache.input.data(), Value(uses.gamma),
                      cache.mean.data(), cache.scale.data(), dx.data());
    NormParameterGradient(norm_, Rows(), dy.data(), cache.input.data(), cache.mean.data(),
                          cache.scale.data(), Accumulator(uses.gamma),
                          norm_.centred ? Accumulator(uses.beta) : nullptr);
    return dx;
  }

  AttentionShape Shape() const {
    return {options_.micro_batch, options_.sequence, config_.heads, config_.kv_heads,
            config_.head_dim};
  }

  // ---- Layers ----

  void ForwardAttention(const LayerUses& uses, Array<Real>& x, LayerCache<Real>& cache) const {
    Forward(uses.attention_norm, x, cache.attention_norm);
    const Array<Real>& input = cache.attention_norm.output;
    for (int part = 0; part < 3; ++part) {
      Array<Real>& target = part == 0 ? cache.q : part == 1 ? cache.k : cache.v;
      target =
          config_.fused_qkv ? Forward(uses.qkv[0], input, part) : Forward(uses.qkv[part], input);
    }
    const AttentionShape shape = Shape();
    if (config_.position == PositionKind::kRotary) {
      Rotate(shape, shape.heads, config_.rotary, false, cache.q.data());
      Rotate(shape, shape.kv_heads, config_.rotary, false, cache.k.data());
    }
    cache.probabilities.resize(shape.batch * shape.heads * shape.sequence * shape.sequence);
    cache.context.resize(cache.q.size());
    AttentionForward(shape, cache.q.data(), cache.k.data(), cache.v.data(),
                     cache.probabilities.data(), cache.context.data());
    AddTo(Forward(uses.attention_output, cache.context), x);
  }

  // On entry dx is the gradient of the block's output, on return that of its input.
  void BackwardAttention(const LayerUses& uses, const LayerCache<Real>& cache, Array<Real>& dx) {
    Array<Real> dcontext(cache.context.size());
    Backward(uses.attention_output, cache.context, dx, dcontext);
    const AttentionShape shape = Shape();
    Array<Real> dq(cache.q.size());
    Array<Real> dk(cache.k.size());
    Array<Real> dv(cache.v.size());
    AttentionBackward(shape, dcontext.data(), cache.q.data(), cache.k.data(), cache.v.data(),
                      cache.probabilities.data(), dq.data(), dk.data(), dv.data());
    if (config_.position == PositionKind::kRotary) {
      Rotate(shape, shape.heads, config_.rotary, true, dq.data());
      Rotate(shape, shape.kv_heads, config_.rotary, true, dk.data());
    }
    const Array<Real>& input = cache.attention_norm.output;
    const Array<Real>* gradients[] = {&dq, &dk, &dv};
    Array<Real> dinput(input.size());
    for (int part = 0; part < 3; ++part) {
      if (config_.fused_qkv) {
        Backward(uses.qkv[0], input, *gradients[part], dinput, part);
      } else {
        Array<Real> contribution(input.size());
        Backward(uses.qkv[part], input, *gradients[part], contribution);
        AddTo(contribution, dinput);
      }
    }
    AddTo(Backward(uses.attention_norm, cache.attention_norm, dinput), dx);
  }

  void ForwardMlp(const LayerUses& uses, Array<Real>& x, LayerCache<Real>& cache) const {
    Forward(uses.mlp_norm, x, cache.mlp_norm);
    cache.up = Forward(uses.up, cache.mlp_norm.output);
    cache.activated.resize(cache.up.size());
    if (config_.activation == ActivationKind::kSwiGlu) {
      cache.gate = Forward(uses.gate, cache.mlp_norm.output);
    }
    for (size_t i = 0; i < cache.up.size(); ++i) {
      const Real value = cache.up[i];
      switch (config_.activation) {
        case ActivationKind::kGelu:
          cache.activated[i] = Gelu(value);
          break;
        case ActivationKind::kRelu:
          cache.activated[i] = value > Real(0) ? value : Real(0);
          break;
        case ActivationKind::kSwiGlu:
          cache.activated[i] = SwiGlu(cache.gate[i], value);
          break;
      }
    }
    AddTo(Forward(uses.down, cache.activated), x);
  }

  void BackwardMlp(const LayerUses& uses, const LayerCache<Real>& cache, Array<Real>& dx) {
    Array<Real> dup(cache.up.size());
    Backward(uses.down, cache.activated, dx, dup);
    Array<Real> dinput(dx.size());
    if (config_.activation == ActivationKind::kSwiGlu) {
      Array<Real> dgate(cache.gate.size());
      for (size_t i = 0; i < dup.size(); ++i) {
        SwiGluBackward(dup[i], cache.gate[i], cache.up[i], dgate[i], dup[i]);
      }
      Backward(uses.gate, cache.mlp_norm.output, dgate, dinput);
    } else {
      for (size_t i = 0; i < dup.size(); ++i) {
        if (config_.activation == ActivationKind::kGelu) {
          dup[i] *= GeluDerivative(cache.up[i]);
        } else if (!(cache.up[i] > Real(0))) {
          dup[i] = Real(0);
        }
      }
    }
    Array<Real> contribution(dx.size());
    Backward(uses.up, cache.mlp_norm.output, dup, contribution);
    AddTo(contribution, dinput);
    AddTo(Backward(uses.mlp_norm, cache.mlp_norm, dinput), dx);
  }

  Array<Real> Embed(const int32_t* ids) const {
    const int64_t hidden = config_.hidden;
    Array<Real> x(Rows() * hidden);
    for (int64_t row = 0; row < Rows(); ++row) {
      const Real* token = Value(table_) + ids[row] * hidden;
      std::copy(token, token + hidden, x.data() + row * hidden);
      if (!positions_.present()) continue;
      const int64_t position = row % options_.sequence + config_.position_offset;
      const Real* offset = Value(positions_) + position * hidden;
      for (int64_t i = 0; i < hidden; ++i) x[row * hidden + i] += offset[i];
    }
    return x;
  }

  void EmbedBackward(const int32_t* ids, const Array<Real>& dx) {
    const int64_t hidden = config_.hidden;
    for (int64_t row = 0; row < Rows(); ++row) {
      const Real* gradient = dx.data() + row * hidden;
      Real* token = Accumulator(table_) + ids[row] * hidden;
      for (int64_t i = 0; i < hidden; ++i) token[i] += gradient[i];
      if (!positions_.present()) continue;
      const int64_t position = row % options_.sequence + config_.position_offset;
      Real* offset = Accumulator(positions_) + position * hidden;
      for (int64_t i = 0; i < hidden; ++i) offset[i] += gradient[i];
    }
  }

  // Adds the losses of one micro-batch to `total`.
  void RunMicroBatch(const int32_t* ids, const int32_t* targets, bool gradients, Real& total) {
    const int64_t hidden = config_.hidden;
    std::vector<LayerCache<Real>> caches(layers_.size());
    Array<Real> x = Embed(ids);
    for (size_t i = 0; i < layers_.size(); ++i) {
      ForwardAttention(layers_[i], x, caches[i]);
      ForwardMlp(layers_[i], x, caches[i]);
    }
    NormCache<Real> final_cache;
    Forward(final_norm_, x, final_cache);
    Array<Real> logits(Rows() * config_.vocab);
    TransposedProduct(Rows(), hidden, config_.vocab, final_cache.output.data(), Value(head_),
                      logits.data());
    const int64_t tokens = options_.global_batch * options_.sequence;
    const Real scale = gradients ? Real(1) / Real(tokens) : Real(0);
    CrossEntropy(Rows(), config_.vocab, targets, scale, logits.data(), total);
    if (!gradients) return;

    // logits = x E^T: dx = dlogits E, dE[v,h] += sum_r dlogits[r,v] x[r,h].
    Array<Real> dnorm(x.size());
    MatrixProduct(Rows(), config_.vocab, hidden, logits.data(), Value(head_), dnorm.data());
    ProductWeightGradient(Rows(), config_.vocab, hidden, logits.data(), final_cache.output.data(),
                          Accumulator(head_));
    Array<Real> dx = Backward(final_norm_, final_cache, dnorm);
    for (size_t i = layers_.size(); i-- > 0;) {
      BackwardMlp(layers_[i], caches[i], dx);
      BackwardAttention(layers_[i], caches[i], dx);
    }
    EmbedBackward(ids, dx);
  }

  // ---- Step ----

  double Run(const Batch& batch, bool gradients) {
    const int64_t per_replica = options_.global_batch / options_.replicas;
    Real total = 0;
    if (gradients) parameters_.BeginStep();
    for (int64_t replica = 0; replica < options_.replicas; ++replica) {
      if (gradients) parameters_.BeginReplica();
      Real replica_total = 0;
      for (int64_t first = 0; first < per_replica; first += options_.micro_batch) {
        const int64_t at = (replica * per_replica + first) * options_.sequence;
        RunMicroBatch(batch.ids.data() + at, batch.targets.data() + at, gradients, replica_total);
      }
      total += replica_total;
      if (gradients) parameters_.EndReplica();
    }
    return static_cast<double>(total) /
           static_cast<double>(options_.global_batch * options_.sequence);
  }

  DecoderConfig config_;
  ReferenceOptions options_;
  Norm<Real> norm_;
  ParameterStore<Real> parameters_;
  std::vector<LayerUses> layers_;
  Use table_, positions_, head_;
  NormUse final_norm_;
};

template <class Real>
ReferenceTrainer<Real>::ReferenceTrainer(const DecoderConfig& config,
                                         const ReferenceOptions& options)
    : model_(std::make_unique<Model>(config, options)) {}

template <class Real>
ReferenceTrainer<Real>::~ReferenceTrainer() = default;

template <class Real>
ReferenceTrainer<Real>::ReferenceTrainer(ReferenceTrainer&&) noexcept = default;

template <class Real>
double ReferenceTrainer<Real>::Step(const Batch& batch) {
  return model_->Step(batch);
}

template <class Real>
double ReferenceTrainer<Real>::Loss(const Batch& batch) {
  return model_->Loss(batch);
}

template <class Real>
double ReferenceTrainer<Real>::ComputeGradients(const Batch& batch) {
  return model_->ComputeGradients(batch);
}

template <class Real>
std::vector<ParameterInfo> ReferenceTrainer<Real>::Parameters() const {
  return model_->parameters().Infos();
}

template <class Real>
const std::vector<Real>& ReferenceTrainer<Real>::Gradient(std::string_view name) const {
  return model_->parameters().Find(name).gradient;
}

template <class Real>
const std::vector<Real>& ReferenceTrainer<Real>::Parameter(std::string_view name) const {
  return model_->parameters().Find(name).value;
}

template <class Real>
std::vector<Real>& ReferenceTrainer<Real>::MutableParameter(std::string_view name) {
  return model_->parameters().Find(name).value;
}

template class ReferenceTrainer<float>;
template class ReferenceTrainer<double>;

}  // namespace tideline::reference
