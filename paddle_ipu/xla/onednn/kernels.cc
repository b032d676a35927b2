// Convolutions and products by constant weights, as a function that XLA calls.
//
// The result of x [N, H, W, C] with its bias, what is added to it, and the activation are one pass over
// memory. XLA's own threads each take parts of it. The weights are in the layout of the kernels, made once.

#include "direct.h"
#include "products.h"
#include "winograd.h"
#include "xla_ffi.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

using Key = std::array<int64_t, kNumbers>;

std::mutex guard;

std::unique_ptr<Plan> make_plan(const Spec& spec) {
  if (auto found = make_winograd(spec)) return found;
  if (auto found = make_product(spec)) return found;
  return make_direct(spec);
}

// The plan of a spec; it raises std::runtime_error where there is no fast implementation.
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

// A run whose parts threads take in turn.
struct Run {
  const Plan& plan;
  const Buffers buffers;
  std::atomic<int64_t> next{0}, done{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::condition_variable all_done;

  Run(const Plan& plan, const Buffers& buffers) : plan(plan), buffers(buffers) {}

  // Takes parts as long as there are any.
  void work() {
    const int64_t parts = plan.parts();
    for (int64_t i = next++; i < parts; i = next++) {
      try {
        plan.take(i, buffers);
      } catch (const std::exception&) {
        failed = true;
      }
      if (++done == parts) {
        const std::lock_guard<std::mutex> locked(mutex);
        all_done.notify_all();
      }
    }
  }

  void wait() {
    constexpr int kTurns = 200;
    for (int turn = 0; turn < kTurns; ++turn) {
      if (done == plan.parts()) return;
      std::this_thread::yield();
    }
    std::unique_lock<std::mutex> locked(mutex);
    all_done.wait(locked, [this] { return done == plan.parts(); });
  }
};

void take_part(void* data) {
  const std::unique_ptr<std::shared_ptr<Run>> run(static_cast<std::shared_ptr<Run>*>(data));
  (*run)->work();
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

xla_ffi::Error* run(const xla_ffi::Call& call) {
  const xla_ffi::Array* numbers = attribute(call, "spec");
  if (numbers == nullptr || numbers->type != xla_ffi::kInt64 || numbers->count != kNumbers) {
    return error_of(call, xla_ffi::kInvalidArgument, "a convolution: no spec");
  }
  const Plan& plan = plan_of(static_cast<const int64_t*>(numbers->data));
  if (call.arguments.count != 2 + plan.spec.has_bias + plan.spec.has_addend || call.results.count != 1) {
    return error_of(call, xla_ffi::kInvalidArgument, "a convolution: arguments that do not fit its spec");
  }
  const auto buffer = [](void* item) { return static_cast<xla_ffi::Buffer*>(item); };
  const auto data = [&](int64_t i) { return static_cast<float*>(buffer(call.arguments.items[i])->data); };
  if (buffer(call.arguments.items[1])->dims[0] != plan.packed()) {
    return error_of(call, xla_ffi::kInvalidArgument, "a convolution: weights of another layout");
  }
  const xla_ffi::Buffer& result = *buffer(call.results.items[0]);
  const Buffers buffers = {data(0), data(1), plan.spec.has_bias ? data(2) : nullptr, static_cast<float*>(result.data)};
  if (plan.spec.has_addend && data(2 + plan.spec.has_bias) != buffers.result) {
    int64_t count = 1;
    for (int64_t i = 0; i < result.rank; ++i) count *= result.dims[i];
    std::memcpy(buffers.result, data(2 + plan.spec.has_bias), count * sizeof(float));
  }
  const auto shared = std::make_shared<Run>(plan, buffers);
  const bool has_threads = call.api->size >= offsetof(xla_ffi::Api, schedule) + sizeof call.api->schedule;
  const int64_t threads = std::min(plan.parts(), threads_of(plan.spec));
  for (int64_t i = 1; has_threads && i < threads; ++i) {
    // Nothing may throw from here on: other threads write to the buffers.
    auto* mine = new (std::nothrow) std::shared_ptr<Run>(shared);
    if (mine == nullptr) break;
    xla_ffi::TaskArguments task = {sizeof task, nullptr, call.context, take_part, mine};
    if (xla_ffi::Error* error = call.api->schedule(&task)) {
      // This thread does what no other can be asked for.
      xla_ffi::ErrorToDestroy destroyed = {sizeof destroyed, nullptr, error};
      call.api->destroy_error(&destroyed);
      delete mine;
      break;
    }
  }
  shared->work();
  shared->wait();
  return shared->failed ? error_of(call, xla_ffi::kInternal, "a convolution could not run") : nullptr;
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

}  // namespace

extern "C" {

// How many numbers a spec has, by which library.py knows a library built from other sources.
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

// XLA's custom call: x [N, H, W, C], packed weights, bias [M] if there is one, and what is added, whose
// memory the result takes.
xla_ffi::Error* paddle_ipu_onednn_convolution(xla_ffi::Call* call) {
  if (call->extensions != nullptr && call->extensions->kind == xla_ffi::kMetadata) {
    auto* metadata = reinterpret_cast<xla_ffi::MetadataExtension*>(call->extensions)->metadata;
    metadata->version = {sizeof metadata->version, nullptr, xla_ffi::kMajor, call->api->version.minor};
    metadata->traits = 0;
    metadata->state = 0;
    return nullptr;
  }
  if (call->stage != xla_ffi::kExecute) return nullptr;
  xla_ffi::Error* error = nullptr;
  const bool ran = succeeds([&] { error = run(*call); });
  return ran ? error : error_of(*call, xla_ffi::kInternal, last_error.c_str());
}

}  // extern "C"
