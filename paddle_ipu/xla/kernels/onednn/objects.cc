#include "onednn/objects.h"

#include "onednn/direct.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

namespace onednn {

Functions* dnn = nullptr;
void* engine = nullptr;

void check(int status, const char* what) {
  if (status != 0) throw std::runtime_error(std::string(what) + ": oneDNN's status " + std::to_string(status));
}

void refuse_wrong(const Spec& spec) {
  if (spec.result_width() == 1 && spec.result_height() > 1 && spec.stride_x != spec.stride_y) {
    // It steps from row to row by the stride of the columns.
    throw std::runtime_error("a result one column wide, by other strides down than across");
  }
  const int64_t reach_y = (spec.kernel_height - 1) * spec.gap_y + 1;
  const int64_t reach_x = (spec.kernel_width - 1) * spec.gap_x + 1;
  if (std::max(spec.top, spec.bottom) >= reach_y || std::max(spec.left, spec.right) >= reach_x) {
    // It reads outside of the data.
    throw std::runtime_error("places of the result that read padding only");
  }
}

OneThread::OneThread() {
  for (int i = 0; i < dnn->found_openmp; ++i) {
    before_[i] = dnn->openmp[i].get();
    dnn->openmp[i].set(1);
  }
}

OneThread::~OneThread() {
  for (int i = 0; i < dnn->found_openmp; ++i) dnn->openmp[i].set(before_[i]);
}

Owned by_strides(const Dims& dims, const Dims& strides) {
  Owned found(dnn->destroy_layout);
  const int rank = static_cast<int>(dims.size());
  check(dnn->describe_by_strides(found.out(), rank, dims.data(), kFloat32, strides.data()), "a layout");
  return found;
}

Owned any_layout(const Dims& dims) {
  Owned found(dnn->destroy_layout);
  const int rank = static_cast<int>(dims.size());
  check(dnn->describe_by_tag(found.out(), rank, dims.data(), kFloat32, kAnyFormat), "a layout");
  return found;
}

Owned channels_last(int64_t images, int64_t channels, int64_t height, int64_t width) {
  return by_strides({images, channels, height, width}, {height * width * channels, 1, width * channels, channels});
}

Owned reorder(const void* from, const void* to) {
  Owned attributes(dnn->destroy_attributes), description(dnn->destroy_description), primitive(dnn->destroy);
  check(dnn->create_attributes(attributes.out()), "attributes");
  check(dnn->describe_reorder(description.out(), from, engine, to, engine, attributes.get()), "a layout of weights");
  check(dnn->create(primitive.out(), description.get()), "a layout of weights");
  return primitive;
}

Workspace::Workspace() { check(dnn->create_stream(&stream, engine, kInOrder), "a stream"); }

Workspace::~Workspace() { dnn->destroy_stream(stream); }

Workspace& workspace() {
  thread_local Workspace own;
  return own;
}

void Memories::add(int number, const void* description, const void* data) {
  void* memory = nullptr;
  // oneDNN writes to results only.
  check(dnn->create_memory(&memory, description, engine, const_cast<void*>(data)), "a memory object");
  arguments_[count_++] = {number, memory};
}

void Memories::execute(const void* primitive) {
  check(dnn->execute(primitive, workspace().stream, count_, arguments_), "a run");
}

Memories::~Memories() {
  for (int i = 0; i < count_; ++i) dnn->destroy_memory(arguments_[i].memory);
}

}  // namespace onednn

int open_onednn(const char* path) {
  using namespace onednn;
  if (dnn == nullptr) {
    auto functions = std::make_unique<Functions>(path);
    check(functions->create_engine(&engine, kCpu, 0), "an engine");
    dnn = functions.release();
  }
  const auto* version = dnn->version();
  return version->major * 10000 + version->minor * 100 + version->patch;
}
