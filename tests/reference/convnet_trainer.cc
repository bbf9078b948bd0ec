#include "tests/reference/convnet_trainer.h"

#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "tests/reference/layers.h"

namespace tideline::reference {
namespace {

// Images of every replica, and the gradients that have come so far.
template <class Real>
struct Maps {
  int64_t n = 0, c = 0, h = 0, w = 0;
  std::vector<Array<Real>> value, gradient;  // by replica

  Maps(int64_t n, int64_t c, int64_t h, int64_t w, int64_t replicas)
      : n(n), c(c), h(h), w(w), value(replicas, Array<Real>(n * c * h * w)), gradient(replicas) {}
  int64_t At(int64_t sample, int64_t channel, int64_t row, int64_t column) const {
    return ((sample * c + channel) * h + row) * w + column;
  }
  // Adds one use's gradient, the first of which is taken as it is.
  void Add(size_t replica, const Array<Real>& more) {
    gradient[replica].empty() ? void(gradient[replica] = more) : AddTo(more, gradient[replica]);
  }
};

}  // namespace

template <class Real>
class ConvNetTrainer<Real>::Model {
 public:
  Model(const ConvNetConfig& config, const ConvNetOptions& options)
      : config_(config), options_(options) {
    // Parameters are declared by a pass over one empty image.
    const ImageBatch blank{std::vector<float>(Pixels() * Together()),
                           std::vector<int32_t>(Together())};
    RunMicroBatch(blank, 0);
    declared_ = true;
    accumulators_.resize(options_.replicas);
    for (auto& [name, state] : state_) state.assign(state.size(), name.ends_with("mean") ? 0 : 1);
  }

  double Step(const ImageBatch& batch) {
    for (auto& sums : accumulators_) sums.clear();
    totals_.assign(options_.replicas, Real(0));
    const int64_t micro_batches = options_.global_batch / Together();
    for (int64_t m = 0; m < micro_batches; ++m) RunMicroBatch(batch, m);
    parameters_.BeginStep();
    Real total = 0;
    for (int64_t replica = 0; replica < options_.replicas; ++replica) {
      parameters_.BeginReplica();
      for (const auto& [name, sums] : accumulators_[replica]) {
        std::copy(sums.begin(), sums.end(), parameters_.Accumulator(uses_.at(name)));
      }
      parameters_.EndReplica();
      total += totals_[replica];
    }
    parameters_.Update(options_.adam);
    return static_cast<double>(total) / static_cast<double>(options_.global_batch);
  }

  ParameterStore<Real>& parameters() { return parameters_; }
  const std::vector<Real>& State(const std::string& name) const { return state_.at(name); }

 private:
  using Image = std::shared_ptr<Maps<Real>>;

  int64_t Pixels() const { return config_.channels * config_.image * config_.image; }
  // Images of one micro-batch on all replicas.
  int64_t Together() const { return options_.replicas * options_.micro_batch; }

  Image Make(int64_t n, int64_t c, int64_t h, int64_t w) const {
    return std::make_shared<Maps<Real>>(n, c, h, w, options_.replicas);
  }

  Use Declare(const std::string& name, std::vector<int64_t> shape, Initial initial,
              double stddev = 0) {
    if (!declared_) {
      uses_[name] = parameters_.Declare(options_.seed, name, std::move(shape), initial,
                                        static_cast<float>(stddev));
    }
    return uses_.at(name);
  }
  Array<Real>& Accumulator(size_t replica, const std::string& name) {
    Array<Real>& sums = accumulators_[replica][name];
    sums.resize(parameters_.Find(name).value.size());
    return sums;
  }

  // backward(replica), after everything that came later in forward.
  void Backward(std::function<void(size_t)> backward) {
    tape_.push_back([this, backward = std::move(backward)] {
      for (int64_t replica = 0; replica < options_.replicas; ++replica) backward(replica);
    });
  }

