// Convolutions and products by constant weights, by oneDNN, as a function that XLA calls.
//
// The result of x [N, H, W, C] with its bias, what is added to it, and the activation are one pass over
// memory. XLA's own threads each take a part of the images or rows, on which oneDNN works alone, so that
// no second set of threads competes with them. The weights are in oneDNN's own layout, made once.

#include "onednn.h"
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
#include <thread>
#include <utility>
#include <vector>

namespace {

using Dims = std::vector<int64_t>;

// What is computed, in the order in which library.py writes it.
struct Spec {
  int64_t images, channels, height, width, results, groups, kernel_height, kernel_width;
  int64_t stride_y, stride_x, gap_y, gap_x, top, left, bottom, right;
  int64_t activation, has_bias, has_addend, parts;
};
constexpr int kNumbers = sizeof(Spec) / sizeof(int64_t);
// Channels of the result that oneDNN computes at once.
constexpr int64_t kChannels = 64;
// Multiplications that are worth a thread.
constexpr int64_t kLeastWork = 2'000'000;
using Key = std::array<int64_t, kNumbers>;

constexpr int kActivations[] = {0, onednn::kRelu, onednn::kGeluErf, onednn::kGeluTanh};

// Never destroyed: XLA's threads may outlive this library's globals.
onednn::Functions* dnn = nullptr;
void* engine = nullptr;
std::mutex guard;

void check(int status, const char* what) {
  if (status != 0) throw std::runtime_error(std::string(what) + ": oneDNN's status " + std::to_string(status));
}

// While it lives, oneDNN makes primitives for one thread.
class OneThread {
 public:
  OneThread() {
    for (int i = 0; i < dnn->found_openmp; ++i) {
      before_[i] = dnn->openmp[i].get();
      dnn->openmp[i].set(1);
    }
  }
  ~OneThread() {
    for (int i = 0; i < dnn->found_openmp; ++i) dnn->openmp[i].set(before_[i]);
  }

 private:
  int before_[2] = {};
};

// An object of oneDNN's, which ends with it.
class Owned {
 public:
  explicit Owned(int (*destroy)(void*)) : destroy_(destroy) {}
  Owned(Owned&& other) noexcept : destroy_(other.destroy_), object_(std::exchange(other.object_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(destroy_, other.destroy_);
    std::swap(object_, other.object_);
    return *this;
  }
  ~Owned() {
    if (object_ != nullptr) destroy_(object_);
  }
  void** out() { return &object_; }
  void* get() const { return object_; }

 private:
  int (*destroy_)(void*);
  void* object_ = nullptr;
};

Owned by_strides(const Dims& dims, const Dims& strides) {
  Owned found(dnn->destroy_layout);
  const int rank = static_cast<int>(dims.size());
  check(dnn->describe_by_strides(found.out(), rank, dims.data(), onednn::kFloat32, strides.data()), "a layout");
  return found;
}

// [N, C, H, W] of numbers that are stored as [N, H, W, C].
Owned channels_last(int64_t images, int64_t channels, int64_t height, int64_t width) {
  return by_strides({images, channels, height, width}, {height * width * channels, 1, width * channels, channels});
}

// A convolution of some rows of some images, for one thread.
struct Kernel {
  Owned source, bias, result, description, primitive;
  const void *weights = nullptr, *scratchpad = nullptr;
  size_t scratchpad_bytes = 0;
  Kernel()
      : source(dnn->destroy_layout),
        bias(dnn->destroy_layout),
        result(dnn->destroy_layout),
        description(dnn->destroy_description),
        primitive(dnn->destroy) {}
};

// What a thread takes at once: a kernel, and where its numbers begin. Where it has some channels of the
// result only, these are computed apart, `places` of them, and put where they belong.
struct Part {
  const Kernel* kernel;
  int64_t source, result, weights, bias, places;
};

// Memory of one thread, which grows as it is asked for more.
class Memory {
 public:
  void* of(size_t size) {
    constexpr size_t kAligned = 64;
    if (bytes_.size() < size + kAligned) bytes_.resize(size + kAligned);
    const auto begin = reinterpret_cast<uintptr_t>(bytes_.data());
    return reinterpret_cast<void*>((begin + kAligned - 1) / kAligned * kAligned);
  }

