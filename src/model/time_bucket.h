/* time_bucket.h - relative time in buckets whose width grows with it: x has the
 * number ln(max(x, 1)) / 0.301, rounded down, as HSTU's public code has it (J.
 * Zhai et al., "Actions Speak Louder than Words", ICML 2024;
 * meta-recsys/generative-recommenders).  Local, for the host and GPUs. */
#pragma once

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define TS_TIME_BOTH __host__ __device__
#else
#define TS_TIME_BOTH
#endif

/* 2^63, the longest time, has the last one. */
enum { TS_TIME_BUCKETS = 146 };

/* The least float of each bucket, and of one more: exp(0.301 b). */
// clang-format off
#define TS_TIME_EDGES                                                          \
  1.0f, 1.3512094f, 1.8257668f, 2.46699309f, 3.33342409f, 4.50415373f,         \
  6.0860548f, 8.22353458f, 11.1117163f, 15.0142546f, 20.2874012f, 27.4125252f, \
  37.040062f, 50.0488739f, 67.6265106f, 91.3775711f, 123.470222f, 166.834122f, \
  225.427826f, 304.600189f, 411.578613f, 556.128845f, 751.446533f,             \
  1015.36157f, 1371.96606f, 1853.81323f, 2504.88989f, 3384.63062f,             \
  4573.34473f, 6179.5459f, 8349.86035f, 11282.4092f, 15244.8955f, 20599.0469f, \
  27833.623f, 37609.0508f, 50817.7031f, 68665.3516f, 92781.2656f, 125366.914f, \
  169396.953f, 228890.734f, 309279.312f, 417901.094f, 564671.875f,             \
  762989.875f, 1030959.06f, 1393041.5f, 1882290.62f, 2543368.75f, 3436623.5f,  \
  4643598.0f, 6274473.0f, 8478127.0f, 11455724.0f, 15479081.0f, 20915478.0f,   \
  28261190.0f, 38186784.0f, 51598340.0f, 69720160.0f, 94206528.0f,             \
  127292744.0f, 171999136.0f, 232406848.0f, 314030304.0f, 424320672.0f,        \
  573346048.0f, 774710528.0f, 1.04679616e+09f, 1.4144407e+09f, 1.9112055e+09f, \
  2.58243866e+09f, 3.48941542e+09f, 4.71493069e+09f, 6.3708585e+09f,           \
  8.60836352e+09f, 1.1631701e+10f, 1.5716863e+10f, 2.12367729e+10f,            \
  2.86953247e+10f, 3.87733914e+10f, 5.23909693e+10f, 7.0791168e+10f,           \
  9.56536832e+10f, 1.2924815e+11f, 1.74641316e+11f, 2.35976966e+11f,           \
  3.188543e+11f, 4.30838874e+11f, 5.82153535e+11f, 7.86611306e+11f,            \
  1.06287648e+12f, 1.43616862e+12f, 1.94056448e+12f, 2.62210899e+12f,          \
  3.54301798e+12f, 4.78735919e+12f, 6.46872459e+12f, 8.74060081e+12f,          \
  1.1810381e+13f, 1.59582981e+13f, 2.15630008e+13f, 2.91361291e+13f,           \
  3.93690082e+13f, 5.31957704e+13f, 7.18786265e+13f, 9.71230685e+13f,          \
  1.31233598e+14f, 1.77324067e+14f, 2.39601931e+14f, 3.23752387e+14f,          \
  4.37457217e+14f, 5.91096283e+14f, 7.98694803e+14f, 1.07920388e+15f,          \
  1.45823038e+15f, 1.9703745e+15f, 2.66238849e+15f, 3.59744421e+15f,           \
  4.8609001e+15f, 6.56809377e+15f, 8.8748697e+15f, 1.19918064e+16f,            \
  1.62034417e+16f, 2.18942422e+16f, 2.95837025e+16f, 3.9973776e+16f,           \
  5.40129418e+16f, 7.29827901e+16f, 9.86150261e+16f, 1.33249539e+17f,          \
  1.80048036e+17f, 2.43282581e+17f, 3.28725699e+17f, 4.44177237e+17f,          \
  6.00176462e+17f, 8.10963974e+17f, 1.09578208e+18f, 1.48063108e+18f,          \
  2.0006425e+18f, 2.70328678e+18f, 3.65270627e+18f, 4.93557081e+18f,           \
  6.66898937e+18f, 9.01120093e+18f, 1.21760193e+19f
// clang-format on

/* X within what has a bucket. */
TS_TIME_BOTH static inline float ts_time_within(float x) {
  return x < 1 ? 1 : x > 0x1p63f ? 0x1p63f : x;
}

/* The bucket of a float with these BITS, or the one below it.  As an integer
 * they are at most 0.0861 octaves below its logarithm: 0.2 buckets. */
TS_TIME_BOTH static inline int32_t ts_time_guess(int32_t bits) {
  const float below = (float)(bits - 0x3f800000) * (2.302801f / 0x1p23f);
  return (int32_t)(below - 1e-4f); /* of 1, too, it is 0 */
}

/* Bucket of X among the first N, the last of which has all beyond; EDGE:
 * TS_TIME_EDGES. */
TS_TIME_BOTH static inline int32_t ts_time_bucket(float x, const float *edge,
                                                  int32_t n) {
  int32_t bits;
  x = ts_time_within(x);
  memcpy(&bits, &x, sizeof bits);
  const int32_t below = ts_time_guess(bits), b = below + (x >= edge[below + 1]);
  return b < n ? b : n - 1;
}