  // y[n,o,p,q] = sum over (c, kh, kw) of x w. dw = sum over (n, p, q) of dy x. dx: for each (kh,
  // kw) the sum over o of dy w, these added.
  Image Convolution(const std::string& name, Image x, int64_t outputs, int64_t size, int64_t stride,
                    int64_t padding, bool needs_dx = true) {
    const Use use = Declare(name + ".weight", {outputs, x->c, size, size}, Initial::kNormal,
                            std::sqrt(2.0 / static_cast<double>(outputs * size * size)));
    Image y = Make(x->n, outputs, (x->h + 2 * padding - size) / stride + 1,
                   (x->w + 2 * padding - size) / stride + 1);
    const auto weight_at = [=](int64_t o, int64_t c, int64_t r, int64_t s) {
      return ((o * x->c + c) * size + r) * size + s;
    };
    // body(term of the weight, element of x) for every term at (n, o, p, q), in order.
    const auto terms = [=](int64_t n, int64_t o, int64_t p, int64_t q, const auto& body) {
      for (int64_t c = 0; c < x->c; ++c) {
        for (int64_t r = 0; r < size; ++r) {
          for (int64_t s = 0; s < size; ++s) {
            const int64_t row = p * stride + r - padding, column = q * stride + s - padding;
            if (row < 0 || column < 0 || row >= x->h || column >= x->w) continue;
            body(weight_at(o, c, r, s), x->At(n, c, row, column));
          }
        }
      }
    };
    const auto outputs_of = [=](const auto& body) {
      for (int64_t n = 0; n < y->n; ++n) {
        for (int64_t p = 0; p < y->h; ++p) {
          for (int64_t q = 0; q < y->w; ++q) {
            for (int64_t o = 0; o < y->c; ++o) body(n, o, p, q);
          }
        }
      }
    };
    const Real* weight = parameters_.Value(use);
    for (int64_t replica = 0; replica < options_.replicas; ++replica) {
      outputs_of([&](int64_t n, int64_t o, int64_t p, int64_t q) {
        Real sum = 0;
        terms(n, o, p, q, [&](int64_t w, int64_t i) {
          sum = MultiplyAdd(weight[w], x->value[replica][i], sum);
        });
        y->value[replica][y->At(n, o, p, q)] = sum;
      });
    }
    Backward([=, this](size_t replica) {
      const Array<Real>& dy = y->gradient[replica];
      Array<Real>& dw = Accumulator(replica, name + ".weight");
      outputs_of([&](int64_t n, int64_t o, int64_t p, int64_t q) {
        terms(n, o, p, q, [&](int64_t w, int64_t i) {
          dw[w] = MultiplyAdd(dy[y->At(n, o, p, q)], x->value[replica][i], dw[w]);
        });
      });
      if (!needs_dx) return;
      const Real* weight = parameters_.Value(use);
      Array<Real> dx(x->value[replica].size());
      for (int64_t n = 0; n < x->n; ++n) {
        for (int64_t c = 0; c < x->c; ++c) {
          for (int64_t r = 0; r < size; ++r) {
            for (int64_t s = 0; s < size; ++s) {
              for (int64_t p = 0; p < y->h; ++p) {
                for (int64_t q = 0; q < y->w; ++q) {
                  const int64_t row = p * stride + r - padding, column = q * stride + s - padding;
                  if (row < 0 || column < 0 || row >= x->h || column >= x->w) continue;
                  Real chain = 0;
                  for (int64_t o = 0; o < y->c; ++o) {
                    chain =
                        MultiplyAdd(weight[weight_at(o, c, r, s)], dy[y->At(n, o, p, q)], chain);
                  }
                  dx[x->At(n, c, row, column)] += chain;
                }
              }
            }
          }
        }
      }
      x->Add(replica, dx);
    });
    return y;
  }

  // Sum over a channel: each plane by the tree, planes in order of samples.
  template <class Term>
  static Real ChannelSum(const Maps<Real>& x, int64_t c, const Term& term) {
    Real sum = 0;
    for (int64_t n = 0; n < x.n; ++n) {
      const int64_t plane = x.At(n, c, 0, 0);
      sum += TreeSum<Real>(x.h * x.w, [&](int64_t i) { return term(plane + i); });
    }
    return sum;
  }
  template <class Body>
  static void EachOfChannel(const Maps<Real>& x, int64_t c, const Body& body) {
    for (int64_t n = 0; n < x.n; ++n) {
      for (int64_t i = 0; i < x.h * x.w; ++i) body(x.At(n, c, 0, 0) + i);
    }
  }

