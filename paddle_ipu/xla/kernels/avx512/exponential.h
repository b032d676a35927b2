// e to the power of each number of a vector of AVX-512.

#pragma once

#include "avx512/tile.h"

#ifdef PADDLE_IPU_AVX512

namespace tile {

// e to the x, x at most 0: 2^n e^r with |r| <= ln 2 / 2, by the series of e^r. NaN stays NaN.
PADDLE_IPU_AVX512 inline __m512 exponential(__m512 x) {
  // Below, the result is 0; of NaN max gives the second.
  x = _mm512_max_ps(_mm512_set1_ps(-104.0f), x);
  // A sum this large has no fraction: n is x / ln 2, rounded.
  const __m512 large = _mm512_set1_ps(12582912.0f);
  const __m512 n = _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(1.44269504f), large), large);
  // ln 2 in two parts, of which the first has few bits.
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
  // Written out: a loop would read its numbers again for every vector.
  __m512 sum = _mm512_set1_ps(1.0f / 5040);
  sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 720));
  sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 120));
  sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 24));
  sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f / 6));
  sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(0.5f));
  sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f));
  sum = _mm512_fmadd_ps(sum, r, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(sum, n);
}

}  // namespace tile

#endif
