// What a convolution is, and how its work is cut into parts for threads.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

// What is computed; the fields are in the order in which library.py writes them, which explains them.
struct Spec {
  int64_t images, channels, height, width, results, groups, kernel_height, kernel_width;
  int64_t stride_y, stride_x, gap_y, gap_x, top, left, bottom, right;
  int64_t activation, has_bias, has_addend, parts, lanes;

  int64_t result_height() const {
    return (height + top + bottom - (kernel_height - 1) * gap_y - 1) / stride_y + 1;
  }
  int64_t result_width() const {
    return (width + left + right - (kernel_width - 1) * gap_x - 1) / stride_x + 1;
  }
  int64_t weights() const { return results * channels / groups * kernel_height * kernel_width; }
  int64_t work() const { return images * result_height() * result_width() * weights(); }
  // Whether it is a product of x [images * height * width, channels] and a matrix.
  bool is_product() const {
    return kernel_height == 1 && kernel_width == 1 && stride_y == 1 && stride_x == 1 &&
           top + left + bottom + right == 0;
  }
};
constexpr int kNumbers = sizeof(Spec) / sizeof(int64_t);

// By the index in library.py's ACTIVATIONS.
enum Activation : int64_t { kNone, kReluOf, kGeluErfOf, kGeluTanhOf, kHardSwishOf, kSwishOf, kActivationCount };

// Multiplications for which another thread is worth its start: with fewer it is waited for longer than it works.
constexpr int64_t kLeastWork = 500'000;
// Bytes of memory likewise.
constexpr int64_t kLeastBytes = 1 << 19;

// count / size, rounded up.
inline int64_t up(int64_t count, int64_t size) { return (count + size - 1) / size; }

// How many threads share a convolution. One with few places takes the time of reading its weights.
inline int64_t threads_of(const Spec& spec) {
  const int64_t bytes = spec.weights() * static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(std::max(spec.work() / kLeastWork, bytes / kLeastBytes), 1, spec.parts);
}

// What a run reads and writes: x [N, H, W, C], packed weights, bias [M] or null, and the result, which has
// the addend in it where there is one.
struct Buffers {
  const float *source, *weights, *bias;
  float* result;
};

// Scratch memory of one thread, aligned to cache lines. It grows, and keeps nothing when it does.
class Memory {
 public:
  void* of(size_t size) {
    constexpr size_t kAligned = 64;
    if (bytes_.size() < size + kAligned) bytes_.resize(size + kAligned);
    const auto begin = reinterpret_cast<uintptr_t>(bytes_.data());
    return reinterpret_cast<void*>((begin + kAligned - 1) / kAligned * kAligned);
  }
  float* floats(int64_t count) { return static_cast<float*>(of(static_cast<size_t>(count) * sizeof(float))); }

 private:
  std::vector<char> bytes_;
};

// A convolution cut into parts; made once for each spec, and kept.
class Plan {
 public:
  explicit Plan(const Spec& given) : spec(given) {}
  virtual ~Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Floats of the packed weights.
  virtual int64_t packed() const = 0;
  virtual int64_t parts() const = 0;
  // Computes a part; parts may run at once, in any order.
  virtual void take(int64_t part, const Buffers& buffers) const = 0;
  // Weights [M, C / groups, height, width], or a matrix [C, M], into the layout of the plan.
  virtual void pack(const float* plain, float* packed, bool is_matrix) const = 0;
  // The inverse of pack, bit by bit.
  virtual void unpack(const float* packed, float* plain, bool is_matrix) const = 0;

  const Spec spec;
};