  struct Statistics {
    Real mean = 0, squares = 0, count = 0;
  };
  // Of a channel on all replicas: theirs combined in order, delta d = m_r - m:
  // m += d n_r / n, s += s_r + d^2 n_m n_r / n (Chan et al. 1979).
  Statistics StatisticsOf(const Maps<Real>& x, int64_t c) const {
    Statistics all;
    for (int64_t replica = 0; replica < options_.replicas; ++replica) {
      const Array<Real>& values = x.value[replica];
      Statistics own;
      own.count = Real(x.n * x.h * x.w);
      own.mean = ChannelSum(x, c, [&](int64_t i) { return values[i]; }) / own.count;
      own.squares = ChannelSum(
          x, c, [&](int64_t i) { return (values[i] - own.mean) * (values[i] - own.mean); });
      if (replica == 0) {
        all = own;
        continue;
      }
      const Real total = all.count + own.count, distance = own.mean - all.mean;
      all.mean = MultiplyAdd(distance, own.count / total, all.mean);
      all.squares += own.squares + distance * distance * (all.count * own.count / total);
      all.count = total;
    }
    return all;
  }

  // x^ = (x - m) r over the whole micro-batch, y = x^ gamma + beta;
  // dx = gamma r (dy - mean(dy) - x^ mean(dy x^)), dgamma = sum dy x^, dbeta = sum dy.
  Image Norm(const std::string& name, Image x) {
    const Use gamma = Declare(name + ".weight", {x->c}, Initial::kOne);
    const Use beta = Declare(name + ".bias", {x->c}, Initial::kZero);
    Image y = Make(x->n, x->c, x->h, x->w);
    auto mean = std::make_shared<Array<Real>>(x->c), scale = std::make_shared<Array<Real>>(x->c);
    Array<Real>& running_mean = state_[name + ".running_mean"];
    Array<Real>& running_variance = state_[name + ".running_variance"];
    running_mean.resize(x->c);
    running_variance.resize(x->c);
    for (int64_t c = 0; c < x->c; ++c) {
      const Statistics all = StatisticsOf(*x, c);
      (*mean)[c] = all.mean;
      (*scale)[c] = InverseRoot(all.squares / all.count + static_cast<float>(config_.norm_epsilon));
      const Real share = static_cast<float>(config_.norm_momentum);
      const Real variance = all.squares / std::max(all.count - 1, Real(1));
      running_mean[c] = MultiplyAdd(share, all.mean - running_mean[c], running_mean[c]);
      running_variance[c] = MultiplyAdd(share, variance - running_variance[c], running_variance[c]);
      for (int64_t replica = 0; replica < options_.replicas; ++replica) {
        EachOfChannel(*x, c, [&](int64_t i) {
          y->value[replica][i] =
              MultiplyAdd((x->value[replica][i] - all.mean) * (*scale)[c],
                          parameters_.Value(gamma)[c], parameters_.Value(beta)[c]);
        });
      }
    }
    tape_.push_back([=, this] {
      std::vector<Array<Real>> dx(options_.replicas, Array<Real>(x->value[0].size()));
      for (int64_t c = 0; c < x->c; ++c) {
        Real sum = 0, dot = 0;
        const auto normal = [&](int64_t replica, int64_t i) {
          return (x->value[replica][i] - (*mean)[c]) * (*scale)[c];
        };
        for (int64_t replica = 0; replica < options_.replicas; ++replica) {
          const Array<Real>& dy = y->gradient[replica];
          const Real own = ChannelSum(*x, c, [&](int64_t i) { return dy[i]; });
          const Real own_dot =
              ChannelSum(*x, c, [&](int64_t i) { return dy[i] * normal(replica, i); });
          Accumulator(replica, name + ".weight")[c] += own_dot;
          Accumulator(replica, name + ".bias")[c] += own;
          sum += own;
          dot += own_dot;
        }
        const Real count = Real(options_.replicas * x->n * x->h * x->w);
        const Real factor = parameters_.Value(gamma)[c] * (*scale)[c];
        for (int64_t replica = 0; replica < options_.replicas; ++replica) {
          EachOfChannel(*x, c, [&](int64_t i) {
            dx[replica][i] = factor * (y->gradient[replica][i] - sum / count -
                                       normal(replica, i) * (dot / count));
          });
        }
      }
      for (int64_t replica = 0; replica < options_.replicas; ++replica)
        x->Add(replica, dx[replica]);
    });
    return y;
  }

