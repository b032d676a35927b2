// The library's entry points: custom calls for XLA (convolutions by constant weights, attention), and C
// functions for library.py (open oneDNN, pack and unpack weights).
//
// A convolution of x [N, H, W, C] adds bias and addend and applies the activation while its result is in registers or
// in the cache, so that they cost no pass over memory. XLA's own threads run its parts. Weights are packed once, in
// the layout of the kernel.

#include "onednn/direct.h"
#include "threads/parts.h"
#include "simd/simd.h"
#include "xla_ffi.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

namespace {

using Key = std::array<int64_t, kNumbers>;

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

xla_ffi::Error* error_of(const xla_ffi::Call& call, xla_ffi::Code code, const char* message) {
  xla_ffi::ErrorArguments arguments = {sizeof arguments, nullptr, message, code};
  return call.api->create_error(&arguments);
}

const xla_ffi::Array* attribute(const xla_ffi::Call& call, const char* name) {
  for (int64_t i = 0; i < call.attributes.count; ++i) {
    const xla_ffi::Span& own = *call.attributes.names[i];
    if (std::string(own.begin, own.length) != name || call.attributes.kinds[i] != xla_ffi::kArray) continue;
    return static_cast<const xla_ffi::Array*>(call.attributes.items[i]);
  }
  return nullptr;
}

// The call's attribute "spec", an array of int64; null where its length is wrong.
const int64_t* numbers_of(const xla_ffi::Call& call, size_t count) {
  const xla_ffi::Array* found = attribute(call, "spec");
  if (found == nullptr || found->type != xla_ffi::kInt64 || found->count != count) return nullptr;
  return static_cast<const int64_t*>(found->data);
}

const xla_ffi::Buffer& buffer(const xla_ffi::Buffers& buffers, int64_t i) {
  return *static_cast<const xla_ffi::Buffer*>(buffers.items[i]);
}

float* data(const xla_ffi::Buffers& buffers, int64_t i) { return static_cast<float*>(buffer(buffers, i).data); }

int64_t size(const xla_ffi::Buffer& buffer) {
  int64_t count = 1;
  for (int64_t i = 0; i < buffer.rank; ++i) count *= buffer.dims[i];
  return count;
}

xla_ffi::Error* run_convolution(const xla_ffi::Call& call) {
  const int64_t* numbers = numbers_of(call, kNumbers);
  if (numbers == nullptr) return error_of(call, xla_ffi::kInvalidArgument, "a convolution: no spec");
  const Plan& plan = plan_of(numbers);
  const xla_ffi::Buffers& given = call.arguments;
  if (given.count != 2 + plan.spec.has_bias + plan.spec.has_addend || call.results.count != 1) {
    return error_of(call, xla_ffi::kInvalidArgument, "a convolution: arguments that do not fit its spec");
  }
  if (buffer(given, 1).dims[0] != plan.packed()) {
    return error_of(call, xla_ffi::kInvalidArgument, "a convolution: weights of another layout");
  }
  const Buffers buffers = {data(given, 0), data(given, 1), plan.spec.has_bias ? data(given, 2) : nullptr,
                           data(call.results, 0)};
  // XLA gives the addend's memory to the result where nobody else reads it.
  const float* addend = plan.spec.has_addend ? data(given, 2 + plan.spec.has_bias) : buffers.result;
  if (addend != buffers.result) std::memcpy(buffers.result, addend, size(buffer(call.results, 0)) * sizeof(float));
  const int64_t threads = std::min(plan.parts(), threads_of(plan.spec));
  const bool ran = take_parts(call, plan.parts(), threads, [&plan, buffers](int64_t part) { plan.take(part, buffers); });
  return ran ? nullptr : error_of(call, xla_ffi::kInternal, "a convolution could not run");
}

xla_ffi::Error* run_attention(const xla_ffi::Call& call) {
  const int64_t* numbers = numbers_of(call, kAttentionNumbers);
  if (numbers == nullptr) return error_of(call, xla_ffi::kInvalidArgument, "attention: no spec");
  AttentionSpec spec;
  std::memcpy(&spec, numbers, sizeof spec);
  const simd::Kernels* kernels = simd::kernels(spec.lanes);
  if (kernels == nullptr) {
    return error_of(call, xla_ffi::kInvalidArgument, "attention: vectors that this processor does not have");
  }
  const xla_ffi::Buffers& given = call.arguments;
  if (given.count != 3 + spec.has_mask || call.results.count != 1) {
    return error_of(call, xla_ffi::kInvalidArgument, "attention: arguments that do not fit its spec");
  }
  // Whether the last element that strides lead to is inside of a buffer.
  const auto fits = [&](const xla_ffi::Buffer& own, const int64_t* strides, int64_t rows, int64_t last) {
    return (spec.batches - 1) * strides[0] + (spec.heads - 1) * strides[1] + (rows - 1) * strides[2] + last < size(own);
  };
  if (!fits(buffer(given, 0), spec.query, spec.rows, spec.offsets[0] + spec.depth - 1) ||
      !fits(buffer(given, 1), spec.key, spec.columns, spec.offsets[1] + spec.depth - 1) ||
      !fits(buffer(given, 2), spec.value, spec.columns, spec.offsets[2] + spec.width - 1) ||
      !fits(buffer(call.results, 0), spec.result, spec.rows, spec.width - 1) ||
      (spec.has_mask && !fits(buffer(given, 3), spec.mask, spec.rows, (spec.columns - 1) * spec.mask[3]))) {
    return error_of(call, xla_ffi::kInvalidArgument, "attention: arrays smaller than its spec says");
  }
  const AttentionBuffers buffers = {data(given, 0), data(given, 1), data(given, 2),
                                    spec.has_mask ? data(given, 3) : nullptr, data(call.results, 0)};
  const int64_t parts = kernels->attention_parts(spec);
  const int64_t threads = std::clamp<int64_t>(spec.work() / kLeastWork, 1, std::min(parts, spec.threads));
  const bool ran =
      take_parts(call, parts, threads, [kernels, spec, buffers](int64_t part) { kernels->attend(spec, part, buffers); });
  return ran ? nullptr : error_of(call, xla_ffi::kInternal, "attention could not run");
}

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

// XLA calls a function for its metadata, when it is registered, and to run.
xla_ffi::Error* answer(xla_ffi::Call& call, xla_ffi::Error* (*run)(const xla_ffi::Call&)) {
  if (call.extensions != nullptr && call.extensions->kind == xla_ffi::kMetadata) {
    auto* metadata = reinterpret_cast<xla_ffi::MetadataExtension*>(call.extensions)->metadata;
    metadata->version = {sizeof metadata->version, nullptr, xla_ffi::kMajor, call.api->version.minor};
    metadata->traits = 0;
    metadata->state = 0;
    return nullptr;
  }
  if (call.stage != xla_ffi::kExecute) return nullptr;
  xla_ffi::Error* error = nullptr;
  const bool ran = succeeds([&] { error = run(call); });
  return ran ? error : error_of(call, xla_ffi::kInternal, last_error.c_str());
}

}  // namespace

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

// XLA's custom call: x [N, H, W, C], packed weights, bias [M] and addend where the spec has them. The result takes
// the addend's memory.
xla_ffi::Error* paddle_ipu_onednn_convolution(xla_ffi::Call* call) { return answer(*call, run_convolution); }

// How many numbers attention's spec has.
int paddle_ipu_attention_numbers() { return kAttentionNumbers; }

// Floats of the longest vector of the kernels in simd/ that may be used here; 0 for none.
int paddle_ipu_lanes() { return simd::lanes(); }

// XLA's custom call: Q, K, V and, where there is one, the mask.
xla_ffi::Error* paddle_ipu_attention(xla_ffi::Call* call) { return answer(*call, run_attention); }

}  // extern "C"