 private:
  std::vector<char> bytes_;
};

// A thread's own stream and memory.
struct Workspace {
  void* stream = nullptr;
  Memory scratchpad, channels;
  Workspace() { check(dnn->create_stream(&stream, engine, onednn::kInOrder), "a stream"); }
  ~Workspace() { dnn->destroy_stream(stream); }
};

Workspace& workspace() {
  thread_local Workspace own;
  return own;
}

class Memories {
 public:
  void add(int number, const void* description, void* data) {
    void* memory = nullptr;
    check(dnn->create_memory(&memory, description, engine, data), "a memory object");
    arguments_[count_++] = {number, memory};
  }
  void execute(const void* primitive) {
    check(dnn->execute(primitive, workspace().stream, count_, arguments_), "a run");
  }
  ~Memories() {
    for (int i = 0; i < count_; ++i) dnn->destroy_memory(arguments_[i].memory);
  }

 private:
  onednn::Argument arguments_[5];
  int count_ = 0;
};

// A convolution cut into parts; made once for each spec, and kept.
class Plan {
 public:
  explicit Plan(const Spec& given) : spec(given) {
    const OneThread alone;
    const bool is_product = spec.kernel_height == 1 && spec.kernel_width == 1 && spec.stride_y == 1 &&
                            spec.stride_x == 1 && spec.top + spec.left + spec.bottom + spec.right == 0;
    if (is_product) {
      // Rows of all images are rows of one.
      spec.height *= spec.images;
      spec.images = 1;
    }
    const int64_t reach_y = (spec.kernel_height - 1) * spec.gap_y + 1;
    const int64_t reach_x = (spec.kernel_width - 1) * spec.gap_x + 1;
    height_ = (spec.height + spec.top + spec.bottom - reach_y) / spec.stride_y + 1;
    width_ = (spec.width + spec.left + spec.right - reach_x) / spec.stride_x + 1;
    const int64_t weights = spec.results * spec.channels / spec.groups * spec.kernel_height * spec.kernel_width;
    // Another thread is waited for longer than it works for less than this.
    spec.parts = std::clamp<int64_t>(spec.images * height_ * width_ * weights / kLeastWork, 1, spec.parts);
    const bool is_weighty = weights >= 2 * spec.images * spec.height * spec.width * spec.channels;
    if (is_weighty && spec.groups == 1 && spec.results % (kChannels * spec.parts) == 0) {
      // Each thread reads its own weights only, which are more than the data.
      chunks_ = spec.parts;
      for (int64_t chunk = 0; chunk < chunks_; ++chunk) add(0, spec.images, 0, height_, chunk);
      return;
    }
    if (spec.images >= spec.parts) {
      // Shares of a thread in turn, since threads are not equally fast.
      const int64_t cuts = std::min(spec.images, 2 * spec.parts);
      for (int64_t cut = 0; cut < cuts; ++cut) {
        add(spec.images * cut / cuts, spec.images * (cut + 1) / cuts, 0, height_, 0);
      }
      return;
    }
    const int64_t cuts = std::min((spec.parts + spec.images - 1) / spec.images, height_);
    for (int64_t image = 0; image < spec.images; ++image) {
      for (int64_t cut = 0; cut < cuts; ++cut) {
        add(image, image + 1, height_ * cut / cuts, height_ * (cut + 1) / cuts, 0);
      }
    }
  }

  int64_t packed() const { return chunks_ * chunk(); }
  const std::vector<Part>& parts() const { return parts_; }

