// A matrix product: rows of the data [rows, channels] times the weights [channels, results], which are packed as
// panels of 32 columns (tile.h).
//
// The work is cut into blocks of rows times groups of panels. A block's rows fit into a core's cache, and so does one
// panel beside them; so each is read from memory once for a part. A convolution of 1 by 1 with strides reads some rows
// of x only: its unit is a line of an image, in which the distance of rows is constant.

#include "avx512/products.h"

#include "avx512/tile.h"

#ifdef PADDLE_IPU_AVX512

namespace {

using tile::kColumns;

// With fewer rows a tile has too few independent sums; with fewer columns most lanes of a panel are padding.
constexpr int64_t kFewestRows = 4, kFewestColumns = 16;
// Bytes of rows in a block: half of a core's L2 cache of 1 MiB or more, beside a panel of weights.
constexpr int64_t kRowBytes = 512 << 10;
constexpr int64_t kMostRows = 10 * tile::kRows;
// Bytes of weights up to which a part keeps all its panels in the L2 cache and streams rows past them.
constexpr int64_t kWeightBytes = 384 << 10;
// k is cut into pieces of at most this: 1024 rows of a panel are 128 KiB, which stay in the L2 cache for all tiles.
constexpr int64_t kDepth = 1024;

class Product : public Plan {
 public:
  explicit Product(const Spec& given)
      : Plan(given),
        width_(spec.result_width()),
        height_(spec.result_height()),
        is_whole_(spec.stride_y == 1 && spec.stride_x == 1),
        panels_(up(spec.results, kColumns)) {
    // A unit of rows: any row where rows are contiguous in x, else a line of an image.
    each_ = is_whole_ ? 1 : width_;
    units_ = spec.images * height_ * width_ / each_;
    const int64_t threads = threads_of(spec);
    const int64_t most = std::clamp<int64_t>(kRowBytes / 4 / spec.channels, tile::kRows, kMostRows) / each_;
    blocks_ = up(units_, std::max<int64_t>(most, 1));
    // Two parts for each thread, since threads are not equally fast. If blocks of rows are too few, the larger
    // operand is divided among the threads, and each of them reads all of the other.
    const int64_t wanted = threads > 1 ? 2 * threads : 1;
    if (blocks_ < wanted) {
      if (spec.results > units_ * each_) {
        groups_ = std::min(panels_, up(wanted, blocks_));
      } else {
        blocks_ = std::min(units_, wanted);
      }
    }
    blocks_ = std::min(up(blocks_, threads) * threads, units_);
  }

  int64_t packed() const override { return panels_ * kColumns * spec.channels; }
  // Parts that read the same weights follow each other.
  int64_t parts() const override { return blocks_ * groups_; }

  void take(int64_t part, const Buffers& buffers) const override {
    const int64_t block = part % blocks_, group = part / blocks_;
    const int64_t first = units_ * block / blocks_, last = units_ * (block + 1) / blocks_;
    const int64_t begin = panels_ * group / groups_, end = panels_ * (group + 1) / groups_;
    if (!is_whole_) {
      // Strided: panel by panel, line by line.
      for (int64_t p = begin; p < end; ++p) {
        for (int64_t line = first; line < last; ++line) multiply(buffers, line * width_, width_, p, false);
      }
    } else if ((end - begin) * kColumns * spec.channels * 4 <= kWeightBytes) {
      // The weights stay in the cache: each twelve rows are read once and meet all panels.
      for (int64_t row = first; row < last; row += tile::kRows) {
        const int64_t rows = std::min(last - row, tile::kRows);
        for (int64_t p = begin; p < end; ++p) multiply(buffers, row, rows, p, p == begin && row + rows < last);
      }
    } else {
      // The rows stay in the cache: each panel is read once and meets all rows.
      for (int64_t p = begin; p < end; ++p) multiply(buffers, first, last - first, p, false);
    }
  }

  void pack(const float* plain, float* packed, bool is_matrix) const override {
    for (int64_t p = 0; p < panels_; ++p) {
      for (int64_t c = 0; c < spec.channels; ++c) {
        for (int64_t m = p * kColumns; m < (p + 1) * kColumns; ++m) {
          *packed++ = m < spec.results ? plain[place(m, c, is_matrix)] : 0.0f;
        }
      }
    }
  }

  void unpack(const float* packed, float* plain, bool is_matrix) const override {
    for (int64_t m = 0; m < spec.results; ++m) {
      const float* column = packed + m / kColumns * kColumns * spec.channels + m % kColumns;
      for (int64_t c = 0; c < spec.channels; ++c) plain[place(m, c, is_matrix)] = column[c * kColumns];
    }
  }

 private:
  // Where the weight of result m and channel c is in the plain weights.
  int64_t place(int64_t m, int64_t c, bool is_matrix) const {
    return is_matrix ? c * spec.results + m : m * spec.channels + c;
  }

  // Rows [first, first + rows) of the result in the columns of panel p, k piece by piece.
  void multiply(const Buffers& buffers, int64_t first, int64_t rows, int64_t p, bool is_first_read) const {
    const float* panel = buffers.weights + p * spec.channels * kColumns;
    const tile::Finish finish = tile::finish_of(spec, buffers.bias, p * kColumns);
    float* result = buffers.result + first * spec.results + p * kColumns;
    // The row of x that the first row of the result reads.
    int64_t at = first;
    if (!is_whole_) {
      const int64_t line = first / width_, image = line / height_;
      at = (image * spec.height + line % height_ * spec.stride_y) * spec.width;
    }
    const float* a = buffers.source + at * spec.channels;
    const int64_t cuts = up(spec.channels, kDepth);
    float* sums = tile::sums_memory().floats(rows * kColumns);
    for (int64_t cut = 0; cut < cuts; ++cut) {
      const int64_t from = spec.channels * cut / cuts, to = spec.channels * (cut + 1) / cuts;
      const tile::Product own = {a + from, spec.stride_x * spec.channels, panel + from * kColumns, to - from,
                                 is_first_read};
      const tile::Finish* last = cut == cuts - 1 ? &finish : nullptr;
      tile::multiply_rows(rows, own, sums, cut > 0, last, result, spec.results);
    }
  }

  int64_t width_, height_;  // of the result
  bool is_whole_;           // every row of x is read, in order
  int64_t panels_;
  int64_t each_ = 1, units_ = 1;     // rows of a unit, and how many units there are
  int64_t blocks_ = 1, groups_ = 1;  // of units, and of panels; a part is one block and one group
};

}  // namespace

std::unique_ptr<Plan> make_product(const Spec& spec) {
  if (!tile::is_supported() || spec.groups != 1 || spec.activation > kReluOf) return nullptr;
  if (spec.kernel_height != 1 || spec.kernel_width != 1) return nullptr;
  if (spec.top + spec.left + spec.bottom + spec.right != 0) return nullptr;
  const int64_t rows = spec.images * spec.result_height() * spec.result_width();
  if (rows < kFewestRows || spec.results < kFewestColumns) return nullptr;
  // With many rows and many weights each element is used often once it is in the cache, and oneDNN is as fast or
  // faster.
  const bool is_strided = spec.stride_y != 1 || spec.stride_x != 1;
  if (spec.weights() * 4 > kWeightBytes && rows > spec.results && !is_strided) return nullptr;
  return std::make_unique<Product>(spec);
}

#else

std::unique_ptr<Plan> make_product(const Spec&) { return nullptr; }

#endif
