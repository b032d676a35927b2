// The library's entry points: custom calls for XLA (convolutions by constant weights, those of training, attention,
// products with half partials, stochastic rounding, concatenation, sums by channel), and C functions for library.py (open
// oneDNN, pack and unpack weights).
//
// A convolution of x [N, H, W, C] adds bias and addend and applies the activation while its result is in registers or
// in the cache, so that they cost no pass over memory. XLA's own threads run its parts. Weights are packed once, in
// the layout of the kernel.

#include "memory/concatenation.h"
#include "onednn/direct.h"
#include "onednn/training.h"
#include "threads/parts.h"
#include "simd/simd.h"
#include "xla/ffi/api/ffi.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace {

namespace ffi = xla::ffi;

// What XLA gives the custom calls; its header checks their dtypes.
using Array = ffi::Buffer<ffi::F32>;
using Numbers = ffi::Span<const int64_t>;

// How many multiplications take as long as rounding an element.
constexpr int64_t kWorkOfRounding = 32;
// Likewise reading one from memory.
constexpr int64_t kWorkOfReading = 16;

// Numbers of the spec of a concatenation: rows and threads.
constexpr int kConcatenationNumbers = 2;

using Key = std::array<int64_t, kNumbers>;

// How many threads share the parts of work that is `worth` so many.
int64_t sharing(int64_t worth, int64_t parts, int64_t threads) {
  return std::max<int64_t>(1, std::min({worth, parts, threads}));
}

std::mutex guard;

std::unique_ptr<Plan> make_plan(const Spec& spec) {
  if (spec.lanes == 0) return make_direct(spec);
  const simd::Kernels* own = simd::kernels(spec.lanes);
  if (own == nullptr) throw std::runtime_error("vectors that this processor does not have");
  auto found = own->make_winograd(spec);
  if (found == nullptr) throw std::runtime_error("a convolution that Winograd's algorithm does not do");
  return found;
}

// The plan of a spec, made once. It raises std::runtime_error where there is no fast implementation.
const Plan& plan_of(const int64_t* numbers) {
  // Never destroyed: XLA's threads may outlive this library's globals.
  static auto& plans = *new std::map<Key, std::unique_ptr<Plan>>;
  Key key;
  std::copy(numbers, numbers + kNumbers, key.begin());
  const std::lock_guard<std::mutex> locked(guard);
  auto& found = plans[key];
  if (found == nullptr) {
    Spec spec;
    std::memcpy(&spec, numbers, sizeof spec);
    found = make_plan(spec);
  }
  return *found;
}

// `third` and `fourth`: bias and addend, those of them that the spec has.
ffi::Error run_convolution(ffi::ThreadPool pool, Numbers numbers, Array x, ffi::BufferR1<ffi::F32> weights,
                           std::optional<Array> third, std::optional<Array> fourth, ffi::Result<Array> result) {
  if (numbers.size() != kNumbers) return ffi::Error::InvalidArgument("a convolution: no spec");
  const Plan& plan = plan_of(numbers.begin());
  const bool has_bias = plan.spec.has_bias, has_addend = plan.spec.has_addend;
  if (third.has_value() + fourth.has_value() != has_bias + has_addend) {
    return ffi::Error::InvalidArgument("a convolution: arguments that do not fit its spec");
  }
  if (weights.dimensions()[0] != plan.packed()) {
    return ffi::Error::InvalidArgument("a convolution: weights of another layout");
  }
  const Buffers buffers = {x.typed_data(), weights.typed_data(), has_bias ? third->typed_data() : nullptr,
                           result->typed_data()};
  // XLA gives the addend's memory to the result where nobody else reads it.
  const float* addend = has_addend ? (has_bias ? fourth : third)->typed_data() : buffers.result;
  if (addend != buffers.result) std::memcpy(buffers.result, addend, result->size_bytes());
  const int64_t threads = std::min(plan.parts(), threads_of(plan.spec));
  const bool ran = take_parts(pool, plan.parts(), threads, [&plan, buffers](int64_t part) { plan.take(part, buffers); });
  return ran ? ffi::Error::Success() : ffi::Error::Internal("a convolution could not run");
}

