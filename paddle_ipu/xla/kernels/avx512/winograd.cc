// Winograd's minimal filtering F(2x2, 3x3), as in Lavin and Gray, arXiv:1509.09308.
//
// A tile is 2 by 2 elements of the result and the 4 by 4 elements d of the data that they read. With the kernel g,
//
//     result = A^T [ (G g G^T) * (B^T d B) ] A
//
//     B^T = 1  0 -1  0      G = 1    0    0       A^T = 1  1  1  0
//           0  1  1  0          1/2  1/2  1/2           0  1 -1 -1
//           0 -1  1  0          1/2 -1/2  1/2
//           0  1  0 -1          0    0    1
//
// where * multiplies element by element and sums over the channels: for each of the 16 elements of a transformed tile
// that is a matrix product, [tiles, channels] times [channels, results], by tile::multiply. G g G^T is computed when
// the weights are packed.
//
// Where the result is not finite, the tile is computed by the definition: the transforms would spread an infinity or
// NaN of the data to elements of the result whose kernel does not touch it. The packed weights have the plain kernels
// too, for that and to unpack them bit by bit.

#include "avx512/winograd.h"

#include "avx512/tile.h"

#include <cstring>

#ifdef PADDLE_IPU_AVX512

namespace {

using tile::kColumns;
using tile::kLanes;

constexpr int64_t kSide = 4, kElements = kSide * kSide, kKernel = 9;
// Bytes of a block of tiles, transformed data and sums: what fits into a core's L2 cache of 1 MiB or more, beside a
// panel of weights.
constexpr int64_t kBlockBytes = 704 << 10;
// The fewest tiles of a block: for fewer, reading the weights takes longer than multiplying by them.
constexpr int64_t kLeastTiles = 24;
// With fewer tiles the time is that of reading weights, and oneDNN's are 16 / 9 times smaller.
constexpr int64_t kFewestTiles = 16, kFewestColumns = 16;
constexpr int64_t kMostTiles = 8 * tile::kRows;

// A thread's transformed data.
Memory& data_memory() {
  thread_local Memory own;
  return own;
}

class Winograd : public Plan {
 public:
  explicit Winograd(const Spec& given)
      : Plan(given),
        height_(spec.result_height()),
        width_(spec.result_width()),
        down_(up(height_, 2)),
        across_(up(width_, 2)),
        tiles_(spec.images * down_ * across_),
        panels_(up(spec.results, kColumns)) {
    // Bytes of a tile.
    const int64_t each = kElements * 4 * (spec.channels + kColumns);
    const int64_t most = std::clamp<int64_t>(kBlockBytes / each, tile::kRows, kMostTiles);
    blocks_ = up(tiles_, most);
    const int64_t threads = threads_of(spec);
    // Two blocks for each thread, of at least kLeastTiles; if there are fewer blocks than threads, the panels are
    // divided too.
    if (blocks_ < 2 * threads) {
      blocks_ = std::clamp(tiles_ / kLeastTiles, blocks_, 2 * threads);
      groups_ = std::min(panels_, up(threads, blocks_));
    } else {
      blocks_ = std::min(up(blocks_, threads) * threads, tiles_);
    }
  }

  int64_t packed() const override { return panels_ * kColumns * spec.channels * (kElements + kKernel); }
  // Parts that read the same weights follow each other.
  int64_t parts() const override { return blocks_ * groups_; }

  PADDLE_IPU_AVX512 void take(int64_t part, const Buffers& buffers) const override {
    const int64_t index = part % blocks_, group = part / blocks_, begin = tiles_ * index / blocks_;
    const int64_t count = tiles_ * (index + 1) / blocks_ - begin;
    // A plane has one element of all transformed tiles, [count, channels]. The 16 planes are one cache line apart from
    // multiples of a power of two, or they would compete for the same sets of the cache.
    const int64_t plane = count * spec.channels + kLanes;
    float* data = data_memory().floats(kElements * plane);
    float* sums = tile::sums_memory().floats(kElements * count * kColumns);
    for (int64_t i = 0; i < count; ++i) transform(buffers.source, begin + i, data + i * spec.channels, plane);
    // Panel by panel: 16 products, then the transform back.
    for (int64_t p = panels_ * group / groups_; p < panels_ * (group + 1) / groups_; ++p) {
      for (int64_t place = 0; place < kElements; ++place) {
        const float* panel = buffers.weights + (p * kElements + place) * spec.channels * kColumns;
        const tile::Product own = {data + place * plane, spec.channels, panel, spec.channels, false};
        tile::multiply_rows(count, own, sums + place * count * kColumns, false, nullptr, nullptr, 0);
      }
      for (int64_t i = 0; i < count; ++i) finish(buffers, begin + i, p, sums + i * kColumns, count * kColumns);
    }
  }