  // Weights [M, C / groups, height, width], or a matrix [C, M], into the layout of the kernels, or back.
  void pack(float* plain, float* packed, bool is_matrix, bool back) const {
    const OneThread alone;
    const int64_t each = spec.results / chunks_;
    const Owned own = is_matrix ? by_strides({each, spec.channels, 1, 1}, {1, spec.results, 1, 1}) : plain_layout();
    const void *from = back ? layout_ : own.get(), *to = back ? own.get() : layout_;
    Owned attributes(dnn->destroy_attributes), description(dnn->destroy_description), primitive(dnn->destroy);
    check(dnn->create_attributes(attributes.out()), "attributes");
    check(dnn->describe_reorder(description.out(), from, engine, to, engine, attributes.get()), "a layout of weights");
    check(dnn->create(primitive.out(), description.get()), "a layout of weights");
    const int64_t size = (spec.channels / spec.groups) * spec.kernel_height * spec.kernel_width;
    const int64_t step = is_matrix ? each : each * size;
    for (int64_t i = 0; i < chunks_; ++i) {
      float *own_plain = plain + i * step, *own_packed = packed + i * chunk();
      Memories memories;
      memories.add(onednn::kSource, from, back ? own_packed : own_plain);
      memories.add(onednn::kResult, to, back ? own_plain : own_packed);
      memories.execute(primitive.get());
    }
  }

  Spec spec;

 private:
  // Floats of the packed weights of a chunk of channels.
  int64_t chunk() const { return static_cast<int64_t>(dnn->bytes(layout_) / sizeof(float)); }

  Owned plain_layout() const {
    const int64_t inner = spec.kernel_height * spec.kernel_width, channels = spec.channels / spec.groups;
    const int64_t each = spec.results / spec.groups;
    if (spec.groups == 1) {
      return by_strides({spec.results / chunks_, channels, spec.kernel_height, spec.kernel_width},
                        {channels * inner, inner, spec.kernel_width, 1});
    }
    return by_strides({spec.groups, each, channels, spec.kernel_height, spec.kernel_width},
                      {each * channels * inner, channels * inner, inner, spec.kernel_width, 1});
  }

  // The part of images [first, last) with rows [begin, end) of the result, and one chunk of its channels.
  void add(int64_t first, int64_t last, int64_t begin, int64_t end, int64_t chunk_index) {
    const int64_t reach = (spec.kernel_height - 1) * spec.gap_y + 1;
    int64_t top = spec.top, bottom = spec.bottom, above = 0, rows = spec.height;
    if (end - begin < height_) {
      const int64_t from = begin * spec.stride_y - spec.top, to = (end - 1) * spec.stride_y - spec.top + reach;
      top = std::max<int64_t>(0, -from);
      bottom = std::max<int64_t>(0, to - spec.height);
      above = std::max<int64_t>(0, from);
      rows = std::min(to, spec.height) - above;
    }
    if (rows <= 0) throw std::runtime_error("a part has no rows");
    const auto [found, is_new] = kernels_.try_emplace({last - first, rows, end - begin, top, bottom});
    if (is_new) found->second = make(last - first, rows, end - begin, top, bottom);
    const int64_t channel = chunk_index * (spec.results / chunks_);
    parts_.push_back({&found->second, (first * spec.height + above) * spec.width * spec.channels,
                      (first * height_ + begin) * width_ * spec.results + channel, chunk_index * chunk(), channel,
                      chunks_ == 1 ? 0 : (last - first) * (end - begin) * width_});
  }

