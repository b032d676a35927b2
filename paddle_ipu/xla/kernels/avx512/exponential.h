// exp of each number of an AVX-512 vector.

#pragma once

#include "avx512/tile.h"

#ifdef PADDLE_IPU_AVX512

namespace tile {

// exp(x) for x at most 0, NaN for NaN. The usual range reduction (Cody and Waite): x = n ln 2 + r with integer n
// and |r| <= ln 2 / 2, so exp(x) = 2^n exp(r), with the Taylor polynomial of degree 7 for exp(r); its first
// omitted term, r^8 / 8!, is 5e-9.
PADDLE_IPU_AVX512 inline __m512 exponential(__m512 x) {
  // exp(-104) rounds to 0 in float32. max gives its second operand for NaN: x.
  x = _mm512_max_ps(_mm512_set1_ps(-104.0f), x);
  // Adding 1.5 * 2^23 rounds to an integer, since float32 has no fraction there: n is x / ln 2, rounded.
  const __m512 large = _mm512_set1_ps(12582912.0f);
  const __m512 n = _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(1.44269504f), large), large);
  // ln 2 in two parts; n times the first is exact, since it has few bits.
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
  // Horner's rule, unrolled: in a loop the coefficients would be loaded again for every vector.
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