  void pack(const float* plain, float* packed, bool) const override {
    float *found = packed, *kept = packed + panels_ * kColumns * spec.channels * kElements;
    for (int64_t p = 0; p < panels_; ++p) {
      for (int64_t c = 0; c < spec.channels; ++c) {
        for (int64_t j = 0; j < kColumns; ++j) {
          const int64_t m = p * kColumns + j;
          float kernel[kKernel] = {}, whole[kElements];
          if (m < spec.results) std::memcpy(kernel, plain + (m * spec.channels + c) * kKernel, sizeof kernel);
          transform_kernel(kernel, whole);
          const auto place = [&](int64_t i) { return (i * spec.channels + c) * kColumns + j; };
          for (int64_t i = 0; i < kElements; ++i) found[place(p * kElements + i)] = whole[i];
          for (int64_t i = 0; i < kKernel; ++i) kept[place(p * kKernel + i)] = kernel[i];
        }
      }
    }
  }

  void unpack(const float* packed, float* plain, bool) const override {
    const float* kept = packed + panels_ * kColumns * spec.channels * kElements;
    for (int64_t m = 0; m < spec.results; ++m) {
      for (int64_t c = 0; c < spec.channels; ++c) {
        for (int64_t i = 0; i < kKernel; ++i, ++plain) {
          *plain = kept[((m / kColumns * kKernel + i) * spec.channels + c) * kColumns + m % kColumns];
        }
      }
    }
  }

 private:
  // G g G^T of a kernel, in double.
  static void transform_kernel(const float* kernel, float* found) {
    double rows[kSide][3];
    for (int j = 0; j < 3; ++j) {
      const double a = kernel[j], b = kernel[3 + j], c = kernel[6 + j];
      rows[0][j] = a, rows[1][j] = (a + b + c) / 2, rows[2][j] = (a - b + c) / 2, rows[3][j] = c;
    }
    for (int i = 0; i < kSide; ++i, found += kSide) {
      const double a = rows[i][0], b = rows[i][1], c = rows[i][2];
      found[0] = static_cast<float>(a), found[1] = static_cast<float>((a + b + c) / 2);
      found[2] = static_cast<float>((a - b + c) / 2), found[3] = static_cast<float>(c);
    }
  }

  // A tile's image, and the row and column of its first result.
  struct Corner {
    int64_t image, y, x;
  };
  Corner corner_of(int64_t index) const {
    return {index / across_ / down_, index / across_ % down_ * 2, index % across_ * 2};
  }

  // B^T d B of a tile, 16 channels at a time, into 16 planes that are `plane` floats apart. Elements outside of the
  // image are loaded as 0.
  PADDLE_IPU_AVX512 void transform(const float* source, int64_t index, float* found, int64_t plane) const {
    const Corner corner = corner_of(index);
    const float* from[kSide][kSide];
    __mmask16 inside[kSide][kSide];
    for (int64_t i = 0; i < kSide; ++i) {
      for (int64_t j = 0; j < kSide; ++j) {
        const int64_t y = corner.y + i - spec.top, x = corner.x + j - spec.left;
        const bool is_inside = y >= 0 && y < spec.height && x >= 0 && x < spec.width;
        from[i][j] = source;
        if (is_inside) from[i][j] += ((corner.image * spec.height + y) * spec.width + x) * spec.channels;
        inside[i][j] = is_inside ? 0xffff : 0;
      }
    }
    for (int64_t c = 0; c < spec.channels; c += kLanes) {
      __m512 rows[kSide][kSide];
#pragma GCC unroll 4
      for (int j = 0; j < kSide; ++j) {
        __m512 d[kSide];
#pragma GCC unroll 4
        for (int i = 0; i < kSide; ++i) d[i] = _mm512_maskz_loadu_ps(inside[i][j], from[i][j] + c);
        rows[0][j] = _mm512_sub_ps(d[0], d[2]);
        rows[1][j] = _mm512_add_ps(d[1], d[2]);
        rows[2][j] = _mm512_sub_ps(d[2], d[1]);
        rows[3][j] = _mm512_sub_ps(d[1], d[3]);
      }
#pragma GCC unroll 4
      for (int i = 0; i < kSide; ++i) {
        float* to = found + i * kSide * plane + c;
        const __m512* d = rows[i];
        _mm512_store_ps(to, _mm512_sub_ps(d[0], d[2]));
        _mm512_store_ps(to + plane, _mm512_add_ps(d[1], d[2]));
        _mm512_store_ps(to + 2 * plane, _mm512_sub_ps(d[2], d[1]));
        _mm512_store_ps(to + 3 * plane, _mm512_sub_ps(d[1], d[3]));
      }
    }
  }