  Image Relu(Image x) {
    Image y = Make(x->n, x->c, x->h, x->w);
    for (size_t replica = 0; replica < y->value.size(); ++replica) {
      for (size_t i = 0; i < y->value[replica].size(); ++i) {
        y->value[replica][i] = std::max(x->value[replica][i], Real(0));
      }
    }
    Backward([=](size_t replica) {
      Array<Real> dx(y->value[replica].size());
      for (size_t i = 0; i < dx.size(); ++i) {
        if (y->value[replica][i] > 0) dx[i] = y->gradient[replica][i];
      }
      x->Add(replica, dx);
    });
    return y;
  }
  Image NormRelu(const std::string& name, Image x) { return Relu(Norm(name, std::move(x))); }

  // 3 x 3, stride 2, padding 1; the first of equal maxima gets the gradient.
  Image MaxPool(Image x) {
    Image y = Make(x->n, x->c, (x->h - 1) / 2 + 1, (x->w - 1) / 2 + 1);
    auto winner = std::make_shared<std::vector<std::vector<int64_t>>>(options_.replicas);
    for (int64_t replica = 0; replica < options_.replicas; ++replica) {
      (*winner)[replica].resize(y->value[replica].size());
      for (int64_t at = 0; at < y->n * y->c * y->h * y->w; ++at) {
        const int64_t plane = at / (y->h * y->w) * x->h * x->w;
        int64_t best = -1;
        for (int64_t window = 0; window < 9; ++window) {
          const int64_t row = at / y->w % y->h * 2 + window / 3 - 1;
          const int64_t column = at % y->w * 2 + window % 3 - 1;
          if (row < 0 || column < 0 || row >= x->h || column >= x->w) continue;
          const int64_t element = plane + row * x->w + column;
          if (best < 0 || x->value[replica][element] > x->value[replica][best]) best = element;
        }
        (*winner)[replica][at] = best;
        y->value[replica][at] = x->value[replica][best];
      }
    }
    Backward([=](size_t replica) {
      Array<Real> dx(x->value[replica].size());
      for (size_t at = 0; at < y->value[replica].size(); ++at) {
        dx[(*winner)[replica][at]] += y->gradient[replica][at];
      }
      x->Add(replica, dx);
    });
    return y;
  }

  // Windows side by side.
  Image Average(Image x, int64_t size) {
    Image y = Make(x->n, x->c, x->h / size, x->w / size);
    const auto each = [=](const auto& body) {
      for (int64_t at = 0; at < y->n * y->c * y->h * y->w; ++at) {
        const int64_t first =
            at / (y->h * y->w) * x->h * x->w + at / y->w % y->h * size * x->w + at % y->w * size;
        for (int64_t i = 0; i < size * size; ++i) body(at, first + i / size * x->w + i % size);
      }
    };
    for (Array<Real>& value : y->value) {
      const Array<Real>& from = x->value[&value - y->value.data()];
      each([&](int64_t at, int64_t element) { value[at] += from[element]; });
      for (Real& sum : value) sum /= Real(size * size);
    }
    Backward([=](size_t replica) {
      Array<Real> dx(x->value[replica].size());
      each([&](int64_t at, int64_t element) {
        dx[element] = y->gradient[replica][at] / Real(size * size);
      });
      x->Add(replica, dx);
    });
    return y;
  }

