/* transform_iterator.h - what a function makes of an iterator's values. */
#pragma once

namespace thrust {
template <class F, class It> struct transform_iterator {
  It at;
  F function;
  auto operator[](long long i) const {
    return function(at[i]);
  }
};
template <class F, class It>
transform_iterator<F, It> make_transform_iterator(It at, F function) {
  return {at, function};
}
} // namespace thrust