  // A^T m A of a tile's products m, for the 32 results of a panel; then bias, addend and ReLU.
  PADDLE_IPU_AVX512 void finish(const Buffers& buffers, int64_t index, int64_t panel, const float* sums,
                                int64_t plane) const {
    const Corner corner = corner_of(index);
    const int64_t column = panel * kColumns;
    const tile::Finish finish = tile::finish_of(spec, buffers.bias, column);
    float* result = buffers.result + ((corner.image * height_ + corner.y) * width_ + corner.x) * spec.results + column;
    for (int half = 0; half < 2; ++half, sums += kLanes, result += kLanes) {
      __m512 rows[2][kSide], found[2][2];
#pragma GCC unroll 4
      for (int j = 0; j < kSide; ++j) {
        const float* own = sums + j * plane;
        const __m512 a = _mm512_load_ps(own), b = _mm512_load_ps(own + kSide * plane);
        const __m512 c = _mm512_load_ps(own + 2 * kSide * plane), d = _mm512_load_ps(own + 3 * kSide * plane);
        rows[0][j] = _mm512_add_ps(_mm512_add_ps(a, b), c);
        rows[1][j] = _mm512_sub_ps(_mm512_sub_ps(b, c), d);
      }
      // Zero times what is not finite is NaN: one of the four results is not finite where `zero` is NaN.
      __m512 zero = _mm512_setzero_ps();
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        const __m512* m = rows[i];
        found[i][0] = _mm512_add_ps(_mm512_add_ps(m[0], m[1]), m[2]);
        found[i][1] = _mm512_sub_ps(_mm512_sub_ps(m[1], m[2]), m[3]);
        zero = _mm512_fmadd_ps(found[i][0], _mm512_setzero_ps(), zero);
        zero = _mm512_fmadd_ps(found[i][1], _mm512_setzero_ps(), zero);
      }
      if (_mm512_cmp_ps_mask(zero, zero, _CMP_UNORD_Q) != 0) by_definition(buffers, corner, panel, half, found);
      for (int i = 0; i < 2 && corner.y + i < height_; ++i) {
        for (int j = 0; j < 2 && corner.x + j < width_; ++j) {
          float* own = result + (i * width_ + j) * spec.results;
          _mm512_mask_storeu_ps(own, finish.columns[half], tile::finished(found[i][j], finish, half, own));
        }
      }
    }
  }

  // The four results of a tile by the definition, nine multiplications each.
  PADDLE_IPU_AVX512 void by_definition(const Buffers& buffers, const Corner& corner, int64_t panel, int half,
                                    __m512 found[2][2]) const {
    const float* kept = buffers.weights + panels_ * kColumns * spec.channels * kElements;
    kept += panel * kKernel * spec.channels * kColumns + half * kLanes;
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) {
        __m512 sum = _mm512_setzero_ps();
        for (int64_t tap = 0; tap < kKernel; ++tap) {
          const int64_t y = corner.y + i + tap / 3 - spec.top, x = corner.x + j + tap % 3 - spec.left;
          if (y < 0 || y >= spec.height || x < 0 || x >= spec.width) continue;
          const float* own = buffers.source + ((corner.image * spec.height + y) * spec.width + x) * spec.channels;
          const float* weights = kept + tap * spec.channels * kColumns;
          for (int64_t c = 0; c < spec.channels; ++c) {
            sum = _mm512_fmadd_ps(_mm512_set1_ps(own[c]), _mm512_loadu_ps(weights + c * kColumns), sum);
          }
        }
        found[i][j] = sum;
      }
    }
  }

  int64_t height_, width_;           // of the result
  int64_t down_, across_, tiles_;    // tiles of an image along its axes, and of all images
  int64_t panels_;
  int64_t blocks_ = 1, groups_ = 1;  // of tiles, and of panels; a part is one block and one group
};

}  // namespace

std::unique_ptr<Plan> make_winograd(const Spec& spec) {
  if (!tile::is_supported() || spec.groups != 1 || spec.activation > kReluOf) return nullptr;
  if (spec.kernel_height != 3 || spec.kernel_width != 3 || spec.stride_y != 1 || spec.stride_x != 1) return nullptr;
  if (spec.gap_y != 1 || spec.gap_x != 1 || spec.channels % kLanes != 0) return nullptr;
  const int64_t tiles = spec.images * up(spec.result_height(), 2) * up(spec.result_width(), 2);
  if (tiles < kFewestTiles || spec.results < kFewestColumns) return nullptr;
  return std::make_unique<Winograd>(spec);
}

#else

std::unique_ptr<Plan> make_winograd(const Spec&) { return nullptr; }

#endif