  Image Add(Image a, Image b) {
    Image y = Make(a->n, a->c, a->h, a->w);
    for (size_t replica = 0; replica < y->value.size(); ++replica) {
      y->value[replica] = a->value[replica];
      AddTo(b->value[replica], y->value[replica]);
    }
    Backward([=](size_t replica) {
      a->Add(replica, y->gradient[replica]);
      b->Add(replica, y->gradient[replica]);
    });
    return y;
  }

  // Channels of a, then of b.
  Image Join(Image a, Image b) {
    Image y = Make(a->n, a->c + b->c, a->h, a->w);
    const auto each = [=](const auto& body) {
      for (int64_t n = 0; n < y->n; ++n) {
        for (int64_t c = 0; c < y->c; ++c) {
          const bool first = c < a->c;
          for (int64_t i = 0; i < y->h * y->w; ++i) {
            body(first, y->At(n, c, 0, 0) + i,
                 (first ? a->At(n, c, 0, 0) : b->At(n, c - a->c, 0, 0)) + i);
          }
        }
      }
    };
    for (size_t replica = 0; replica < y->value.size(); ++replica) {
      each([&](bool first, int64_t joined, int64_t own) {
        y->value[replica][joined] = (first ? a : b)->value[replica][own];
      });
    }
    Backward([=](size_t replica) {
      Array<Real> da(a->value[replica].size()), db(b->value[replica].size());
      each([&](bool first, int64_t joined, int64_t own) {
        (first ? da : db)[own] = y->gradient[replica][joined];
      });
      a->Add(replica, da);
      b->Add(replica, db);
    });
    return y;
  }

  Image Stem(Image x) {
    const bool small = config_.stem == ImageStem::kSmall;
    x = small ? Convolution("stem.convolution", x, config_.width, 3, 1, 1, false)
              : Convolution("stem.convolution", x, config_.width, 7, 2, 3, false);
    if (small && config_.kind == ConvNetKind::kDenseNet) return x;
    x = NormRelu("stem.norm", x);
    return small ? x : MaxPool(x);
  }

  Image Residual(const std::string& name, Image x, int64_t width, int64_t stride) {
    const bool deep = config_.block == ResidualBlock::kBottleneck;
    const int64_t outputs = deep ? 4 * width : width;
    Image y;
    if (deep) {
      y = NormRelu(name + "norm1", Convolution(name + "convolution1", x, width, 1, 1, 0));
      y = NormRelu(name + "norm2", Convolution(name + "convolution2", y, width, 3, stride, 1));
      y = Norm(name + "norm3", Convolution(name + "convolution3", y, outputs, 1, 1, 0));
    } else {
      y = NormRelu(name + "norm1", Convolution(name + "convolution1", x, width, 3, stride, 1));
      y = Norm(name + "norm2", Convolution(name + "convolution2", y, outputs, 3, 1, 1));
    }
    if (stride != 1 || x->c != outputs) {
      x = Norm(name + "shortcut.norm",
               Convolution(name + "shortcut.convolution", x, outputs, 1, stride, 0));
    }
    return Relu(Add(x, y));
  }

  Image Dense(const std::string& name, Image x) {
    Image y = NormRelu(name + "norm1", x);
    y = Convolution(name + "convolution1", y, 4 * config_.growth, 1, 1, 0);
    y = NormRelu(name + "norm2", y);
    return Join(x, Convolution(name + "convolution2", y, config_.growth, 3, 1, 1));
  }

  Image Body(Image x) {
    int64_t layer = 0;
    const auto name = [&] { return "layers." + std::to_string(layer) + "."; };
    const bool residual = config_.kind == ConvNetKind::kResNet;
    for (size_t stage = 0; stage < config_.stages.size(); ++stage) {
      if (!residual && stage > 0) {
        const std::string transition = "layers." + std::to_string(layer - 1) + ".transition.";
        const int64_t half = x->c / 2;
        x = Convolution(transition + "convolution", NormRelu(transition + "norm", x), half, 1, 1,
                        0);
        x = Average(x, 2);
      }
      for (int64_t i = 0; i < config_.stages[stage]; ++i, ++layer) {
        x = residual ? Residual(name(), x, config_.width << stage, stage > 0 && i == 0 ? 2 : 1)
                     : Dense(name(), x);
      }
    }
    return residual ? x : NormRelu("head.norm", x);
  }