  Kernel make(int64_t images, int64_t rows, int64_t height, int64_t top, int64_t bottom) {
    Kernel made;
    const int64_t results = spec.results / chunks_;
    made.source = channels_last(images, spec.channels, rows, spec.width);
    made.result = channels_last(images, results, height, width_);
    if (spec.has_bias) made.bias = by_strides({results}, {1});
    Owned operations(dnn->destroy_post_operations), attributes(dnn->destroy_attributes), weights(dnn->destroy_layout);
    check(dnn->create_post_operations(operations.out()), "attributes");
    if (spec.has_addend) check(dnn->append_sum(operations.get(), 1.0f, 0, onednn::kUndefinedType), "a sum");
    if (spec.activation) {
      check(dnn->append_activation(operations.get(), kActivations[spec.activation], 0.0f, 0.0f), "an activation");
    }
    check(dnn->create_attributes(attributes.out()), "attributes");
    check(dnn->set_post_operations(attributes.get(), operations.get()), "attributes");
    check(dnn->set_scratchpad_mode(attributes.get(), onednn::kUserScratchpad), "attributes");
    Dims dims = {results, spec.channels, spec.kernel_height, spec.kernel_width};
    if (spec.groups > 1) dims = {spec.groups, results / spec.groups, spec.channels / spec.groups, dims[2], dims[3]};
    if (layout_ == nullptr) {
      // The first part chooses for all.
      const int rank = static_cast<int>(dims.size());
      check(dnn->describe_by_tag(weights.out(), rank, dims.data(), onednn::kFloat32, onednn::kAnyFormat), "a layout");
    }
    const int64_t strides[] = {spec.stride_y, spec.stride_x}, gaps[] = {spec.gap_y - 1, spec.gap_x - 1};
    const int64_t before[] = {top, spec.left}, after[] = {bottom, spec.right};
    check(dnn->describe_convolution(made.description.out(), engine, onednn::kForwardInference, onednn::kDirect,
                                    made.source.get(), layout_ == nullptr ? weights.get() : layout_, made.bias.get(),
                                    made.result.get(), strides, gaps, before, after, attributes.get()),
          "a convolution");
    const char* name = nullptr;
    check(dnn->query(made.description.get(), onednn::kImplementation, 0, &name), "a name");
    if (std::strncmp(name, "ref", 3) == 0) throw std::runtime_error("only the reference implementation");
    check(dnn->create(made.primitive.out(), made.description.get()), "a convolution");
    made.weights = dnn->query_memory(made.description.get(), onednn::kWeights, 0);
    made.scratchpad = dnn->query_memory(made.description.get(), onednn::kScratchpad, 0);
    made.scratchpad_bytes = dnn->bytes(made.scratchpad);
    if (layout_ == nullptr) layout_ = made.weights;
    if (!dnn->equal(layout_, made.weights)) throw std::runtime_error("parts with layouts of their own");
    return made;
  }