// The plan of a convolution in training, whose numbers are a spec and a direction; as plan_of.
const TrainingPlan& training_of(const int64_t* numbers) {
  static auto& plans = *new std::map<std::array<int64_t, kTrainingNumbers>, std::unique_ptr<TrainingPlan>>;
  std::array<int64_t, kTrainingNumbers> key;
  std::copy(numbers, numbers + kTrainingNumbers, key.begin());
  const std::lock_guard<std::mutex> locked(guard);
  auto& found = plans[key];
  if (found == nullptr) {
    Spec spec;
    std::memcpy(&spec, numbers, sizeof spec);
    found = make_training(spec, static_cast<Direction>(numbers[kNumbers]));
  }
  return *found;
}

// Two of the data, weights and result of a convolution, or their gradients; see training.h.
ffi::Error run_training(ffi::ThreadPool pool, Numbers numbers, Array first, Array second, ffi::Result<Array> result) {
  if (numbers.size() != kTrainingNumbers) return ffi::Error::InvalidArgument("a convolution in training: no spec");
  const TrainingPlan& plan = training_of(numbers.begin());
  Spec spec;
  std::memcpy(&spec, numbers.begin(), sizeof spec);
  const int64_t direction = numbers[kNumbers];
  // Elements of data, weights and result, in the order of the direction.
  int64_t sizes[] = {spec.images * spec.height * spec.width * spec.channels, spec.weights(),
                     spec.images * spec.result_height() * spec.result_width() * spec.results};
  if (direction == kDataGradient) std::swap(sizes[0], sizes[2]);
  if (direction == kKernelGradient) std::swap(sizes[1], sizes[2]);
  const Array* arrays[] = {&first, &second, &*result};
  for (int i = 0; i < 3; ++i) {
    if (static_cast<int64_t>(arrays[i]->element_count()) != sizes[i]) {
      return ffi::Error::InvalidArgument("a convolution in training: arrays that do not fit its spec");
    }
  }
  // Of this thread, which does nothing else until the last part is done.
  thread_local Memory scratch;
  const TrainingBuffers buffers = {first.typed_data(), second.typed_data(), result->typed_data(),
                                   scratch.floats(plan.scratch())};
  for (int64_t stage = 0; stage < plan.stages(); ++stage) {
    const int64_t parts = plan.parts(stage), threads = std::min(parts, threads_of(spec));
    const bool ran = parts == 0 || take_parts(pool, parts, threads, [&plan, stage, buffers](int64_t part) {
                       plan.take(stage, part, buffers);
                     });
    if (!ran) return ffi::Error::Internal("a convolution in training could not run");
  }
  return ffi::Error::Success();
}

