// oneDNN lays weights out for its kernels: before a convolution they are packed, and a gradient of them is unpacked.
// Images are shared among threads. Of the gradient of weights each part of the images has its own sum, and the sums are
// added in their order.

#include "onednn/training.h"

#include "onednn/objects.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

namespace {

using onednn::check;
using onednn::Dims;
using onednn::dnn;
using onednn::engine;
using onednn::OneThread;
using onednn::Owned;

// The primitive for some images.
struct Kernel {
  Owned data, result, description, primitive;
  const void *weights = nullptr, *scratchpad = nullptr;
  size_t scratchpad_bytes = 0;
  Kernel()
      : data(dnn->destroy_layout),
        result(dnn->destroy_layout),
        description(dnn->destroy_description),
        primitive(dnn->destroy) {}
};

// Some images, from `first` on.
struct Images {
  const Kernel* kernel;
  int64_t first;
};

// Weights between the model's layout and the kernels', of some channels of the result.
struct Relayout {
  Owned plain, packed, primitive;
};

class Training : public TrainingPlan {
 public:
  Training(const Spec& given, Direction direction)
      : spec_(given), direction_(direction), height_(spec_.result_height()), width_(spec_.result_width()) {
    onednn::refuse_wrong(spec_);
    const OneThread alone;
    const int64_t threads = threads_of(spec_);
    // Two parts for each thread, since threads are not equally fast; but a part has a sum of its own.
    const int64_t cuts = std::min(spec_.images, of_weights() ? threads : 2 * threads);
    for (int64_t cut = 0; cut < cuts; ++cut) {
      const int64_t first = spec_.images * cut / cuts, count = spec_.images * (cut + 1) / cuts - first;
      const auto [found, is_new] = kernels_.try_emplace(count);
      if (is_new) found->second = make(count);
      images_.push_back({&found->second, first});
    }
    packed_ = static_cast<int64_t>(dnn->bytes(layout_) / sizeof(float));
    // Threads share the weights where cuts between the channels of the result are none within a block of the layout.
    int64_t all = spec_.groups == 1 ? threads : 1;
    while (all > 1 && !cuts_layout(all)) --all;
    for (int64_t part = 0; part < all; ++part) relayouts_.push_back(relayout(part, all));
    sums_ = threads;
  }

  int64_t scratch() const override { return packed_ * (of_weights() ? static_cast<int64_t>(images_.size()) : 1); }

  int64_t stages() const override { return of_weights() ? 3 : 2; }

  int64_t parts(int64_t stage) const override {
    if (stage == (of_weights() ? 0 : 1)) return static_cast<int64_t>(images_.size());
    if (of_weights() && stage == 1) return images_.size() > 1 ? sums_ : 0;
    return static_cast<int64_t>(relayouts_.size());
  }

  void take(int64_t stage, int64_t part, const TrainingBuffers& buffers) const override {
    if (of_weights()) {
      if (stage == 0) return run(part, buffers.first, buffers.scratch + part * packed_, buffers.second);
      if (stage == 1) return add(part, buffers.scratch);
      return convert(relayouts_[part], buffers.scratch, buffers.result);
    }
    if (stage == 0) return convert(relayouts_[part], buffers.second, buffers.scratch);
    const bool forward = direction_ == kForward;
    run(part, forward ? buffers.first : buffers.result, buffers.scratch, forward ? buffers.result : buffers.first);
  }

 private:
  bool of_weights() const { return direction_ == kKernelGradient; }

  // The convolution of some images, whichever of the operands is its result.
  void run(int64_t part, const float* data, const float* weights, const float* result) const {
    const Images& images = images_[part];
    const Kernel& kernel = *images.kernel;
    const bool of_data = direction_ == kDataGradient;
    onednn::Memories memories;
    memories.add(of_data ? onednn::kOfSource : onednn::kSource, kernel.data.get(),
                 data + images.first * spec_.height * spec_.width * spec_.channels);
    memories.add(of_weights() ? onednn::kOfKernel : onednn::kKernel, kernel.weights, weights);
    memories.add(direction_ == kForward ? onednn::kResult : onednn::kOfResult, kernel.result.get(),
                 result + images.first * height_ * width_ * spec_.results);
    memories.add(onednn::kScratch, kernel.scratchpad, onednn::workspace().scratchpad.of(kernel.scratchpad_bytes));
    memories.execute(kernel.primitive.get());
  }

  // Adds a range of all sums to the first one's.
  void add(int64_t part, float* sums) const {
    const int64_t begin = packed_ * part / sums_, end = packed_ * (part + 1) / sums_;
    for (size_t other = 1; other < images_.size(); ++other) {
      const float* own = sums + static_cast<int64_t>(other) * packed_;
      for (int64_t i = begin; i < end; ++i) sums[i] += own[i];
    }
  }

  void convert(const Relayout& relayout, const float* source, float* result) const {
    onednn::Memories memories;
    memories.add(onednn::kSource, (of_weights() ? relayout.packed : relayout.plain).get(), source);
    memories.add(onednn::kResult, (of_weights() ? relayout.plain : relayout.packed).get(), result);
    memories.execute(relayout.primitive.get());
  }