  // logits = x W^T + b of the pooled image; cross entropy with the labels.
  void Head(Image pooled, const std::vector<std::vector<int32_t>>& labels) {
    const int64_t classes = config_.classes, features = pooled->c, rows = pooled->n;
    const Use weight = Declare("head.weight", {classes, features}, Initial::kNormal, 0.01);
    const Use bias = Declare("head.bias", {classes}, Initial::kZero);
    if (!declared_) return;
    for (int64_t replica = 0; replica < options_.replicas; ++replica) {
      Array<Real> logits(rows * classes);
      const Real* x = pooled->value[replica].data();
      TransposedProduct(rows, features, classes, x, parameters_.Value(weight), logits.data());
      AddBias(rows, classes, parameters_.Value(bias), logits.data());
      CrossEntropy(rows, classes, labels[replica].data(), Real(1) / Real(options_.global_batch),
                   logits.data(), totals_[replica]);
      Array<Real> dx(rows * features);
      MatrixProduct(rows, classes, features, logits.data(), parameters_.Value(weight), dx.data());
      ProductWeightGradient(rows, classes, features, logits.data(), x,
                            Accumulator(replica, "head.weight").data());
      BiasGradient(rows, classes, logits.data(), Accumulator(replica, "head.bias").data());
      pooled->Add(replica, dx);
    }
  }

  void RunMicroBatch(const ImageBatch& batch, int64_t m) {
    tape_.clear();
    Image x = Make(options_.micro_batch, config_.channels, config_.image, config_.image);
    std::vector<std::vector<int32_t>> labels(options_.replicas);
    const int64_t per_replica = declared_ ? options_.global_batch / options_.replicas : 0;
    for (int64_t replica = 0; replica < options_.replicas; ++replica) {
      const int64_t first = replica * per_replica + m * options_.micro_batch;
      for (size_t i = 0; i < x->value[replica].size(); ++i) {
        x->value[replica][i] = batch.images[first * Pixels() + i];
      }
      labels[replica].assign(batch.labels.begin() + first,
                             batch.labels.begin() + first + options_.micro_batch);
    }
    const Image last = Body(Stem(x));
    Head(Average(last, last->h), labels);
    if (!declared_) return;
    while (!tape_.empty()) {
      tape_.back()();
      tape_.pop_back();
    }
  }

  const ConvNetConfig config_;
  const ConvNetOptions options_;
  bool declared_ = false;
  ParameterStore<Real> parameters_;
  std::map<std::string, Use> uses_;
  std::map<std::string, Array<Real>> state_;
  std::vector<std::map<std::string, Array<Real>>> accumulators_;  // by replica
  Array<Real> totals_;                                            // by replica
  std::vector<std::function<void()>> tape_;
};

template <class Real>
ConvNetTrainer<Real>::ConvNetTrainer(const ConvNetConfig& config, const ConvNetOptions& options)
    : model_(std::make_unique<Model>(config, options)) {}

template <class Real>
ConvNetTrainer<Real>::~ConvNetTrainer() = default;

template <class Real>
double ConvNetTrainer<Real>::Step(const ImageBatch& batch) {
  return model_->Step(batch);
}

template <class Real>
std::vector<ParameterInfo> ConvNetTrainer<Real>::Parameters() const {
  return model_->parameters().Infos();
}

template <class Real>
const std::vector<Real>& ConvNetTrainer<Real>::Gradient(std::string_view name) const {
  return model_->parameters().Find(name).gradient;
}

template <class Real>
const std::vector<Real>& ConvNetTrainer<Real>::Parameter(std::string_view name) const {
  return model_->parameters().Find(name).value;
}

template <class Real>
const std::vector<Real>& ConvNetTrainer<Real>::State(const std::string& name) const {
  return model_->State(name);
}

template class ConvNetTrainer<float>;
template class ConvNetTrainer<double>;

}  // namespace tideline::reference