  int64_t height_, width_, chunks_ = 1;
  const void* layout_ = nullptr;
  std::map<std::array<int64_t, 5>, Kernel> kernels_;
  std::vector<Part> parts_;
};

// The plan of a spec; it raises std::runtime_error where oneDNN has no fast implementation.
const Plan& plan_of(const int64_t* numbers) {
  static auto& plans = *new std::map<Key, std::unique_ptr<Plan>>;
  Key key;
  std::copy(numbers, numbers + kNumbers, key.begin());
  const std::lock_guard<std::mutex> locked(guard);
  if (dnn == nullptr) throw std::runtime_error("oneDNN is not open");
  auto& found = plans[key];
  if (found == nullptr) {
    Spec spec;
    std::memcpy(&spec, numbers, sizeof spec);
    found = std::make_unique<Plan>(spec);
  }
  return *found;
}

// A run whose parts threads take in turn.
struct Run {
  const Plan& plan;
  float *source, *weights, *bias, *result;
  std::atomic<size_t> next{0}, done{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::condition_variable all_done;

  Run(const Plan& plan, float* source, float* weights, float* bias, float* result)
      : plan(plan), source(source), weights(weights), bias(bias), result(result) {}

  // Takes parts as long as there are any.
  void work() {
    const auto& parts = plan.parts();
    for (size_t i = next++; i < parts.size(); i = next++) {
      try {
        take(parts[i]);
      } catch (const std::exception&) {
        failed = true;
      }
      if (++done == parts.size()) {
        const std::lock_guard<std::mutex> locked(mutex);
        all_done.notify_all();
      }
    }
  }

  void take(const Part& part) {
    const Kernel& kernel = *part.kernel;
    const int64_t all = plan.spec.results, chunks = static_cast<int64_t>(plan.parts().size());
    const int64_t own = part.places == 0 ? all : all / chunks;
    float *whole = result + part.result, *target = whole;
    if (part.places != 0) {
      target = static_cast<float*>(workspace().channels.of(part.places * own * sizeof(float)));
      for (int64_t i = 0; plan.spec.has_addend && i < part.places; ++i) {
        std::memcpy(target + i * own, whole + i * all, own * sizeof(float));
      }
    }
    Memories memories;
    memories.add(onednn::kSource, kernel.source.get(), source + part.source);
    memories.add(onednn::kKernel, kernel.weights, weights + part.weights);
    if (kernel.bias.get() != nullptr) memories.add(onednn::kBias, kernel.bias.get(), bias + part.bias);
    memories.add(onednn::kResult, kernel.result.get(), target);
    memories.add(onednn::kScratch, kernel.scratchpad, workspace().scratchpad.of(kernel.scratchpad_bytes));
    memories.execute(kernel.primitive.get());
    for (int64_t i = 0; i < part.places; ++i) std::memcpy(whole + i * all, target + i * own, own * sizeof(float));
  }

  void wait() {
    constexpr int kTurns = 200;
    for (int turn = 0; turn < kTurns; ++turn) {
      if (done == plan.parts().size()) return;
      std::this_thread::yield();
    }
    std::unique_lock<std::mutex> locked(mutex);
    all_done.wait(locked, [this] { return done == plan.parts().size(); });
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
    return error_of(call, xla_ffi::kInvalidArgument, "oneDNN's convolution: no spec");
  }
  const Plan& plan = plan_of(static_cast<const int64_t*>(numbers->data));
  if (call.arguments.count != 2 + plan.spec.has_bias + plan.spec.has_addend || call.results.count != 1) {
    return error_of(call, xla_ffi::kInvalidArgument, "oneDNN's convolution: arguments that do not fit its spec");
  }
  const auto buffer = [](void* item) { return static_cast<xla_ffi::Buffer*>(item); };
  const auto data = [&](int64_t i) { return static_cast<float*>(buffer(call.arguments.items[i])->data); };
  if (buffer(call.arguments.items[1])->dims[0] != plan.packed()) {
    return error_of(call, xla_ffi::kInvalidArgument, "oneDNN's convolution: weights of another layout");
  }
  const xla_ffi::Buffer& result = *buffer(call.results.items[0]);
  float* bias = plan.spec.has_bias ? data(2) : nullptr;
  const auto shared = std::make_shared<Run>(plan, data(0), data(1), bias, static_cast<float*>(result.data));
  if (plan.spec.has_addend && data(2 + plan.spec.has_bias) != shared->result) {
    int64_t count = 1;
    for (int64_t i = 0; i < result.rank; ++i) count *= result.dims[i];
    std::memcpy(shared->result, data(2 + plan.spec.has_bias), count * sizeof(float));
  }
  const bool has_threads = call.api->size >= offsetof(xla_ffi::Api, schedule) + sizeof call.api->schedule;
  for (size_t i = 1; has_threads && i < plan.parts().size(); ++i) {
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
  return shared->failed ? error_of(call, xla_ffi::kInternal, "oneDNN could not run a convolution") : nullptr;
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
  const bool opened = succeeds([&] {
    if (dnn != nullptr) return;
    auto functions = std::make_unique<onednn::Functions>(path);
    check(functions->create_engine(&engine, onednn::kCpu, 0), "an engine");
    dnn = functions.release();
  });
  if (!opened) return 0;
  const auto* version = dnn->version();
  return version->major * 10000 + version->minor * 100 + version->patch;
}

// How many floats the weights of a spec are in oneDNN's layout; -1 where it has no fast implementation.
int64_t paddle_ipu_onednn_packed(const int64_t* spec) {
  int64_t count = -1;
  succeeds([&] { count = plan_of(spec).packed(); });
  return count;
}

// Weights [M, C / groups, height, width], or a matrix [C, M], into oneDNN's layout, or back; 0 where it failed.
int paddle_ipu_onednn_pack(const int64_t* spec, float* plain, float* packed, int is_matrix, int back) {
  return succeeds([&] { plan_of(spec).pack(plain, packed, is_matrix != 0, back != 0); });
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
