// A tile is 2 by 2 places of the result and the 4 by 4 of the data that they read. Both it and the kernel
// are transformed to 16 numbers for each channel; the products of those, summed over the channels, are
// transformed back. Where that gives no finite number the tile is computed as it is written: an infinity
// must not reach places whose kernel does not touch it.

#include "avx512/winograd.h"

#include "avx512/tile.h"

#include <cstring>

#ifdef PADDLE_IPU_AVX512

namespace {

using tile::kColumns;
using tile::kLanes;

constexpr int64_t kSide = 4, kPlaces = kSide * kSide, kKernel = 9;
// Bytes of a block of tiles that a core keeps near it, beside a panel of weights.
constexpr int64_t kBlockBytes = 704 << 10;
// Tiles that are worth reading the weights for.
constexpr int64_t kLeastTiles = 24;
// With fewer tiles it is weights that take the time, and oneDNN's are 16 / 9 times smaller.
constexpr int64_t kFewestTiles = 16, kFewestColumns = 16;
constexpr int64_t kMostTiles = 8 * tile::kRows;

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
    const int64_t each = kPlaces * 4 * (spec.channels + kColumns);
    const int64_t most = std::clamp<int64_t>(kBlockBytes / each, tile::kRows, kMostTiles);
    blocks_ = up(tiles_, most);
    const int64_t threads = threads_of(spec);
    if (blocks_ < 2 * threads) {
      blocks_ = std::clamp(tiles_ / kLeastTiles, blocks_, 2 * threads);
      groups_ = std::min(panels_, up(threads, blocks_));
    } else {
      blocks_ = std::min(up(blocks_, threads) * threads, tiles_);
    }
  }

  int64_t packed() const override { return panels_ * kColumns * spec.channels * (kPlaces + kKernel); }
  // Those that read the same weights follow each other.
  int64_t parts() const override { return blocks_ * groups_; }

  PADDLE_IPU_AVX512 void take(int64_t part, const Buffers& buffers) const override {
    const int64_t index = part % blocks_, group = part / blocks_, begin = tiles_ * index / blocks_;
    const int64_t count = tiles_ * (index + 1) / blocks_ - begin;
    // Planes a line apart from each other's places in the cache.
    const int64_t plane = count * spec.channels + kLanes;
    float* data = data_memory().floats(kPlaces * plane);
    float* sums = tile::sums_memory().floats(kPlaces * count * kColumns);
    for (int64_t i = 0; i < count; ++i) transform(buffers.source, begin + i, data + i * spec.channels, plane);
    for (int64_t p = panels_ * group / groups_; p < panels_ * (group + 1) / groups_; ++p) {
      for (int64_t place = 0; place < kPlaces; ++place) {
        const float* panel = buffers.weights + (p * kPlaces + place) * spec.channels * kColumns;
        const tile::Product own = {data + place * plane, spec.channels, panel, spec.channels, false};
        tile::multiply_rows(count, own, sums + place * count * kColumns, false, nullptr, nullptr, 0);
      }
      for (int64_t i = 0; i < count; ++i) finish(buffers, begin + i, p, sums + i * kColumns, count * kColumns);
    }
  }

  void pack(const float* plain, float* packed, bool) const override {
    float *found = packed, *kept = packed + panels_ * kColumns * spec.channels * kPlaces;
    for (int64_t p = 0; p < panels_; ++p) {
      for (int64_t c = 0; c < spec.channels; ++c) {
        for (int64_t j = 0; j < kColumns; ++j) {
          const int64_t m = p * kColumns + j;
          float kernel[kKernel] = {}, whole[kPlaces];
          if (m < spec.results) std::memcpy(kernel, plain + (m * spec.channels + c) * kKernel, sizeof kernel);
          transform_kernel(kernel, whole);
          const auto place = [&](int64_t i) { return (i * spec.channels + c) * kColumns + j; };
          for (int64_t i = 0; i < kPlaces; ++i) found[place(p * kPlaces + i)] = whole[i];
          for (int64_t i = 0; i < kKernel; ++i) kept[place(p * kKernel + i)] = kernel[i];
        }
      }
    }
  }

  void unpack(const float* packed, float* plain, bool) const override {
    const float* kept = packed + panels_ * kColumns * spec.channels * kPlaces;
    for (int64_t m = 0; m < spec.results; ++m) {
      for (int64_t c = 0; c < spec.channels; ++c) {
        for (int64_t i = 0; i < kKernel; ++i, ++plain) {
          *plain = kept[((m / kColumns * kKernel + i) * spec.channels + c) * kColumns + m % kColumns];
        }
      }
    }
  }

 private:
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

  // Where a tile's data begins: its image, and the row and column of its first place.
  struct Place {
    int64_t image, y, x;
  };
  Place place_of(int64_t index) const {
    return {index / across_ / down_, index / across_ % down_ * 2, index % across_ * 2};
  }

  PADDLE_IPU_AVX512 void transform(const float* source, int64_t index, float* found, int64_t plane) const {
    const Place place = place_of(index);
    const float* from[kSide][kSide];
    __mmask16 inside[kSide][kSide];
    for (int64_t i = 0; i < kSide; ++i) {
      for (int64_t j = 0; j < kSide; ++j) {
        const int64_t y = place.y + i - spec.top, x = place.x + j - spec.left;
        const bool is_inside = y >= 0 && y < spec.height && x >= 0 && x < spec.width;
        from[i][j] = source;
        if (is_inside) from[i][j] += ((place.image * spec.height + y) * spec.width + x) * spec.channels;
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

  PADDLE_IPU_AVX512 void finish(const Buffers& buffers, int64_t index, int64_t panel, const float* sums,
                                int64_t plane) const {
    const Place place = place_of(index);
    const int64_t column = panel * kColumns;
    const tile::Finish finish = tile::finish_of(spec, buffers.bias, column);
    float* result = buffers.result + ((place.image * height_ + place.y) * width_ + place.x) * spec.results + column;
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
      // Zero times what is not finite is no number.
      __m512 zero = _mm512_setzero_ps();
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        const __m512* m = rows[i];
        found[i][0] = _mm512_add_ps(_mm512_add_ps(m[0], m[1]), m[2]);
        found[i][1] = _mm512_sub_ps(_mm512_sub_ps(m[1], m[2]), m[3]);
        zero = _mm512_fmadd_ps(found[i][0], _mm512_setzero_ps(), zero);
        zero = _mm512_fmadd_ps(found[i][1], _mm512_setzero_ps(), zero);
      }
      if (_mm512_cmp_ps_mask(zero, zero, _CMP_UNORD_Q) != 0) as_written(buffers, place, panel, half, found);
      for (int i = 0; i < 2 && place.y + i < height_; ++i) {
        for (int j = 0; j < 2 && place.x + j < width_; ++j) {
          float* own = result + (i * width_ + j) * spec.results;
          _mm512_mask_storeu_ps(own, finish.columns[half], tile::finished(found[i][j], finish, half, own));
        }
      }
    }
  }

  // The four places of a tile by nine multiplications each.
  PADDLE_IPU_AVX512 void as_written(const Buffers& buffers, const Place& place, int64_t panel, int half,
                                    __m512 found[2][2]) const {
    const float* kept = buffers.weights + panels_ * kColumns * spec.channels * kPlaces;
    kept += panel * kKernel * spec.channels * kColumns + half * kLanes;
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 2; ++j) {
        __m512 sum = _mm512_setzero_ps();
        for (int64_t tap = 0; tap < kKernel; ++tap) {
          const int64_t y = place.y + i + tap / 3 - spec.top, x = place.x + j + tap % 3 - spec.left;
          if (y < 0 || y >= spec.height || x < 0 || x >= spec.width) continue;
          const float* own = buffers.source + ((place.image * spec.height + y) * spec.width + x) * spec.channels;
          const float* weights = kept + tap * spec.channels * kColumns;
          for (int64_t c = 0; c < spec.channels; ++c) {
            sum = _mm512_fmadd_ps(_mm512_set1_ps(own[c]), _mm512_loadu_ps(weights + c * kColumns), sum);
          }
        }
        found[i][j] = sum;
      }
    }
  }

  int64_t height_, width_, down_, across_, tiles_, panels_, blocks_ = 1, groups_ = 1;
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