  Dims weights_dims() const {
    const int64_t channels = spec_.channels / spec_.groups;
    if (spec_.groups == 1) return {spec_.results, channels, spec_.kernel_height, spec_.kernel_width};
    return {spec_.groups, spec_.results / spec_.groups, channels, spec_.kernel_height, spec_.kernel_width};
  }

  // Whether the weights can be cut into so many parts.
  bool cuts_layout(int64_t all) const {
    Dims dims = weights_dims();
    if (dims[0] % all != 0) return false;
    dims[0] /= all;
    const int64_t offsets[5] = {dims[0]};
    Owned part(dnn->destroy_layout);
    return dnn->describe_part(part.out(), layout_, dims.data(), offsets) == 0;
  }

  // One of `all` parts of the weights, by channels of the result.
  Relayout relayout(int64_t part, int64_t all) const {
    Dims dims = weights_dims(), strides(dims.size(), 1), offsets(dims.size(), 0);
    for (size_t axis = dims.size() - 1; axis > 0; --axis) strides[axis - 1] = strides[axis] * dims[axis];
    const Owned whole = onednn::by_strides(dims, strides);
    dims[0] /= all;
    offsets[0] = part * dims[0];
    Relayout made = {Owned(dnn->destroy_layout), Owned(dnn->destroy_layout), Owned(dnn->destroy)};
    check(dnn->describe_part(made.plain.out(), whole.get(), dims.data(), offsets.data()), "a part of weights");
    check(dnn->describe_part(made.packed.out(), layout_, dims.data(), offsets.data()), "a part of weights");
    made.primitive = of_weights() ? onednn::reorder(made.packed.get(), made.plain.get())
                                  : onednn::reorder(made.plain.get(), made.packed.get());
    return made;
  }

  // The primitive for some images; the first one chooses the layout of the weights.
  Kernel make(int64_t images) {
    Kernel made;
    made.data = onednn::channels_last(images, spec_.channels, spec_.height, spec_.width);
    made.result = onednn::channels_last(images, spec_.results, height_, width_);
    const Owned any = onednn::any_layout(weights_dims());
    const void* weights = layout_ == nullptr ? any.get() : layout_;
    Owned attributes(dnn->destroy_attributes), forward(dnn->destroy_description);
    check(dnn->create_attributes(attributes.out()), "attributes");
    check(dnn->set_scratchpad_mode(attributes.get(), onednn::kUserScratchpad), "attributes");
    const int64_t strides[] = {spec_.stride_y, spec_.stride_x}, gaps[] = {spec_.gap_y - 1, spec_.gap_x - 1};
    const int64_t before[] = {spec_.top, spec_.left}, after[] = {spec_.bottom, spec_.right};
    const void *data = made.data.get(), *result = made.result.get();
    if (direction_ == kForward) {
      check(dnn->describe_convolution(made.description.out(), engine, onednn::kForwardTraining, onednn::kDirect, data,
                                      weights, nullptr, result, strides, gaps, before, after, attributes.get()),
            "a convolution");
    } else {
      // oneDNN wants to see the convolution that a gradient is of.
      check(dnn->describe_convolution(forward.out(), engine, onednn::kForwardTraining, onednn::kDirect, data, any.get(),
                                      nullptr, result, strides, gaps, before, after, attributes.get()),
            "a convolution");
      check(of_weights() ? dnn->describe_kernel_gradient(made.description.out(), engine, onednn::kDirect, data, weights,
                                                         nullptr, result, strides, gaps, before, after, forward.get(),
                                                         attributes.get())
                         : dnn->describe_data_gradient(made.description.out(), engine, onednn::kDirect, data, weights,
                                                       result, strides, gaps, before, after, forward.get(),
                                                       attributes.get()),
            "a gradient");
    }
    const char* name = nullptr;
    check(dnn->query(made.description.get(), onednn::kImplementation, 0, &name), "a name");
    if (std::strncmp(name, "ref", 3) == 0) throw std::runtime_error("only the reference implementation");
    check(dnn->create(made.primitive.out(), made.description.get()), "a convolution");
    const int which = of_weights() ? onednn::kWeightsGradient : onednn::kWeights;
    made.weights = dnn->query_memory(made.description.get(), which, 0);
    made.scratchpad = dnn->query_memory(made.description.get(), onednn::kScratchpad, 0);
    made.scratchpad_bytes = dnn->bytes(made.scratchpad);
    if (layout_ == nullptr) layout_ = made.weights;
    if (!dnn->equal(layout_, made.weights)) throw std::runtime_error("parts with layouts of their own");
    return made;
  }

  const Spec spec_;
  const Direction direction_;
  const int64_t height_, width_;
  int64_t packed_ = 0, sums_ = 1;
  const void* layout_ = nullptr;
  std::map<int64_t, Kernel> kernels_;
  std::vector<Images> images_;
  std::vector<Relayout> relayouts_;
};

}  // namespace

std::unique_ptr<TrainingPlan> make_training(const Spec& spec, Direction direction) {
  if (dnn == nullptr) throw std::runtime_error("oneDNN is not open");
  return std::make_unique<Training>(spec, direction);
}
