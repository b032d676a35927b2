// Arrays joined along an axis, by copies of whole rows: XLA asks for each element of which array it is, and takes several
// times as long where rows are long.

#include "memory/concatenation.h"

#include <algorithm>
#include <cstring>

namespace {

// Bytes of a part: what a copy of one reads and writes fits a core's own cache.
constexpr int64_t kBytesOfPart = 1 << 18;

}  // namespace

int64_t Concatenation::parts() const { return (size() + kBytesOfPart - 1) / kBytesOfPart; }

// A part is some bytes of the result, whichever rows they are of.
void Concatenation::take(int64_t part) const {
  int64_t begin = part * kBytesOfPart;
  const int64_t end = std::min(begin + kBytesOfPart, size());
  while (begin < end) {
    const int64_t row = begin / bytes;
    int64_t inside = begin % bytes;
    for (const Joined& array : arrays) {
      if (inside >= array.bytes) {
        inside -= array.bytes;
        continue;
      }
      const int64_t count = std::min(array.bytes - inside, end - begin);
      std::memcpy(result + begin, array.first + row * array.bytes + inside, static_cast<size_t>(count));
      begin += count;
      inside = 0;
      if (begin == end) return;
    }
  }
}