ffi::Error run_attention(ffi::ThreadPool pool, Numbers numbers, Array query, Array key, Array value,
                         std::optional<Array> mask, ffi::Result<Array> result) {
  if (numbers.size() != kAttentionNumbers) return ffi::Error::InvalidArgument("attention: no spec");
  AttentionSpec spec;
  std::memcpy(&spec, numbers.begin(), sizeof spec);
  const simd::Kernels* kernels = simd::kernels(spec.lanes);
  if (kernels == nullptr) {
    return ffi::Error::InvalidArgument("attention: vectors that this processor does not have");
  }
  if (mask.has_value() != (spec.has_mask != 0)) {
    return ffi::Error::InvalidArgument("attention: arguments that do not fit its spec");
  }
  // Whether the last element that strides lead to is inside of a buffer.
  const auto fits = [&](const Array& own, const int64_t* strides, int64_t rows, int64_t last) {
    return (spec.batches - 1) * strides[0] + (spec.heads - 1) * strides[1] + (rows - 1) * strides[2] + last <
           static_cast<int64_t>(own.element_count());
  };
  if (!fits(query, spec.query, spec.rows, spec.offsets[0] + spec.depth - 1) ||
      !fits(key, spec.key, spec.columns, spec.offsets[1] + spec.depth - 1) ||
      !fits(value, spec.value, spec.columns, spec.offsets[2] + spec.width - 1) ||
      !fits(*result, spec.result, spec.rows, spec.width - 1) ||
      (mask && !fits(*mask, spec.mask, spec.rows, (spec.columns - 1) * spec.mask[3]))) {
    return ffi::Error::InvalidArgument("attention: arrays smaller than its spec says");
  }
  const AttentionBuffers buffers = {query.typed_data(), key.typed_data(), value.typed_data(),
                                    mask ? mask->typed_data() : nullptr, result->typed_data()};
  const int64_t parts = kernels->attention_parts(spec);
  const int64_t threads = sharing(spec.work() / kLeastWork, parts, spec.threads);
  const bool ran =
      take_parts(pool, parts, threads, [kernels, spec, buffers](int64_t part) { kernels->attend(spec, part, buffers); });
  return ran ? ffi::Error::Success() : ffi::Error::Internal("attention could not run");
}

ffi::Error run_half_product(ffi::ThreadPool pool, Numbers numbers, Array x, Array y, ffi::Result<Array> result) {
  if (numbers.size() != kHalfProductNumbers) return ffi::Error::InvalidArgument("a product in half: no spec");
  HalfProductSpec spec;
  std::memcpy(&spec, numbers.begin(), sizeof spec);
  const simd::Kernels* kernels = simd::kernels(spec.lanes);
  if (kernels == nullptr) {
    return ffi::Error::InvalidArgument("a product in half: vectors that this processor does not have");
  }
  if (std::min({spec.batches, spec.rows, spec.columns, spec.depth}) < 1) {
    return ffi::Error::InvalidArgument("a product in half: an axis without elements");
  }
  const auto holds = [&](const Array& own, int64_t height, int64_t width) {
    return static_cast<int64_t>(own.element_count()) == spec.batches * height * width;
  };
  if (!holds(x, spec.rows, spec.depth) || !holds(y, spec.depth, spec.columns) ||
      !holds(*result, spec.rows, spec.columns)) {
    return ffi::Error::InvalidArgument("a product in half: arrays that do not fit its spec");
  }
  const HalfProductBuffers buffers = {x.typed_data(), y.typed_data(), result->typed_data()};
  const int64_t parts = kernels->half_product_parts(spec);
  const int64_t threads = sharing(spec.work() / kLeastWork, parts, spec.threads);
  const bool ran = take_parts(pool, parts, threads,
                              [kernels, spec, buffers](int64_t part) { kernels->half_product(spec, part, buffers); });
  return ran ? ffi::Error::Success() : ffi::Error::Internal("a product in half could not run");
}

// x [sites, ...] and two words for each site.
ffi::Error run_rounding(ffi::ThreadPool pool, Numbers numbers, Array x, ffi::Buffer<ffi::U32> words,
                        ffi::Result<Array> result) {
  if (numbers.size() != kRoundingNumbers) return ffi::Error::InvalidArgument("stochastic rounding: no spec");
  RoundingSpec spec;
  std::memcpy(&spec, numbers.begin(), sizeof spec);
  const simd::Kernels* kernels = simd::kernels(spec.lanes);
  if (kernels == nullptr) {
    return ffi::Error::InvalidArgument("stochastic rounding: vectors that this processor does not have");
  }
  if (spec.dropped != 13 && spec.dropped != 16) {
    return ffi::Error::InvalidArgument("stochastic rounding: neither float16 nor bfloat16");
  }
  const int64_t count = static_cast<int64_t>(x.element_count()), sites = static_cast<int64_t>(words.element_count()) / 2;
  if (sites < 1 || words.element_count() % 2 != 0 || count % sites != 0 || result->element_count() != x.element_count()) {
    return ffi::Error::InvalidArgument("stochastic rounding: arrays that do not fit each other");
  }
  const RoundingBuffers buffers = {sites, count / sites, x.typed_data(), words.typed_data(), result->typed_data()};
  const int64_t parts = kernels->rounding_parts(buffers);
  if (parts == 0) return ffi::Error::Success();
  const int64_t threads = sharing(count * kWorkOfRounding / kLeastWork, parts, spec.threads);
  const bool ran = take_parts(pool, parts, threads,
                              [kernels, spec, buffers](int64_t part) { kernels->round_part(spec, part, buffers); });
  return ran ? ffi::Error::Success() : ffi::Error::Internal("stochastic rounding could not run");
}

