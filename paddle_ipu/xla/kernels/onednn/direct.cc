// Convolutions by oneDNN: one primitive for each part, made for a single thread. XLA's threads run the parts, so that
// oneDNN's own threads (OpenMP) do not compete with them.
//
// oneDNN chooses the layout of the weights for the first part; all others with as many channels of the result are made
// for the same layout.

#include "onednn/direct.h"

#include "onednn/objects.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

namespace {

constexpr int64_t kLongestVector = 16;

using onednn::check;
using onednn::Dims;
using onednn::dnn;
using onednn::engine;
using onednn::OneThread;
using onednn::Owned;

// oneDNN's number of an activation, and its two parameters.
struct Eltwise {
  int algorithm;
  float alpha, beta;
};
constexpr Eltwise kActivations[kActivationCount] = {{0, 0, 0},
                                                    {onednn::kRelu, 0, 0},
                                                    {onednn::kGeluErf, 0, 0},
                                                    {onednn::kGeluTanh, 0, 0},
                                                    {onednn::kHardSwish, 1.0f / 6, 0.5f},
                                                    {onednn::kSwish, 1, 0}};

// A primitive: the convolution of some rows of some images, for one thread.
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

// A part: its primitive, and the offsets of its operands. Where it computes some channels of the result only, these
// go to scratch memory first, `places` rows of them, since oneDNN's fast kernels write contiguous channels.
struct Part {
  const Kernel* kernel;
  int64_t source, result, weights, bias, channels, places;
};

// How a convolution is cut: by channels of the result where weights are more than data, else by images, else by rows
// of the result.
class Direct : public Plan {
 public:
  explicit Direct(const Spec& given)
      : Plan(reduced(given)), height_(spec.result_height()), width_(spec.result_width()) {
    onednn::refuse_wrong(spec);
    const OneThread alone;
    const bool is_weighty = spec.weights() >= 2 * spec.images * spec.height * spec.width * spec.channels;
    // Cuts between channels are at multiples of a vector; the last chunk has the rest, too.
    const int64_t vectors = spec.results / kLongestVector, chunks = std::clamp<int64_t>(vectors, 1, spec.parts);
    if (is_weighty && spec.groups == 1 && (chunks > 1 || spec.parts == 1)) {
      // Each thread reads its own weights, and all of the data.
      for (int64_t i = 1; i < chunks; ++i) starts_.insert(starts_.end() - 1, vectors * i / chunks * kLongestVector);
      for (int64_t i = 0; i < chunks; ++i) add(0, spec.images, 0, height_, i);
      return;
    }
    if (spec.images >= spec.parts) {
      // Two parts for each thread, since threads are not equally fast.
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

  int64_t packed() const override { return packed_before(chunks()); }
  int64_t parts() const override { return static_cast<int64_t>(parts_.size()); }

  void take(int64_t index, const Buffers& buffers) const override {
    const Part& part = parts_[static_cast<size_t>(index)];
    const Kernel& kernel = *part.kernel;
    const int64_t all = spec.results, own = part.channels;
    float *whole = buffers.result + part.result, *target = whole;
    if (part.places != 0) {
      target = onednn::workspace().channels.floats(part.places * own);
      for (int64_t i = 0; spec.has_addend && i < part.places; ++i) {
        std::memcpy(target + i * own, whole + i * all, own * sizeof(float));
      }
    }
    onednn::Memories memories;
    memories.add(onednn::kSource, kernel.source.get(), buffers.source + part.source);
    memories.add(onednn::kKernel, kernel.weights, buffers.weights + part.weights);
    if (kernel.bias.get() != nullptr) memories.add(onednn::kBias, kernel.bias.get(), buffers.bias + part.bias);
    memories.add(onednn::kResult, kernel.result.get(), target);
    memories.add(onednn::kScratch, kernel.scratchpad, onednn::workspace().scratchpad.of(kernel.scratchpad_bytes));
    memories.execute(kernel.primitive.get());
    for (int64_t i = 0; i < part.places; ++i) std::memcpy(whole + i * all, target + i * own, own * sizeof(float));
  }

  void pack(const float* plain, float* packed, bool is_matrix) const override {
    for (int64_t i = 0; i < chunks(); ++i) {
      const Owned own = plain_layout(i, is_matrix);
      convert(own.get(), plain + plain_before(i, is_matrix), layout_of(i), packed + packed_before(i));
    }
  }

  void unpack(const float* packed, float* plain, bool is_matrix) const override {
    for (int64_t i = 0; i < chunks(); ++i) {
      const Owned own = plain_layout(i, is_matrix);
      convert(layout_of(i), packed + packed_before(i), own.get(), plain + plain_before(i, is_matrix));
    }
  }

 private:
  // A product's images become one; no more threads than there is work for.
  static Spec reduced(Spec spec) {
    if (spec.is_product()) {
      spec.height *= spec.images;
      spec.images = 1;
    }
    spec.parts = threads_of(spec);
    return spec;
  }

  // Chunks of channels of the result.
  int64_t chunks() const { return static_cast<int64_t>(starts_.size()) - 1; }
  int64_t start(int64_t chunk) const { return starts_[static_cast<size_t>(chunk)]; }
  int64_t channels_of(int64_t chunk) const { return start(chunk + 1) - start(chunk); }
  const void* layout_of(int64_t chunk) const { return layouts_.at(channels_of(chunk)); }

  // Floats of the packed weights before a chunk, and of the plain ones.
  int64_t packed_before(int64_t chunk) const {
    size_t bytes = 0;
    for (int64_t i = 0; i < chunk; ++i) bytes += dnn->bytes(layout_of(i));
    return static_cast<int64_t>(bytes / sizeof(float));
  }
  int64_t plain_before(int64_t chunk, bool is_matrix) const {
    return is_matrix ? start(chunk) : start(chunk) * (spec.weights() / spec.results);
  }

  // Weights of one layout into another.
  static void convert(const void* from, const float* source, const void* to, float* result) {
    const OneThread alone;
    const Owned primitive = onednn::reorder(from, to);
    onednn::Memories memories;
    memories.add(onednn::kSource, from, source);
    memories.add(onednn::kResult, to, result);
    memories.execute(primitive.get());
  }

  // The layout of a chunk's plain weights.
  Owned plain_layout(int64_t chunk, bool is_matrix) const {
    if (is_matrix) return onednn::by_strides({channels_of(chunk), spec.channels, 1, 1}, {1, spec.results, 1, 1});
    const int64_t inner = spec.kernel_height * spec.kernel_width, channels = spec.channels / spec.groups;
    const int64_t each = spec.results / spec.groups;
    if (spec.groups == 1) {
      return onednn::by_strides({channels_of(chunk), channels, spec.kernel_height, spec.kernel_width},
                                {channels * inner, inner, spec.kernel_width, 1});
    }
    return onednn::by_strides({spec.groups, each, channels, spec.kernel_height, spec.kernel_width},
                              {each * channels * inner, channels * inner, inner, spec.kernel_width, 1});
  }

  // The part of images [first, last) with rows [begin, end) of the result, and one chunk of its channels.
  void add(int64_t first, int64_t last, int64_t begin, int64_t end, int64_t chunk) {
    const int64_t reach = (spec.kernel_height - 1) * spec.gap_y + 1;
    int64_t top = spec.top, bottom = spec.bottom, above = 0, rows = spec.height;
    if (end - begin < height_) {
      // The rows of the data that these rows of the result read, and how much padding is left at either end.
      const int64_t from = begin * spec.stride_y - spec.top, to = (end - 1) * spec.stride_y - spec.top + reach;
      top = std::max<int64_t>(0, -from);
      bottom = std::max<int64_t>(0, to - spec.height);
      above = std::max<int64_t>(0, from);
      rows = std::min(to, spec.height) - above;
    }
    if (rows <= 0) throw std::runtime_error("a part has no rows");
    const int64_t results = channels_of(chunk), channel = start(chunk);
    const auto [found, is_new] = kernels_.try_emplace({last - first, rows, end - begin, top, bottom, results});
    if (is_new) found->second = make(last - first, rows, end - begin, top, bottom, results);
    parts_.push_back({&found->second, (first * spec.height + above) * spec.width * spec.channels,
                      (first * height_ + begin) * width_ * spec.results + channel, packed_before(chunk), channel,
                      results, results == spec.results ? 0 : (last - first) * (end - begin) * width_});
  }

  // The primitive for some images and rows of the data, which give `height` rows of the result with `results` channels.
  Kernel make(int64_t images, int64_t rows, int64_t height, int64_t top, int64_t bottom, int64_t results) {
    Kernel made;
    const void*& layout = layouts_[results];
    made.source = onednn::channels_last(images, spec.channels, rows, spec.width);
    made.result = onednn::channels_last(images, results, height, width_);
    if (spec.has_bias) made.bias = onednn::by_strides({results}, {1});
    Owned operations(dnn->destroy_post_operations), attributes(dnn->destroy_attributes), weights(dnn->destroy_layout);
    check(dnn->create_post_operations(operations.out()), "attributes");
    if (spec.has_addend) check(dnn->append_sum(operations.get(), 1.0f, 0, onednn::kUndefinedType), "a sum");
    if (spec.activation) {
      const Eltwise& own = kActivations[spec.activation];
      check(dnn->append_activation(operations.get(), own.algorithm, own.alpha, own.beta), "an activation");
    }
    check(dnn->create_attributes(attributes.out()), "attributes");
    check(dnn->set_post_operations(attributes.get(), operations.get()), "attributes");
    check(dnn->set_scratchpad_mode(attributes.get(), onednn::kUserScratchpad), "attributes");
    Dims dims = {results, spec.channels, spec.kernel_height, spec.kernel_width};
    if (spec.groups > 1) dims = {spec.groups, results / spec.groups, spec.channels / spec.groups, dims[2], dims[3]};
    // The first primitive chooses the layout of the weights.
    if (layout == nullptr) weights = onednn::any_layout(dims);
    const int64_t strides[] = {spec.stride_y, spec.stride_x}, gaps[] = {spec.gap_y - 1, spec.gap_x - 1};
    const int64_t before[] = {top, spec.left}, after[] = {bottom, spec.right};
    check(dnn->describe_convolution(made.description.out(), engine, onednn::kForwardInference, onednn::kDirect,
                                    made.source.get(), layout == nullptr ? weights.get() : layout, made.bias.get(),
                                    made.result.get(), strides, gaps, before, after, attributes.get()),
          "a convolution");
    const char* name = nullptr;
    check(dnn->query(made.description.get(), onednn::kImplementation, 0, &name), "a name");
    if (std::strncmp(name, "ref", 3) == 0) throw std::runtime_error("only the reference implementation");
    check(dnn->create(made.primitive.out(), made.description.get()), "a convolution");
    made.weights = dnn->query_memory(made.description.get(), onednn::kWeights, 0);
    made.scratchpad = dnn->query_memory(made.description.get(), onednn::kScratchpad, 0);
    made.scratchpad_bytes = dnn->bytes(made.scratchpad);
    if (layout == nullptr) layout = made.weights;
    if (!dnn->equal(layout, made.weights)) throw std::runtime_error("parts with layouts of their own");
    return made;
  }

  int64_t height_, width_;
  // The first channel of each chunk, and how many there are.
  std::vector<int64_t> starts_ = {0, spec.results};
  // The layout of packed weights, by how many channels of the result they have.
  std::map<int64_t, const void*> layouts_;
  std::map<std::array<int64_t, 6>, Kernel> kernels_;
  std::vector<Part> parts_;
};

}  // namespace

std::unique_ptr<Plan> make_direct(const Spec& spec) {
  if (dnn == nullptr) throw std::runtime_error("oneDNN is not open");
  return std::make_unique<Direct>(spec);
}
