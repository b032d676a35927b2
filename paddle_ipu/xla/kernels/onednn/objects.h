// Objects of oneDNN's that convolutions are made of: layouts, memory, a thread's stream.

#pragma once

#include "onednn/onednn.h"
#include "plan.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace onednn {

using Dims = std::vector<int64_t>;

// Null until oneDNN is open. Never destroyed: XLA's threads may outlive this library's globals.
extern Functions* dnn;
extern void* engine;

// Raises std::runtime_error where oneDNN's status is not 0.
void check(int status, const char* what);

// Raises std::runtime_error for a convolution that oneDNN 3.6 gets wrong.
void refuse_wrong(const Spec& spec);

// Within its scope oneDNN makes primitives for one thread, since it asks OpenMP for the number.
class OneThread {
 public:
  OneThread();
  ~OneThread();

 private:
  int before_[2] = {};
};

// Owns an object of oneDNN's.
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

// A layout given by strides.
Owned by_strides(const Dims& dims, const Dims& strides);

// A layout that a primitive chooses.
Owned any_layout(const Dims& dims);

// The layout [N, H, W, C]; oneDNN names dimensions in the order N, C, H, W whatever the layout.
Owned channels_last(int64_t images, int64_t channels, int64_t height, int64_t width);

// What converts float32 arrays of one layout into another.
Owned reorder(const void* from, const void* to);

// A thread's own stream and memory.
struct Workspace {
  void* stream = nullptr;
  Memory scratchpad, channels;
  Workspace();
  ~Workspace();
};

Workspace& workspace();

// The operands of one run, as memory objects of oneDNN's.
class Memories {
 public:
  void add(int number, const void* description, const void* data);
  void execute(const void* primitive);
  ~Memories();

 private:
  Argument arguments_[5];
  int count_ = 0;
};

}  // namespace onednn