// Arrays that have `spec[0]` rows each; `spec[1]` threads may share the copy.
ffi::Error run_concatenation(ffi::ThreadPool pool, Numbers numbers, ffi::RemainingArgs arrays,
                             ffi::Result<ffi::AnyBuffer> result) {
  if (numbers.size() != kConcatenationNumbers || numbers[0] < 1) {
    return ffi::Error::InvalidArgument("a concatenation: no spec");
  }
  Concatenation work = {{}, numbers[0], 0, static_cast<char*>(result->untyped_data())};
  for (size_t i = 0; i < arrays.size(); ++i) {
    const auto array = arrays.get<ffi::AnyBuffer>(i);
    if (!array.has_value()) return array.error();
    const int64_t size = static_cast<int64_t>(array->size_bytes());
    if (size % work.rows != 0) return ffi::Error::InvalidArgument("a concatenation: an array without so many rows");
    work.arrays.push_back({static_cast<const char*>(array->untyped_data()), size / work.rows});
    work.bytes += size / work.rows;
  }
  if (work.size() != static_cast<int64_t>(result->size_bytes())) {
    return ffi::Error::InvalidArgument("a concatenation: arrays that do not fit its result");
  }
  const int64_t parts = work.parts(), threads = sharing(work.size() / kLeastBytes, work.parts(), numbers[1]);
  const bool ran = parts == 0 || take_parts(pool, parts, threads, [&work](int64_t part) { work.take(part); });
  return ran ? ffi::Error::Success() : ffi::Error::Internal("a concatenation could not run");
}

// Sums by channel of x [sites, rows, channels], and of its gradient where there is one; see channel_sums.h.
ffi::Error sum_channels(ffi::ThreadPool& pool, Numbers numbers, const Array& x, const Array* gradient, const Array* mean,
                        const Array* inverse, Array& first, Array& second) {
  if (numbers.size() != kChannelNumbers) return ffi::Error::InvalidArgument("sums by channel: no spec");
  ChannelSpec spec;
  std::memcpy(&spec, numbers.begin(), sizeof spec);
  const simd::Kernels* kernels = simd::kernels(spec.lanes);
  if (kernels == nullptr) {
    return ffi::Error::InvalidArgument("sums by channel: vectors that this processor does not have");
  }
  if (spec.rows < 1 || spec.channels < 1) return ffi::Error::InvalidArgument("sums by channel: an empty axis");
  const int64_t count = static_cast<int64_t>(x.element_count()), sites = count / (spec.rows * spec.channels);
  const auto holds = [](const Array* own, int64_t elements) {
    return own == nullptr || static_cast<int64_t>(own->element_count()) == elements;
  };
  const int64_t sums = sites * spec.channels;
  if (!holds(&x, sums * spec.rows) || !holds(gradient, count) || !holds(mean, sums) || !holds(inverse, sums) ||
      !holds(&first, sums) || !holds(&second, sums)) {
    return ffi::Error::InvalidArgument("sums by channel: arrays that do not fit its spec");
  }
  const auto data = [](const Array* own) { return own == nullptr ? nullptr : own->typed_data(); };
  const ChannelBuffers buffers = {sites,         x.typed_data(),     data(gradient),     data(mean),
                                  data(inverse), first.typed_data(), second.typed_data()};
  const int64_t parts = kernels->channel_parts(spec, buffers);
  if (parts == 0) return ffi::Error::Success();
  // Of this thread, which does nothing else until the last part is done.
  thread_local Memory memory;
  float* floats = memory.floats(2 * parts * spec.channels);
  const ChannelScratch scratch = {floats, floats + parts * spec.channels};
  const int64_t threads = sharing(count * kWorkOfReading / kLeastWork, parts, spec.threads);
  const auto take = gradient == nullptr ? kernels->take_moments : kernels->take_gradients;
  const auto join = gradient == nullptr ? kernels->join_moments : kernels->join_gradients;
  const bool ran = take_parts(pool, parts, threads,
                              [take, spec, buffers, scratch](int64_t part) { take(spec, part, buffers, scratch); });
  if (!ran) return ffi::Error::Internal("sums by channel could not run");
  for (int64_t site = 0; site < sites; ++site) join(spec, site, buffers, scratch);
  return ffi::Error::Success();
}

ffi::Error run_moments(ffi::ThreadPool pool, Numbers numbers, Array x, ffi::Result<Array> mean,
                       ffi::Result<Array> variance) {
  return sum_channels(pool, numbers, x, nullptr, nullptr, nullptr, *mean, *variance);
}

ffi::Error run_gradient_sums(ffi::ThreadPool pool, Numbers numbers, Array gradient, Array x, Array mean, Array inverse,
                             ffi::Result<Array> sum, ffi::Result<Array> along) {
  return sum_channels(pool, numbers, x, &gradient, &mean, &inverse, *sum, *along);
}

// Calls `run`, and gives XLA an error for what it raises.
template <auto run>
struct Guarded {
  template <typename... Given>
  ffi::Error operator()(Given&&... given) const {
    try {
      return run(std::forward<Given>(given)...);
    } catch (const std::exception& error) {
      return ffi::Error::Internal(error.what());
    }
  }
};

thread_local std::string last_error;

// Calls a function; false where it raised, and last_error says why.
template <typename Function>
bool succeeds(Function function) {
  try {
    function();
    return true;
  } catch (const std::exception& error) {
    last_error = error.what();
    return false;
  }
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// How many numbers a spec has; library.py refuses a library that was built from other sources.
int paddle_ipu_onednn_numbers() { return kNumbers; }

// Why the last call on this thread failed.
const char* paddle_ipu_onednn_error() { return last_error.c_str(); }

// Opens oneDNN; its version as major * 10000 + minor * 100 + patch, 0 where it cannot be used.
int paddle_ipu_onednn_open(const char* path) {
  const std::lock_guard<std::mutex> locked(guard);
  int version = 0;
  succeeds([&] { version = open_onednn(path); });
  return version;
}

// How many floats the weights of a spec are in their kernel's layout; -1 where there is no fast kernel.
int64_t paddle_ipu_onednn_packed(const int64_t* spec) {
  int64_t count = -1;
  succeeds([&] { count = plan_of(spec).packed(); });
  return count;
}

// Weights [M, C / groups, height, width], or a matrix [C, M], into their kernel's layout, or back; 0 where it failed.
int paddle_ipu_onednn_pack(const int64_t* spec, float* plain, float* packed, int is_matrix, int back) {
  return succeeds([&] {
    const Plan& plan = plan_of(spec);
    if (back) {
      plan.unpack(packed, plain, is_matrix != 0);
    } else {
      plan.pack(plain, packed, is_matrix != 0);
    }
  });
}

// Whether there is a fast kernel for the numbers of a convolution in training.
int paddle_ipu_onednn_trains(const int64_t* numbers) {
  return succeeds([&] { training_of(numbers); });
}

// XLA's custom call: two of the data, weights and result of a convolution, or their gradients; see training.h.
XLA_FFI_DEFINE_HANDLER_SYMBOL(paddle_ipu_onednn_training, Guarded<run_training>(),
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<Numbers>("spec")
                                  .Arg<Array>()
                                  .Arg<Array>()
                                  .Ret<Array>());

// XLA's custom call: x [N, H, W, C], packed weights, bias [M] and addend where the spec has them. The result takes
// the addend's memory.
XLA_FFI_DEFINE_HANDLER_SYMBOL(paddle_ipu_onednn_convolution, Guarded<run_convolution>(),
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<Numbers>("spec")
                                  .Arg<Array>()
                                  .Arg<ffi::BufferR1<ffi::F32>>()
                                  .OptionalArg<Array>()
                                  .OptionalArg<Array>()
                                  .Ret<Array>());

// How many numbers attention's spec has.
int paddle_ipu_attention_numbers() { return kAttentionNumbers; }

// Floats of the longest vector of the kernels in simd/ that may be used here; 0 for none.
int paddle_ipu_lanes() { return simd::lanes(); }

// XLA's custom call: Q, K, V and, where there is one, the mask.
XLA_FFI_DEFINE_HANDLER_SYMBOL(paddle_ipu_attention, Guarded<run_attention>(),
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<Numbers>("spec")
                                  .Arg<Array>()
                                  .Arg<Array>()
                                  .Arg<Array>()
                                  .OptionalArg<Array>()
                                  .Ret<Array>());

// How many numbers the spec of a product with half partials has.
int paddle_ipu_half_product_numbers() { return kHalfProductNumbers; }

// XLA's custom call: X and Y.
XLA_FFI_DEFINE_HANDLER_SYMBOL(paddle_ipu_half_product, Guarded<run_half_product>(),
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<Numbers>("spec")
                                  .Arg<Array>()
                                  .Arg<Array>()
                                  .Ret<Array>());

// How many numbers the spec of stochastic rounding has.
int paddle_ipu_rounding_numbers() { return kRoundingNumbers; }

// XLA's custom call: x and the words of its site.
XLA_FFI_DEFINE_HANDLER_SYMBOL(paddle_ipu_rounding, Guarded<run_rounding>(),
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<Numbers>("spec")
                                  .Arg<Array>()
                                  .Arg<ffi::Buffer<ffi::U32>>()
                                  .Ret<Array>());

// How many numbers the spec of a concatenation has.
int paddle_ipu_concatenation_numbers() { return kConcatenationNumbers; }

// XLA's custom call: any number of arrays.
XLA_FFI_DEFINE_HANDLER_SYMBOL(paddle_ipu_concatenation, Guarded<run_concatenation>(),
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<Numbers>("spec")
                                  .RemainingArgs()
                                  .Ret<ffi::AnyBuffer>());

// How many numbers the spec of sums by channel has.
int paddle_ipu_channel_numbers() { return kChannelNumbers; }

// XLA's custom call: x; its means and variances.
XLA_FFI_DEFINE_HANDLER_SYMBOL(paddle_ipu_moments, Guarded<run_moments>(),
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<Numbers>("spec")
                                  .Arg<Array>()
                                  .Ret<Array>()
                                  .Ret<Array>());

// XLA's custom call: the gradient, x, mean and 1 / standard deviation; the sums of the gradient, and along x.
XLA_FFI_DEFINE_HANDLER_SYMBOL(paddle_ipu_gradient_sums, Guarded<run_gradient_sums>(),
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Attr<Numbers>("spec")
                                  .Arg<Array>()
                                  .Arg<Array>()
                                  .Arg<Array>()
                                  .Arg<Array>()
                                  .Ret<Array>()
                                  .Ret<Array>());

}  // extern "C"
#pragma GCC visibility pop
